"""INSERT, UPDATE and DELETE by callers with policies, through the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakeport.errors import LakeportError, PermissionDeniedError
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


MASK = {"card": "'***' || right(card, 1)"}
OWN = "region = user_attribute('region')"


def returned(result: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = result.returning.to_pylist()
    return [{name: value for name, value in row.items() if name != "rowid"} for row in rows]


def test_returning_does_not_show_what_is_hidden(served: Any) -> None:
    with served(hide=("card",), allow=ALL) as callers:
        table = callers.client("ada").table("public.orders")
        deleted = table.delete([1], returning=True)
        changed = table.update(pa.table({"rowid": [2], "region": ["asia"]}), returning=True)
        added = table.insert(pa.table({"id": [20], "region": ["eu"]}), returning=True)
        rows = everything(callers)

    assert returned(deleted) == [{"id": 1, "region": "eu"}]
    assert returned(changed) == [{"region": "asia"}]
    assert returned(added) == [{"id": 20, "region": "eu"}]
    assert len(rows) == 10
    assert (2, "asia", "card2") in rows


def test_returning_masks_and_leaves_out_what_the_caller_does_not_see(served: Any) -> None:
    with served(rows=OWN, mask=MASK, allow=ALL) as callers:
        table = callers.client("ada").table("public.orders")
        deleted = table.delete([1, 7], returning=True)
        sent = pa.table({"rowid": [2, 8], "id": [200, 800], "card": ["new-5", "new-6"]})
        changed = table.update(sent, returning=True)
        new = pa.table({"id": [20], "region": ["eu"], "card": ["card20"]})
        added = table.insert(new, returning=True)
        rows = everything(callers)

    assert returned(deleted) == [{"id": 1, "region": "eu", "card": "***1"}]
    assert returned(changed) == [{"id": 200, "card": "***5"}]
    assert returned(added) == [{"id": 20, "region": "eu", "card": "***0"}]
    assert (20, "eu", "card20") in rows
    assert (200, "eu", "new-5") in rows
    assert {(7, "us", "card7"), (8, "us", "card8")} <= {*rows}


def test_rows_that_the_caller_may_write_and_not_read_are_not_returned(
    make_lake: Callable[..., Any],
) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE orders AS SELECT i AS id, 'us' AS region FROM range(4) r(i)")
    rules = (
        policy("*.public.orders", rows=OWN),
        policy("*.public.orders", allow=("insert",), rows="id >= 0"),
    )
    with serving(lake, *rules, writable=True) as callers:
        table = callers.client("ada").table("public.orders")
        added = table.insert(pa.table({"id": [5, 6], "region": ["us", "eu"]}), returning=True)

    assert returned(added) == [{"id": 6, "region": "eu"}]


def test_a_mask_that_a_client_sends_back_is_not_written(served: Any) -> None:
    """DuckDB sends the columns that a statement does not change, as it has read them."""
    with served(mask=MASK, allow=ALL) as callers:
        table = callers.client("ada").table("public.orders")
        read = table.scan(["rowid", "id", "card"]).to_arrow().slice(0, 3)
        cards = [*read.column("card").to_pylist()[:2], "changed"]
        sent = pa.table({"rowid": read["rowid"], "id": [100, 101, 102], "card": cards})
        changed = table.update(sent, returning=True)
        rows = everything(callers)

    assert cards[:2] == ["***0", "***1"]
    assert [row["card"] for row in returned(changed)] == ["***0", "***1", "***d"]
    assert rows[-3:] == [(100, "eu", "card0"), (101, "eu", "card1"), (102, "eu", "changed")]


def test_an_update_moves_no_row_out_of_what_the_policy_admits(served: Any) -> None:
    with served(rows=OWN, allow=ALL) as callers:
        before = everything(callers)
        table = callers.client("ada").table("public.orders")
        with pytest.raises(PermissionDeniedError, match="do not admit the rows that they would"):
            table.update(pa.table({"rowid": [1, 2], "region": ["eu", "us"]}))
        table.update(pa.table({"rowid": [1, 9], "region": ["eu", "us"]}))

        assert everything(callers) == before


def test_a_transaction_sees_its_own_rows_of_a_restricted_table(served: Any) -> None:
    with served(rows=OWN, mask=MASK, allow=ALL) as callers:
        client = callers.client("ada")
        with client.transaction(explicit=True):
            table = client.table("public.orders")
            table.insert(pa.table({"id": [20], "region": ["eu"], "card": ["card7"]}))
            rows = table.scan(["rowid", "id", "card"], filter="id = 20").to_arrow().to_pylist()
            own = rows[0]["rowid"]
            table.update(pa.table({"rowid": [own], "id": [21]}))
            table.delete([0, 9])
        rows_after = everything(callers)

    assert [(row["id"], row["card"]) for row in rows] == [(20, "***7")]
    assert (21, "eu", "card7") in rows_after
    assert len(rows_after) == 10


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
