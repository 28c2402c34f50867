"""A console ends after a signal, whatever its pages do; the pages then wait for it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from lakeport.ducklake import Lake
from tests.console.conftest import console_process, opened_tab
from tests.wait import TIMEOUT_SECONDS

ENDLESS = "SELECT max(hash(a.range, b.range)) FROM range(10000000) a, range(10000000) b"


@pytest.fixture(scope="module")
def database(folder: Path) -> Path:
    database = folder / "shop.ducklake"
    with Lake.create(f"ducklake:{database}", data_path=str(folder / "data")) as lake:
        lake.create_table("orders", {"id": "BIGINT"}).append([{"id": 1}])
    return database


@pytest.mark.parametrize(
    ("command", "number"),
    [
        (("console", "--listen"), signal.SIGTERM),
        (("serve", "--listen", "127.0.0.1:0", "--console-listen"), signal.SIGINT),
    ],
    ids=["console", "serve"],
)
def test_a_console_ends_while_pages_are_open_and_a_query_runs(
    database: Path, folder: Path, browser: Any, command: tuple[str, ...], number: signal.Signals
) -> None:
    name, *options = command
    arguments = (name, str(database), *options, "127.0.0.1:0")
    with (
        console_process(folder, *arguments) as (process, url),
        opened_tab(browser, url) as activity,
        opened_tab(browser, url) as query,
    ):
        activity.open("/lake/shop/activity").get_by_text("Running and recent").wait_for()
        page = query.open(f"/lake/shop/query?sql={quote(ENDLESS)}")
        page.get_by_role("button", name="Run").click()
        page.locator("[aria-label=running]").wait_for()

        process.send_signal(number)

        assert process.wait(TIMEOUT_SECONDS) == 0
        query.page.get_by_text("Connection lost").first.wait_for()
