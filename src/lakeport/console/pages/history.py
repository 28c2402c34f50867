"""The page of a lake's snapshots, and of the differences between two of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from nicegui import ui

from lakeport._wording import counted
from lakeport.console.cells import Cells
from lakeport.console.facts import (
    changed_rows,
    restore_table,
    schema_differences,
    tables,
)
from lakeport.console.frame import Page, show_error
from lakeport.console.timeline import ObjectNames, SnapshotFacts, object_names, snapshots
from lakeport.console.widgets import DataTable, arrow_table, heading, searched_select
from lakeport.errors import LakeportError, NotFoundError
from lakeport.types import duckdb_identifier

__all__ = ["show_history"]

_MAX_CHANGES: Final = 5000
_MAX_CHOICES: Final = 200
_MAX_NAMES: Final = 20
_COLUMNS: Final = ["snapshot", "time (UTC)", "author", "message", "rows", "files", "changes"]
_ORDER: Final[dict[str, Callable[[SnapshotFacts], int]]] = {
    "rows": lambda snapshot: snapshot.rows_added - snapshot.rows_removed,
    "files": lambda snapshot: snapshot.files_added - snapshot.files_removed,
}
_CHANGES_OF_ROWS: Final = (
    *("tables_inserted_into", "tables_deleted_from"),
    *("inlined_insert", "inlined_delete"),
)
_COLOURS: Final = {
    "insert": "bg-green-100 dark:bg-green-900",
    "delete": "bg-red-100 dark:bg-red-900",
    "update_preimage": "bg-amber-50 dark:bg-amber-950",
    "update_postimage": "bg-amber-100 dark:bg-amber-900",
}


async def show_history(page: Page) -> None:
    """Show the snapshots, newest first, and compare two of them."""
    names = await page.read(object_names, page.client)
    history = await page.read(snapshots, page.client, names)
    if not history:
        ui.label("The lake has no snapshot.")
        return
    DataTable(
        _COLUMNS,
        history[::-1],
        _row,
        order=_ORDER,
        numbers=["rows", "files"],
        short=["snapshot", "time (UTC)"],
    )
    listed = await page.read(tables, page.client)
    choices = [(t.schema, t.name) for t in listed if t.kind == "BASE TABLE"]
    if choices and len(history) > 1:
        _show_comparison(page, history, choices, names)


def _row(snapshot: SnapshotFacts) -> dict[str, Any]:
    changes = "; ".join(
        f"{kind.replace('_', ' ')}: {', '.join(names)}" for kind, names in snapshot.changes
    )
    return {
        "snapshot": snapshot.id,
        "time (UTC)": snapshot.time.strftime("%Y-%m-%d %H:%M:%S"),
        "author": snapshot.author,
        "message": snapshot.message,
        "rows": _change(snapshot.rows_added, snapshot.rows_removed),
        "files": _change(snapshot.files_added, snapshot.files_removed),
        "changes": changes,
    }


def _change(added: int, removed: int) -> str:
    """Return numbers of added and removed things: `+12 -3`."""
    return " ".join(
        f"{sign}{number:,}" for sign, number in (("+", added), ("-", removed)) if number
    )


def _show_comparison(
    page: Page,
    history: list[SnapshotFacts],
    choices: list[tuple[str, str]],
    objects: ObjectNames,
) -> None:
    ids = [snapshot.id for snapshot in reversed(history)]
    chosen, last = _newest_change(history, choices)
    # Others are typed: a browser does not get ten thousand of them.
    newest = ids[:_MAX_CHOICES]
    heading("Compare two snapshots")
    with ui.row().classes("items-end"):
        names = [f"{schema}.{name}" for schema, name in choices]
        table = searched_select("Table", names, chosen=chosen)
        before, after = (
            ui.select(
                newest, label=label, value=value, with_input=True, new_value_mode="add-unique"
            )
            for label, value in (("From", ids[last + 1]), ("To", ids[last]))
        )
        compare_button = ui.button("Compare")
    result = ui.column().classes("w-full")

    async def compare() -> None:
        result.clear()
        schema, name = choices[table.value]
        with result:
            try:
                first, last = sorted(_snapshot(each.value, ids) for each in (before, after))
                _show_differences(objects.differences(first, last))
                await _compare(page, schema, name, first, last)
            except LakeportError as error:
                show_error(str(error), can_reload=False)

    compare_button.on_click(compare)


def _newest_change(history: list[SnapshotFacts], choices: list[tuple[str, str]]) -> tuple[int, int]:
    """Return the table whose rows changed last, and how many snapshots ago."""
    places = {f"{schema}.{name}": place for place, (schema, name) in enumerate(choices)}
    for age, snapshot in enumerate(history[:0:-1][: _MAX_CHOICES - 1]):
        for kind, names in snapshot.changes:
            if kind in _CHANGES_OF_ROWS and names and names[0] in places:
                return places[names[0]], age
    return 0, 0


def _snapshot(value: object, ids: list[int]) -> int:
    """Return a chosen or typed snapshot."""
    text = str(value).strip()
    if not text.isdigit() or int(text) not in ids:
        raise NotFoundError(f"there is no snapshot {text[:40]!r} in the history")
    return int(text)


def _show_differences(differences: list[tuple[str, list[str]]]) -> None:
    """Show which tables, views and schemas were created, dropped or renamed."""
    if not differences:
        return
    with ui.column().classes("gap-1").props("role=list"):
        for what, names in differences:
            more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
            line = f"{what}: {', '.join(names[:_MAX_NAMES])}{more}"
            ui.label(line).props("role=listitem")


async def _compare(page: Page, schema: str, name: str, first: int, last: int) -> None:
    query = f"FROM {duckdb_identifier(schema)}.{duckdb_identifier(name)} AT (VERSION => {first})"
    with ui.row().classes("items-center"):
        ui.label(query).classes("font-mono break-all")
        ui.button(icon="content_copy", on_click=lambda: ui.clipboard.write(query)).props(
            'flat round dense aria-label="copy the query"'
        )
        _show_restore(page, schema, name, first)
    columns = await page.read(schema_differences, page.client, schema, name, first, last)
    for column, then, now in columns:
        was, is_now = then or "not there", now or "not there"
        ui.label(f"column {column}: {was} → {is_now}")
    rows = await page.read(
        changed_rows, page.client, schema, name, first, last, limit=_MAX_CHANGES + 1
    )
    more = " (the first ones)" if rows.num_rows > _MAX_CHANGES else ""
    ui.label(f"{counted(min(rows.num_rows, _MAX_CHANGES), 'change')} of rows{more}").props(
        "role=status"
    )
    if rows.num_rows:
        cells = await page.read(Cells.of, rows.slice(0, _MAX_CHANGES))
        arrow_table(cells, classes=_row_classes(cells.rows))


def _show_restore(page: Page, schema: str, name: str, version: int) -> None:
    """Show a button that restores the table, after a confirmation."""

    async def restore() -> None:
        dialog.close()
        try:
            await page.read(restore_table, page.client, schema, name, version)
        except LakeportError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return
        ui.notify(f"{schema}.{name} has the rows of snapshot {version} again")
        ui.navigate.reload()

    with ui.dialog() as dialog, ui.card():
        ui.label(f"Give {schema}.{name} the columns and rows of snapshot {version}?")
        ui.label("This makes a new snapshot. The present rows stay in the history.")
        with ui.row():
            ui.button("Restore", on_click=restore).props("color=negative")
            ui.button("Keep as it is", on_click=dialog.close).props("flat")
    ui.button(f"Restore snapshot {version}", on_click=dialog.open).props("flat dense")


def _row_classes(rows: pa.Table) -> list[str]:
    """Return the colours of rows that were inserted, deleted or updated."""
    kinds = rows["change_type"].to_pylist() if "change_type" in rows.column_names else []
    return [_COLOURS.get(kind, "") for kind in kinds]
