"""The page for read-only queries: an editor, a table or a chart of the rows, and exports."""

from __future__ import annotations

import io
import time
from typing import Final

import pyarrow as pa
from nicegui import ui
from pyarrow import csv
from pyarrow import parquet as pq

from lakeport._wording import counted
from lakeport.console.cells import Cells, chart_values, is_number, with_file_types
from lakeport.console.facts import is_lake, snapshot_ids
from lakeport.console.frame import Page, show_error
from lakeport.console.operations import cancel_scans
from lakeport.console.queries import Query, QueryResult
from lakeport.console.widgets import arrow_table, bar_chart
from lakeport.errors import InvalidInputError, LakeportError

__all__ = ["export", "show_query"]

_MAX_ROWS: Final = 1000
_MAX_POINTS: Final = 200
_MEDIA_TYPES: Final = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.file",
}
_KINDS: Final = {"csv": "CSV", "parquet": "Parquet", "arrow": "Arrow"}
_MAX_CHOICES: Final = 200
_NOW: Final = "now"


async def show_query(page: Page, sql: str) -> None:
    """Show the editor. A query reads tables of the lake as the caller may."""
    ui.label(
        "DuckDB's SQL over the tables of this lake. Queries read; they cannot write. "
        "Ctrl+Enter runs a query."
    )
    editor = ui.codemirror(
        sql or "SELECT 42 AS answer", language="SQL", line_wrapping=True, theme="vscodeLight"
    )
    editor.classes("w-full h-40 border border-gray-400").props('aria-label="query"')
    versions = [_NOW]
    if await page.read(is_lake, page.client):
        # A browser does not get ten thousand of them.
        newest = (await page.read(snapshot_ids, page.client))[: -_MAX_CHOICES - 1 : -1]
        versions += [str(id) for id in newest]
    running: list[Query] = []

    async def execute() -> None:
        result.clear()
        try:
            query = Query(page.client, editor.value, version=_version(at.value))
        except LakeportError as error:
            with result:
                show_error(str(error), can_reload=False)
            return
        running[:] = [query]
        run_button.disable()
        started = time.monotonic()
        with result:
            waiting = ui.spinner(size="lg").props('aria-label="running"')
            try:
                answer = await page.read(_run, page, query, max_rows=_MAX_ROWS)
                cells = await page.read(Cells.of, answer.rows)
                seconds = time.monotonic() - started
                _show_result(page, query, cells, seconds, is_cut=answer.is_cut)
            except LakeportError as error:
                show_error(str(error), can_reload=False)
            finally:
                waiting.delete()
                run_button.enable()

    async def cancel() -> None:
        for query in [query for query in running if query.cancel()]:
            try:
                await page.read(cancel_scans, page.client, query.trace_id)
            except LakeportError as error:
                ui.notify(str(error), type="warning")

    with ui.row().classes("items-end"):
        run_button = ui.button("Run", icon="play_arrow", on_click=execute)
        ui.button("Cancel", on_click=cancel).props("flat")
        at = ui.select(
            versions, label="As of snapshot", value=_NOW, new_value_mode="add-unique"
        ).classes("w-48")
    result = ui.column().classes("w-full")

    async def execute_by_key() -> None:
        if run_button.enabled:
            await execute()

    ui.on("run-query", execute_by_key)


def _version(chosen: object) -> int | None:
    """Return a chosen or typed snapshot; None for the newest."""
    text = str(chosen or _NOW).strip()
    if text == _NOW:
        return None
    if not text.isdecimal():
        raise InvalidInputError(f"{text[:40]!r} is no snapshot: choose one, or type its number")
    return int(text)


def _run(page: Page, query: Query, *, max_rows: int | None = None) -> QueryResult:
    with page.visitors.work.cancelled_at_end(query):
        return query.run(max_rows=max_rows)


def _show_result(page: Page, query: Query, cells: Cells, seconds: float, *, is_cut: bool) -> None:
    rows = cells.rows
    first = "the first " if is_cut else ""
    ui.label(f"{first}{counted(rows.num_rows, 'row')} in {seconds:.2f} s").props("role=status")
    buttons = ui.row()
    chart = ui.column().classes("w-full")
    with buttons:
        for kind in _MEDIA_TYPES:
            ui.button(
                f"Save as {_KINDS[kind]}", on_click=lambda _, kind=kind: _save(page, query, kind)
            ).props("flat dense")
        ui.button("Chart", on_click=lambda: _show_chart(page, chart, cells)).props("flat dense")
    arrow_table(cells)


async def _save(page: Page, query: Query, kind: str) -> None:
    """Run the query again without a limit of rows, and send its result as a file."""
    try:
        answer = await page.read(_run, page, query.again())
        content = await page.read(export, answer.rows, kind)
    except LakeportError as error:
        ui.notify(str(error), type="negative")
        return
    if answer.is_cut:
        ui.notify("the result is too large: the file has its beginning", type="warning")
    ui.download.content(content, f"result.{kind}", _MEDIA_TYPES[kind])


def export(rows: pa.Table, kind: str) -> bytes:
    """Return the rows as the bytes of a file."""
    file = io.BytesIO()
    rows = with_file_types(rows, kind)
    if kind == "csv":
        csv.write_csv(rows, file)
    elif kind == "parquet":
        pq.write_table(rows, file)
    else:
        with pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
    return file.getvalue()


async def _show_chart(page: Page, place: ui.column, cells: Cells) -> None:
    """Show the first number of each row by its first column."""
    place.clear()
    schema = cells.rows.schema
    numbers = [index for index, field in enumerate(schema) if is_number(field.type)]
    with place:
        if not numbers or not cells.rows.num_rows:
            ui.label("A chart needs a column of numbers.")
            return
        number = next((index for index in numbers if index), 0)
        values = await page.read(chart_values, cells.rows.slice(0, _MAX_POINTS), number)
        labels = ["NULL" if text is None else text for text in cells.texts[0]]
        name = schema.names[number]
        points = list(zip(labels, values, strict=False))
        bar_chart(f"{name} by {schema.names[0]}", points, unit=name)
