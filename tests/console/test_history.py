"""The history of a lake names what was renamed and dropped, as far as the caller may see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeport.ducklake import Lake
from tests.console.conftest import StartConsole, Tab

ADA, BOB = "token-of-ada-0123456789", "token-of-bob-0123456789"
CONFIG = """
[[lake]]
name = "shop"
uri = "{folder}/shop.ducklake"

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
allow = ["select"]

[[policy]]
who = {{ users = ["bob"] }}
on = "shop.public.orders"
allow = ["select"]
"""


@pytest.fixture(scope="module")
def console_url(folder: Path, start_console: StartConsole) -> str:
    with Lake.create(f"ducklake:{folder}/shop.ducklake", data_path=str(folder / "shop")) as lake:
        lake.create_table("orders", {"id": "BIGINT"}).append([{"id": 1}])
        lake.create_schema("archive")
        lake.create_table("old", {"id": "BIGINT"}, schema="archive").append([{"id": 2}])
        lake.create_table("draft", {"id": "BIGINT"})
        lake.table("draft").rename("final")
        lake.drop_table("old", schema="archive")
        lake.drop_schema("archive")
        lake.table("orders").append([{"id": 3}])
    config = folder / "lakeport.toml"
    config.write_text(CONFIG.format(folder=folder, ada=ADA, bob=BOB))
    return start_console(
        "serve", "--config", str(config), "--listen", "127.0.0.1:0",
        "--console-listen", "127.0.0.1:0",
    )  # fmt: skip


def history(tab: Tab, token: str) -> Any:
    page = tab.open("/sign-in")
    page.get_by_label("token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="shop", exact=True).wait_for()
    page = tab.open("/lake/shop/history")
    page.get_by_role("heading", name="Compare two snapshots").wait_for()
    return page


def test_dropped_and_renamed_objects_have_their_names(tab: Tab) -> None:
    page = history(tab, ADA)
    for change in (
        "tables dropped: archive.old",
        "schemas dropped: archive",
        "tables renamed: public.draft → public.final",
        "inlined insert: archive.old",
    ):
        page.get_by_role("cell", name=change, exact=True).wait_for()


def test_a_comparison_names_what_was_created_renamed_and_dropped(tab: Tab) -> None:
    page = history(tab, ADA)
    for label, snapshot in (("From", "6"), ("To", "9")):
        page.get_by_label(label, exact=True).fill(snapshot)
        page.get_by_label(label, exact=True).press("Enter")
    page.get_by_role("button", name="Compare", exact=True).click()
    differences = page.get_by_role("listitem")
    differences.filter(has_text="tables renamed").wait_for()
    assert differences.all_inner_texts() == [
        "schemas dropped: archive",
        "tables dropped: archive.old",
        "tables renamed: public.draft → public.final",
    ]


def test_names_that_the_caller_may_not_see_are_nowhere(tab: Tab) -> None:
    page = history(tab, BOB)
    page.get_by_role("cell", name="inlined insert: public.orders").first.wait_for()
    for hidden in ("archive", "old", "draft", "final"):
        assert page.get_by_text(hidden).count() == 0, hidden
