"""The pages for operators: maintenance, plans of scans, the access of others, large lists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from lakeport.ducklake import Lake
from tests.console.conftest import StartConsole, Tab

ADA, BOB = "token-of-ada-0123456789", "token-of-bob-0123456789"
FILES, TABLES = 12, 30
CONFIG = """
[[lake]]
name = "shop"
uri = "{folder}/shop.ducklake"
writable = true

[[lake]]
name = "wide"
uri = "{folder}/wide.ducklake"

[[lake]]
name = "empty"
uri = "{folder}/empty.ducklake"

[[token]]
identity = "ada"
token = "{ada}"
lakes = ["*"]

[[token]]
identity = "bob"
token = "{bob}"
lakes = ["*"]

[[policy]]
who = {{ users = ["ada"] }}
on = "*.*.*"
allow = ["select", "insert", "alter", "maintain", "admin"]

[[policy]]
who = {{ users = ["bob"] }}
on = "shop.public.orders"
allow = ["select"]
rows = "day < 2"
columns = {{ hide = ["note"] }}
"""


@pytest.fixture(scope="module")
def console_url(folder: Path, start_console: StartConsole) -> str:
    with Lake.create(f"ducklake:{folder}/empty.ducklake", data_path=str(folder / "empty")):
        pass
    with Lake.create(f"ducklake:{folder}/shop.ducklake", data_path=str(folder / "shop")) as lake:
        lake.set_option("data_inlining_row_limit", 0)
        columns = {"day": "INTEGER", "id": "BIGINT", "note": "VARCHAR"}
        lake.create_table("orders", columns, partition_by=["day"])
        with lake.transaction() as transaction:
            for file in range(FILES):
                rows = [{"day": file // 2, "id": 10 * file + i, "note": "n"} for i in range(10)]
                transaction.table("orders").append(rows)
    with (
        Lake.create(f"ducklake:{folder}/wide.ducklake", data_path=str(folder / "wide")) as lake,
        lake.transaction() as transaction,
    ):
        for number in range(TABLES):
            transaction.create_table(f"t{number:03}", {"id": "BIGINT"})
    config = folder / "lakeport.toml"
    config.write_text(CONFIG.format(folder=folder, ada=ADA, bob=BOB))
    return start_console(
        "serve", "--config", str(config), "--listen", "127.0.0.1:0",
        "--console-listen", "127.0.0.1:0",
    )  # fmt: skip


def sign_in(tab: Tab, token: str) -> Any:
    page = tab.open("/sign-in")
    page.get_by_label("token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="shop").first.wait_for()
    return page


def test_maintenance_is_advised_planned_run_and_logged(tab: Tab) -> None:
    page = sign_in(tab, ADA)
    page.get_by_role("link", name="health:").first.wait_for()
    page = tab.open("/lake/shop/maintenance")
    page.get_by_text("merge: 12 small files").first.wait_for()
    page.get_by_text("This server does not maintain the lake by itself").wait_for()
    page.get_by_text("healthy").wait_for()

    page.get_by_role("button", name="Plan").click()
    page.get_by_text("This would be done:").wait_for()
    page.get_by_role("button", name="Run maintenance").click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("This was done:").wait_for()

    page = tab.open("/lake/shop/maintenance")
    page.get_by_role("cell", name="12 files → 6").first.wait_for()
    assert page.get_by_text("merge: 12 small files").count() == 0


def test_who_may_not_maintain_gets_a_sentence(tab: Tab) -> None:
    page = sign_in(tab, BOB)
    page = tab.open("/lake/shop/maintenance")
    page.get_by_text("This page is for those who maintain the lake").wait_for()
    assert page.get_by_role("button", name="Run maintenance").count() == 0
    page = tab.open("/")
    page.get_by_role("link", name="shop", exact=True).wait_for()
    page.locator("[aria-label=loading]").wait_for(state="detached")
    assert page.get_by_role("link", name="health:").count() == 0


def test_activity_shows_which_files_a_scan_leaves_out_and_why(tab: Tab) -> None:
    sign_in(tab, ADA)
    sql = "SELECT count(*) FROM orders WHERE day = 1 AND id < 25"
    page = tab.open(f"/lake/shop/query?sql={quote(sql)}")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("1 row in").wait_for()

    page = tab.open("/lake/shop/activity")

    page.get_by_role("cell", name="left out by partition").first.wait_for()
    page.get_by_role("cell", name="engine local").first.wait_for()
    page.get_by_role("button", name="running").click()
    page.get_by_role("cell", name="engine local").first.wait_for(state="detached")


def test_administrators_see_the_access_of_others(tab: Tab) -> None:
    sign_in(tab, ADA)
    page = tab.open("/lake/shop/access")
    page.get_by_label("Identity").fill("bob")
    page.get_by_role("button", name="Show its access").click()
    page.get_by_role("cell", name=re.compile("day.*< 2")).wait_for()
    page.get_by_role("cell", name="day, id", exact=True).wait_for()
    page.get_by_role("button", name="Show its readers").click()
    page.get_by_role("cell", name="bob", exact=True).wait_for()


def test_others_see_their_own_access_only(tab: Tab) -> None:
    sign_in(tab, BOB)
    page = tab.open("/lake/shop/access")
    page.get_by_role("cell", name="public.orders").wait_for()
    assert page.get_by_text(re.compile("day.*< 2")).count() == 0
    page.get_by_label("Identity").fill("ada")
    page.get_by_role("button", name="Show its access").click()
    page.get_by_role("alert").get_by_text("you may not see the access of others").wait_for()
    page.get_by_role("button", name="Show its readers").click()
    page.get_by_role("alert").nth(1).wait_for()


def test_a_browser_gets_one_page_of_a_long_list(tab: Tab) -> None:
    received: list[str] = []

    def listen(socket: Any) -> None:
        socket.on("framereceived", lambda frame: received.append(str(frame)))

    tab.page.on("websocket", listen)
    sign_in(tab, ADA)
    page = tab.open("/lake/wide")
    page.get_by_role("link", name="public.t010").wait_for()
    assert page.locator("tbody tr").count() == 25
    assert "public.t029" not in "".join(received) + page.content()

    page.get_by_label("Next page").click()
    page.get_by_role("link", name="public.t029").wait_for()
    assert page.locator("tbody tr").count() == 5
    page.get_by_label("Search").fill("T00")
    page.get_by_role("link", name="public.t009").wait_for()
    assert page.locator("tbody tr").count() == 10


def test_an_empty_lake_and_a_lake_that_is_not_there_have_pages(tab: Tab) -> None:
    sign_in(tab, ADA)
    tab.open("/lake/empty").get_by_text("The lake has no table that you may see.").wait_for()
    page = tab.open("/lake/empty/maintenance")
    page.get_by_text("The lake is in good shape").wait_for()
    page.get_by_text("for reading only").wait_for()
    tab.open("/lake/missing").get_by_role("alert").get_by_text("missing").wait_for()
