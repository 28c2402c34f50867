"""Facts, tables and charts of pages. A browser gets one page of a table's rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Generic, TypeVar

from nicegui import ui

from lakeport.console.cells import Cells, is_number, shown
from lakeport.console.look import CHART_COLOUR, CHART_TEXT

__all__ = [
    "DataTable",
    "arrow_table",
    "bar_chart",
    "counted_fact",
    "fact",
    "heading",
    "line_chart",
    "searched_select",
]

T = TypeVar("T")
Row = dict[str, Any]
Points = Sequence[tuple[object, float | None]]
"""Names and numbers; a chart has a gap where there is no number."""

_ROWS_PER_PAGE: Final = 25
_FEW_ROWS: Final = 10
"""So many need neither pages nor a search field."""
_MAX_ROWS_PER_PAGE: Final = 100
_MAX_POINTS: Final = 400
_MAX_SYMBOLS: Final = 40
_MAX_CHOICES: Final = 50
# In Vue's language: rows may have a colour, and NULL differs from the text NULL.
_ARROW_ROW: Final = """
<q-tr :props="props" :class="props.row._class">
  <q-td v-for="c in props.cols" :key="c.name" :props="props">
    <span v-if="c.value === null" class="null">NULL</span>
    <template v-else>{{ c.value }}</template>
  </q-td>
