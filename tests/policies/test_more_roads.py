"""Change feeds, writes, direct reads, spark_sql and logs, with every kind of restriction.

What is left for a caller is computed by DuckDB over what an administrator reads.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport import Client
from lakeport.errors import LakeportError, PermissionDeniedError
from tests.airport.flight_client import path
from tests.policies.fixtures_policies import Callers, policy, serving
from tests.policies.road_cases import CASES, FULL, Case, Two

FEEDS = ("table_changes", "table_insertions", "table_deletions")
VERSIONS = range(2, 8)
ONE_SIDED = {"update_preimage": "delete", "update_postimage": "insert"}
ALL = ("select", "insert", "update", "delete")
ROWS = 30
cases = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


def visible(case: Case, rows: pa.Table) -> list[dict[str, Any]]:
    """What the policies of a case leave of rows; other columns than those of the table stay."""
    with duckdb.connect() as connection:
        connection.register("full_orders", rows)
        found: list[dict[str, Any]] = connection.sql(case.visible).to_arrow_table().to_pylist()
    return found


def texts(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(
        repr({name: row[name] for name in sorted(row) if name != "rowid"}) for row in rows
    )


def one_sided(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An update of which one side is left is an insert or a delete."""
    sides: dict[tuple[int, int], int] = {}
    for row in rows:
        if row["change_type"] in ONE_SIDED:
            key = (row["snapshot_id"], row["rowid"])
            sides[key] = sides.get(key, 0) + 1
    return [
        row | {"change_type": ONE_SIDED[row["change_type"]]}
        if sides.get((row["snapshot_id"], row["rowid"])) == 1 and row["change_type"] in ONE_SIDED
        else row
        for row in rows
    ]


@pytest.fixture(scope="module")
def every_change(two: Two) -> Callable[[int], pa.Table]:
    """Return the changes of a version that an administrator reads, once for all feeds."""
    root = two.ours.client("root")
    return cache(lambda version: _call(root, "table_changes", "orders", version, version))


@pytest.mark.parametrize("feed", FEEDS)
def test_change_feeds_are_those_of_what_the_caller_sees(
    two: Two, every_change: Callable[[int], pa.Table], feed: str
) -> None:
    client = two.ours.client(two.case.caller)

    for version in VERSIONS:
        ours = _call(client, feed, "orders", version, version).to_pylist()
        expected = one_sided(visible(two.case, every_change(version)))
        if feed != "table_changes":
            kinds = _kinds(feed)
            expected = [row for row in expected if row.pop("change_type") in kinds]
        assert texts(ours) == texts(expected), version


def _kinds(feed: str) -> set[str]:
    is_insertion = feed == "table_insertions"
    return {"insert", "update_postimage"} if is_insertion else {"delete", "update_preimage"}


def test_a_caller_without_a_policy_finds_no_road(two: Two) -> None:
    client, wire = two.ours.client("eve"), two.ours.wire("eve")
    asked = json.dumps({"schema_name": "public", "table_name": "orders"}).encode()

    functions: tuple[tuple[Any, ...], ...] = (
        *((feed, "orders", 0, 8) for feed in FEEDS),
        ("list_files", "orders"),
    )
    scans = (
        *(("public", view) for view in ("everything", "totals", "over_view")),
        *(("lakeport", name) for name in ("snapshots", "columns", "files", "my_access")),
    )
    calls: list[Callable[[], Any]] = [
        *(partial(_call, client, *each) for each in (*functions, ("table_info",))),
        *(partial(wire.scan, path(*each)) for each in scans),
        lambda: wire.scan(path("public", "orders"), at=("VERSION", "5")),
        lambda: wire.endpoints(path("public", "orders")),
        lambda: wire.action("GetFlightInfo", asked),
        lambda: wire.action("GetSchemas", b"{}"),
        lambda: client.table("public.orders").statistics("id"),
    ]
    for call in calls:
        with pytest.raises((LakeportError, flight.FlightError), match="you may not"):
            call()


def _call(client: Client, name: str, *arguments: Any) -> pa.Table:
    return client.call_table(f"lakeport.{name}", *arguments).to_arrow()


def test_no_log_line_contains_what_the_caller_does_not_see(
    two: Two, caplog: pytest.LogCaptureFixture
) -> None:
    client = two.ours.client(two.case.caller)
    with caplog.at_level(logging.DEBUG):
        client.table("public.orders").scan().to_arrow()
        client.table("public.totals").scan().to_arrow()
        client.call_table("lakeport.table_changes", "orders", 0, 8).to_arrow()
        with pytest.raises(LakeportError):
            client.table("public.orders").scan(["cards"]).to_arrow()

    assert caplog.records
    for secret in two.case.secrets:
        assert secret.decode() not in caplog.text


