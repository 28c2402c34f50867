"""The pictures of the documentation: pages of the demo's lake.

`LAKEPORT_SCREENSHOTS=docs/images` writes them anew; otherwise they go to a temporary folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from lakeport.cli.commands.demo import make_lake
from tests.console.conftest import StartConsole, Tab

PAGES = {
    "console-lake": ("/lake/demo", "public.trips"),
    "console-table": ("/lake/demo/table?schema=public&name=trips", "started_at"),
    "console-history": ("/lake/demo/history", "Compare two snapshots"),
    "console-maintenance": ("/lake/demo/maintenance", "healthy"),
}
QUERY = (
    "SELECT station, count(*) AS trips, round(avg(minutes), 1) AS minutes\n"
    "FROM trips GROUP BY station ORDER BY trips DESC"
)


RECENT = (
    "SELECT count(*) FROM trips WHERE id BETWEEN 200000 AND 200100",
    "SELECT station, max(minutes) FROM trips WHERE station = 'Harbour' GROUP BY station",
    QUERY,
)


@pytest.fixture(scope="module")
def console_url(folder: Path, start_console: StartConsole) -> str:
    return start_console("console", str(make_lake(folder)), "--listen", "127.0.0.1:0")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return Path(os.environ.get("LAKEPORT_SCREENSHOTS", tmp_path))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_demo_has_a_picture(tab: Tab, pictures: Path, name: str) -> None:
    path, text = PAGES[name]
    page = tab.open(path)
    page.get_by_text(text).first.wait_for()
    page.locator("[aria-label=loading]").wait_for(state="detached")
    page.screenshot(path=pictures / f"{name}.png", animations="disabled")

    assert (pictures / f"{name}.png").stat().st_size > 10_000


def test_a_query_of_the_demo_has_a_picture(tab: Tab, pictures: Path) -> None:
    page = tab.open(f"/lake/demo/query?sql={quote(QUERY)}")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("6 rows in").wait_for()
    page.get_by_role("button", name="Chart").click()
    page.locator("[aria-label^='trips by station']").wait_for()
    page.screenshot(path=pictures / "console-query.png", animations="disabled")

    assert (pictures / "console-query.png").stat().st_size > 10_000


def test_recent_queries_of_the_demo_have_a_picture(tab: Tab, pictures: Path) -> None:
    for sql in RECENT:
        page = tab.open(f"/lake/demo/query?sql={quote(sql)}")
        page.get_by_role("button", name="Run").click()
        page.get_by_text(re.compile("rows? in")).wait_for()
    page = tab.open("/lake/demo/activity")
    page.get_by_role("cell", name="left out by statistics").first.wait_for()
    page.screenshot(path=pictures / "console-activity.png", animations="disabled")

    assert (pictures / "console-activity.png").stat().st_size > 10_000
