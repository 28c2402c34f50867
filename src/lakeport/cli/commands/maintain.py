"""`lakeport maintain`: merge, rewrite, flush, expire, clean up, by hand or again and again."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bars

from lakeport._wording import counted, size_text
from lakeport.cli.arguments import parse_lake
from lakeport.cli.output import make_console, plain_table, printable
from lakeport.ducklake import Lake
from lakeport.ducklake.maintenance import (
    MaintenancePolicy,
    MaintenanceResult,
    MaintenanceSchedule,
    Operation,
    Progress,
    ProgressCallback,
    delete_orphans,
    delete_scheduled,
    expire_snapshots,
)
from lakeport.errors import DefinitionError

__all__ = ["maintain"]


class _Operation(StrEnum):
    ALL = "all"
    MERGE = "merge"
    REWRITE = "rewrite"
    FLUSH = "flush"
    EXPIRE = "expire"
    CLEAN_UP = "clean-up"
    ORPHANS = "orphans"


class _Engine(StrEnum):
    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


_NAMES: dict[_Operation, Operation] = {
    _Operation.MERGE: "merge",
    _Operation.REWRITE: "rewrite",
    _Operation.FLUSH: "flush",
    _Operation.EXPIRE: "expire",
    _Operation.CLEAN_UP: "clean_up",
    _Operation.ORPHANS: "remove_orphans",
}


def maintain(
    lake: Annotated[
        str,
        typer.Argument(help="'ducklake:…', 'postgresql://…', a database file, or '@file'."),
    ],
    operation: Annotated[
        _Operation,
        typer.Argument(help="What to do; 'all' does what is worth it, by the thresholds."),
    ] = _Operation.ALL,
    table: Annotated[
        str | None,
        typer.Option(help="One table to merge, rewrite or flush: name, or schema.name."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; show what would be done.")
    ] = False,
    where: Annotated[
        str | None, typer.Option(help="Only files that may have rows which pass this filter.")
    ] = None,
    target_file_size: Annotated[
        int | None, typer.Option(help="The bytes of new files; by default the table's option.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Rewrite files of which this share of rows is deleted.")
    ] = None,
    merge_files: Annotated[
        int, typer.Option(help="With 'all': merge from so many small files of a table.")
    ] = MaintenancePolicy().merge_files,
    flush_rows: Annotated[
        int, typer.Option(help="With 'all': flush from so many inlined rows of a table.")
    ] = MaintenancePolicy().flush_rows,
    older_than: Annotated[
        str | None,
        typer.Option(help="Expire, clean up or remove what is older: '7 days', or a time."),
    ] = None,
    retain_last: Annotated[
        int | None, typer.Option(help="How many of the newest snapshots stay.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--everything", help="Clean up all scheduled files, of any age.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Remove orphans of any age, in any folder.")
    ] = False,
    engine: Annotated[
        _Engine, typer.Option(help="Where files are written: here, on Spark, or by their size.")
    ] = _Engine.AUTO,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look at the lake again and again, until interrupted.")
    ] = False,
    every: Annotated[float, typer.Option(help="With --watch: seconds between two looks.")] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Keep a lake fast and small: merge small files, drop deleted rows, expire old snapshots.

    For example:

      lakeport maintain meta.ducklake --dry-run

      lakeport maintain meta.ducklake merge --table trips

      lakeport maintain meta.ducklake expire --older-than '7 days' --retain-last 10

      lakeport maintain @lake.txt --watch --every 300
    """
    is_all = operation is _Operation.ALL
    policy = MaintenancePolicy(
        flush_rows=flush_rows if is_all else 1,
        merge_files=merge_files if is_all else 2,
        rewrite_threshold=threshold,
        target_file_size=target_file_size,
        expire_older_than=older_than if is_all else None,
        retain_last=retain_last,
    )
    console = make_console()
    with Lake.open(parse_lake(lake), engine=engine.value) as opened:
        if watch:
            _check_watch(operation, dry_run=dry_run, table=table)
            _watch(console, opened, policy, every)
            return
        with _shown(console, is_silent=as_json or dry_run) as progress:
            if operation is _Operation.EXPIRE:
                results = [
                    expire_snapshots(
                        opened, older_than=older_than, retain_last=retain_last, dry_run=dry_run
                    )
                ]
            elif operation is _Operation.CLEAN_UP:
                results = [
                    delete_scheduled(
                        opened, older_than=older_than, everything=everything, dry_run=dry_run
                    )
                ]
            elif operation is _Operation.ORPHANS:
                age = older_than or "1 day"
                results = [delete_orphans(opened, older_than=age, force=force, dry_run=dry_run)]
            elif table is not None:
                results = _on_table(
                    opened, table, operation, policy, where, progress, dry_run=dry_run
                )
            else:
                if where is not None:
                    raise DefinitionError("--where needs a --table")
                results = opened.maintain(
                    policy,
                    operations=None if is_all else [_NAMES[operation]],
                    dry_run=dry_run,
                    progress=progress,
                )
    if as_json:
        typer.echo(json.dumps([asdict(result) for result in results], indent=2))
        return
    _show(console, results, dry_run=dry_run)


