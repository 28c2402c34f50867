"""Facts, tables and charts of pages. A browser gets one page of a table's rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa
from nicegui import ui

from lakeport.console.facts import shown

__all__ = ["DataTable", "arrow_table", "bar_chart", "fact", "line_chart"]

T = TypeVar("T")
Row = dict[str, Any]

_ROWS_PER_PAGE: Final = 25
_MAX_ROWS_PER_PAGE: Final = 100
_MAX_POINTS: Final = 400


def fact(name: str, value: object) -> None:
    """Show one fact with its name."""
    with ui.card().classes("p-3 gap-0"):
        ui.label(shown(value)).classes("text-xl font-semibold")
        ui.label(name).classes("text-sm text-gray-500 dark:text-gray-400")


class DataTable(Generic[T]):
    """Items as rows of text, with a search field, in pages.

    Args:
        columns: The names of the columns.
        items: What the rows show.
        show: Returns the row of an item: a value for each column, and others for slots.
        key: The column whose values are unique; the first by default.
        order: How columns are sorted whose text has another order, such as sizes.
    """

    def __init__(
        self,
        columns: Sequence[str],
        items: Sequence[T],
        show: Callable[[T], Row],
        *,
        key: str | None = None,
        order: Mapping[str, Callable[[T], Any]] | None = None,
    ) -> None:
        self._items = items
        self._show = show
        self._order = dict(order or {})
        self._state: dict[str, Any] = {"page": 1, "rowsPerPage": _ROWS_PER_PAGE}
        self._search = ""
        search = ui.input("Search", on_change=lambda event: self._find(event.value))
        search.props("dense clearable debounce=300").classes("w-64")
        self.table = ui.table(
            columns=[
                {"name": name, "label": name, "field": name, "sortable": True, "align": "left"}
                for name in columns
            ],
            rows=[],
            row_key=key or columns[0],
            pagination=self._state,
        ).classes("w-full")
        self.table.props(f":rows-per-page-options='[10, {_ROWS_PER_PAGE}, {_MAX_ROWS_PER_PAGE}]'")
        self.table.on("request", lambda event: self._request(event.args))
        self.refresh()

    def set_items(self, items: Sequence[T]) -> None:
        """Show other items, on the same page with the same search."""
        self._items = items
        self.refresh()

    def refresh(self) -> None:
        """Send the rows of the page that is open."""
        found = self._found()
        size = self._state["rowsPerPage"]
        last = max(1, -(-len(found) // size))
        page = self._state["page"] = min(self._state["page"], last)
        self.table.pagination = {**self._state, "rowsNumber": len(found)}
        self.table.rows = [self._show(item) for item in found[(page - 1) * size : page * size]]
        self.table.update()

    def _found(self) -> Sequence[T]:
        """Return the items that have the searched text, in the chosen order."""
        items = self._items
        if self._search:
            items = [item for item in items if self._has(item, self._search)]
        column = self._state.get("sortBy")
        if not column:
            return items
        value = self._order.get(column, lambda item: self._show(item).get(column))
        return sorted(items, key=_sortable(value), reverse=bool(self._state.get("descending")))

    def _has(self, item: T, text: str) -> bool:
        return any(text in str(value).lower() for value in self._show(item).values())

    def _find(self, text: str | None) -> None:
        self._search, self._state["page"] = (text or "").strip().lower(), 1
        self.refresh()

    def _request(self, args: Mapping[str, Any]) -> None:
        """Open the page that a browser asks for; its numbers may be anything."""
        wanted = args.get("pagination") or {}
        size = _whole(wanted.get("rowsPerPage")) or _MAX_ROWS_PER_PAGE
        self._state = {
            "page": max(1, _whole(wanted.get("page"))),
            "rowsPerPage": max(1, min(size, _MAX_ROWS_PER_PAGE)),
            "sortBy": wanted.get("sortBy"),
            "descending": bool(wanted.get("descending")),
        }
        self.refresh()


def _sortable(value: Callable[[T], Any]) -> Callable[[T], Any]:
    """Return a key that sorts values of several types: nothing, then numbers, then text."""

    def key(item: T) -> tuple[int, Any]:
        found = value(item)
        if found is None or found == "":
            return 0, 0
        return (1, found) if isinstance(found, int | float) else (2, str(found))

    return key


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def arrow_table(rows: pa.Table) -> ui.table:
    """Show the rows of an Arrow table as text; two columns may have one name."""
    names = [str(index) for index in range(rows.num_columns)]
    values = [[shown(value) for value in _values(column)] for column in rows.columns]
    return ui.table(
        columns=[
            {"name": name, "label": label, "field": name, "align": "left"}
            for name, label in zip(names, rows.column_names, strict=True)
        ],
        rows=[
            {"_row": index, **dict(zip(names, row, strict=True))}
            for index, row in enumerate(zip(*values, strict=True))
        ],
        row_key="_row",
        pagination=_ROWS_PER_PAGE,
    ).classes("w-full")


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError):
        # A date outside of Python's range.
        return [str(value) for value in column]


def line_chart(title: str, points: Sequence[tuple[object, float]], *, unit: str) -> None:
    """Show a line; its description has the same numbers for screen readers."""
    _chart(title, points, unit=unit, kind="line")


def bar_chart(title: str, points: Sequence[tuple[object, float]], *, unit: str) -> None:
    """Show bars."""
    _chart(title, points, unit=unit, kind="bar")


def _chart(title: str, points: Sequence[tuple[object, float]], *, unit: str, kind: str) -> None:
    # More points than pixels: every so many of them, and the last.
    step = -(-len(points) // _MAX_POINTS) if points else 1
    points = points[::-1][::step][::-1]
    description = f"{title}: " + ", ".join(f"{x} {y:g}" for x, y in points[:50])
    ui.echart(
        {
            "animation": False,
            "title": {"text": title, "textStyle": {"fontSize": 14}},
            # Names of a lake are not HTML.
            "tooltip": {"trigger": "axis", "renderMode": "richText"},
            "grid": {"left": 70, "right": 20, "bottom": 40},
            "xAxis": {"type": "category", "data": [str(x) for x, _ in points]},
            "yAxis": {"type": "value", "name": unit},
            "series": [{"type": kind, "data": [y for _, y in points], "areaStyle": {}}],
        }
    ).classes("w-full h-64").props("role=img").props["aria-label"] = description
