"""INSERT, UPDATE and DELETE by callers with policies, through the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakeport.errors import LakeportError, PermissionDeniedError, UnsupportedError
from tests.policies.fixtures_policies import Callers, policy, serving

ALL = ("select", "insert", "update", "delete")


@pytest.fixture
def served(make_lake: Callable[..., Any]) -> Callable[..., Any]:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE orders AS SELECT i AS id, CASE WHEN i < 5 THEN 'eu' ELSE 'us' END AS region, "
        "'card' || i AS card FROM range(10) r(i)"
    )

    def start(**options: Any) -> Any:
        return serving(lake, policy("*.public.orders", **options), writable=True)

    return start


def everything(callers: Callers) -> list[tuple[Any, ...]]:
    rows = callers.client("root").table("public.orders").scan().to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def test_rows_outside_of_the_filter_are_not_there_for_update_and_delete(served: Any) -> None:
    with served(rows="region = user_attribute('region')", allow=ALL) as callers:
        table = callers.client("ada").table("public.orders")
        seen = table.scan(["rowid", "id"]).to_arrow().to_pylist()
        assert [row["id"] for row in seen] == [0, 1, 2, 3, 4]

        changes = pa.table({"rowid": list(range(10)), "card": ["new"] * 10})
        table.update(changes)
        table.delete([0, 9])
        rows = everything(callers)

    assert [row for row in rows if row[1] == "us"] == [(i, "us", f"card{i}") for i in range(5, 10)]
    assert [row for row in rows if row[1] == "eu"] == [(i, "eu", "new") for i in range(1, 5)]


def test_only_rows_that_the_policy_admits_are_inserted(served: Any) -> None:
    with served(rows="region = user_attribute('region')", allow=ALL) as callers:
        table = callers.client("ada").table("public.orders")
        table.insert(pa.table({"id": [20], "region": ["eu"], "card": ["x"]}))
        with pytest.raises(PermissionDeniedError, match="admit other rows only"):
            table.insert(pa.table({"id": [21], "region": ["us"], "card": ["x"]}))
        rows = everything(callers)

    assert (20, "eu", "x") in rows
    assert len(rows) == 11


def test_a_hidden_column_is_null_in_inserted_rows_and_kept_by_updates(served: Any) -> None:
    with served(hide=("card",), allow=ALL) as callers:
        table = callers.client("ada").table("public.orders")
        assert table.schema.names == ["id", "region"]
        table.insert(pa.table({"id": [20], "region": ["eu"]}))
        table.update(pa.table({"rowid": [1], "region": ["asia"]}))
        rows = everything(callers)

    assert (20, "eu", None) in rows
    assert (1, "asia", "card1") in rows


def test_returning_does_not_show_what_is_hidden(served: Any) -> None:
    with served(hide=("card",), allow=ALL) as callers:
        table = callers.client("ada").table("public.orders")
        with pytest.raises(UnsupportedError, match="RETURNING"):
            table.delete([1], returning=True)
        assert len(everything(callers)) == 10


@pytest.mark.parametrize("verb", ["insert", "update", "delete"])
def test_what_no_policy_allows_is_refused(served: Any, verb: str) -> None:
    allow = tuple(each for each in ALL if each != verb)
    with served(allow=allow) as callers:
        table = callers.client("ada").table("public.orders")
        calls: dict[str, Callable[[], Any]] = {
            "insert": lambda: table.insert(pa.table({"id": [1], "region": ["eu"], "card": ["x"]})),
            "update": lambda: table.update(pa.table({"rowid": [1], "region": ["asia"]})),
            "delete": lambda: table.delete([1]),
        }
        for name, call in calls.items():
            if name == verb:
                with pytest.raises(PermissionDeniedError, match="you may not write"):
                    call()
            else:
                call()
        with pytest.raises(LakeportError):
            table.add_column("extra", pa.int64())
