"""The page that asks for a token."""

from __future__ import annotations

import re
from typing import Final

from nicegui import ui

from lakeport.console.frame import Page
from lakeport.console.look import apply_look
from lakeport.errors import LakeportError

__all__ = ["show_sign_in"]


# A path of this server. Browsers ignore control characters, and take // for another server.
_OWN_PATH: Final = re.compile(r"/(?:[^/\\\x00-\x20][^\\\x00-\x20]*)?")


def show_sign_in(page: Page, wanted: str) -> None:
    """Show a field for the bearer token; an accepted token opens the page that was wanted."""
    after = wanted if _OWN_PATH.fullmatch(wanted) else "/"
    if page.visitors.is_known(page.browser):
        ui.navigate.to(after)
        return

    async def enter() -> None:
        try:
            await page.read(page.visitors.enter, page.browser, token.value or "")
        except LakeportError as error:
            reason.set_text(str(error))
            token.set_value("")
            return
        ui.navigate.to(after)

    apply_look()
    ui.dark_mode(value=None)
    with ui.card().classes("mx-auto mt-24 w-96 max-w-full"):
        ui.label("Lakeport").classes("text-2xl font-bold").props("role=heading aria-level=1")
        ui.label("Sign in with the token that you also use in DuckDB.")
        token = ui.input("Token", password=True).classes("w-full").on("keydown.enter", enter)
        token.props('autocomplete=off autofocus aria-label="token"')
        reason = (
            ui.label("").classes("text-red-700 dark:text-red-400 break-words").props("role=alert")
        )
        ui.button("Sign in", on_click=enter).classes("w-full")
