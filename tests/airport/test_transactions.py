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
from tests.airport.flight_client import RawFlightClient, Serving, path
from tests.airport.transactional_catalog import TransactionalCatalog

HERE = path("s", "t")


@pytest.fixture
def catalog() -> TransactionalCatalog:
    return TransactionalCatalog()


@pytest.fixture
def flight_client(start_server: Serving, catalog: TransactionalCatalog) -> RawFlightClient:
    return start_server({"lake": catalog}, headers={"airport-catalog": "lake"})


def insert(flight_client: RawFlightClient, *values: int) -> None:
    flight_client.change("insert", HERE, pa.table({"x": list(values)}))


def visible(flight_client: RawFlightClient) -> list[int]:
    found: list[int] = flight_client.scan(HERE).column("x").to_pylist()
    return found


def begin(flight_client: RawFlightClient, **fields: Any) -> str:
    reply = msgpack.unpackb(flight_client.call("create_transaction", catalog_name="lake", **fields))
    return str(reply["identifier"])


def status(flight_client: RawFlightClient, identifier: str) -> dict[str, Any]:
    reply: dict[str, Any] = msgpack.unpackb(
        flight_client.call("get_transaction_status", transaction_id=identifier)
    )
    return reply


def test_a_catalog_without_transactions_answers_with_nil(start_server: Serving) -> None:
    flight_client = start_server(CatalogBuilder().build())

    assert msgpack.unpackb(flight_client.call("create_transaction", catalog_name="")) == {
        "identifier": None
    }
    assert status(flight_client, "t1") == {"status": "", "exists": False}


def test_a_transaction_has_an_identifier_and_a_state(flight_client: RawFlightClient) -> None:
    identifier = begin(flight_client)

    assert status(flight_client, identifier) == {"status": "active", "exists": True}
    assert status(flight_client, "unknown") == {"status": "", "exists": False}


def test_a_statement_that_succeeds_is_committed(
    flight_client: RawFlightClient, catalog: TransactionalCatalog
) -> None:
    inside = flight_client.with_headers(airport_transaction_id=begin(flight_client))

    insert(inside, 1, 2)

    assert catalog.committed == [1, 2]
    assert catalog.log == [("begin", "t1"), ("commit", "t1")]


def test_an_identifier_stays_usable_after_a_commit(
    flight_client: RawFlightClient, catalog: TransactionalCatalog
) -> None:
    # DuckDB goes on using it until its own transaction ends.
    inside = flight_client.with_headers(airport_transaction_id=begin(flight_client))

    insert(inside, 1)
    insert(inside, 2)

    assert visible(inside) == catalog.committed == [1, 2]


def test_a_statement_that_fails_is_rolled_back(
    flight_client: RawFlightClient, catalog: TransactionalCatalog
) -> None:
    inside = flight_client.with_headers(airport_transaction_id=begin(flight_client))

    with pytest.raises(flight.FlightServerError, match="must not be negative"):
        insert(inside, 1, -1)

    assert catalog.committed == []
    assert visible(inside) == []
    assert catalog.log[-1] == ("rollback", "t1")


@pytest.mark.parametrize("returning", [False, True])
def test_a_commit_that_fails_fails_the_statement(start_server: Serving, returning: bool) -> None:
    class Contested(TransactionalCatalog):
        def commit_transaction(self, transaction_id: str) -> None:
            raise UnavailableError("somebody else was first; try again")

    catalog = Contested()
    flight_client = start_server(catalog)

    # The client must not hear of success before the rows are safe.
    with pytest.raises(flight.FlightUnavailableError, match="somebody else was first"):
        flight_client.change("insert", HERE, pa.table({"x": [1]}), returning=returning)

    assert catalog.committed == []
    assert catalog.log[-1] == ("rollback", "t1")


def test_a_statement_without_a_transaction_gets_its_own(
    flight_client: RawFlightClient, catalog: TransactionalCatalog
) -> None:
    insert(flight_client, 1)
    with pytest.raises(flight.FlightServerError):
        insert(flight_client, -1)

    assert catalog.log == [("begin", "t1"), ("commit", "t1"), ("begin", "t2"), ("rollback", "t2")]
    assert catalog.committed == [1]