def _on_table(
    lake: Lake,
    table: str,
    operation: _Operation,
    policy: MaintenancePolicy,
    where: str | None,
    progress: ProgressCallback,
    *,
    dry_run: bool,
) -> list[MaintenanceResult]:
    schema, _, name = table.rpartition(".")
    found = lake.table(name, schema or "main")
    results = []
    if operation in (_Operation.ALL, _Operation.FLUSH):
        results.append(found.flush(dry_run=dry_run))
    if operation in (_Operation.ALL, _Operation.MERGE):
        results.append(
            found.merge_files(
                where=where,
                target_file_size=policy.target_file_size,
                dry_run=dry_run,
                progress=progress,
            )
        )
    if operation in (_Operation.ALL, _Operation.REWRITE):
        results.append(
            found.rewrite_files(
                threshold=policy.rewrite_threshold,
                where=where,
                target_file_size=policy.target_file_size,
                dry_run=dry_run,
                progress=progress,
            )
        )
    return results


def _check_watch(operation: _Operation, *, dry_run: bool, table: str | None) -> None:
    if operation is not _Operation.ALL or dry_run or table is not None:
        raise DefinitionError("--watch does all maintenance: give no operation, table or --dry-run")


def _watch(console: Console, lake: Lake, policy: MaintenancePolicy, every: float) -> None:
    """Maintain the lake until SIGINT or SIGTERM."""
    schedule = MaintenanceSchedule(
        lambda: {"lake": (lake, policy)},
        every=every,
        on_result=lambda _, result: _show(console, [result], dry_run=False),
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        if threading.current_thread() is threading.main_thread():
            signal.signal(number, lambda *_: schedule.end())
    console.print(f"looking at {lake.catalog.database.location} every {every:g} seconds")
    schedule.run()


@contextmanager
def _shown(console: Console, *, is_silent: bool) -> Iterator[ProgressCallback]:
    """Show a bar for each table while its groups are committed, on a terminal."""
    if is_silent or not console.is_terminal:
        yield lambda _: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=console, transient=True) as bars:
        known: dict[str, Any] = {}

        def show(progress: Progress) -> None:
            text = f"{progress.operation} {progress.table}"
            if text not in known:
                known[text] = bars.add_task(escape(printable(text)), total=progress.groups)
            bars.update(known[text], completed=progress.done)

        yield show


def _show(console: Console, results: Sequence[MaintenanceResult], *, dry_run: bool) -> None:
    """Print a line for each result, then what was left out."""
    done = [result for result in results if not result.is_empty]
    if done:
        table = plain_table("operation", "table", "files", "size", "rows", "")
        for result in done:
            table.add_row(*_cells(result))
        console.print(table, highlight=False)
    elif not any(result.skipped for result in results):
        console.print("nothing to do")
    for result in results:
        for reason in result.skipped:
            console.print(f"[bold]left out:[/bold] {escape(printable(reason))}", soft_wrap=True)
    if done and dry_run:
        console.print("nothing was changed: leave out --dry-run to do it", style="dim")


def _cells(result: MaintenanceResult) -> list[str]:
    files, size = f"{result.files_replaced:,}", size_text(result.bytes_replaced)
    if result.operation in ("merge", "rewrite"):
        files = f"{files} → {result.files_written:,}"
        size = f"{size} → {size_text(result.bytes_written)}"
    elif result.operation == "flush":
        files, size = f"0 → {result.files_written:,}", size_text(result.bytes_written)
    notes = []
    if result.expired:
        notes.append(counted(len(result.expired), "snapshot"))
    if result.deletes:
        notes.append(f"{result.deletes:,} deletes")
    if result.redone:
        notes.append(f"{counted(result.redone, 'group')} redone")
    rows = f"{result.rows:,}" if result.rows else ""
    name = result.operation.replace("_", " ")
    return [name, escape(printable(result.table or "")), files, size, rows, ", ".join(notes)]
