"""The page of one table: columns, rows, files, and how many rows it had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode

from nicegui import ui

from lakeport._wording import counted, size_text
from lakeport.console.cells import Cells
from lakeport.console.facts import (
    ColumnFacts,
    FileFacts,
    column_facts,
    file_facts,
    is_table_of_lake,
    layout,
    partitions,
    row_counts,
    sample,
)
from lakeport.console.frame import Page, lake_path, show_error
from lakeport.console.widgets import (
    DataTable,
    arrow_table,
    bar_chart,
    counted_fact,
    fact,
    heading,
    line_chart,
)
from lakeport.errors import LakeportError
from lakeport.types import duckdb_identifier

__all__ = ["show_table"]

_MAX_PARTITIONS: Final = 100
_NULLS: Final = {None: "", True: "has NULL", False: "no NULL"}
_LAYOUT: Final = {
    "partitioned by": "Partitioned by",
    "sorted by": "Sorted by",
    "option": "Options",
}


async def show_table(page: Page, schema: str, name: str) -> None:
    """Show everything about a table, in tabs; each is read when it is opened."""
    table = await page.read(lambda: page.client.table(name, schema=schema))
    if table.comment:
        ui.label(table.comment)
    path = f"{duckdb_identifier(schema)}.{duckdb_identifier(name)}"
    with ui.row().classes("items-center"):
        ui.label(f"FROM {path}").classes("font-mono break-all")
        ui.button(icon="content_copy", on_click=lambda: ui.clipboard.write(f"FROM {path}")).props(
            'flat round dense aria-label="copy the query"'
        )
        query = f"{lake_path(page.lake)}/query?{urlencode({'sql': f'FROM {path}'})}"
        ui.button("Query", on_click=lambda: ui.navigate.to(query)).props("flat dense")
    shown: set[str] = set()
    names = ["Columns", "Rows"]
    if await page.read(is_table_of_lake, page.client, schema, name):
        names += ["Files", "Layout", "History"]
    with ui.tabs().classes("w-full").props("align=left") as tabs:
        for each in names:
            ui.tab(each)
    panels = {}
    with ui.tab_panels(tabs, value="Columns").classes("w-full bg-transparent"):
        for each in names:
            with ui.tab_panel(each).classes("px-1"):
                panels[each] = ui.column().classes("w-full")
    contents = {
        "Columns": _columns,
        "Rows": _rows,
        "Files": _files,
        "Layout": _layout,
        "History": _history,
    }

    async def open_tab(tab: str) -> None:
        if tab in shown:
            return
        shown.add(tab)
        with panels[tab]:
            waiting = ui.spinner(size="lg").props('aria-label="reading"')
            try:
                await contents[tab](page, schema, name)
            except LakeportError as error:
                show_error(str(error))
            finally:
                waiting.delete()

    tabs.on_value_change(lambda event: open_tab(event.value))
    await open_tab("Columns")


async def _columns(page: Page, schema: str, name: str) -> None:
    found = await page.read(column_facts, page.client, schema, name)
    DataTable(
        ["column", "type", "null", "default", "min", "max", "comment"],
        found,
        lambda column: {
            "column": column.name,
            "type": column.type,
            "null": _nulls(column),
            "default": column.default,
            "min": column.min,
            "max": column.max,
            "comment": column.comment,
        },
        short=["null"],
    )


def _nulls(column: ColumnFacts) -> str:
    """Return whether a column has NULL, and how much of it is."""
    if not column.nullable:
        return "NOT NULL"
    if column.null_share is None:
        return _NULLS[column.has_null]
    return f"{column.null_share:.1%} NULL" if column.null_share else "no NULL"


async def _rows(page: Page, schema: str, name: str) -> None:
    rows = await page.read(sample, page.client, schema, name)
    cells = await page.read(Cells.of, rows)
    ui.label(f"the first {counted(rows.num_rows, 'row')}")
    arrow_table(cells)


async def _files(page: Page, schema: str, name: str) -> None:
    files = await page.read(file_facts, page.client, schema, name)
    with ui.row():
        counted_fact(len(files), "file")
        fact("size", size_text(sum(file.bytes for file in files)))
        fact("with deletes", f"{sum(file.delete_bytes is not None for file in files):,}")
    if not files:
        ui.label("There are no files: the rows, if there are any, are in the catalog database.")
        return
    with_deletes = [file for file in files if file.delete_bytes is not None]
    bar_chart("Files by size", _size_classes(files), unit="files")
    if with_deletes:
        bar_chart("Files with deletes, by size", _size_classes(with_deletes), unit="files")
    parts = await page.read(partitions, page.client, schema, name)
    if parts:
        first = f", the first {_MAX_PARTITIONS:,}" if len(parts) > _MAX_PARTITIONS else ""
        title = f"Files of {counted(len(parts), 'partition')}{first}"
        bar_chart(title, parts[:_MAX_PARTITIONS], unit="files")
    DataTable(
        ["file", "size", "deletes"],
        files,
        lambda file: {
            "file": file.path,
            "size": size_text(file.bytes),
            "deletes": "" if file.delete_bytes is None else size_text(file.delete_bytes),
        },
        order={"size": lambda file: file.bytes, "deletes": lambda file: file.delete_bytes},
        numbers=["size", "deletes"],
    )


def _size_classes(files: Sequence[FileFacts]) -> list[tuple[object, float]]:
    """Return the number of files in classes that grow by a factor of four."""
    counts: dict[int, int] = {}
    for file in files:
        power = max(0, (max(file.bytes, 1).bit_length() - 1) // 2)
        counts[power] = counts.get(power, 0) + 1
    powers = range(min(counts), max(counts) + 1)
    return [(_size_class(4**power, 4 ** (power + 1)), counts.get(power, 0)) for power in powers]


def _size_class(low: int, high: int) -> str:
    """Return the bounds of a class: `4 to 16 KiB`, `256 KiB to 1 MiB`."""
    least, most = (size_text(size).replace(".0 ", " ") for size in (low, high))
    number, _, unit = least.partition(" ")
    return f"{number if most.endswith(f' {unit}') else least} to {most}"


async def _layout(page: Page, schema: str, name: str) -> None:
    found = await page.read(layout, page.client, schema, name)
    if found is None:
        ui.label("You may not see the layout of this table.")
        return
    for kind, title in _LAYOUT.items():
        heading(title)
        listed = [(key, value) for each, key, value in found if each == kind]
        if not listed:
            ui.label("none")
        for key, value in listed:
            ui.label(f"{key}: {value}").classes("font-mono break-all")


async def _history(page: Page, schema: str, name: str) -> None:
    counts = await page.read(row_counts, page.client, schema, name)
    if not counts:
        ui.label("No snapshot has changed the rows of this table.")
        return
    line_chart("Rows by snapshot", counts, unit="rows")
