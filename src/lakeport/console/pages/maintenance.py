"""The page for keeping a lake healthy: findings, advice, a plan, a run, the schedule, past runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nicegui import ui

from lakeport._wording import counted, size_text
from lakeport.console.facts import is_lake
from lakeport.console.frame import Page, show_error
from lakeport.console.operations import (
    Outcome,
    advice,
    can_maintain,
    cancel_call,
    findings,
    health_in_a_line,
    maintain,
    past_runs,
    running_maintenance,
    schedule,
)
from lakeport.console.widgets import DataTable
from lakeport.errors import LakeportError, PermissionDeniedError

__all__ = ["SEVERITY_COLOURS", "show_maintenance"]

SEVERITY_COLOURS: Final = {
    "error": "text-red-700 dark:text-red-400",
    "warning": "text-amber-700 dark:text-amber-400",
}
_POLL_SECONDS: Final = 0.5
_MAX_TEXT: Final = "break-words max-w-full"


async def show_maintenance(page: Page) -> None:
    """Show the state of the lake to those who may maintain it; the others get a sentence."""
    if not await page.read(is_lake, page.client):
        ui.label("This catalog is no lake: there is nothing to maintain.")
        return
    try:
        gains = await page.read(advice, page.client)
    except PermissionDeniedError as error:
        ui.label(f"This page is for those who maintain the lake: {error}.").props("role=status")
        await _show_past_runs(page)
        return
    _heading("Advice")
    _show_advice(gains)
    _heading("Maintenance")
    if await page.read(can_maintain, page.client):
        _show_run(page)
    else:
        ui.label("The server serves this lake for reading only: maintain it with the command line.")
        ui.label("lakeport maintain LAKE --dry-run").classes("font-mono")
    _show_schedule(await page.read(schedule, page.client))
    await _show_past_runs(page)
    _heading("Doctor")
    await _show_doctor(page)


def _heading(text: str) -> None:
    ui.label(text).classes("text-xl").props("role=heading aria-level=2")


def _show_advice(gains: Sequence[dict[str, Any]]) -> None:
    if not gains:
        ui.label("The lake is in good shape: no maintenance would gain much.")
        return
    DataTable(
        ["table", "what it would gain", "files", "small files", "size", "deleted", "inlined rows"],
        gains,
        lambda row: {
            "table": row["table_name"] or "the whole lake",
            "what it would gain": "; ".join(row["actions"]),
            "files": row["files"],
            "small files": row["small_files"],
            "size": "" if row["bytes"] is None else size_text(row["bytes"]),
            "deleted": "" if row["deleted_share"] is None else f"{row['deleted_share']:.0%}",
            "inlined rows": row["inlined_rows"],
        },
        order={"size": lambda row: row["bytes"], "deleted": lambda row: row["deleted_share"]},
    ).table.props("wrap-cells")


def _show_run(page: Page) -> None:
    """Show buttons that plan and run the maintenance, and how far a run is."""

    async def run(*, dry_run: bool) -> None:
        dialog.close()
        result.clear()
        for button in (plan_button, run_button):
            button.disable()
        poll = None if dry_run else ui.timer(_POLL_SECONDS, report)
        with result:
            waiting = ui.spinner(size="lg").props('aria-label="running"')
            try:
                done = await page.read(maintain, page.client, dry_run=dry_run)
                _show_outcomes(done, is_plan=dry_run)
            except LakeportError as error:
                show_error(str(error))
            finally:
                waiting.delete()
                if poll is not None:
                    poll.deactivate()
                progress.set_text("")
                cancel_button.set_visibility(False)
                for button in (plan_button, run_button):
                    button.enable()

    async def report() -> None:
        try:
            running = await page.read(running_maintenance, page.client)
        except LakeportError:
            return  # the run itself reports the reason
        cancel_button.set_visibility(running is not None)
        progress.set_text("" if running is None else running[1] or "running")

    async def cancel() -> None:
        try:
            running = await page.read(running_maintenance, page.client)
            if running is not None:
                await page.read(cancel_call, page.client, running[0])
        except LakeportError as error:
            ui.notify(str(error), type="warning")

    with ui.dialog() as dialog, ui.card():
        ui.label("Flush, merge, rewrite, expire and clean up whatever reaches its threshold?")
        ui.label("No row changes. Files are replaced, and old snapshots may be removed.")
        with ui.row():
            ui.button("Run", on_click=lambda: run(dry_run=False))
            ui.button("Not now", on_click=dialog.close).props("flat")
    with ui.row().classes("items-center"):
        plan_button = ui.button("Plan", on_click=lambda: run(dry_run=True)).props("outline")
        run_button = ui.button("Run maintenance", on_click=dialog.open)
        cancel_button = ui.button("Cancel", on_click=cancel).props("flat color=negative")
        cancel_button.set_visibility(False)
        progress = ui.label("").props("role=status")
    result = ui.column().classes("w-full")


def _show_outcomes(done: Sequence[Outcome], *, is_plan: bool) -> None:
    if not done:
        ui.label("There is nothing to do: no threshold is reached, or another process works.")
        return
    ui.label("This would be done:" if is_plan else "This was done:").props("role=status")
    _outcome_table(done)


def _outcome_table(done: Sequence[Outcome]) -> None:
    has_time = any(outcome.time is not None for outcome in done)
    numbered = list(enumerate(done))
    table = DataTable(
        [*(["time (UTC)"] if has_time else []), "operation", "table", "result", "left as it is"],
        numbered,
        lambda entry: {
            "_number": entry[0],
            "time (UTC)": entry[1].time.strftime("%Y-%m-%d %H:%M:%S") if entry[1].time else "",
            "operation": entry[1].operation,
            "table": entry[1].table,
            "result": entry[1].done,
            "left as it is": "; ".join(entry[1].skipped),
        },
        key="_number",
    )
    table.table.props("wrap-cells")


def _show_schedule(rows: Sequence[dict[str, Any]]) -> None:
    _heading("Schedule")
    if not rows:
        ui.label(
            "This server does not maintain the lake by itself. A section [maintenance] of its "
            "configuration makes it do so."
        )
        return
    for row in rows:
        where = row["table_name"] or "the lake"
        ui.label(f"{where}: {_thresholds(row)}").classes(_MAX_TEXT)


def _thresholds(row: dict[str, Any]) -> str:
    """Return when a table or the lake is maintained, in a sentence."""
    parts = [
        f"looked at every {row['every_seconds']:g} s",
        f"flushed from {counted(row['flush_rows'], 'inlined row')}",
        f"merged from {counted(row['merge_files'], 'small file')}",
    ]
    if row["rewrite_threshold"] is not None:
        parts.append(f"rewritten from {row['rewrite_threshold']:.0%} deleted rows")
    if row["expire_older_than"] is not None:
        parts.append(f"snapshots older than {row['expire_older_than']} expire")
    if row["retain_last"] is not None:
        parts.append(f"the last {row['retain_last']} stay")
    return ", ".join(parts)


async def _show_past_runs(page: Page) -> None:
    _heading("Past runs")
    runs = await page.read(past_runs, page.client)
    if not runs:
        ui.label("The lake has no log of maintenance yet.")
        return
    _outcome_table(runs)


async def _show_doctor(page: Page) -> None:
    """Examine the lake; on request, all of its data files."""

    async def examine(*, deep: bool) -> None:
        result.clear()
        with result:
            waiting = ui.spinner(size="lg").props('aria-label="examining"')
            try:
                _show_findings(await page.read(findings, page.client, deep=deep))
            except LakeportError as error:
                show_error(str(error))
            finally:
                waiting.delete()

    ui.button("Examine all data files", on_click=lambda: examine(deep=True)).props("outline")
    result = ui.column().classes("w-full")
    await examine(deep=False)


def _show_findings(found: Sequence[dict[str, Any]]) -> None:
    worst, line = health_in_a_line(found)
    ui.label(line).classes(f"text-lg {SEVERITY_COLOURS.get(worst, '')}").props("role=status")
    for row in found[:100]:
        with ui.card().classes("w-full gap-1"):
            ui.label(f"{row['severity']}: {row['where']}: {row['what']}").classes(
                f"font-semibold {_MAX_TEXT} {SEVERITY_COLOURS.get(row['severity'], '')}"
            )
            ui.label(f"Effect: {row['effect']}.").classes(_MAX_TEXT)
            ui.label(f"Remedy: {row['remedy']}.").classes(_MAX_TEXT)
            if row["repairable"]:
                ui.label("lakeport doctor LAKE --repair mends it.").classes(_MAX_TEXT)
            for example in row["examples"] or ():
                ui.label(example).classes(f"font-mono text-sm {_MAX_TEXT}")
