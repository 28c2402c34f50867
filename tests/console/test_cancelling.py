"""A query of the console is cancelled while it waits, and again when it has ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from lakeport import connect
from lakeport.ducklake import Lake
from tests.console.conftest import StartConsole, Tab
from tests.wait import TIMEOUT_SECONDS, wait_until

TOKEN = "token-of-ada-0123456789"
CONFIG = """
[server]
listen = "127.0.0.1:0"

[[lake]]
name = "shop"
uri = "{folder}/shop.ducklake"

[[token]]
identity = "ada"
token = "{token}"
lakes = ["*"]

[[limit]]
who = "everyone"
scans = 1
"""


@pytest.fixture(scope="module")
def console_url(folder: Path, start_console: StartConsole) -> str:
    with Lake.create(f"ducklake:{folder}/shop.ducklake", data_path=str(folder / "shop")) as lake:
        lake.create_table("orders", {"id": "BIGINT"}).append([{"id": 1}])
        big = lake.create_table("big", {"text": "VARCHAR"})
        big.append([{"text": "x" * 1000}] * 50_000)
    config = folder / "lakeport.toml"
    config.write_text(CONFIG.format(folder=folder, token=TOKEN))
    return start_console("serve", "--config", str(config), "--console-listen", "127.0.0.1:0")


@pytest.fixture
def client(console_url: str, folder: Path) -> Iterator[Any]:
    log = "".join(path.read_text() for path in folder.glob("*.log"))
    location = next(word for word in log.split() if word.startswith("grpc://"))
    with connect(location, catalog="shop", token=TOKEN, timeout=TIMEOUT_SECONDS) as client:
        yield client


def query_page(tab: Tab, sql: str) -> Any:
    page = tab.open("/sign-in")
    page.get_by_label("token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="shop", exact=True).wait_for()
    page = tab.open(f"/lake/shop/query?sql={quote(sql)}")
    page.get_by_role("button", name="Run", exact=True).wait_for()
    return page


@contextmanager
def the_only_place_taken(client: Any) -> Iterator[None]:
    """Run a scan, which ends when its reader is deleted.

    Playwright keeps the local variables of the functions that call it, so a test has no reader.
    """
    reader = client.table("public.big").scan().to_reader()
    reader.read_next_batch()
    yield
    del reader


def waiting(client: Any) -> bool:
    rows = client.table("lakeport.queries").scan().to_arrow().to_pylist()
    return any(row["table"] == "public.orders" and "its turn" in row["progress"] for row in rows)


def test_a_query_that_waits_for_its_turn_is_cancelled_and_leaves_the_queue(
    tab: Tab, client: Any
) -> None:
    page = query_page(tab, "FROM orders")
    with the_only_place_taken(client):
        page.get_by_role("button", name="Run", exact=True).click()
        assert wait_until(lambda: waiting(client))

        page.get_by_role("button", name="Cancel", exact=True).click()

        page.get_by_role("alert").get_by_text("the query was cancelled").wait_for()
        assert not waiting(client)


def test_cancelling_a_query_that_has_ended_does_nothing(tab: Tab) -> None:
    page = query_page(tab, "SELECT 42 AS answer")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("1 row in").wait_for()

    page.get_by_role("button", name="Cancel", exact=True).click()

    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    assert Path(download.value.path()).read_text().split() == ['"answer"', "42"]
    assert page.get_by_role("alert").count() == 0
