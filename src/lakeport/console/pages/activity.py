"""The page of what the server runs and ran lately, which is read again every second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nicegui import ui

from lakeport._wording import counted, size_text
from lakeport.console.facts import FUNCTIONS, is_lake
from lakeport.console.frame import Page
from lakeport.console.operations import cancel_call
from lakeport.console.widgets import DataTable
from lakeport.errors import LakeportError

__all__ = ["show_activity"]

_SECONDS: Final = 1.0
_SLOW_SECONDS: Final = 5.0
_COLUMNS: Final = ["id", "state", "who", "query", "plan", "seconds", "rows", "size", "note"]

# The pages of the console read the tables about the lake all the time; these change something.
_SHOWN_FUNCTIONS: Final = {
    f"{FUNCTIONS}.{name}"
    for name in (
        *("maintain", "merge_files", "rewrite_files", "flush", "expire_snapshots", "clean_up"),
        *("doctor", "restore", "spark_sql"),
    )
}

Call = dict[str, Any]

_KINDS: Final[dict[str, Callable[[Call], bool]]] = {
    "all": lambda _: True,
    "running": lambda call: call["state"] == "RUNNING",
    "slow": lambda call: call["seconds"] >= _SLOW_SECONDS,
    "failed": lambda call: bool(call["error"]),
}


async def show_activity(page: Page) -> None:
    """Show running and recent queries with their plans; a running one can be cancelled."""
    if not await page.read(is_lake, page.client):
        ui.label("This catalog has no list of queries.")
        return
    ui.label("Running and recent queries, newest first")
    calls = await page.read(_calls, page)
    names = {name: name.capitalize() for name in _KINDS}
    kind = ui.toggle(names, value="all").props('aria-label="which queries"')
    table = DataTable(
        _COLUMNS,
        calls,
        _row,
        key="id",
        order={"size": _bytes, "seconds": lambda call: call["seconds"], "rows": _rows},
        numbers=["seconds", "rows", "size"],
        short=["state", "who"],
    )
    table.table.add_slot(
        "body-cell-id",
        """<q-td :props="props" class="nowrap">{{ props.value }}
             <q-btn v-if="props.row.state == 'running'" flat dense label="cancel" color="negative"
                    @click="$parent.$emit('cancel', props.row.id)" /></q-td>""",
    )
    empty = ui.label("No query has run yet.")
    lost = ui.label("").classes("text-red-700 dark:text-red-400").props("role=status")

    def filtered() -> None:
        chosen = [call for call in calls if _KINDS[kind.value](call)]
        table.set_items(chosen)
        empty.set_visibility(not calls)

    async def refresh() -> None:
        try:
            calls[:] = await page.read(_calls, page)
            filtered()
            lost.set_text("")
        except LakeportError as error:
            lost.set_text(f"not up to date: {error}")

    async def cancel(event: Any) -> None:
        try:
            is_cancelled = await page.read(cancel_call, page.client, str(event.args))
            ended = "was cancelled" if is_cancelled else "had already ended"
            ui.notify(f"the query {ended}")
        except LakeportError as error:
            ui.notify(str(error), type="warning")
        await refresh()

    kind.on_value_change(filtered)
    filtered()
    table.table.on("cancel", cancel)
    ui.timer(_SECONDS, refresh)


def _calls(page: Page) -> list[Call]:
    rows = page.client.table(f"{FUNCTIONS}.queries").scan().to_arrow().to_pylist()
    return [row for row in rows if row["table"] and _is_shown(row["table"])]


def _is_shown(table: str) -> bool:
    return not table.startswith(f"{FUNCTIONS}.") or table in _SHOWN_FUNCTIONS


def _row(call: Call) -> dict[str, Any]:
    return {
        "id": call["id"],
        "state": call["state"].lower(),
        "who": call["identity"],
        "query": _query(call),
        "plan": _plan(call),
        "seconds": f"{call['seconds']:.2f}",
        "rows": f"{_rows(call):,}",
        "size": _moved(call),
        "note": call["error"] or call["progress"],
    }


def _query(call: Call) -> str:
    """Return what is read or changed: `scan of sales.orders at snapshot 4 where …`."""
    what = call["operation"] or ("scan" if call["verb"] == "DoGet" else call["verb"])
    if call["table"] in _SHOWN_FUNCTIONS:
        what = "call"
    at = f" at snapshot {call['snapshot']}" if call["snapshot"] else ""
    where = f" where {call['filter']}" if call["filter"] else ""
    return f"{what} of {call['table']}{at}{where}"


def _plan(call: Call) -> str:
    """Return what a scan reads, and which files it leaves out for which reason."""
    if not call["engine"]:
        return ""
    reasons = [
        f"{call[f'files_pruned_by_{reason}']} left out by {reason}"
        for reason in ("partition", "statistics")
        if call[f"files_pruned_by_{reason}"]
    ]
    pruned = call["files_pruned_by_partition"] + call["files_pruned_by_statistics"]
    files = f"{call['files'] - pruned} of {counted(call['files'], 'file')}"
    left_out = f" ({', '.join(reasons)})" if reasons else ""
    size = size_text(call["bytes_to_read"])
    return f"{files}{left_out}, {counted(call['tasks'], 'task')}, {size}, engine {call['engine']}"


def _rows(call: Call) -> int:
    return int(call["rows_sent"] + call["rows_received"])


def _bytes(call: Call) -> int:
    return int(call["bytes_sent"] + call["bytes_received"])


def _moved(call: Call) -> str:
    """Return the bytes that moved, and for a running call how many a second."""
    size = size_text(_bytes(call))
    if call["state"] != "RUNNING" or not call["seconds"]:
        return size
    return f"{size}, {size_text(int(_bytes(call) / call['seconds']))}/s"