def test_listings_of_callers_are_their_own(two: Two) -> None:
    """The digest of a listing, which clients cache, depends on what its caller sees."""
    root, ours = two.ours.wire("root"), two.ours.wire(two.case.caller)
    columns = [wire.items("public")["orders"].schema.names for wire in (root, ours, root)]

    assert columns[0] == columns[2]
    assert "card" in columns[0]
    assert ("card" in columns[1]) == two.case.has_card
    digests = [_digest(wire) for wire in (root, ours)]
    assert digests == [_digest(wire) for wire in (root, ours)]
    if columns[0] != columns[1]:
        assert digests[0] != digests[1]


def _digest(wire: Any) -> list[Any]:
    schemas = wire.list_schemas()["schemas"]
    return [each["contents"]["sha256"] for each in schemas if each["name"] == "public"]


@pytest.fixture(scope="module")
def orders(make: Callable[..., Any]) -> Callable[[], Any]:
    return lambda: make(FULL)


@cases
def test_direct_reads_are_for_whole_tables_only(orders: Callable[[], Any], case: Case) -> None:
    with serving(orders(), *case.policies, direct_reads=True) as callers:
        endpoints = callers.wire(case.caller).endpoints(path("public", "orders"))
        named = b"".join(each.serialize() for each in endpoints)

    assert (b"duckdb-function-call" in named) == case.is_whole


@cases
def test_updates_and_deletes_reach_only_what_the_caller_sees(
    orders: Callable[[], Any], case: Case
) -> None:
    rules = [replace(each, allow=frozenset(ALL)) for each in case.policies]
    with serving(orders(), *rules, writable=True) as callers:
        before = _everything(callers)
        seen = {row["id"] for row in visible(case, before)}
        table = callers.client(case.caller).table("public.orders")
        every = list(range(ROWS))

        changed = table.update(pa.table({"rowid": every, "price": [0.25] * ROWS}), returning=True)
        updated = {row["id"]: row["price"] for row in _everything(callers).to_pylist()}
        expected = visible(case, _everything(callers))
        deleted = table.delete(every, returning=True)
        left = _everything(callers).to_pylist()

    assert {key for key, price in updated.items() if price == 0.25} == seen
    assert deleted.returning is not None
    assert texts(deleted.returning.to_pylist()) == texts(expected)
    kept = [row for row in before.to_pylist() if row["id"] not in seen]
    assert texts(left) == texts(kept)
    for secret in case.secrets:
        assert secret not in repr((changed.returning, deleted.returning)).encode()


@cases
def test_inserts_return_what_the_caller_sees(orders: Callable[[], Any], case: Case) -> None:
    rules = [replace(each, allow=frozenset(ALL)) for each in case.policies]
    region = "us" if case.caller == "bob" else "eu"
    row = {"id": 99, "region": region, "email": "a@shop", "price": 1.0, "deleted": False}
    if case.has_card:
        row["card"] = "SECRETCOL"
    with serving(orders(), *rules, writable=True) as callers:
        table = callers.client(case.caller).table("public.orders")
        try:
            added = table.insert(pa.Table.from_pylist([row]), returning=True)
        except PermissionDeniedError:
            added = None
        new = _everything(callers).filter(pa.compute.field("id") == 99)

    expected = visible(case, new)
    assert (added is None) == (not expected)
    if added is not None:
        assert added.returning is not None
        assert texts(added.returning.to_pylist()) == texts(expected)


def test_a_caller_without_a_policy_writes_nothing(orders: Callable[[], Any]) -> None:
    with serving(orders(), policy(rows="id < 5", allow=ALL), writable=True) as callers:
        wire = callers.wire("eve")
        for operation in ("insert", "update", "delete"):
            with pytest.raises(flight.FlightError, match="you may not"):
                wire.change(operation, path("public", "orders"), pa.table({"id": [1]}))


def _everything(callers: Callers) -> pa.Table:
    return callers.client("root").table("public.orders").scan().to_arrow()


def test_spark_sql_reads_whole_tables_only(full: Any, spark: Any) -> None:
    query = "SELECT count(*) AS n, max(card) AS c FROM orders"
    for case in CASES.values():
        rules = [replace(each, allow=frozenset({"select", "spark_sql"})) for each in case.policies]
        with serving(full, *rules, spark=spark, spark_sql=True, engine="spark") as callers:
            ours = callers.client(case.caller)
            if case.is_whole:
                assert ours.call_table("lakeport.spark_sql", query).to_arrow().num_rows == 1
            else:
                with pytest.raises(LakeportError, match="policies restrict") as refused:
                    ours.call_table("lakeport.spark_sql", query).to_arrow()
                assert "SECRET" not in str(refused.value)
            with pytest.raises(LakeportError, match="you may not"):
                callers.client("eve").call_table("lakeport.spark_sql", query).to_arrow()
