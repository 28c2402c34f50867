"""The page of what the server runs and ran lately, which is read again every second."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from lakeport._wording import size_text
from lakeport.console.facts import FUNCTIONS, is_lake
from lakeport.console.frame import Page, data_table
from lakeport.errors import LakeportError

__all__ = ["show_activity"]

_SECONDS = 1.0
_COLUMNS = [
    "id", "state", "who", "what", "table", "snapshot", "filter", "seconds", "rows", "size", "error",
]  # fmt: skip


async def show_activity(page: Page) -> None:
    """Show running and recent queries; a running one can be cancelled."""
    if not await page.read(is_lake, page.client):
        ui.label("This catalog has no list of queries.")
        return
    ui.label("Running and recent queries, newest first")
    table = data_table(_COLUMNS, await page.read(_calls, page), key="id")
    table.add_slot(
        "body-cell-id",
        """<q-td :props="props">{{ props.value }}
             <q-btn v-if="props.row.state == 'RUNNING'" flat dense label="cancel" color="negative"
                    @click="$parent.$emit('cancel', props.row.id)" /></q-td>""",
    )
    lost = ui.label("").classes("text-red-600").props("role=status")

    async def refresh() -> None:
        try:
            table.rows = await page.read(_calls, page)
            table.update()
            lost.set_text("")
        except LakeportError as error:
            lost.set_text(f"not up to date: {error}")

    async def cancel(event: Any) -> None:
        try:
            await page.read(_cancel, page, str(event.args))
            ui.notify("the query was cancelled")
        except LakeportError as error:
            ui.notify(str(error), type="warning")
        await refresh()

    table.on("cancel", cancel)
    ui.timer(_SECONDS, refresh)


def _calls(page: Page) -> list[dict[str, Any]]:
    rows = page.client.table(f"{FUNCTIONS}.queries").scan().to_arrow().to_pylist()
    return [
        {
            "id": row["id"],
            "state": row["state"],
            "who": row["identity"],
            "what": row["operation"] or ("scan" if row["verb"] == "DoGet" else row["verb"]),
            "table": row["table"],
            "snapshot": row["snapshot"],
            "filter": row["filter"],
            "seconds": f"{row['seconds']:.2f}",
            "rows": row["rows_sent"] + row["rows_received"],
            "size": size_text(row["bytes_sent"] + row["bytes_received"]),
            "error": row["error"],
        }
        for row in rows
        # The pages of the console read the tables about the lake all the time.
        if row["table"] and not row["table"].startswith(f"{FUNCTIONS}.")
    ]


def _cancel(page: Page, id: str) -> None:
    page.client.call_table(f"{FUNCTIONS}.kill", id).to_arrow()
