"""The console of a server with tokens: it shows what the token's owner may see."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from lakeport.ducklake import Lake
from tests.console.conftest import StartConsole, Tab

ADA, BOB = "token-of-ada-0123456789", "token-of-bob-0123456789"


@pytest.fixture(scope="module")
def console_url(folder: Path, start_console: StartConsole) -> str:
    for name in ("sales", "staff"):
        location = f"ducklake:{folder}/{name}.ducklake"
        with Lake.create(location, data_path=str(folder / name)) as lake:
            lake.create_table("people", {"name": "VARCHAR"}).append([{"name": f"one of {name}"}])
            lake.table("people").delete()
    config = folder / "lakeport.toml"
    lakes = "".join(
        f'[[lake]]\nname = "{name}"\nuri = "{folder}/{name}.ducklake"\nwritable = true\n'
        for name in ("sales", "staff")
    )
    tokens = "".join(
        f'[[token]]\nidentity = "{who}"\ntoken = "{token}"\nlakes = ["{lake}"]\n'
        for who, token, lake in (("ada", ADA, "sales"), ("bob", BOB, "staff"))
    )
    config.write_text(lakes + tokens)
    return start_console(
        "serve", "--config", str(config), "--listen", "127.0.0.1:0",
        "--console-listen", "127.0.0.1:0",
    )  # fmt: skip


def sign_in(tab: Tab, token: str) -> None:
    page = tab.open("/")
    page.wait_for_url("**/sign-in")
    page.get_by_label("token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_each_identity_sees_its_own_lakes(tab: Tab) -> None:
    sign_in(tab, ADA)
    tab.page.get_by_role("link", name="sales").wait_for()
    assert tab.page.get_by_text("staff").count() == 0

    page = tab.open("/lake/staff/table?schema=public&name=people")
    page.get_by_role("alert").wait_for()
    assert page.get_by_text("one of staff").count() == 0


def test_a_wrong_token_is_refused_and_not_shown(tab: Tab) -> None:
    sign_in(tab, "token-that-nothing-accepts")
    alert = tab.page.get_by_role("alert")
    alert.get_by_text("token").wait_for()
    assert "token-that-nothing-accepts" not in tab.page.content()


def test_after_signing_out_no_page_is_shown(tab: Tab) -> None:
    sign_in(tab, BOB)
    tab.page.get_by_role("link", name="staff").wait_for()
    tab.page.get_by_role("button", name="Sign out").click()
    tab.page.wait_for_url("**/sign-in")

    tab.open("/lake/staff").wait_for_url("**/sign-in?wanted=%2Flake%2Fstaff")
    assert tab.page.get_by_text("people").count() == 0


def test_signing_in_leads_to_the_page_that_was_wanted(tab: Tab) -> None:
    page = tab.open("/lake/staff/table?schema=public&name=people")
    page.wait_for_url("**/sign-in?*")
    page.get_by_label("token").fill("token-that-nothing-accepts")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").get_by_text("token").wait_for()
    page.get_by_label("token").fill(BOB)
    page.get_by_role("button", name="Sign in").click()

    page.wait_for_url("**/lake/staff/table?schema=public&name=people")
    page.get_by_role("heading", name="public.people").wait_for()


@pytest.mark.parametrize(
    "address", ["https://example.com/", "//example.com", "/\\example.com", "/\t/example.com", "x"]
)
def test_signing_in_leads_to_no_other_server(tab: Tab, address: str) -> None:
    page = tab.open(f"/sign-in?wanted={quote(address, safe='')}")
    page.get_by_label("token").fill(BOB)
    page.get_by_role("button", name="Sign in").click()

    page.get_by_role("link", name="staff", exact=True).wait_for()
    assert page.url == tab.url


def test_a_table_is_restored_after_a_confirmation(tab: Tab) -> None:
    sign_in(tab, BOB)
    tab.page.get_by_role("link", name="staff").wait_for()
    page = tab.open("/lake/staff/history")
    page.get_by_label("From").click()
    page.get_by_role("option", name="2", exact=True).click()
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("button", name="Restore snapshot 2").click()
    page.get_by_text("This makes a new snapshot").wait_for()
    page.get_by_role("button", name="Restore", exact=True).click()

    page.get_by_role("cell", name="4", exact=True).wait_for()
    page = tab.open("/lake/staff/table?schema=public&name=people")
    page.get_by_role("tab", name="Rows").click()
    # The bounds of the columns show the same text until the other panel has left.
    rows = page.get_by_role("tabpanel").filter(has_text="the first")
    rows.get_by_role("cell", name="one of staff").wait_for()


def test_the_page_of_access_names_what_the_caller_may_do(tab: Tab) -> None:
    sign_in(tab, ADA)
    tab.page.get_by_role("link", name="sales").wait_for()
    page = tab.open("/lake/sales/access")
    page.get_by_role("cell", name="public.people").wait_for()
    page.get_by_text("select").first.wait_for()
