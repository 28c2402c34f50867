"""The addresses of the console's pages."""

from __future__ import annotations

from nicegui import app, ui

from lakeport.console.frame import Page, frame
from lakeport.console.pages.access import show_access
from lakeport.console.pages.activity import show_activity
from lakeport.console.pages.history import show_history
from lakeport.console.pages.lake import show_lake, show_lakes
from lakeport.console.pages.maintenance import show_maintenance
from lakeport.console.pages.query import show_query
from lakeport.console.pages.sign_in import show_sign_in
from lakeport.console.pages.table import show_table
from lakeport.console.visitors import Visitors

__all__ = ["register_pages"]


def register_pages(visitors: Visitors) -> None:
    """Register every page with NiceGUI."""

    @ui.page("/", title="Lakes · Lakeport")
    async def lakes() -> None:
        with frame(visitors, "Lakes") as page:
            await page.show(show_lakes)

    @ui.page("/sign-in", title="Sign in · Lakeport")
    async def sign_in(wanted: str = "") -> None:
        show_sign_in(Page(visitors, app.storage.browser["id"]), wanted)

    @ui.page("/lake/{lake}", title="Lake · Lakeport")
    async def one_lake(lake: str) -> None:
        with frame(visitors, lake, lake=lake) as page:
            await page.show(show_lake)

    @ui.page("/lake/{lake}/table", title="Table · Lakeport")
    async def one_table(lake: str, schema: str = "public", name: str = "") -> None:
        with frame(visitors, f"{schema}.{name}", lake=lake) as page:
            await page.show(lambda page: show_table(page, schema, name))

    @ui.page("/lake/{lake}/history", title="History · Lakeport")
    async def history(lake: str) -> None:
        with frame(visitors, "History", lake=lake) as page:
            await page.show(show_history)

    @ui.page("/lake/{lake}/query", title="Query · Lakeport")
    async def query(lake: str, sql: str = "") -> None:
        with frame(visitors, "Query", lake=lake) as page:
            await page.show(lambda page: show_query(page, sql))

    @ui.page("/lake/{lake}/maintenance", title="Maintenance · Lakeport")
    async def maintenance(lake: str) -> None:
        with frame(visitors, "Maintenance", lake=lake) as page:
            await page.show(show_maintenance)

    @ui.page("/lake/{lake}/access", title="Access · Lakeport")
    async def access(lake: str) -> None:
        with frame(visitors, "Access", lake=lake) as page:
            await page.show(show_access)

    @ui.page("/lake/{lake}/activity", title="Activity · Lakeport")
    async def activity(lake: str) -> None:
        with frame(visitors, "Activity", lake=lake) as page:
            await page.show(show_activity)
