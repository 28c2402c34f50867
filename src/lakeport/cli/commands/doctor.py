"""`lakeport doctor` and `lakeport advise`: what is wrong with a lake, and what its shape costs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.markup import escape

from lakeport._wording import counted, size_text
from lakeport.cli.arguments import parse_lake, redacted
from lakeport.cli.output import make_console, plain_table, printable
from lakeport.ducklake import Lake
from lakeport.ducklake.maintenance.doctor import Advice, Diagnosis, Finding, Repaired, Verdict

__all__ = ["advise", "doctor"]

_COLOURS: Final = {"error": "red", "warning": "yellow", "note": "cyan"}
_VERDICTS: Final = {"healthy": "green", "ailing": "yellow", "damaged": "red"}
_LakeArgument = Annotated[
    str, typer.Argument(help="'ducklake:…', 'postgresql://…', a database file, or '@file'.")
]


def doctor(
    lake: _LakeArgument,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read all data files, not only some of them.")
    ] = False,
    sample: Annotated[
        int, typer.Option(min=0, help="How many data files are read without --deep.")
    ] = 20,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what is safe to mend, then examine again.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --repair: show what would be changed.")
    ] = False,
    backup: Annotated[
        Path | None,
        typer.Option(help="With --repair: the file for the rows before they were changed."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Examine a lake: what is wrong, what a reader sees of it, and how to mend it.

    The exit code is 0 if there are neither errors nor warnings, else 1.

    For example:

      lakeport doctor meta.ducklake

      lakeport doctor ducklake:postgres:dbname=lake --deep --json

      lakeport doctor meta.ducklake --repair --dry-run
    """
    uri = parse_lake(lake)
    console = make_console()
    with Lake.open(uri) as opened:
        diagnosis = _examine(opened, console, deep=deep, sample=sample, as_json=as_json)
        repairs: list[Repaired] = []
        place = backup or Path(f"lakeport-doctor-{datetime.now(UTC):%Y%m%d-%H%M%S}.json")
        if repair:
            saved: list[Any] = []

            def save(done: Repaired) -> None:
                saved.append(done.as_json())
                place.write_text(json.dumps(saved, indent=2))

            repairs = opened.repair(diagnosis, dry_run=dry_run, save=save)
            if repairs and not dry_run:
                diagnosis = _examine(opened, console, deep=deep, sample=sample, as_json=as_json)
    if as_json:
        document = diagnosis.as_json() | {"location": redacted(uri)}
        if repair:
            document["repairs"] = [done.as_json() for done in repairs]
        typer.echo(json.dumps(document, indent=2))
    else:
        if repair:
            _show_repairs(console, repairs, dry_run=dry_run)
            if repairs and not dry_run:
                console.print(f"the rows before the repairs are in {_escape(str(place))}")
        _show(console, diagnosis, redacted(uri))
    if diagnosis.verdict is not Verdict.HEALTHY:
        raise typer.Exit(1)


def advise(
    lake: _LakeArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show what the shape of a lake costs, and which maintenance would gain what.

    For example:

      lakeport advise meta.ducklake
    """
    uri = parse_lake(lake)
    with Lake.open(uri) as opened:
        advice = opened.advise()
    if as_json:
        document = advice.as_json() | {"location": redacted(uri)}
        typer.echo(json.dumps(document, indent=2))
        return
    _show_advice(make_console(), advice, redacted(uri))


def _examine(lake: Lake, console: Console, *, deep: bool, sample: int, as_json: bool) -> Diagnosis:
    is_shown = sys.stdout.isatty() and not as_json
    with console.status("…") if is_shown else nullcontext() as status:

        def show(check: str) -> None:
            if status is not None:
                status.update(check.replace("_", " ") + " …")

        return lake.check(deep=deep, sample=sample, progress=show)


def _show(console: Console, diagnosis: Diagnosis, location: str) -> None:
    console.print(
        f"[bold]{_escape(location)}[/bold]  DuckLake {_escape(diagnosis.version)}, "
        f"snapshot {diagnosis.snapshot}",
        highlight=False,
        soft_wrap=True,
    )
    for finding in diagnosis.findings:
        _show_finding(console, finding)
    if diagnosis.findings:
        table = plain_table("check", "severity", "where", "count", "--repair")
        for finding in diagnosis.findings:
            table.add_row(
                finding.check,
                f"[{_COLOURS[finding.severity]}]{finding.severity}[/]",
                _escape(finding.where),
                f"{finding.count:,}",
                "yes" if finding.repair is not None else "",
            )
        console.print()
        console.print(table)
    verdict = diagnosis.verdict
    counts = [
        counted(number, name)
        for name in ("error", "warning", "note")
        if (number := sum(finding.severity == name for finding in diagnosis.findings))
    ]
    console.print(
        f"\nThe lake is [bold {_VERDICTS[verdict]}]{verdict}[/]"
        f"{': ' + ', '.join(counts) if counts else ''}. {len(diagnosis.checks)} checks, "
        f"{diagnosis.files_read:,} of {counted(diagnosis.files, 'data file')} read.",
        highlight=False,
    )


def _show_finding(console: Console, finding: Finding) -> None:
    colour = _COLOURS[finding.severity]
    lines = [
        (
            f"\n[bold {colour}]{finding.severity}[/]  {_escape(finding.where)}: "
            f"{_escape(finding.what)}"
        ),
        *(f"    {_escape(example)}" for example in finding.examples),
    ]
    if finding.count > len(finding.examples):
        lines.append(f"    … and {finding.count - len(finding.examples):,} more")
    lines.append(f"  [dim]effect:[/dim] {_escape(finding.effect)}")
    lines.append(f"  [dim]remedy:[/dim] {_escape(finding.remedy)}")
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)


def _show_repairs(console: Console, repairs: Sequence[Repaired], *, dry_run: bool) -> None:
    if not repairs:
        console.print("nothing was found that can be repaired")
        return
    table = plain_table("check", "where", "changed rows", "snapshot")
    for done in repairs:
        table.add_row(
            done.finding.check,
            _escape(done.finding.where),
            str(len(done.rows_before)),
            "" if done.snapshot is None else str(done.snapshot),
        )
    title = "these repairs would be made:" if dry_run else "these repairs were made:"
    console.print(title)
    console.print(table)


def _show_advice(console: Console, advice: Advice, location: str) -> None:
    console.print(
        f"[bold]{_escape(location)}[/bold]  snapshot {advice.snapshot}",
        highlight=False,
        soft_wrap=True,
    )
    headers = ("table", "files", "small", "size", "deleted", "inlined", "read/needed", "lookup")
    table = plain_table(*headers)
    for each in advice.tables:
        table.add_row(*map(_escape, _cells(each)))
    console.print(table)
    said = [(each.table, each.actions) for each in advice.tables if each.actions]
    for name, actions in (*said, ("the lake", advice.actions)):
        for action in actions:
            console.print(f"{_escape(name)}: {_escape(action)}", highlight=False, soft_wrap=True)
    if not said and not advice.actions:
        console.print("no maintenance would gain much")


def _cells(each: Any) -> Iterable[str]:
    lookup = "" if each.overlap is None else f"{each.overlap:.0f} by {each.overlap_column}"
    return (
        each.table,
        f"{each.files:,}",
        f"{each.small_files:,}",
        size_text(each.bytes),
        f"{each.deleted_share:.0%}",
        f"{each.inlined_rows:,}",
        f"{each.read_per_needed:.2f}",
        lookup,
    )


def _escape(text: str) -> str:
    """Escape text from the lake for the terminal and for rich's markup."""
    return escape(printable(text))
