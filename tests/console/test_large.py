"""The pages of a lake with many tables, files and snapshots: a browser gets a part of each list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from benchmarks.catalogs import large_catalog
from tests.console.conftest import StartConsole, Tab

TABLES, FILES, SNAPSHOTS = 120, 3000, 400
LAST = "public.t99"
"""The last table by its name."""
MAX_BYTES = 60_000
PAGES = {
    # What the doctor found, if another test has requested an examination before.
    "/": "health: ",
    "/lake/large": "public.t10",
    "/lake/large/table?schema=public&name=t": "customer",
    "/lake/large/history": "Compare two snapshots",
    "/lake/large/query": "Run",
    "/lake/large/activity": "Running and recent",
    "/lake/large/maintenance": "examining it takes a while",
    "/lake/large/access": "Who can read a table",
}


@pytest.fixture(scope="module")
def console_url(start_console: StartConsole) -> Iterator[str]:
    # The files are recorded and do not exist.
    with large_catalog(tables=TABLES, files=FILES, snapshots=SNAPSHOTS) as uri:
        yield start_console("console", f"large={uri}", "--listen", "127.0.0.1:0")


@pytest.fixture
def received(tab: Tab) -> list[int]:
    """The sizes of what the server has sent to the page."""
    sizes: list[int] = []

    def listen(socket: Any) -> None:
        socket.on("framereceived", lambda frame: sizes.append(len(frame)))

    tab.page.on("websocket", listen)
    return sizes


@pytest.mark.parametrize("path", PAGES)
def test_a_page_sends_a_part_of_what_there_is(tab: Tab, received: list[int], path: str) -> None:
    page = tab.open(path)
    page.get_by_text(PAGES[path]).first.wait_for()
    page.locator("[aria-label=loading]").wait_for(state="detached")

    assert page.locator("tbody tr").count() <= 25
    assert sum(received) + len(page.content()) < MAX_BYTES * 2


def test_the_files_and_the_history_of_a_table_are_paged(tab: Tab, received: list[int]) -> None:
    page = tab.open("/lake/large/table?schema=public&name=t")
    page.get_by_role("tab", name="Files").click()
    page.get_by_text("1-25 of 1500").wait_for()
    page.get_by_role("tab", name="History").click()
    page.locator("[aria-label^='Rows by snapshot']").wait_for()
    assert sum(received) < MAX_BYTES


def test_the_doctor_examines_a_large_lake_on_request_only(tab: Tab) -> None:
    page = tab.open("/lake/large/maintenance")
    page.get_by_text("examining it takes a while").wait_for()
    page.get_by_role("button", name="Examine the lake").click()
    page.get_by_text("the doctor found").wait_for()
    page.get_by_role("cell", name="files of the table do not exist").first.wait_for()

    page = tab.open("/")
    page.get_by_role("link", name="health: the doctor found").wait_for()


def test_a_table_and_a_snapshot_that_the_browser_did_not_get_are_typed(tab: Tab) -> None:
    page = tab.open("/lake/large/history")
    page.get_by_text("Compare two snapshots").wait_for()
    page.get_by_label("Table").click()
    page.get_by_role("option", name="public.t10", exact=True).wait_for()
    assert page.get_by_role("option", name=LAST).count() == 0
    page.get_by_label("Table").fill("t99")
    page.get_by_role("option", name=LAST).click()
    page.get_by_label("From").fill("7")
    page.get_by_label("From").press("Enter")
    page.get_by_role("button", name="Compare").click()
    page.get_by_text('FROM "public"."t99" AT (VERSION => 7)').wait_for()


def test_the_rows_of_a_query_are_sent_a_page_at_a_time(tab: Tab, received: list[int]) -> None:
    sql = "SELECT range AS n, repeat('x', 100) AS text FROM range(5000)"
    page = tab.open(f"/lake/large/query?sql={quote(sql)}")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("the first 1,000 rows in").wait_for()
    page.get_by_text("1-25 of 1000").wait_for()
    assert sum(received) < MAX_BYTES

    page.get_by_label("Next page").click()
    page.get_by_role("cell", name="49", exact=True).wait_for()
    page.get_by_role("columnheader", name="n", exact=True).click()
    page.get_by_role("columnheader", name="n", exact=True).click()
    page.get_by_role("cell", name="999", exact=True).wait_for()
    page.get_by_label("Search").fill("977")
    page.get_by_text("1-1 of 1").wait_for()
    page.get_by_role("cell", name="977", exact=True).wait_for()