def test_ddl_is_part_of_the_transaction_it_names(
    flight_client: RawFlightClient, catalog: TransactionalCatalog
) -> None:
    inside = flight_client.with_headers(airport_transaction_id=begin(flight_client))

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
def duckdb(flight_client: RawFlightClient) -> RawFlightClient:
    """The calls of one DuckDB process."""
    return flight_client.with_headers(airport_client_session_id="process-1")


def without_catalog(flight_client: RawFlightClient) -> RawFlightClient:
    """The headers of `airport_action`, which names no catalog."""
    headers = {k: v for k, v in flight_client.headers.items() if k != "airport-catalog"}
    return RawFlightClient(flight_client.server, flight_client.client, headers)


@pytest.mark.parametrize("body", [b"lake", b"", msgpack.packb({"catalog_name": "lake"})])
def test_all_calls_of_a_process_join_the_transaction_it_began(
    duckdb: RawFlightClient,
    flight_client: RawFlightClient,
    catalog: TransactionalCatalog,
    body: bytes,
) -> None:
    other = flight_client.with_headers(airport_client_session_id="process-2")
    (identifier,) = without_catalog(duckdb).action("begin_transaction", body)

    insert(duckdb, 1)
    insert(duckdb.with_headers(airport_transaction_id=begin(duckdb)), 2)

    assert identifier == b"t1"
    assert catalog.committed == []
    assert visible(duckdb) == [1, 2]
    assert visible(other) == visible(flight_client) == []


@pytest.mark.parametrize("body", [b"lake", b"", msgpack.packb({"catalog_name": "lake"})])
def test_a_commit_makes_the_changes_of_a_process_durable(
    duckdb: RawFlightClient,
    flight_client: RawFlightClient,
    catalog: TransactionalCatalog,
    body: bytes,
) -> None:
    without_catalog(duckdb).action("begin_transaction", b"lake")
    insert(duckdb, 1)
    insert(duckdb, 2)

    assert without_catalog(duckdb).action("commit_transaction", body) == [b"committed"]

    assert catalog.committed == visible(flight_client) == [1, 2]
    insert(duckdb, 3)
    assert catalog.committed == [1, 2, 3]


def test_a_rollback_drops_the_changes_of_a_process(
    duckdb: RawFlightClient, flight_client: RawFlightClient, catalog: TransactionalCatalog
) -> None:
    duckdb.action("begin_transaction", b"lake")
    insert(duckdb, 1)

    assert duckdb.action("rollback_transaction", b"lake") == [b"rolled back"]

    assert catalog.committed == visible(duckdb) == []


def test_an_unnamed_catalog_takes_part_by_any_name(start_server: Serving) -> None:
    catalog = TransactionalCatalog()
    flight_client = start_server(
        catalog, headers={"airport-client-session-id": "p", "airport-catalog": "any"}
    )

    without_catalog(flight_client).action("begin_transaction")
    insert(flight_client, 1)
    assert catalog.committed == []
    without_catalog(flight_client).action("commit_transaction")

    assert catalog.committed == [1]


def test_a_process_has_one_transaction_per_catalog(
    duckdb: RawFlightClient, catalog: TransactionalCatalog
) -> None:
    duckdb.action("begin_transaction", b"lake")

    with pytest.raises(pa.ArrowInvalid, match="a transaction is open on catalog 'lake'"):
        duckdb.action("begin_transaction", b"lake")

    assert catalog.log[-1] == ("rollback", "t2")
    insert(duckdb, 1)
    assert catalog.committed == []


def test_processes_with_two_open_transactions_must_name_the_catalog(start_server: Serving) -> None:
    flight_client = start_server(
        {"red": TransactionalCatalog("r"), "blue": TransactionalCatalog("b")},
        headers={"airport-client-session-id": "p"},
    )
    for name in (b"red", b"blue"):
        flight_client.action("begin_transaction", name)

    with pytest.raises(KeyError, match="there are several open transactions: name the catalog"):
        flight_client.action("commit_transaction")
    assert flight_client.action("commit_transaction", b"red") == [b"committed"]
    assert flight_client.action("rollback_transaction") == [b"rolled back"]


