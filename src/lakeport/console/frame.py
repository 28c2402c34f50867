"""What all pages share: the header with its links, errors in one sentence, tables and charts."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import quote, urlencode

import pyarrow as pa
from nicegui import app, ui

from lakeport.airport.client import Client
from lakeport.console.facts import shown
from lakeport.console.visitors import Visitors
from lakeport.errors import LakeportError, UnauthenticatedError

__all__ = [
    "Page",
    "arrow_table",
    "bar_chart",
    "data_table",
    "fact",
    "frame",
    "line_chart",
    "link_to",
]

_log = logging.getLogger("lakeport.console")

P = ParamSpec("P")
T = TypeVar("T")

_ROWS_PER_PAGE: Final = 25
_NARROW: Final = "w-full max-w-screen-xl mx-auto p-4 gap-4"


class Page:
    """One page of one browser: its lake, and how it reads from the server."""

    def __init__(self, visitors: Visitors, browser: str, lake: str = "") -> None:
        self.visitors = visitors
        self.browser = browser
        self.lake = lake

    @property
    def client(self) -> Client:
        """The client of the page's lake, with the token of the browser."""
        return self.visitors.client(self.browser, self.lake)

    async def read(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function that blocks in a thread."""
        return await self.visitors.work.run(work, *args, **kwargs)

    async def show(self, content: Callable[[Page], Awaitable[None]]) -> None:
        """Show the content of the page, or the reason why there is none."""
        # The browser shows the frame while the content is read.
        await ui.context.client.connected(timeout=30)
        waiting = ui.spinner(size="lg").props('aria-label="loading"')
        try:
            if self.lake:
                await self.read(self.client.refresh)
            await content(self)
        except UnauthenticatedError:
            self.visitors.leave(self.browser)
            ui.navigate.to("/sign-in")
        except LakeportError as error:
            show_error(str(error))
        except Exception:  # noqa: BLE001
            _log.exception("a page of the console failed")
            show_error("the page could not be shown: the server's log has the reason")
        finally:
            waiting.delete()


@contextmanager
def frame(visitors: Visitors, title: str, *, lake: str = "") -> Iterator[Page]:
    """Show header and title of a page; yield the page for its content."""
    browser = str(app.storage.browser["id"])
    page = Page(visitors, browser, lake)
    dark = ui.dark_mode(value=None)
    with ui.header().classes("items-center gap-2 bg-slate-800"):
        ui.link("Lakeport", "/").classes("text-white text-lg font-bold no-underline")
        if lake:
            ui.link(lake, lake_path(lake)).classes("text-white no-underline font-mono")
            with ui.element("nav").classes("flex gap-3").props('aria-label="pages of the lake"'):
                for name in ("History", "Query", "Activity", "Access"):
                    path = f"{lake_path(lake)}/{name.lower()}"
                    ui.link(name, path).classes("text-white no-underline")
        ui.space()
        ui.button(icon="contrast", on_click=lambda: dark.set_value(not dark.value)).props(
            'flat round color=white aria-label="dark or light"'
        )
        if visitors.server.needs_token:
            ui.button("Sign out", on_click=lambda: _sign_out(page)).props("flat color=white")
    with ui.column().classes(_NARROW):
        if not visitors.is_known(browser):
            ui.navigate.to("/sign-in")
        ui.label(title).classes("text-2xl font-semibold break-all").props(
            "role=heading aria-level=1"
        )
        yield page


def _sign_out(page: Page) -> None:
    page.visitors.leave(page.browser)
    ui.navigate.to("/sign-in")


def show_error(sentence: str) -> None:
    """Show why something cannot be shown."""
    with ui.card().classes("border-l-4 border-red-600 w-full").props("role=alert"):
        ui.label(sentence).classes("break-words")
        ui.button("Try again", on_click=ui.navigate.reload).props("flat dense")


def lake_path(lake: str) -> str:
    """Return the address of the page of a lake."""
    return f"/lake/{quote(lake, safe='')}"


def link_to(lake: str, schema: str, table: str) -> str:
    """Return the address of the page of a table."""
    # Names may have slashes, which a path cannot have.
    return f"{lake_path(lake)}/table?{urlencode({'schema': schema, 'name': table})}"


def fact(name: str, value: object) -> None:
    """Show one fact with its name."""
    with ui.card().classes("p-3 gap-0"):
        ui.label(shown(value)).classes("text-xl font-semibold")
        ui.label(name).classes("text-sm text-gray-500")


def data_table(
    columns: Sequence[str], rows: Sequence[dict[str, Any]], *, key: str | None = None
) -> ui.table:
    """Show rows with a search field, in pages. Values are shown as text."""
    search = ui.input("Search").props("dense clearable").classes("w-64")
    table = ui.table(
        columns=[
            {"name": name, "label": name, "field": name, "sortable": True, "align": "left"}
            for name in columns
        ],
        rows=list(rows),
        row_key=key or columns[0],
        pagination=_ROWS_PER_PAGE,
    ).classes("w-full")
    search.bind_value_to(table, "filter")
    return table


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
    """Show a line; a table with the same numbers is its description for screen readers."""
    _chart(title, points, unit=unit, kind="line")


def bar_chart(title: str, points: Sequence[tuple[object, float]], *, unit: str) -> None:
    """Show bars."""
    _chart(title, points, unit=unit, kind="bar")


def _chart(title: str, points: Sequence[tuple[object, float]], *, unit: str, kind: str) -> None:
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