</q-tr>"""

_AXIS: Final = {
    "axisLabel": {"color": CHART_TEXT},
    "nameTextStyle": {"color": CHART_TEXT},
    "splitLine": {"lineStyle": {"color": "rgba(128, 128, 128, 0.3)"}},
}


def fact(name: str, value: str) -> None:
    """Show one fact with its name."""
    with ui.card().classes("p-3 gap-0"):
        ui.label(shown(value)).classes("text-xl font-semibold")
        ui.label(name).classes("text-sm text-gray-600 dark:text-gray-400")


def counted_fact(number: int, noun: str) -> None:
    """Show how many things there are."""
    fact(noun if number == 1 else f"{noun}s", f"{number:,}")


def heading(text: str) -> None:
    """Show the heading of a part of a page."""
    ui.label(text).classes("text-xl").props("role=heading aria-level=2")


def searched_select(label: str, names: Sequence[str], *, chosen: int = 0) -> ui.select:
    """Return a choice of one of many names; its value is the name's position.

    A browser gets a few names, and others that have the text which is typed.
    """
    select = ui.select(_choices(names, "", chosen), label=label, value=chosen, with_input=True)

    def find(text: object) -> None:
        is_chosen = select.value is not None and text == names[select.value]
        # A field that is clicked sends the chosen name.
        typed = "" if is_chosen else str(text or "").strip().lower()
        found = _choices(names, typed, select.value)
        # The list of options closes when it gets others.
        if found != select.options:
            select.set_options(found)

    select.on("input-value", lambda event: find(event.args))
    select.props("input-debounce=200").classes("w-64")
    if len(names) > _MAX_CHOICES:
        select.props["hint"] = f"type to search {len(names):,} of them"
    return select


def _choices(names: Sequence[str], text: str, chosen: int | None) -> dict[int, str]:
    """Return some names that have the text, and the chosen one, which must stay an option."""
    found = [index for index, name in enumerate(names) if text in name.lower()][:_MAX_CHOICES]
    if chosen is not None and chosen not in found:
        found.append(chosen)
    return {index: names[index] for index in found}


class DataTable(Generic[T]):
    """Items as rows of text, with a search field, in pages.

    Args:
        columns: The names of the columns; a pair is the field of a row, and its heading.
        items: What the rows show.
        show: Returns the row of an item: a value for each column, and others for slots.
        key: The column whose values are unique; the first by default.
        order: How columns are sorted whose text has another order, such as sizes.
        numbers: Columns of numbers, which are aligned at the right.
        short: Other columns whose text is kept in one line.
    """

    def __init__(
        self,
        columns: Sequence[str | tuple[str, str]],
        items: Sequence[T],
        show: Callable[[T], Row],
        *,
        key: str | None = None,
        order: Mapping[str, Callable[[T], Any]] | None = None,
        numbers: Collection[str] = (),
        short: Collection[str] = (),
    ) -> None:
        self._items = items
        self._show = show
        self._order = dict(order or {})
        self._state: dict[str, Any] = {"page": 1, "rowsPerPage": _ROWS_PER_PAGE}
        self._search = ""
        pairs = [(each, each) if isinstance(each, str) else each for each in columns]
        self._names = [name for name, _ in pairs]
        self._field = ui.input("Search", on_change=lambda event: self._find(event.value))
        self._field.props("dense clearable debounce=300").classes("w-64")
        self.table = ui.table(
            columns=[
                {
                    "name": name,
                    "label": label,
                    "field": name,
                    "sortable": True,
                    "align": "right" if name in numbers else "left",
                    "classes": "nowrap" if name in numbers or name in short else "",
                }
                for name, label in pairs
            ],
            rows=[],
            row_key=key or pairs[0][0],
            pagination=self._state,
        ).classes("w-full")
        self.table.props(f":rows-per-page-options='[10, {_ROWS_PER_PAGE}, {_MAX_ROWS_PER_PAGE}]'")
        self.table.props('rows-per-page-label="Rows per page:" no-data-label="nothing is found"')
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
        is_long = len(self._items) > _FEW_ROWS
        self._field.set_visibility(is_long or bool(self._search))
        self.table.props["hide-pagination"] = not is_long
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
        row = self._show(item)
        values = (row.get(name) for name in self._names)
        return any(value is not None and text in str(value).lower() for value in values)

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
        return (1, found) if isinstance(found, int | float | Decimal) else (2, str(found))

    return key


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def arrow_table(cells: Cells, *, classes: Sequence[str] = ()) -> None:
    """Show the rows of an Arrow table; two columns may have one name.

    `classes` are those of the rows, for tables whose rows have colours.
    """
    schema = cells.rows.schema
    names = [str(index) for index in range(len(schema))]

    def show(row: int) -> Row:
        texts = {name: column[row] for name, column in zip(names, cells.texts, strict=True)}
        return {"_row": row, "_class": classes[row] if classes else "", **texts}

    table = DataTable(
        list(zip(names, schema.names, strict=True)),
        range(cells.rows.num_rows),
        show,
        key="_row",
        order={name: _rank(cells, index) for index, name in enumerate(names)},
        numbers=[name for name in names if is_number(schema.field(int(name)).type)],
    )
    table.table.add_slot("body", _ARROW_ROW)


def _rank(cells: Cells, column: int) -> Callable[[int], int]:
    return lambda row: cells.ranks[column][row]


def line_chart(title: str, points: Points, *, unit: str) -> None:
    """Show numbers by snapshot; the description has the same numbers for screen readers."""
    _chart(title, points, unit=unit, kind="line", axis="snapshot")


def bar_chart(title: str, points: Points, *, unit: str) -> None:
    """Show bars."""
    _chart(title, points, unit=unit, kind="bar", axis="")


def _chart(title: str, points: Points, *, unit: str, kind: str, axis: str) -> None:
    # More points than pixels: every so many of them, and the last.
    step = -(-len(points) // _MAX_POINTS) if points else 1
    points = points[::-1][::step][::-1]
    description = f"{title}: " + ", ".join(
        f"{x} no number" if y is None else f"{x} {y:g}" for x, y in points[:50]
    )
    ui.echart(
        {
            "animation": False,
            "title": {"text": title, "textStyle": {"fontSize": 14, "color": CHART_TEXT}},
            # Names of a lake are not HTML.
            "tooltip": {"trigger": "axis", "renderMode": "richText"},
            "color": [CHART_COLOUR],
            "grid": {"left": 70, "right": 20, "top": 60, "bottom": 48},
            "xAxis": {
                "type": "category",
                "data": [str(x) for x, _ in points],
                "name": axis,
                "nameLocation": "middle",
                "nameGap": 28,
                **_AXIS,
            },
            "yAxis": {
                "type": "value",
                "name": unit,
                # Rows and files are whole numbers.
                "minInterval": 1 if all(y is None or y == int(y) for _, y in points) else 0,
                **_AXIS,
            },
            "series": [
                {
                    "type": kind,
                    "data": [y for _, y in points],
                    "areaStyle": {"opacity": 0.2},
                    "showSymbol": len(points) <= _MAX_SYMBOLS,
                    "barMaxWidth": 72,
                }
            ],
        }
    ).classes("w-full h-64").props("role=img").props["aria-label"] = description