def test_catalogs_that_give_the_same_identifier_are_told_apart(start_server: Serving) -> None:
    red, blue = TransactionalCatalog(), TransactionalCatalog()
    flight_client = start_server({"red": red, "blue": blue})
    for name in ("red", "blue"):
        flight_client.call("create_transaction", catalog_name=name, explicit=True)

    with pytest.raises(KeyError, match="there is no open transaction"):
        flight_client.call("commit_transaction", transaction_id="t1")
    flight_client.call("commit_transaction", transaction_id="t1", catalog_name="blue")

    assert ("commit", "t1") in blue.log
    assert ("commit", "t1") not in red.log


def test_a_transaction_is_not_joined_by_somebody_else(
    start_server: Serving, catalog: TransactionalCatalog
) -> None:
    flight_client = start_server({"lake": catalog}, auth={"a": "ada", "g": "grace"})
    ada, grace = (flight_client.with_headers(authorization=f"Bearer {token}") for token in "ag")
    identifier = begin(ada, explicit=True)

    with pytest.raises(flight.FlightUnauthorizedError, match="belongs to somebody else"):
        grace.with_headers(airport_transaction_id=identifier).scan(HERE)
    with pytest.raises(flight.FlightUnauthorizedError, match="belongs to somebody else"):
        grace.call("commit_transaction", transaction_id=identifier)
    ada.call("commit_transaction", transaction_id=identifier)


def test_leaving_out_the_catalog_is_no_way_into_somebody_else_s_transaction(
    start_server: Serving, catalog: TransactionalCatalog
) -> None:
    flight_client = start_server(
        {"lake": catalog, "other": TransactionalCatalog()}, auth={"a": "ada", "g": "grace"}
    )
    ada, grace = (flight_client.with_headers(authorization=f"Bearer {token}") for token in "ag")
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
        with pytest.raises(flight.FlightUnauthorizedError, match="belongs to somebody else"):
            intrude()
    ada.call("commit_transaction", transaction_id=identifier)
    assert catalog.committed == [1]


def test_the_state_of_a_transaction_is_told_to_those_who_may_see_the_catalog(
    start_server: Serving, catalog: TransactionalCatalog
) -> None:
    flight_client = start_server({"lake": catalog}, authorize=lambda access: False)

    with pytest.raises(flight.FlightUnauthorizedError, match="you may not see lake"):
        status(flight_client, "t1")


def test_a_process_that_names_no_catalog_in_its_headers_joins_by_what_it_addresses(
    start_server: Serving, catalog: TransactionalCatalog
) -> None:
    # The client of DuckDB 1.4 sends no airport-catalog.
    flight_client = start_server(
        {"lake": catalog, "other": TransactionalCatalog()},
        headers={"airport-client-session-id": "p"},
    )
    there = path("lake", "s", "t")
    flight_client.action("begin_transaction", b"lake")

    flight_client.change("insert", there, pa.table({"x": [1]}))
    assert flight_client.scan(there).column("x").to_pylist() == [1]
    assert catalog.committed == []
    flight_client.action("rollback_transaction", b"lake")

    assert flight_client.scan(there).num_rows == 0


def test_writes_after_a_transaction_has_expired_are_refused(
    start_server: Serving, catalog: TransactionalCatalog
) -> None:
    flight_client = start_server(
        {"lake": catalog},
        headers={"airport-client-session-id": "p", "airport-catalog": "lake"},
        transaction_timeout=0,
    )
    flight_client.action("begin_transaction", b"lake")

    with pytest.raises(flight.FlightServerError, match="rolled back after 0 seconds"):
        insert(flight_client, 1)
    with pytest.raises(pa.ArrowInvalid, match="rolled back after 0 seconds"):
        flight_client.action("commit_transaction", b"lake")
    assert visible(flight_client) == []

    flight_client.action("rollback_transaction", b"lake")
    insert(flight_client, 2)
    assert catalog.committed == [2]


