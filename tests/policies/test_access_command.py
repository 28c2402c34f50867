"""`lakeport access`, and the table `lakeport.my_access`: what an identity may do, and why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lakeport.cli.app import app
from tests.policies.fixtures_policies import policy, serving

POLICIES = """
[[lake]]
name = "sales"
uri = "{uri}"

[[token]]
identity = "ada"
token = "token-of-ada-0123456789"
lakes = ["*"]
groups = ["analysts"]

[[policy]]
who = {{ groups = ["analysts"] }}
on = "sales.*.orders"
allow = ["select", "insert"]
rows = "region = user_attribute('region')"
columns = {{ hide = ["card"], mask = {{ email = "'***'" }} }}
"""


@pytest.fixture
def lake(make_lake: Callable[..., Any]) -> Any:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE orders (id INTEGER, region VARCHAR, email VARCHAR, card VARCHAR)",
        "CREATE TABLE secrets (id INTEGER)",
    )
    return lake


def test_the_command_prints_what_an_identity_sees_and_why(lake: Any, tmp_path: Path) -> None:
    lake.detach()
    file = tmp_path / "lakeport.toml"
    file.write_text(POLICIES.format(uri=lake.uri))
    command = ["access", "--config", str(file), "--as"]

    ada = CliRunner().invoke(app, [*command, "ada", "--attribute", "region=eu"])
    eve = CliRunner().invoke(app, [*command, "eve"])

    assert ada.exit_code == 0, ada.output
    text = " ".join(ada.output.split())
    for word in ("public.orders", "select", "insert", "'eu'", "card", "email", "line", "12"):
        assert word in text, word
    assert "secrets" not in text
    assert "token-of-ada" not in text
    assert eve.output.strip() == "eve sees nothing of sales"


def test_a_caller_reads_its_own_access(lake: Any) -> None:
    rules = policy(
        "*.public.orders",
        rows="region = 'eu'",
        hide=("card",),
        mask={"email": "'***'"},
        allow=("select", "insert"),
    )
    with serving(lake, rules) as served:
        rows = served.client("ada").table("lakeport.my_access").scan().to_arrow().to_pylist()
        every = served.client("root").table("lakeport.my_access").scan().to_arrow().to_pylist()

    assert rows == [
        {
            "schema_name": "public",
            "table_name": "orders",
            "permissions": ["select", "insert"],
            "all_rows": False,
            "columns": ["id", "region", "email"],
            "masked_columns": ["email"],
        }
    ]
    assert {row["table_name"] for row in every} == {"orders", "secrets"}
    assert all(row["all_rows"] and not row["masked_columns"] for row in every)
