"""Policies that do not fit their lakes are refused before a server starts, with file and line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakeport.auth import Identity, PolicyExpression
from lakeport.cli.access.server_access import AccessRules
from lakeport.cli.config import load_settings
from lakeport.cli.lake_settings import LakeSettings
from lakeport.errors import DefinitionError
from lakeport.lakehouse import LakeCatalog, check_policies
from lakeport.memory import MemoryCatalog

POLICY = """
# a comment
[[policy]]
who = "everyone"
on = "sales.public.other"
allow = ["select"]

[[policy]]
who = {who}
on = "{on}"
allow = ["{allow}"]
{rest}
"""


@pytest.fixture(scope="module")
def lake(
    reference: duckdb.DuckDBPyConnection, lake_class: Any, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    folder = tmp_path_factory.mktemp("lake")
    lake = lake_class(reference, f"ducklake:{folder}/meta.ducklake", f"{folder}/data/", "")
    lake.execute(
        "CREATE TABLE orders (id INTEGER, email VARCHAR, price DECIMAL(10, 2), gone VARCHAR, "
        "tags VARCHAR[], happened TIMESTAMP)",
        "ALTER TABLE orders DROP COLUMN gone",
        "CREATE VIEW v AS SELECT id FROM orders",
    )
    lake.detach()
    return lake


@pytest.fixture
def checked(lake: Any, tmp_path: Path) -> Callable[..., None]:
    def check(
        rest: str = "",
        *,
        on: str = "sales.public.orders",
        who: str = '"everyone"',
        allow: str = "select",
    ) -> None:
        file = tmp_path / "lakeport.toml"
        file.write_text(POLICY.format(rest=rest, on=on, who=who, allow=allow))
        served = {
            "sales": LakeSettings(uri=lake.uri, name="sales"),
            "scratch": LakeSettings(uri="memory:", name="scratch"),
        }
        rules = AccessRules.of(load_settings(file), served, file=file)
        assert rules.policies is not None
        with LakeCatalog(lake.uri, engine="local") as catalog:
            check_policies(rules.policies, {"sales": catalog, "scratch": MemoryCatalog()})

    return check


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "rows = \"id > 3 AND email = user() OR in_group('x')\"",
        'rows = "list_contains(user_groups(), email)"',
        'rows = "len(list_filter(tags, lambda x: x = user())) > 0"',
        "columns = { hide = ['EMAIL', 'gone'] }",
        "columns = { mask = { email = \"'x'\", price = \"0::DECIMAL(10, 2)\", id = 'NULL' } }",
        "columns = { mask = { happened = \"date_trunc('month', happened)\" } }",
    ],
)
def test_a_policy_that_fits_its_table_is_accepted(checked: Callable[..., None], rest: str) -> None:
    checked(rest)


@pytest.mark.parametrize(
    ("rest", "sentence"),
    [
        ('rows = "idd > 3"', 'line 8: .*idd > 3.* is wrong for public.orders: .*"idd"'),
        ('rows = "id >"', "line 8: rows: .* is not SQL"),
        ('rows = "id"', "rows of public.orders must be of type BOOLEAN, not INTEGER"),
        ('rows = "id > 1; DROP TABLE t"', "is not (SQL|one expression)"),
        ('rows = "id > 1 FROM orders"', "is not one expression"),
        ('rows = "id > 1, id > 2"', "is not one expression"),
        ('rows = "id IN (SELECT 1)"', "cannot have a subquery"),
        ('rows = "sum(id) > 1"', "is wrong for public.orders: .*(WHERE|aggregate)"),
        ('rows = "sum(id) OVER () > 1"', "cannot have a window function"),
        ('rows = "email = user_attribute(email)"', "takes one text"),
        ('rows = "email = user"', r"write user\(\) for the caller"),
        ('rows = ""', "between one and"),
        ("columns = { hide = ['mail'] }", "sales.public.orders has no column 'mail'"),
        ("columns = { mask = { mail = \"'x'\" } }", "has no column 'mail'"),
        ("columns = { mask = { id = \"'x'\" } }", "is wrong for public.orders: .*'x'"),
        ("columns = { mask = { id = \"email || 'x'\" } }", "is wrong for public.orders: .*VARCHAR"),
        ('columns = { mask = { email = "max(email)" } }', "is wrong for public.orders"),
        ("columns = { hide = ['id'], mask = { ID = '0' } }", "both hidden and masked"),
        ("columns = { show = ['id'] }", "policy.2.columns.show: there is no such key"),
    ],
)
def test_a_wrong_expression_is_an_error_that_names_the_line(
    checked: Callable[..., None], rest: str, sentence: str
) -> None:
    with pytest.raises(DefinitionError, match=sentence):
        checked(rest)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"on": "shop.public.orders"}, "line 8: there is no lake 'shop'"),
        ({"on": "sales.orders"}, "line 8: on is 'sales.orders', which is not lake.schema.table"),
        ({"on": "sales.public.v", "rest": 'rows = "id > 1"'}, "is a view"),
        ({"on": "scratch.s.t", "rest": 'rows = "id > 1"'}, "'scratch' is not a lake"),
        ({"who": "{ }"}, 'line 8: who of a policy is "everyone", or has users'),
        ({"who": '"nobody"'}, "policy.2.who"),
        ({"allow": "fly"}, "policy.2.allow"),
    ],
)
def test_a_wrong_policy_is_an_error_that_names_the_line(
    checked: Callable[..., None], options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(DefinitionError, match=sentence):
        checked(**options)


@pytest.mark.parametrize(
    "user", ["o'brien", "x' OR 1=1 --", 'a"b', "{DUCKLAKE_CATALOG}", "\\", "ünï", "''", "%_"]
)
def test_the_text_of_an_identity_never_becomes_sql(user: str) -> None:
    expression = PolicyExpression("name = user() AND region = user_attribute('r')")
    caller = Identity(user, attributes={"r": user})

    rows = "(VALUES (?, ?), ('z', 'z')) t(name, region)"
    sql = f"SELECT count(*) FROM {rows} WHERE {expression.sql(caller)}"

    assert duckdb.execute(sql, [user, user]).fetchall() == [(1,)]
