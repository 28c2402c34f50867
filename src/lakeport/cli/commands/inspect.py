"""`lakeport inspect`: the contents of a lake, read without Spark."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.tree import Tree

from lakeport._wording import counted, size_text
from lakeport.cli.arguments import parse_at, parse_lake, redacted
from lakeport.cli.output import make_console, plain_table, printable
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
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show the schemas, tables, files and snapshots of a lake.

    For example:

      lakeport inspect meta.ducklake

      lakeport inspect meta.ducklake trips --at 3

      lakeport inspect ducklake:postgres:dbname=lake --json | jq .schemas
    """
    uri = parse_lake(lake)
    snapshot = parse_at(at)
    with Lake.open(uri) as opened:
        if table is None:
            report: LakeReport | TableReport = inspect_lake(opened, redacted(uri), **snapshot)
        else:
            schema, _, name = table.rpartition(".")
            report = inspect_table(opened.table(name, schema or "main", **snapshot))
    if as_json:
        typer.echo(json.dumps(asdict(report), indent=2))
        return
    console = make_console()
    if isinstance(report, LakeReport):
        _show_lake(console, report)
    else:
        _show_table(console, report)


def _show_lake(console: Console, report: LakeReport) -> None:
    tree = Tree(
        f"[bold]{_escape(report.location)}[/bold]  DuckLake {_escape(report.format_version)}, "
        f"snapshot {report.snapshot}",
        highlight=False,
    )
    for schema in report.schemas:
        branch = tree.add(f"[bold]{_escape(schema.name)}[/bold]{_comment(schema.comment)}")
        for table in schema.tables:
            extent = f"{counted(table.columns, 'column')}, {_size(table.size)}"
            branch.add(f"{_escape(table.name)}  [dim]{extent}[/dim]{_comment(table.comment)}")
        for view in schema.views:
            branch.add(f"{_escape(view)}  [dim]view[/dim]")
    console.print(tree, soft_wrap=True)
    for problem in report.problems:
        subject = f"{problem.kind} {_escape(problem.name)}"
        console.print(
            f"[bold]left out:[/bold] {subject}: {_escape(problem.reason)}", soft_wrap=True
        )
    snapshots = plain_table("snapshot", "time", "changes", "author", "message")
    for snapshot in report.snapshots[-_SNAPSHOTS_SHOWN:]:
        snapshots.add_row(
            str(snapshot.id),
            snapshot.time[:19],
            _escape(snapshot.changes),
            _escape(snapshot.author or ""),
            _escape(snapshot.message or ""),
        )
    hidden = len(report.snapshots) - _SNAPSHOTS_SHOWN
    if hidden > 0:
        console.print(f"\nthe newest {_SNAPSHOTS_SHOWN} of {len(report.snapshots)} snapshots:")
    else:
        console.print()
    console.print(snapshots)


def _show_table(console: Console, report: TableReport) -> None:
    console.print(
        f"[bold]{_escape(report.schema)}.{_escape(report.name)}[/bold] at snapshot "
        f"{report.snapshot}: {_size(report.size)}{_comment(report.comment)}",
        highlight=False,
        soft_wrap=True,
    )
    if report.partitioned_by:
        console.print(f"partitioned by {_escape(', '.join(report.partitioned_by))}")
    if report.sorted_by:
        console.print(f"sorted by {_escape(', '.join(report.sorted_by))}")
    columns = plain_table("column", "type", "constraint", "default", "comment")
    for column in report.columns:
        columns.add_row(
            _escape(column.name),
            _escape(column.type),
            "" if column.nullable else "NOT NULL",
            _escape(column.default or ""),
            _escape(column.comment or ""),
        )
    console.print(columns)
    files = plain_table("file", "rows", "deleted", "size", "snapshot")
    for file in report.files[:_FILES_SHOWN]:
        files.add_row(
            _escape(file.path.removeprefix(report.path)),
            str(file.rows),
            str(file.deleted_rows),
            size_text(file.bytes),
            str(file.snapshot),
        )
    console.print(files)
    if len(report.files) > _FILES_SHOWN:
        console.print(
            f"… and {len(report.files) - _FILES_SHOWN} more; use --json for the full list"
        )


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
    return f"  [italic]{_escape(comment)}[/italic]" if comment else ""


def _escape(text: str) -> str:
    """Escape text from the lake for the terminal and for rich's markup."""
    return escape(printable(text))
