"""`lakeport access`: what an identity may do and see by the policies of a server, and why."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from lakeport.auth import PERMISSIONS, Identity, Policies, Policy, Restriction
from lakeport.catalog import Catalog
from lakeport.cli.access.server_access import AccessRules
from lakeport.cli.arguments import by_name, is_lake, resolve_uri, storage_of
from lakeport.cli.config import load_settings
from lakeport.cli.lake_settings import LakeSettings
from lakeport.cli.output import make_console, printable
from lakeport.errors import DefinitionError
from lakeport.lakehouse import LakeCatalog, check_policies
from lakeport.memory import MemoryCatalog
from lakeport.types import Column

__all__ = ["access"]


def access(
    config: Annotated[Path, typer.Option(help="The configuration file of the server (TOML).")],
    user: Annotated[str, typer.Option("--as", help="The user.")],
    group: Annotated[
        list[str] | None, typer.Option(help="A group of the user; may be repeated.")
    ] = None,
    attribute: Annotated[
        list[str] | None, typer.Option(help="An attribute, as name=text; may be repeated.")
    ] = None,
) -> None:
    """Print what USER may do with each table, which rows and columns it sees, and why.

    Groups and attributes of the tokens of the user in the file are added by themselves.

      lakeport access --config lakeport.toml --as ada --group analysts --attribute region=eu
    """
    settings = load_settings(config)
    lakes = by_name(settings.lake)
    rules = AccessRules.of(settings, lakes, file=config)
    caller = _caller(rules, user, group or [], attribute or [])
    console = make_console()
    if rules.policies is None:
        console.print("The configuration has no policies: every caller may do everything.")
        return
    with ExitStack() as stack:
        opened = {name: _open(lake, stack) for name, lake in lakes.items()}
        check_policies(rules.policies, opened)
        for name, catalog in opened.items():
            if isinstance(catalog, LakeCatalog):
                _show(console, rules.policies, caller, name, catalog)


def _open(settings: LakeSettings, stack: ExitStack) -> Catalog:
    """Return a lake, which needs no Spark for this; an empty catalog for what is no lake."""
    uri = resolve_uri(settings.uri)
    if not is_lake(uri):
        return MemoryCatalog()
    return stack.enter_context(
        LakeCatalog(
            uri,
            engine="local",
            main_as=settings.main_as,
            data_path=settings.data_path,
            metadata_schema=settings.metadata_schema,
            storage=storage_of(settings),
            database_timeout=settings.database_timeout,
        )
    )


def _caller(rules: AccessRules, user: str, groups: list[str], attributes: list[str]) -> Identity:
    pairs = [text.partition("=") for text in attributes]
    if not all(name and separator for name, separator, _ in pairs):
        raise DefinitionError("an attribute is written as name=text")
    known = [each for each in rules.tokens.identities.values() if each.user == user]
    own = known[0] if known else Identity(user)
    return Identity(
        user,
        own.groups | set(groups),
        {**own.attributes, **{name: text for name, _, text in pairs}},
    )


def _show(
    console: Console, policies: Policies, caller: Identity, name: str, catalog: LakeCatalog
) -> None:
    table = Table("table", "may", "rows", "columns", "why", title=name or None)
    shown = 0
    for schema, entry, columns in _tables(catalog):
        granting = policies.granting(caller, None, name, schema, entry)
        if not granting:
            continue
        shown += 1
        restriction = policies.restriction(caller, name, schema, entry)
        may = [each for each in PERMISSIONS if any(each in p.allow for p in granting)]
        table.add_row(
            printable(f"{schema}.{entry}"),
            ", ".join(may),
            printable(_rows(restriction, may)),
            printable(_columns(restriction, columns)),
            printable("; ".join(_reason(policy) for policy in granting)),
        )
    if shown:
        console.print(table)
    else:
        console.print(f"{caller.user} sees nothing of {name or 'the lake'}", markup=False)


def _tables(catalog: LakeCatalog) -> list[tuple[str, str, tuple[Column, ...]]]:
    """Return schema, name and columns of tables and views; views have no columns here."""
    contents, published = catalog.lake.contents(), catalog.published_name
    return [
        *((published(t.schema), t.name, t.columns) for t in contents.tables),
        *((published(v.schema), v.name, ()) for v in contents.views),
    ]


def _rows(restriction: Restriction | None, may: list[str]) -> str:
    if "select" not in may:
        return "none"
    return "all" if restriction is None else restriction.row_filter or "all"


def _columns(restriction: Restriction | None, columns: tuple[Column, ...]) -> str:
    if restriction is None or not columns:
        return "all"
    hidden = [column.name for column in columns if restriction.hides([column.name])]
    masked = [
        column.name
        for column in columns
        if column.name not in hidden and not restriction.is_plain([column.name])
    ]
    parts = [
        f"without {', '.join(hidden)}" if hidden else "",
        f"masked: {', '.join(masked)}" if masked else "",
    ]
    return "; ".join(part for part in parts if part) or "all"


def _reason(policy: Policy) -> str:
    place = policy.where.rpartition(", ")[2] or policy.where
    return f"{place} ({policy.on})"
