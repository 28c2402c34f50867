"""Transactions on the wire: one per statement, or several statements in one where asked for."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.catalog import CatalogBuilder
from lakeport.errors import UnavailableError
from tests.airport.rig import Serving, Wire, path
from tests.airport.staging import StagingCatalog

HERE = path("s", "t")


@pytest.fixture
def catalog() -> StagingCatalog:
    return StagingCatalog()


@pytest.fixture
def wire(serving: Serving, catalog: StagingCatalog) -> Wire:
    return serving({"lake": catalog}, headers={"airport-catalog": "lake"})


def insert(wire: Wire, *values: int) -> None:
    wire.change("insert", HERE, pa.table({"x": list(values)}))


def visible(wire: Wire) -> list[int]:
    found: list[int] = wire.scan(HERE).column("x").to_pylist()
    return found


def begin(wire: Wire, **fields: Any) -> str:
    reply = msgpack.unpackb(wire.call("create_transaction", catalog_name="lake", **fields))
    return str(reply["identifier"])


def status(wire: Wire, identifier: str) -> dict[str, Any]:
    reply: dict[str, Any] = msgpack.unpackb(
        wire.call("get_transaction_status", transaction_id=identifier)
    )
    return reply


def test_a_catalog_without_transactions_answers_with_nil(serving: Serving) -> None:
    wire = serving(CatalogBuilder().build())

    assert msgpack.unpackb(wire.call("create_transaction", catalog_name="")) == {"identifier": None}
    assert status(wire, "t1") == {"status": "", "exists": False}


def test_a_transaction_has_an_identifier_and_a_state(wire: Wire) -> None:
    identifier = begin(wire)

    assert status(wire, identifier) == {"status": "active", "exists": True}
    assert status(wire, "unknown") == {"status": "", "exists": False}


def test_a_statement_that_succeeds_is_committed(wire: Wire, catalog: StagingCatalog) -> None:
    inside = wire.with_headers(airport_transaction_id=begin(wire))

    insert(inside, 1, 2)

    assert catalog.committed == [1, 2]
    assert catalog.log == [("begin", "t1"), ("commit", "t1")]


def test_an_identifier_stays_usable_after_a_commit(wire: Wire, catalog: StagingCatalog) -> None:
    # DuckDB goes on using it until its own transaction ends.
    inside = wire.with_headers(airport_transaction_id=begin(wire))

    insert(inside, 1)
    insert(inside, 2)

    assert visible(inside) == catalog.committed == [1, 2]


def test_a_statement_that_fails_is_rolled_back(wire: Wire, catalog: StagingCatalog) -> None:
    inside = wire.with_headers(airport_transaction_id=begin(wire))

    with pytest.raises(flight.FlightServerError, match="must not be negative"):
        insert(inside, 1, -1)

    assert catalog.committed == []
    assert visible(inside) == []
    assert catalog.log[-1] == ("rollback", "t1")


@pytest.mark.parametrize("returning", [False, True])
def test_a_commit_that_fails_fails_the_statement(serving: Serving, returning: bool) -> None:
    class Contested(StagingCatalog):
        def commit_transaction(self, transaction_id: str) -> None:
            raise UnavailableError("somebody else was first; try again")

    catalog = Contested()
    wire = serving(catalog)

    # The client must not hear of success before the rows are safe.
    with pytest.raises(flight.FlightUnavailableError, match="somebody else was first"):
        wire.change("insert", HERE, pa.table({"x": [1]}), returning=returning)

    assert catalog.committed == []
    assert catalog.log[-1] == ("rollback", "t1")


def test_a_statement_without_a_transaction_gets_its_own(
    wire: Wire, catalog: StagingCatalog
) -> None:
    insert(wire, 1)
    with pytest.raises(flight.FlightServerError):
        insert(wire, -1)

    assert catalog.log == [("begin", "t1"), ("commit", "t1"), ("begin", "t2"), ("rollback", "t2")]
    assert catalog.committed == [1]


def test_ddl_is_part_of_the_transaction_it_names(wire: Wire, catalog: StagingCatalog) -> None:
    inside = wire.with_headers(airport_transaction_id=begin(wire))

    inside.action("drop_table", msgpack.packb({"schema_name": "s", "name": "t"}))
    with pytest.raises(pa.ArrowInvalid, match="no more tables"):
        inside.call(
            "create_table",
            schema_name="s",
            table_name="u",
            arrow_schema=pa.schema([("x", pa.int64())]).serialize().to_pybytes(),
        )

    assert catalog.log[1:] == [("drop_table", "t1"), ("commit", "t1"), ("rollback", "t1")]


@pytest.fixture
def duckdb(wire: Wire) -> Wire:
    """The calls of one DuckDB process."""
    return wire.with_headers(airport_client_session_id="process-1")


def without_catalog(wire: Wire) -> Wire:
    """The headers of `airport_action`, which names no catalog."""
    headers = {k: v for k, v in wire.headers.items() if k != "airport-catalog"}
    return Wire(wire.server, wire.client, headers)


@pytest.mark.parametrize("body", [b"lake", b"", msgpack.packb({"catalog_name": "lake"})])
def test_all_calls_of_a_process_join_the_transaction_it_began(
    duckdb: Wire, wire: Wire, catalog: StagingCatalog, body: bytes
) -> None:
    other = wire.with_headers(airport_client_session_id="process-2")
    (identifier,) = without_catalog(duckdb).action("begin_transaction", body)

    insert(duckdb, 1)
    insert(duckdb.with_headers(airport_transaction_id=begin(duckdb)), 2)

    assert identifier == b"t1"
    assert catalog.committed == []
    assert visible(duckdb) == [1, 2]
    assert visible(other) == visible(wire) == []


@pytest.mark.parametrize("body", [b"lake", b"", msgpack.packb({"catalog_name": "lake"})])
def test_a_commit_makes_the_changes_of_a_process_durable(
    duckdb: Wire, wire: Wire, catalog: StagingCatalog, body: bytes
) -> None:
    without_catalog(duckdb).action("begin_transaction", b"lake")
    insert(duckdb, 1)
    insert(duckdb, 2)

    assert without_catalog(duckdb).action("commit_transaction", body) == [b"committed"]

    assert catalog.committed == visible(wire) == [1, 2]
    insert(duckdb, 3)
    assert catalog.committed == [1, 2, 3]


def test_a_rollback_drops_the_changes_of_a_process(
    duckdb: Wire, wire: Wire, catalog: StagingCatalog
) -> None:
    duckdb.action("begin_transaction", b"lake")
    insert(duckdb, 1)

    assert duckdb.action("rollback_transaction", b"lake") == [b"rolled back"]

    assert catalog.committed == visible(duckdb) == []


def test_an_unnamed_catalog_takes_part_by_any_name(serving: Serving) -> None:
    catalog = StagingCatalog()
    wire = serving(catalog, headers={"airport-client-session-id": "p", "airport-catalog": "any"})

    without_catalog(wire).action("begin_transaction")
    insert(wire, 1)
    assert catalog.committed == []
    without_catalog(wire).action("commit_transaction")

    assert catalog.committed == [1]


def test_a_process_has_one_transaction_per_catalog(duckdb: Wire, catalog: StagingCatalog) -> None:
    duckdb.action("begin_transaction", b"lake")

    with pytest.raises(pa.ArrowInvalid, match="a transaction is open on catalog 'lake'"):
        duckdb.action("begin_transaction", b"lake")

    assert catalog.log[-1] == ("rollback", "t2")
    insert(duckdb, 1)
    assert catalog.committed == []


def test_processes_with_two_open_transactions_must_name_the_catalog(serving: Serving) -> None:
    wire = serving(
        {"red": StagingCatalog("r"), "blue": StagingCatalog("b")},
        headers={"airport-client-session-id": "p"},
    )
    for name in (b"red", b"blue"):
        wire.action("begin_transaction", name)

    with pytest.raises(KeyError, match="there are several open transactions: name the catalog"):
        wire.action("commit_transaction")
    assert wire.action("commit_transaction", b"red") == [b"committed"]
    assert wire.action("rollback_transaction") == [b"rolled back"]


def test_catalogs_that_give_the_same_identifier_are_told_apart(serving: Serving) -> None:
    red, blue = StagingCatalog(), StagingCatalog()
    wire = serving({"red": red, "blue": blue})
    for name in ("red", "blue"):
        wire.call("create_transaction", catalog_name=name, explicit=True)

    with pytest.raises(KeyError, match="there is no open transaction"):
        wire.call("commit_transaction", transaction_id="t1")
    wire.call("commit_transaction", transaction_id="t1", catalog_name="blue")

    assert ("commit", "t1") in blue.log
    assert ("commit", "t1") not in red.log


def test_a_transaction_is_not_joined_by_somebody_else(
    serving: Serving, catalog: StagingCatalog
) -> None:
    wire = serving({"lake": catalog}, auth={"a": "ada", "g": "grace"})
    ada, grace = (wire.with_headers(authorization=f"Bearer {token}") for token in "ag")
    identifier = begin(ada, explicit=True)

    with pytest.raises(flight.FlightUnauthorizedError, match="belongs to another user"):
        grace.with_headers(airport_transaction_id=identifier).scan(HERE)
    with pytest.raises(flight.FlightUnauthorizedError, match="belongs to another user"):
        grace.call("commit_transaction", transaction_id=identifier)
    ada.call("commit_transaction", transaction_id=identifier)


def test_leaving_out_the_catalog_is_no_way_into_somebody_else_s_transaction(
    serving: Serving, catalog: StagingCatalog
) -> None:
    wire = serving({"lake": catalog, "other": StagingCatalog()}, auth={"a": "ada", "g": "grace"})
    ada, grace = (wire.with_headers(authorization=f"Bearer {token}") for token in "ag")
    there = path("lake", "s", "t")
    identifier = begin(ada, explicit=True)
    ada.with_headers(airport_transaction_id=identifier).change(
        "insert", there, pa.table({"x": [1]})
    )
    inside = grace.with_headers(airport_transaction_id=identifier)

    for intrude in (
        lambda: inside.scan(there),
        lambda: inside.change("insert", there, pa.table({"x": [666]})),
        lambda: grace.call(
            "get_transaction_status", catalog_name="lake", transaction_id=identifier
        ),
    ):
        with pytest.raises(flight.FlightUnauthorizedError, match="belongs to another user"):
            intrude()
    ada.call("commit_transaction", transaction_id=identifier)
    assert catalog.committed == [1]


def test_the_state_of_a_transaction_is_told_to_those_who_may_see_the_catalog(
    serving: Serving, catalog: StagingCatalog
) -> None:
    wire = serving({"lake": catalog}, authorize=lambda access: False)

    with pytest.raises(flight.FlightUnauthorizedError, match="you may not list lake"):
        status(wire, "t1")


def test_a_process_that_names_no_catalog_in_its_headers_joins_by_what_it_addresses(
    serving: Serving, catalog: StagingCatalog
) -> None:
    # The client of DuckDB 1.4 sends no airport-catalog.
    wire = serving(
        {"lake": catalog, "other": StagingCatalog()}, headers={"airport-client-session-id": "p"}
    )
    there = path("lake", "s", "t")
    wire.action("begin_transaction", b"lake")

    wire.change("insert", there, pa.table({"x": [1]}))
    assert wire.scan(there).column("x").to_pylist() == [1]
    assert catalog.committed == []
    wire.action("rollback_transaction", b"lake")

    assert wire.scan(there).num_rows == 0


def test_writes_after_a_transaction_has_expired_are_refused(
    serving: Serving, catalog: StagingCatalog
) -> None:
    wire = serving(
        {"lake": catalog},
        headers={"airport-client-session-id": "p", "airport-catalog": "lake"},
        transaction_timeout=0,
    )
    wire.action("begin_transaction", b"lake")

    with pytest.raises(flight.FlightServerError, match="rolled back after 0 seconds"):
        insert(wire, 1)
    with pytest.raises(pa.ArrowInvalid, match="rolled back after 0 seconds"):
        wire.action("commit_transaction", b"lake")
    assert visible(wire) == []

    wire.action("rollback_transaction", b"lake")
    insert(wire, 2)
    assert catalog.committed == [2]


def test_a_process_of_another_identity_is_another_process(
    serving: Serving, catalog: StagingCatalog
) -> None:
    wire = serving({"lake": catalog}, auth={"a": "ada", "g": "grace"}).with_headers(
        airport_catalog="lake", airport_client_session_id="process-1"
    )
    ada, grace = (wire.with_headers(authorization=f"Bearer {token}") for token in "ag")

    ada.action("begin_transaction", b"lake")
    insert(ada, 1)

    assert visible(ada) == [1]
    assert visible(grace) == []
    with pytest.raises(KeyError, match="there is no open transaction"):
        grace.action("commit_transaction", b"lake")


def test_a_transaction_of_a_process_needs_its_session(wire: Wire) -> None:
    with pytest.raises(pa.ArrowInvalid, match="needs the airport-client-session-id header"):
        wire.action("begin_transaction", b"lake")


@pytest.mark.parametrize("action", ["commit_transaction", "rollback_transaction"])
@pytest.mark.parametrize("body", [b"", b"lake", msgpack.packb({"transaction_id": "t9"})])
def test_what_was_not_begun_cannot_be_ended(duckdb: Wire, action: str, body: bytes) -> None:
    with pytest.raises(KeyError, match="there is no open transaction"):
        duckdb.action(action, body)


def test_an_explicit_transaction_is_that_of_the_calls_that_name_it(
    wire: Wire, catalog: StagingCatalog
) -> None:
    identifier = begin(wire, explicit=True)
    inside = wire.with_headers(airport_transaction_id=identifier)

    insert(inside, 1)
    insert(inside, 2)
    assert visible(inside) == [1, 2]
    assert visible(wire) == []

    wire.call("commit_transaction", transaction_id=identifier)
    assert catalog.committed == [1, 2]


def test_an_explicit_transaction_is_rolled_back_by_name(
    wire: Wire, catalog: StagingCatalog
) -> None:
    identifier = begin(wire, explicit=True)
    insert(wire.with_headers(airport_transaction_id=identifier), 1)

    wire.call("rollback_transaction", transaction_id=identifier)

    assert catalog.committed == []
    assert status(wire, identifier)["status"] == "aborted"


def test_a_failure_rolls_an_explicit_transaction_back(wire: Wire, catalog: StagingCatalog) -> None:
    inside = wire.with_headers(airport_transaction_id=begin(wire, explicit=True))
    insert(inside, 1)

    with pytest.raises(flight.FlightServerError):
        insert(inside, -1)

    assert visible(inside) == []
    assert catalog.log[-1] == ("rollback", "t1")


def test_an_implicit_transaction_is_not_committed_by_name(wire: Wire) -> None:
    identifier = begin(wire)

    with pytest.raises(KeyError, match="there is no open transaction"):
        wire.call("commit_transaction", transaction_id=identifier)


def test_an_explicit_transaction_needs_a_catalog_that_has_them(serving: Serving) -> None:
    wire = serving(CatalogBuilder("lake").build(), headers={"airport-client-session-id": "p"})

    with pytest.raises(pa.ArrowNotImplementedError, match="catalog 'lake' has no transactions"):
        begin(wire, explicit=True)
    with pytest.raises(pa.ArrowNotImplementedError, match="catalog 'lake' has no transactions"):
        wire.action("begin_transaction", b"lake")


def test_a_json_delete_is_a_statement_too(wire: Wire, catalog: StagingCatalog) -> None:
    request = {"schema_name": "s", "table_name": "t", "row_ids": []}

    with pytest.raises(pa.ArrowNotImplementedError, match="cannot be deleted"):
        wire.action("Delete", json.dumps(request).encode())
    assert catalog.log == []
