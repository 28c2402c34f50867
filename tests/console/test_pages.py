"""The pages of the console, in a real browser, on a lake whose names and values are hostile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeport.ducklake import Lake
from tests.console.conftest import StartConsole, Tab

SCRIPT = "<img src=x onerror=alert(1)><script>alert(2)</script>{{ 1 + 1 }}"


@pytest.fixture(scope="module")
def console_url(folder: Path, start_console: StartConsole) -> str:
    database = folder / "shop.ducklake"
    with Lake.create(f"ducklake:{database}", data_path=str(folder / "data")) as lake:
        orders = lake.create_table(
            "orders", {"id": "BIGINT", "customer": "VARCHAR"}, comment=SCRIPT
        )
        orders.append([{"id": 1, "customer": "ada"}, {"id": 2, "customer": SCRIPT}])
        with lake.transaction(message=SCRIPT, author="grace") as transaction:
            transaction.table("orders").update({"customer": "'bob'"}, "id = 1")
        lake.table("orders").add_column("note", "VARCHAR")
        lake.create_table(SCRIPT, {SCRIPT: "INTEGER"})
        lake.create_view("customers", "SELECT DISTINCT customer FROM orders")
    return start_console("console", str(database), "--listen", "127.0.0.1:0")


def texts(page: Any, text: str) -> Any:
    return page.get_by_text(text, exact=True).first


def test_the_first_page_leads_to_a_lake_and_its_tables(tab: Tab) -> None:
    page = tab.open("/")
    texts(page, "shop").click()
    page.get_by_role("link", name="public.orders").wait_for()
    page.get_by_role("link", name="public.orders").click()

    texts(page, "customer").wait_for()
    page.get_by_text("VARCHAR").first.wait_for()
    assert page.url.endswith("/lake/shop/table?schema=public&name=orders")


def test_names_comments_and_values_are_text_and_never_run(tab: Tab) -> None:
    alerts: list[str] = []

    def dismiss(dialog: Any) -> None:
        alerts.append(dialog.message)
        dialog.dismiss()

    tab.page.on("dialog", dismiss)
    page = tab.open("/lake/shop")
    page.get_by_role("link", name=f"public.{SCRIPT}").click()
    page.get_by_role("cell", name=SCRIPT).wait_for()
    page = tab.open("/lake/shop/table?schema=public&name=orders")
    page.get_by_text(SCRIPT).first.wait_for()
    page.get_by_role("tab", name="Rows").click()
    page.get_by_role("cell", name=SCRIPT).first.wait_for()
    page = tab.open("/lake/shop/history")
    page.get_by_role("cell", name=SCRIPT).first.wait_for()

    assert alerts == []
    assert page.locator("img[src=x]").count() == 0


def test_a_table_shows_its_rows_its_files_and_its_history(tab: Tab) -> None:
    page = tab.open("/lake/shop/table?schema=public&name=orders")
    page.get_by_role("tab", name="Rows").click()
    texts(page, "bob").wait_for()
    page.get_by_role("tab", name="Files").click()
    page.get_by_text("There are no files").wait_for()
    page.get_by_role("tab", name="History").click()
    page.locator("[aria-label^='Rows by snapshot']").wait_for()


def test_two_snapshots_are_compared_by_columns_and_rows(tab: Tab) -> None:
    page = tab.open("/lake/shop/history")
    page.get_by_label("Table").click()
    page.get_by_role("option", name="public.orders").click()
    page.get_by_label("From").click()
    page.get_by_role("option", name="2", exact=True).click()
    page.get_by_label("To").click()
    page.get_by_role("option", name="4", exact=True).last.click()
    page.get_by_role("button", name="Compare").click()

    page.get_by_text("column note: not there → VARCHAR").wait_for()
    page.get_by_text("update_postimage").first.wait_for()
    assert page.get_by_text('FROM "public"."orders" AT (VERSION => 2)').count() == 1


def test_a_query_shows_its_rows_and_a_wrong_one_its_reason(tab: Tab) -> None:
    page = tab.open("/lake/shop/query?sql=SELECT%20count(*)%20AS%20n,%20max(id)%20FROM%20orders")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("1 row in").wait_for()
    assert page.get_by_role("cell", name="2", exact=True).count() == 2
    page.get_by_role("button", name="Chart").click()
    page.locator("[aria-label^='max(id) by n']").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as csv").click()
    assert Path(download.value.path()).read_text().split() == ['"n","max(id)"', "2,2"]

    page = tab.open("/lake/shop/query?sql=SELECT%20*%20FROM%20read_csv('/etc/passwd')")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("alert").get_by_text("read_csv").wait_for()


def test_a_query_appears_among_the_recent_ones(tab: Tab) -> None:
    page = tab.open("/lake/shop/query?sql=SELECT%20*%20FROM%20public.orders%20WHERE%20id%20=%202")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("1 row in").wait_for()

    page = tab.open("/lake/shop/activity")

    page.get_by_role("cell", name="public.orders").first.wait_for()
    page.get_by_text('("id" = ?)').first.wait_for()


def test_a_lake_and_a_table_that_are_not_there_are_reported(tab: Tab) -> None:
    page = tab.open("/lake/shop/table?schema=public&name=missing")
    page.get_by_role("alert").wait_for()
    assert "missing" in page.get_by_role("alert").inner_text()


def test_a_narrow_dark_screen_shows_the_same(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 380, "height": 800})
    tab.page.emulate_media(color_scheme="dark")
    page = tab.open("/lake/shop")
    page.get_by_role("link", name="public.orders").wait_for()
    wide = page.evaluate("document.body.scrollWidth > window.innerWidth + 1")
    assert not wide


def test_a_view_has_no_tabs_about_files(tab: Tab) -> None:
    page = tab.open("/lake/shop/table?schema=public&name=customers")
    page.get_by_role("tab", name="Rows").click()
    page.get_by_role("cell", name="bob", exact=True).wait_for()
    assert page.get_by_role("tab").all_inner_texts() == ["Columns", "Rows"]

    page = tab.open("/lake/shop/table?schema=lakeport&name=schemas")
    page.get_by_role("cell", name="name_in_lake", exact=True).wait_for()
    assert page.get_by_role("tab").all_inner_texts() == ["Columns", "Rows"]


def test_a_query_is_written_run_and_left_with_the_keyboard(tab: Tab) -> None:
    page = tab.open("/lake/shop/query?sql=SELECT%201%20AS%20one")
    editor = page.get_by_role("textbox", name="query")
    page.get_by_role("button", name="Run", exact=True).wait_for()
    editor.focus()
    page.keyboard.press("Control+Enter")
    page.get_by_text("1 row in").wait_for()
    assert editor.inner_text().strip() == "SELECT 1 AS one"

    editor.focus()
    page.keyboard.press("Tab")
    run = page.get_by_role("button", name="Run", exact=True)
    assert run.evaluate("button => button === document.activeElement")


def test_a_statement_that_writes_is_refused_with_a_sentence(tab: Tab) -> None:
    page = tab.open("/lake/shop/query?sql=INSERT%20INTO%20orders%20VALUES%20(3)")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("alert").get_by_text("they cannot write").wait_for()


def test_the_address_of_a_table_without_its_name_has_a_page(tab: Tab) -> None:
    page = tab.open("/lake/shop/table")
    page.get_by_role("alert").wait_for()
    page.get_by_role("heading", level=1).wait_for()
