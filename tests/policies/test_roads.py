"""Every road by which data leaves a lake, with every kind of restriction.

What a caller with policies sees is compared with a lake that has only that, made as a plain lake.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport.client import Client
from lakeport.airport.protocol.addresses import Address
from lakeport.airport.protocol.tickets import ScanTicket
from lakeport.errors import LakeportError, NotFoundError, PermissionDeniedError
from tests.airport.flight_client import path
from tests.policies.fixtures_policies import Callers
from tests.policies.road_cases import Two

OF_WHOLE_TABLES = ("list_files", "table_layout", "column_info", "partitions")


def rows(client: Client, name: str, **options: Any) -> list[str]:
    table = client.table(name).scan(**options).to_arrow()
    return sorted(repr(row) for row in table.to_pylist())


FILTERS = (
    "card = 'SECRETCOL1'",
    "card LIKE 'SECRET%'",
    "email LIKE '%SECRETROW%'",
    "email = '***@shop'",
    "price > 3 AND region = 'eu'",
    "id IN (1, 2, 3, 100, 101)",
    "NOT deleted AND id BETWEEN 2 AND 20",
    "region IS NULL",
)


def test_scans_are_those_of_the_lake_that_the_caller_sees(two: Two) -> None:
    client, plain = two.ours.client(two.case.caller), two.plain.client("ada")

    assert rows(client, "public.orders") == rows(plain, "public.orders")
    ours, theirs = client.table("public.orders").schema, plain.table("public.orders").schema
    visible = [name for name in ours.names if name != "rowid"]
    assert visible == [name for name in theirs.names if name != "rowid"]
    assert [ours.field(n).type for n in visible] == [theirs.field(n).type for n in visible]
    for text in FILTERS:
        if "card" in text and not two.case.has_card:
            with pytest.raises(LakeportError):
                rows(client, "public.orders", filter=text)
            continue
        assert rows(client, "public.orders", filter=text) == rows(
            plain, "public.orders", filter=text
        ), text
    for columns in (["id"], ["price", "email"], ["deleted"]):
        assert rows(client, "public.orders", columns=columns) == rows(
            plain, "public.orders", columns=columns
        )


def test_views_are_computed_over_what_the_caller_sees(two: Two) -> None:
    client, plain = two.ours.client(two.case.caller), two.plain.client("ada")

    for view in ("everything", "totals", "over_view"):
        assert rows(client, f"public.{view}") == rows(plain, f"public.{view}"), view
        assert (
            client.table(f"public.{view}").schema.names
            == plain.table(f"public.{view}").schema.names
        )
        text = "region = 'eu'"
        assert rows(client, f"public.{view}", filter=text) == rows(
            plain, f"public.{view}", filter=text
        )


def test_no_reply_contains_what_the_caller_does_not_see(two: Two) -> None:
    wire = two.ours.wire(two.case.caller)
    replies = b"".join(_replies(two.ours, two.case.caller))

    for secret in two.case.secrets:
        assert secret not in replies, secret
    if not two.case.has_card:
        assert b"card" not in replies
        with pytest.raises((flight.FlightError, pa.ArrowException, KeyError)):
            wire.read(ScanTicket(Address("public", "orders"), columns=("card",)).to_bytes())


def _replies(callers: Callers, user: str) -> Iterator[bytes]:
    """Bytes of everything that a caller can fetch."""
    wire, client = callers.wire(user), callers.client(user)
    for schema in client.schemas():
        for table in wire.items(schema.name).values():
            yield table.serialize()
    for info in wire.client.list_flights(options=wire.options()):
        yield info.serialize()
    yield wire.info(flight.FlightDescriptor.for_command(b"")).serialize()
    for name in ("GetSchemas",):
        yield b"".join(wire.action(name, b"{}"))
    yield b"".join(wire.action("GetTables", json.dumps({"schema_name": "public"}).encode()))
    asked = json.dumps({"schema_name": "public", "table_name": "orders"}).encode()
    yield b"".join(wire.action("GetFlightInfo", asked))
    for name in ("orders", "everything", "totals", "over_view"):
        yield wire.info(path("public", name)).serialize()
        for endpoint in wire.endpoints(path("public", name)):
            yield endpoint.serialize()
        yield _bytes(wire.scan(path("public", name)))
    for at in (2, 5, 8):
        yield _bytes(wire.scan(path("public", "orders"), at=("VERSION", str(at))))
    about = ("snapshots", "names", "schemas", "tables", "unlisted", "columns", "files", "my_access")
    for name in about:
        yield _bytes(client.table(f"lakeport.{name}").scan().to_arrow())
    yield _bytes(client.call_table("lakeport.table_info").to_arrow())
    for feed in ("table_changes", "table_insertions", "table_deletions"):
        yield _bytes(client.call_table(f"lakeport.{feed}", "orders", 0, 8).to_arrow())
    yield _bytes(client.call_table("lakeport.growth").to_arrow())
    calls: tuple[Callable[[], object], ...] = (
        *(partial(_call, client, name) for name in OF_WHOLE_TABLES),
        lambda: client.call_table("lakeport.growth", table_name="orders").to_arrow(),
        lambda: client.table("public.orders").scan(filter="card = 'x'").to_arrow(),
        lambda: client.table("public.orders").scan(["cards"]).to_arrow(),
        lambda: client.table("public.orders").statistics("id"),
        lambda: client.table("public.order").scan().to_arrow(),
    )
    for call in calls:
        try:
            yield repr(call()).encode()
        except (LakeportError, KeyError) as error:
            # The client itself names the column that the test asked for.
            yield str(error).encode().replace(b"'card'", b"").replace(b"'cards'", b"")


def _call(client: Client, name: str) -> pa.Table:
    return client.call_table(f"lakeport.{name}", "orders").to_arrow()


def _bytes(table: pa.Table) -> bytes:
    return repr(table.schema).encode() + repr(table.to_pylist()).encode()


def test_sizes_and_statistics_do_not_depend_on_rows_that_are_left_out(two: Two) -> None:
    wire, client = two.ours.wire(two.case.caller), two.ours.client(two.case.caller)
    info = wire.info(path("public", "orders"))
    is_whole = two.case.is_whole

    assert (info.total_records == -1) != is_whole
    assert (info.total_bytes == -1) != is_whole
    assert not client.table("public.orders").has_statistics
    assert len(info.endpoints) == 1 or is_whole
    if not is_whole:
        assert client.table("lakeport.files").scan().to_arrow().num_rows == 0
        assert client.call_table("lakeport.table_info").to_arrow().num_rows == 0
        assert client.call_table("lakeport.growth").to_arrow().num_rows == 0
        for name in OF_WHOLE_TABLES:
            with pytest.raises(PermissionDeniedError, match="policies restrict"):
                client.call_table(f"lakeport.{name}", "orders").to_arrow()
        with pytest.raises(PermissionDeniedError, match="policies restrict"):
            client.call_table("lakeport.growth", table_name="orders").to_arrow()


def test_row_ids_are_there_unless_rows_are_left_out(two: Two) -> None:
    names = two.ours.client(two.case.caller).table("public.orders").rowid_type
    leaves_out = all(policy.rows is not None for policy in two.case.policies)

    assert (names is None) == leaves_out


def test_earlier_snapshots_are_restricted_like_the_present_one(two: Two) -> None:
    client = two.ours.client(two.case.caller)
    everything = two.ours.client("root").table("public.orders")

    for version in (2, 5, 8):
        whole = everything.scan(version=version).to_arrow()
        assert whole.num_rows >= 20
        seen = client.table("public.orders").scan(version=version).to_arrow()
        con = duckdb.connect()
        con.register("full_orders", whole)
        expected = con.sql(two.case.visible).to_arrow_table()
        found = seen.select([n for n in seen.schema.names if n != "rowid"])
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))
        con.close()


def test_a_caller_without_a_policy_sees_nothing(two: Two) -> None:
    client, wire = two.ours.client("eve"), two.ours.wire("eve")

    for call in (
        client.schemas,
        lambda: wire.info(path("public", "orders")),
        lambda: wire.scan(path("public", "orders")),
        lambda: wire.read(ScanTicket(Address("public", "orders")).to_bytes()),
        lambda: wire.scan(path("lakeport", "tables")),
        lambda: wire.action("GetTables", json.dumps({"schema_name": "public"}).encode()),
        lambda: wire.scan(path("public", "no such table")),
    ):
        with pytest.raises((LakeportError, flight.FlightError), match="you may not"):
            call()
    assert client.databases() == []


def test_a_ticket_of_another_caller_shows_no_more(two: Two) -> None:
    ticket = two.ours.wire("root").endpoints(path("public", "orders"))[0].ticket
    ours, eve = two.ours.wire(two.case.caller), two.ours.wire("eve")

    with pytest.raises(flight.FlightError, match="you may not"):
        eve.read(ticket)
    try:
        seen = ours.read(ticket).to_pylist()
    except flight.FlightError:
        seen = []
    for secret in two.case.secrets:
        assert secret not in repr(seen).encode()


def test_a_missing_table_is_missing_for_those_who_may_see_it(two: Two) -> None:
    with pytest.raises((NotFoundError, PermissionDeniedError)):
        two.ours.client(two.case.caller).table("public.nothing").scan().to_arrow()
