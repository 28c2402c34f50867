"""`lakeport inspect`: what is in a lake, without Spark."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.tree import Tree

from lakeport._wording import counted
from lakeport.cli.arguments import parse_at, parse_lake, redacted
from lakeport.cli.output import make_console, plain_table, printable, size_text
from lakeport.ducklake import Lake
from lakeport.ducklake.maintenance import (
    LakeReport,
    SizeReport,
    TableReport,
    inspect_lake,
    inspect_table,
)

__all__ = ["inspect"]

_SNAPSHOTS_SHOWN: Final = 10
_FILES_SHOWN: Final = 20


def inspect(
    lake: Annotated[
        str,
        typer.Argument(help="'ducklake:…', 'postgresql://…', a database file, or '@file'."),
    ],
    table: Annotated[
        str | None, typer.Argument(help="One table: name, or schema.name; 'main' by default.")
    ] = None,
    at: Annotated[str | None, typer.Option(help="As of a snapshot: its number, or a time.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document, for machines.")
    ] = False,
) -> None:
    """Show the schemas, tables, files and snapshots of a lake.

    For example:

      lakeport inspect meta.ducklake

      lakeport inspect meta.ducklake trips --at 3

      lakeport inspect ducklake:postgres:dbname=lake --json | jq .schemas
    """
    place = parse_lake(lake)
    moment = parse_at(at)
    with Lake.open(place) as opened:
        if table is None:
            found: LakeReport | TableReport = inspect_lake(opened, redacted(place), **moment)
        else:
            schema, _, name = table.rpartition(".")
            found = inspect_table(opened.table(name, schema or "main", **moment))
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
        return
    console = make_console()
    if isinstance(found, LakeReport):
        _show_lake(console, found)
    else:
        _show_table(console, found)


def _show_lake(console: Console, found: LakeReport) -> None:
    tree = Tree(
        f"[bold]{_said(found.location)}[/bold]  DuckLake {_said(found.format_version)}, "
        f"snapshot {found.snapshot}",
        highlight=False,
    )
    for schema in found.schemas:
        branch = tree.add(f"[bold]{_said(schema.name)}[/bold]{_comment(schema.comment)}")
        for table in schema.tables:
            extent = f"{counted(table.columns, 'column')}, {_size(table.size)}"
            branch.add(f"{_said(table.name)}  [dim]{extent}[/dim]{_comment(table.comment)}")
        for view in schema.views:
            branch.add(f"{_said(view)}  [dim]view[/dim]")
    console.print(tree, soft_wrap=True)
    for problem in found.problems:
        what = f"{problem.kind} {_said(problem.name)}"
        console.print(f"[bold]left out:[/bold] {what}: {_said(problem.reason)}", soft_wrap=True)
    snapshots = plain_table("snapshot", "time", "changes", "author", "message")
    for snapshot in found.snapshots[-_SNAPSHOTS_SHOWN:]:
        snapshots.add_row(
            str(snapshot.id),
            snapshot.time[:19],
            _said(snapshot.changes),
            _said(snapshot.author or ""),
            _said(snapshot.message or ""),
        )
    hidden = len(found.snapshots) - _SNAPSHOTS_SHOWN
    if hidden > 0:
        console.print(f"\nthe newest {_SNAPSHOTS_SHOWN} of {len(found.snapshots)} snapshots:")
    else:
        console.print()
    console.print(snapshots)


def _show_table(console: Console, found: TableReport) -> None:
    console.print(
        f"[bold]{_said(found.schema)}.{_said(found.name)}[/bold] at snapshot "
        f"{found.snapshot}: {_size(found.size)}{_comment(found.comment)}",
        highlight=False,
        soft_wrap=True,
    )
    if found.partitioned_by:
        console.print(f"partitioned by {_said(', '.join(found.partitioned_by))}")
    if found.sorted_by:
        console.print(f"sorted by {_said(', '.join(found.sorted_by))}")
    columns = plain_table("column", "type", "constraint", "default", "comment")
    for column in found.columns:
        columns.add_row(
            _said(column.name),
            _said(column.type),
            "" if column.nullable else "NOT NULL",
            _said(column.default or ""),
            _said(column.comment or ""),
        )
    console.print(columns)
    files = plain_table("file", "rows", "deleted", "size", "snapshot")
    for file in found.files[:_FILES_SHOWN]:
        files.add_row(
            _said(file.path.removeprefix(found.path)),
            str(file.rows),
            str(file.deleted_rows),
            size_text(file.bytes),
            str(file.snapshot),
        )
    console.print(files)
    if len(found.files) > _FILES_SHOWN:
        console.print(f"… and {len(found.files) - _FILES_SHOWN} more; --json tells all")


def _size(size: SizeReport) -> str:
    parts = [counted(size.rows, "row")]
    if size.deleted_rows:
        parts.append(f"{size.deleted_rows:,} deleted")
    if size.inlined_rows:
        parts.append(f"{size.inlined_rows:,} inlined")
    parts.append(counted(size.files, "file"))
    parts.append(size_text(size.bytes))
    return ", ".join(parts)


def _comment(comment: str | None) -> str:
    return f"  [italic]{_said(comment)}[/italic]" if comment else ""


def _said(text: str) -> str:
    """What the writers of a lake said, which steers neither the terminal nor the markup."""
    return escape(printable(text))
