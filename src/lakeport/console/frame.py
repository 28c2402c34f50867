"""What all pages share: the header with its links, and errors in one sentence."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, ParamSpec, TypeVar
from urllib.parse import quote, urlencode

from nicegui import app, ui

from lakeport.airport.client import Client
from lakeport.console.look import apply_look
from lakeport.console.visitors import Visitors
from lakeport.errors import LakeportError, UnauthenticatedError

__all__ = ["Page", "frame", "lake_path", "link_to", "show_error"]

_log = logging.getLogger("lakeport.console")

P = ParamSpec("P")
T = TypeVar("T")

_BROWSER_SECONDS: Final = 30.0
_DARK: Final = {"yes": True, "no": False}
_NARROW: Final = "w-full max-w-screen-xl mx-auto p-4 gap-4"
_NAV: Final = "flex gap-x-3 sm:gap-x-4 order-last w-full sm:order-none sm:w-auto sm:ml-4"


class Page:
    """One page of one browser: its lake, and how it reads from the server."""

    def __init__(self, visitors: Visitors, browser: str, lake: str = "") -> None:
        self.visitors = visitors
        self.browser = browser
        self.lake = lake
        self.dark: ui.dark_mode | None = None
        self._address = _requested_address()

    @property
    def client(self) -> Client:
        """The client of the page's lake, with the token of the browser."""
        return self.visitors.client(self.browser, self.lake)

    async def read(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function that blocks in a thread."""
        return await self.visitors.work.run(work, *args, **kwargs)

    async def show(self, content: Callable[[Page], Awaitable[None]]) -> None:
        """Show the content of the page, or the reason why there is none."""
        if not self.visitors.is_known(self.browser):
            self.ask_to_sign_in()
            return
        # The browser shows the frame and this while the content is read.
        waiting = ui.spinner(size="lg").props('aria-label="loading"')
        try:
            await self._wait_for_browser()
        except TimeoutError:
            return  # it has left, or runs no scripts
        try:
            if self.lake:
                await self.read(self.client.refresh)
            await content(self)
        except UnauthenticatedError:
            self.visitors.leave(self.browser)
            self.ask_to_sign_in()
        except LakeportError as error:
            show_error(str(error))
        except Exception:  # noqa: BLE001
            _log.exception("a page of the console failed")
            show_error("the page could not be shown: the server's log has the reason")
        finally:
            # A visitor who has left the page has removed all of it.
            if not waiting.is_deleted:
                waiting.delete()

    async def _wait_for_browser(self) -> None:
        """Wait until the browser is connected, and show the page as dark as its last choice."""
        await ui.context.client.connected(timeout=_BROWSER_SECONDS)
        if self.dark is not None:
            stored = await ui.run_javascript(
                "localStorage.getItem('lakeport-dark')", timeout=_BROWSER_SECONDS
            )
            if stored in _DARK:
                self.dark.set_value(_DARK[stored])

    def ask_to_sign_in(self) -> None:
        """Open the page that asks for a token, which leads back to this one."""
        back = "" if self._address == "/" else f"?{urlencode({'wanted': self._address})}"
        ui.navigate.to(f"/sign-in{back}")


def _requested_address() -> str:
    """Return the path and the query by which the browser has requested the page."""
    scope = ui.context.client.request.scope
    query = scope.get("query_string", b"")
    address: bytes = scope.get("raw_path") or b"/"
    return (address + (b"?" + query if query else b"")).decode("ascii", "ignore")


@contextmanager
def frame(visitors: Visitors, title: str, *, lake: str = "") -> Iterator[Page]:
    """Show header and title of a page; yield the page for its content."""
    browser = str(app.storage.browser["id"])
    page = Page(visitors, browser, lake)
    apply_look()
    page.dark = ui.dark_mode(value=None)
    with ui.header().classes("items-center gap-x-3 gap-y-0 py-2 bg-slate-800"):
        ui.link("Lakeport", "/").classes("text-white text-lg font-bold no-underline")
        if lake:
            ui.label("/").classes("text-slate-400").props("aria-hidden=true")
            ui.link(lake, lake_path(lake)).classes("text-white no-underline font-mono break-all")
            _show_pages(lake, title)
        ui.space()
        ui.button(icon="contrast", on_click=lambda: _switch_dark(page)).props(
            'flat round color=white aria-label="dark or light"'
        )
        if visitors.server.needs_token:
            ui.button("Sign out", on_click=lambda: _sign_out(page)).props("flat color=white")
    with ui.column().classes(_NARROW):
        ui.label(title).classes("text-2xl font-semibold break-all").props(
            "role=heading aria-level=1"
        )
        yield page


def _show_pages(lake: str, title: str) -> None:
    """Show the links to the pages of a lake; on a narrow screen in a line of their own."""
    nav = ui.element("nav").classes(_NAV)
    with nav.props('aria-label="pages of the lake"'):
        for name in ("Tables", "History", "Query", "Activity", "Maintenance", "Access"):
            path = lake_path(lake) if name == "Tables" else f"{lake_path(lake)}/{name.lower()}"
            link = ui.link(name, path).classes("text-white no-underline")
            if name == title or (name == "Tables" and title == lake):
                link.props("aria-current=page")


async def _switch_dark(page: Page) -> None:
    """Switch between dark and light; the browser keeps it for later pages."""
    is_dark = await ui.run_javascript("Quasar.Dark.isActive")
    if page.dark is not None:
        page.dark.set_value(not is_dark)
    ui.run_javascript(f"localStorage.setItem('lakeport-dark', '{'no' if is_dark else 'yes'}')")


def _sign_out(page: Page) -> None:
    page.visitors.leave(page.browser)
    ui.navigate.to("/sign-in")


def show_error(sentence: str, *, can_reload: bool = True) -> None:
    """Show why something cannot be shown; reloading loses what was typed on the page."""
    with ui.card().classes("border-l-4 border-red-600 w-full").props("role=alert"):
        ui.label(sentence).classes("break-words")
        if can_reload:
            ui.button("Try again", on_click=ui.navigate.reload).props("flat dense")


def lake_path(lake: str) -> str:
    """Return the address of the page of a lake."""
    return f"/lake/{quote(lake, safe='')}"


def link_to(lake: str, schema: str, table: str) -> str:
    """Return the address of the page of a table."""
    # Names may have slashes, which a path cannot have.
    return f"{lake_path(lake)}/table?{urlencode({'schema': schema, 'name': table})}"
