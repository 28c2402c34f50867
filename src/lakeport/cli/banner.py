"""The text that a server prints when it is ready: its catalogs, and how to attach them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console

from lakeport.airport.server import Server, attach_statement
from lakeport.catalog import Catalog, Schema
from lakeport.cli.arguments import default_name, redacted
from lakeport.cli.config import LakeSettings
from lakeport.cli.output import plain_table
from lakeport.lakehouse import LakeCatalog

__all__ = ["attach_sql", "show_served", "show_sql"]


def show_served(
    console: Console,
    server: Server,
    catalogs: Mapping[str, Catalog],
    lakes: Mapping[str, LakeSettings],
) -> None:
    """Print the location and the catalogs of a server."""
    console.print(f"Lakeport serves {server.location}", style="bold", highlight=False)
    table = plain_table("catalog", "schema", "tables", "functions", "from")
    for name, catalog in catalogs.items():
        first = [name or "any name", redacted(lakes[name].uri)]
        for schema in catalog.schemas():
            note = " (main)" if schema.name == _name_of_main(catalog) else ""
            counts = str(len(schema.tables())), str(_count_functions(schema))
            table.add_row(first[0], f"{schema.name}{note}", *counts, first[1])
            first = ["", ""]
        if first[0]:
            table.add_row(first[0], "none yet", "", "", first[1])
    console.print(table, highlight=False, markup=False)


def show_sql(console: Console, statements: Iterable[str]) -> None:
    """Print statements to paste into DuckDB."""
    console.print("\nIn DuckDB:", style="bold")
    for line in statements:
        console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
    console.print()


def attach_sql(
    location: str, lakes: Mapping[str, LakeSettings], *, needs_token: bool = False
) -> list[str]:
    """Return the statements that attach all catalogs in DuckDB."""
    lines = ["INSTALL airport FROM community;", "LOAD airport;"]
    if needs_token:
        lines.append(f"CREATE SECRET (TYPE airport, AUTH_TOKEN '…', SCOPE '{location}');")
    for name, lake in lakes.items():
        lines.append(attach_statement(name or default_name(lake.uri), location))
    return lines


def _name_of_main(catalog: Catalog) -> str | None:
    """Return the published name of a lake's schema `main`; None for other catalogs."""
    return catalog.main_schema if isinstance(catalog, LakeCatalog) else None


def _count_functions(schema: Schema) -> int:
    kinds = schema.scalar_functions, schema.table_functions, schema.table_functions_in_out
    return sum(len(functions()) for functions in kinds)
