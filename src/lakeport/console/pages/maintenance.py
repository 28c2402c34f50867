"""The page for keeping a lake healthy: findings, advice, a plan, a run, the schedule, past runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nicegui import ui

from lakeport._wording import counted, size_text
from lakeport.console.facts import is_lake
from lakeport.console.frame import Page, show_error
from lakeport.console.operations import (
    EXAMINED_FILES,
    Outcome,
    Verdict,
    advice,
    can_maintain,
    cancel_call,
    file_count,
    findings,
    health_key,
    maintain,
    newest_snapshot,
    past_runs,
    running_maintenance,
    schedule,
    verdict,
)
from lakeport.console.widgets import DataTable, heading
from lakeport.errors import LakeportError, PermissionDeniedError

__all__ = ["HEALTHY_COLOUR", "HEALTH_ICONS", "SEVERITY_COLOURS", "show_maintenance"]

SEVERITY_COLOURS: Final = {
    "error": "text-red-700 dark:text-red-400",
    "warning": "text-amber-700 dark:text-amber-400",
}
HEALTH_ICONS: Final = {"error": "error", "warning": "warning"}
"""By the worst finding; any other lake is healthy."""

HEALTHY_COLOUR: Final = "text-green-700 dark:text-green-400"

_SEVERITIES: Final = ("error", "warning", "note")
_POLL_SECONDS: Final = 0.5
_MAX_TEXT: Final = "break-words max-w-full"


async def show_maintenance(page: Page) -> None:
    """Show the state of the lake to those who may maintain it; the others get a sentence."""
    if not await page.read(is_lake, page.client):
        ui.label("This catalog is no lake: there is nothing to maintain.")
        return
    heading("Advice")
    waiting = ui.label("Looking at the files of all tables …").props("role=status")
    try:
        gains = await page.read(advice, page.client)
    except PermissionDeniedError as error:
        ui.label(f"This page is for those who maintain the lake: {error}.").props("role=status")
        await _show_past_runs(page)
        return
    finally:
        waiting.delete()
    _show_advice(gains)
    heading("Maintenance")
    if await page.read(can_maintain, page.client):
        _show_run(page)
    else:
        ui.label("The server serves this lake for reading only: maintain it with the command line.")
        ui.label("lakeport maintain LAKE --dry-run").classes("font-mono")
    _show_schedule(await page.read(schedule, page.client))
    await _show_past_runs(page)
    heading("Doctor")
    await _show_doctor(page)


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
        numbers=["files", "small files", "size", "deleted", "inlined rows"],
    )


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
                show_error(str(error), can_reload=False)
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
    DataTable(
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
        short=["time (UTC)", "operation"],
    )


def _show_schedule(rows: Sequence[dict[str, Any]]) -> None:
    heading("Schedule")
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
        f"flushed from {counted(row['flush_rows'], 'inlined row')} on",
        f"merged from {counted(row['merge_files'], 'small file')} on",
    ]
    if row["rewrite_threshold"] is not None:
        parts.append(f"rewritten from {row['rewrite_threshold']:.0%} deleted rows on")
    if row["expire_older_than"] is not None:
        parts.append(f"snapshots older than {row['expire_older_than']} expire")
    if row["retain_last"] is not None:
        parts.append(f"the last {counted(row['retain_last'], 'snapshot')} stay")
    return f"examined {_every(row['every_seconds'])}; {', '.join(parts)}"


def _every(seconds: float) -> str:
    """Return how often something happens: `every 5 minutes`, `every hour`."""
    for name, length in (("hour", 3600), ("minute", 60)):
        if seconds >= length and seconds % length == 0:
            return f"every {name}" if seconds == length else f"every {seconds / length:g} {name}s"
    return f"every {seconds:g} seconds"


async def _show_past_runs(page: Page) -> None:
    heading("Past runs")
    runs = await page.read(past_runs, page.client)
    if not runs:
        ui.label("The lake has no log of maintenance yet.")
        return
    _outcome_table(runs)


async def _show_doctor(page: Page) -> None:
    """Examine a small lake; a large one, or all data files, on request."""

    async def examine(*, deep: bool) -> None:
        result.clear()
        with result:
            waiting = ui.spinner(size="lg").props('aria-label="examining"')
            try:
                newest = await page.read(newest_snapshot, page.client)
                found = await page.read(findings, page.client, deep=deep)
                known = verdict(found, newest)
                page.visitors.remember(page.browser, health_key(page.lake), known)
                _show_findings(found, known)
            except LakeportError as error:
                show_error(str(error), can_reload=False)
            finally:
                waiting.delete()

    with ui.row():
        ui.button("Examine the lake", on_click=lambda: examine(deep=False)).props("outline")
        ui.button("Examine all data files", on_click=lambda: examine(deep=True)).props("outline")
    result = ui.column().classes("w-full")
    files = await page.read(file_count, page.client)
    if files <= EXAMINED_FILES:
        await examine(deep=False)
        return
    known: Verdict | None = page.visitors.remembered(page.browser, health_key(page.lake))
    with result:
        if known is not None:
            when = known.time.strftime("%Y-%m-%d %H:%M:%S")
            _show_verdict(known, f" at {when} UTC, snapshot {known.snapshot}")
        ui.label(f"The lake has {files:,} files: examining it takes a while.").props("role=status")


def _show_verdict(known: Verdict, when: str = "") -> None:
    with ui.row().classes(f"items-center gap-2 {SEVERITY_COLOURS.get(known.worst, '')}"):
        icon = ui.icon(HEALTH_ICONS.get(known.worst, "check_circle"), size="sm")
        icon.classes("" if known.worst in HEALTH_ICONS else HEALTHY_COLOUR)
        icon.props("aria-hidden=true")
        ui.label(f"{known.line}{when}").classes("text-lg").props("role=status")


def _show_findings(found: Sequence[dict[str, Any]], known: Verdict) -> None:
    _show_verdict(known)
    if not found:
        return
    table = DataTable(
        ["severity", "where", "what", "effect", "remedy", "examples"],
        list(enumerate(found)),
        _finding,
        key="_number",
        order={"severity": lambda entry: _SEVERITIES.index(entry[1]["severity"])},
    ).table
    table.add_slot(
        "body-cell-severity",
        """<q-td :props="props" :class="props.row._class">{{ props.value }}</q-td>""",
    )


def _finding(entry: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    number, row = entry
    mended = " (lakeport doctor LAKE --repair mends it)" if row["repairable"] else ""
    return {
        "_number": number,
        "_class": SEVERITY_COLOURS.get(row["severity"], ""),
        "severity": row["severity"],
        "where": row["where"],
        "what": row["what"],
        "effect": row["effect"],
        "remedy": f"{row['remedy']}{mended}",
        "examples": ", ".join(row["examples"] or ()),
    }
