"""`lakeport query`: read from a server through the Python client."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

from lakeport._wording import counted
from lakeport.airport.client import Client, connect
from lakeport.cli.arguments import parse_at, read_certificates, read_token
from lakeport.cli.output import (
    ROWS_SHOWN,
    cell,
    check_output,
    make_console,
    printable,
    save_rows,
    show_rows,
)

__all__ = ["query"]


def query(
    location: Annotated[str, typer.Argument(help="The server, such as grpc://127.0.0.1:8815.")],
    table: Annotated[
        str | None, typer.Argument(help="The table to read: schema.table. Without it: a list.")
    ] = None,
    catalog: Annotated[str, typer.Option(help="Which catalog of the server.")] = "",
    columns: Annotated[
        str | None, typer.Option(help="Only these columns, separated by commas.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="Only rows that satisfy this condition, in SQL.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="The table as of a version (a number) or a time.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=0, help=f"The most rows to read; {ROWS_SHOWN} if they are printed."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Save the rows: a .parquet, .csv or .arrow file.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List what the server has.")] = False,
    describe: Annotated[
        bool, typer.Option("--describe", help="Show the columns of the table, not its rows.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file with the bearer token; else the variable LAKEPORT_TOKEN."),
    ] = None,
    tls_ca: Annotated[
        Path | None, typer.Option(help="Certificates to trust (PEM); the system's by default.")
    ] = None,
) -> None:
    """Read from an Airport server: list its tables, describe one, or scan it.

    For example:

      lakeport query grpc://127.0.0.1:8815

      lakeport query grpc://127.0.0.1:8815 public.trips --describe

      lakeport query grpc://127.0.0.1:8815 public.trips --columns id,minutes --where "minutes > 60"

      lakeport query grpc://127.0.0.1:8815 public.trips --at 3 --output trips.parquet
    """
    check_output(output)
    token = os.environ.get("LAKEPORT_TOKEN") if token_file is None else read_token(token_file)
    certificates = None if tls_ca is None else read_certificates(tls_ca)
    console = make_console()
    with connect(location, catalog=catalog, token=token, tls_root_certs=certificates) as client:
        if table is None or list_:
            _list(console, client, catalog)
        elif describe:
            _describe(console, client, table)
        else:
            names = None if columns is None else [name.strip() for name in columns.split(",")]
            rows = _scan(client, table, names, where, at, limit)
            if output is None:
                show_rows(console, rows, max_rows=ROWS_SHOWN if limit is None else limit)
            else:
                count = save_rows(rows, output)
                console.print(
                    f"{counted(count, 'row')} in {output}", highlight=False, soft_wrap=True
                )


def _scan(
    client: Client,
    name: str,
    columns: list[str] | None,
    where: str | None,
    at: str | None,
    limit: int | None,
) -> pa.RecordBatchReader:
    table = client.table(name)
    return table.scan(columns, where, limit=limit, **parse_at(at)).to_reader()


def _list(console: Console, client: Client, catalog: str) -> None:
    databases = [str(row.get("name", "")) for row in client.databases()]
    if not catalog and len(databases) > 1:
        table = Table("catalog", "comment")
        for row in client.databases():
            table.add_row(cell(row.get("name", "")), cell(row.get("comment", "")))
        console.print(table)
        console.print("--catalog chooses one of them", style="dim")
        return
    table = Table("schema", "table", "columns", "comment")
    for schema in client.schemas():
        for found in client.tables(schema.name):
            table.add_row(*map(cell, (schema.name, found.name, len(found.columns), found.comment)))
        for function in client.functions(schema.name):
            table.add_row(cell(schema.name), cell(f"{function.name}()"), "", "")
    console.print(table)


def _describe(console: Console, client: Client, name: str) -> None:
    found = client.table(name)
    table = Table("column", "type", "constraint", "default", "comment")
    for column in found.columns:
        table.add_row(
            cell(column.name),
            cell(column.type),
            "NOT NULL" if column.not_null else "",
            cell(column.default or ""),
            cell(column.comment),
        )
    if found.comment:
        console.print(printable(found.comment), markup=False)
    console.print(table)