def test_a_process_of_another_identity_is_another_process(
    start_server: Serving, catalog: TransactionalCatalog
) -> None:
    flight_client = start_server({"lake": catalog}, auth={"a": "ada", "g": "grace"}).with_headers(
        airport_catalog="lake", airport_client_session_id="process-1"
    )
    ada, grace = (flight_client.with_headers(authorization=f"Bearer {token}") for token in "ag")

    ada.action("begin_transaction", b"lake")
    insert(ada, 1)

    assert visible(ada) == [1]
    assert visible(grace) == []
    with pytest.raises(KeyError, match="there is no open transaction"):
        grace.action("commit_transaction", b"lake")


def test_a_transaction_of_a_process_needs_its_session(flight_client: RawFlightClient) -> None:
    with pytest.raises(pa.ArrowInvalid, match="needs the airport-client-session-id header"):
        flight_client.action("begin_transaction", b"lake")


@pytest.mark.parametrize("action", ["commit_transaction", "rollback_transaction"])
@pytest.mark.parametrize("body", [b"", b"lake", msgpack.packb({"transaction_id": "t9"})])
def test_what_was_not_begun_cannot_be_ended(
    duckdb: RawFlightClient, action: str, body: bytes
) -> None:
    with pytest.raises(KeyError, match="there is no open transaction"):
        duckdb.action(action, body)


def test_an_explicit_transaction_is_that_of_the_calls_that_name_it(
    flight_client: RawFlightClient, catalog: TransactionalCatalog
) -> None:
    identifier = begin(flight_client, explicit=True)
    inside = flight_client.with_headers(airport_transaction_id=identifier)

    insert(inside, 1)
    insert(inside, 2)
    assert visible(inside) == [1, 2]
    assert visible(flight_client) == []

    flight_client.call("commit_transaction", transaction_id=identifier)
    assert catalog.committed == [1, 2]


def test_an_explicit_transaction_is_rolled_back_by_name(
    flight_client: RawFlightClient, catalog: TransactionalCatalog
) -> None:
    identifier = begin(flight_client, explicit=True)
    insert(flight_client.with_headers(airport_transaction_id=identifier), 1)

    flight_client.call("rollback_transaction", transaction_id=identifier)

    assert catalog.committed == []
    assert status(flight_client, identifier)["status"] == "aborted"


def test_a_failure_rolls_an_explicit_transaction_back(
    flight_client: RawFlightClient, catalog: TransactionalCatalog
) -> None:
    inside = flight_client.with_headers(airport_transaction_id=begin(flight_client, explicit=True))
    insert(inside, 1)

    with pytest.raises(flight.FlightServerError):
        insert(inside, -1)

    assert visible(inside) == []
    assert catalog.log[-1] == ("rollback", "t1")


def test_an_implicit_transaction_is_not_committed_by_name(flight_client: RawFlightClient) -> None:
    identifier = begin(flight_client)

    with pytest.raises(KeyError, match="there is no open transaction"):
        flight_client.call("commit_transaction", transaction_id=identifier)


def test_an_explicit_transaction_needs_a_catalog_that_has_them(start_server: Serving) -> None:
    flight_client = start_server(
        CatalogBuilder("lake").build(), headers={"airport-client-session-id": "p"}
    )

    with pytest.raises(pa.ArrowNotImplementedError, match="catalog 'lake' has no transactions"):
        begin(flight_client, explicit=True)
    with pytest.raises(pa.ArrowNotImplementedError, match="catalog 'lake' has no transactions"):
        flight_client.action("begin_transaction", b"lake")


def test_a_json_delete_is_a_statement_too(
    flight_client: RawFlightClient, catalog: TransactionalCatalog
) -> None:
    request = {"schema_name": "s", "table_name": "t", "row_ids": []}

    with pytest.raises(pa.ArrowNotImplementedError, match="cannot be deleted"):
        flight_client.action("Delete", json.dumps(request).encode())
    assert catalog.log == []
