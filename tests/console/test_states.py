"""Every state of the console has a page: nothing there, refused, an error, no connection.

Names, comments, cells and errors of a hostile lake are text on every page. Every field and button
has a name for screen readers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from lakeport.ducklake import Lake
from tests.console.conftest import StartConsole, Tab, console_process, opened_tab

SCRIPT = "<img src=x onerror=alert(1)><script>alert(2)</script>{{ 1 + 1 }}"
ADA, BOB = "token-of-ada-0123456789", "token-of-bob-0123456789"
CONFIG = """
[[lake]]
name = "shop"
uri = "{folder}/shop.ducklake"
writable = true

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
lakes = ["empty"]
"""
TABLE = f"/lake/shop/table?schema=public&name={quote(SCRIPT, safe='')}"
PAGES = ("", "/history", "/query", "/activity", "/maintenance", "/access")
# Fields and buttons whose accessible name is empty.
UNNAMED = """() => [...document.querySelectorAll('a, button, input, [role=button], [role=textbox]')]
    .filter(e => e.offsetParent && !(e.getAttribute('aria-label') || e.innerText.trim() || e.title
        || (e.labels && e.labels.length) || e.closest('label')))
    .map(e => e.outerHTML.slice(0, 200))"""


@pytest.fixture(scope="module")
def config(folder: Path) -> Path:
    with Lake.create(f"ducklake:{folder}/empty.ducklake", data_path=str(folder / "empty")):
        pass
    with Lake.create(f"ducklake:{folder}/shop.ducklake", data_path=str(folder / "shop")) as lake:
        lake.set_option("data_inlining_row_limit", 0)
        table = lake.create_table(
            SCRIPT,
            {SCRIPT: "VARCHAR", "n": "BIGINT", "tag": "VARCHAR"},
            comment=SCRIPT,
            partition_by=["tag"],
        )
        table.append([{SCRIPT: SCRIPT, "n": 1, "tag": SCRIPT}])
        with lake.transaction(message=SCRIPT, author=SCRIPT) as transaction:
            transaction.table(SCRIPT).append([{SCRIPT: SCRIPT, "n": 2, "tag": SCRIPT}])
    config = folder / "lakeport.toml"
    config.write_text(CONFIG.format(folder=folder, ada=ADA, bob=BOB))
    return config


def serving(config: Path) -> tuple[str, ...]:
    return (
        "serve", "--config", str(config), "--listen", "127.0.0.1:0",
        "--console-listen", "127.0.0.1:0",
    )  # fmt: skip


@pytest.fixture(scope="module")
def console_url(config: Path, start_console: StartConsole) -> str:
    return start_console(*serving(config))


def sign_in(tab: Tab, token: str) -> None:
    page = tab.open("/sign-in")
    page.get_by_label("token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="empty").wait_for()


def loaded(tab: Tab, path: str) -> Any:
    page = tab.open(path)
    page.get_by_role("heading", level=1).wait_for()
    page.locator("[aria-label=loading]").wait_for(state="detached")
    return page


def test_an_empty_lake_has_a_sentence_on_every_page(tab: Tab) -> None:
    sign_in(tab, ADA)
    for path in PAGES:
        page = loaded(tab, f"/lake/empty{path}")
        assert page.get_by_role("alert").count() == 0, path
    tab.open("/lake/empty").get_by_text("The lake has no table that you may see.").wait_for()


def test_what_a_caller_may_not_see_is_refused_on_every_page(tab: Tab) -> None:
    sign_in(tab, BOB)
    for path in PAGES:
        page = loaded(tab, f"/lake/shop{path}")
        page.get_by_role("alert").first.wait_for()
        assert page.get_by_text("alert(2)").count() == 0, path


def test_an_error_of_a_query_is_a_sentence_and_text(tab: Tab) -> None:
    sign_in(tab, ADA)
    page = tab.open(f"/lake/shop/query?sql={quote(f'SELECT error($${SCRIPT}$$)')}")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("alert").get_by_text(SCRIPT).wait_for()
    assert page.locator("img[src=x]").count() == 0


def test_names_comments_cells_and_messages_never_run_on_any_page(tab: Tab) -> None:
    alerts: list[str] = []

    def dismiss(dialog: Any) -> None:
        alerts.append(dialog.message)
        dialog.dismiss()

    tab.page.on("dialog", dismiss)
    sign_in(tab, ADA)

    def check(page: Any, where: str) -> None:
        assert page.locator("img[src=x]").count() == 0, where
        assert alerts == [], where

    for path in PAGES:
        check(loaded(tab, f"/lake/shop{path}"), path)
    page = loaded(tab, TABLE)
    for name in ("Columns", "Rows", "Files", "Layout", "History"):
        page.get_by_role("tab", name=name).click()
        page.get_by_role("tabpanel").locator("*", has_text="").first.wait_for()
        check(page, name)
    page.get_by_role("tab", name="Layout").click()
    page.get_by_text("tag: identity").wait_for()
    page = loaded(tab, "/lake/shop/history")
    page.get_by_role("cell", name=SCRIPT).first.wait_for()
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("1 change of rows").wait_for()
    page.get_by_role("cell", name=SCRIPT).last.wait_for()
    check(page, "comparison")
    sql = f'SELECT * FROM "{SCRIPT}"'
    page = loaded(tab, f"/lake/shop/query?sql={quote(sql)}")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("columnheader", name=SCRIPT).wait_for()
    page.get_by_role("button", name="Chart").click()
    page.locator(".nicegui-echart").wait_for()
    check(page, "query")
    page = loaded(tab, "/lake/shop/activity")
    page.get_by_role("cell", name=SCRIPT).first.wait_for()
    check(page, "activity")
    missing = SCRIPT.partition("<script>")[0]  # a path has no slashes in names
    page = loaded(tab, f"/lake/{quote(missing)}")
    page.get_by_role("alert").wait_for()
    check(page, "a lake that is missing")


def test_fields_and_buttons_have_names_and_pages_a_language(tab: Tab) -> None:
    page = tab.open("/sign-in")
    page.get_by_label("token").wait_for()
    assert page.evaluate(UNNAMED) == []
    sign_in(tab, ADA)
    for path in ("/", TABLE, *(f"/lake/shop{path}" for path in PAGES)):
        page = loaded(tab, path)
        assert page.evaluate(UNNAMED) == [], path
        assert page.evaluate("document.documentElement.lang") == "en"
        assert page.get_by_role("heading", level=1).count() == 1


def test_dark_stays_dark_on_the_next_page(tab: Tab) -> None:
    sign_in(tab, ADA)
    loaded(tab, "/").get_by_role("button", name="dark or light").click()
    tab.page.locator("body.body--dark").wait_for()
    loaded(tab, "/lake/empty").locator("body.body--dark").wait_for()


def test_a_lost_connection_is_shown(config: Path, folder: Path, browser: Any) -> None:
    with (
        console_process(folder, *serving(config)) as (process, url),
        opened_tab(browser, url) as tab,
    ):
        sign_in(tab, ADA)
        loaded(tab, "/lake/shop/history")
        process.terminate()
        process.wait()
        tab.page.get_by_text("Connection lost").first.wait_for()
