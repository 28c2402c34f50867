"""What the client puts on the wire: actions in order, bodies, headers."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport._version import __version__
from lakeport.airport.client import Client, connect
from lakeport.errors import InvalidArgumentError
from lakeport.filters import col
from tests.client.wire import ROWID_COLUMN, Seen, WireServer, endpoints

NO_TIME = {"at_unit": b"", "at_value": b""}


def _parameters(seen: Seen) -> dict[str, Any]:
    return {key.decode(): value for key, value in seen.request["parameters"].items()}


def test_a_scan_makes_the_calls_that_duckdb_makes(wire: WireServer, hand_client: Client) -> None:
    table = hand_client.table("w.t")
    wire.seen.clear()
    table.scan().to_arrow()
    assert wire.calls_seen() == ["create_transaction", "catalog_version", "endpoints", "DoGet"]


def test_a_fixed_version_is_never_asked_for(wire: WireServer, hand_client: Client) -> None:
    wire.is_fixed = True
    hand_client.table("w.t").scan().to_arrow()
    assert wire.calls_seen() == ["list_schemas", "create_transaction", "endpoints", "DoGet"]


def test_the_catalog_is_listed_once(wire: WireServer, hand_client: Client) -> None:
    for _ in range(3):
        hand_client.schemas()
        hand_client.tables()
        hand_client.table("w.t").scan().to_arrow()
    assert wire.actions_seen().count("list_schemas") == 1
    hand_client.refresh()
    hand_client.schemas()
    assert wire.actions_seen().count("list_schemas") == 2


def test_endpoints_are_asked_with_all_fields(wire: WireServer, hand_client: Client) -> None:
    hand_client.table("w.t").scan(["name"], filter=col("id") > 1).to_arrow()
    seen = wire.last("endpoints")
    descriptor = flight.FlightDescriptor.deserialize(seen.request["descriptor"])
    parameters = _parameters(seen)
    json_filters = parameters.pop("json_filters")
    assert descriptor.path == [b"w", b"t"]
    assert parameters == {
        "column_ids": [0, 1],
        "table_function_parameters": b"",
        "table_function_input_schema": b"",
        **NO_TIME,
    }
    assert b'"column_binding_names_by_index":["id"]' in json_filters
    assert b'"COMPARE_GREATERTHAN"' in json_filters
    assert b'"return_type":{"id":"INTEGER","type_info":null}' in json_filters


@pytest.mark.parametrize(
    ("columns", "ids"),
    [
        (None, [0, 1]),
        (["name", "id"], [1, 0]),
        (["rowid"], [ROWID_COLUMN]),
        (["rowid", "name"], [ROWID_COLUMN, 1]),
    ],
)
def test_columns_are_numbered_as_duckdb_numbers_them(
    wire: WireServer, hand_client: Client, columns: list[str] | None, ids: list[int]
) -> None:
    hand_client.table("w.t").scan(columns).to_arrow()
    assert _parameters(wire.last("endpoints"))["column_ids"] == ids


def test_counting_asks_for_the_row_identifier_alone(wire: WireServer, hand_client: Client) -> None:
    assert hand_client.table("w.t").scan().count() == 3
    assert _parameters(wire.last("endpoints"))["column_ids"] == [ROWID_COLUMN]


def test_every_call_says_who_is_calling(wire: WireServer) -> None:
    with connect(wire.location, catalog="db", token="secret") as client:
        client.table("w.t").scan().to_arrow()
    for seen in wire.seen:
        assert seen.header("airport-user-agent") == f"lakeport/{__version__}"
        assert seen.header("authority") == wire.location
        assert seen.header("authorization") == "Bearer secret"
        assert seen.header("airport-catalog") == "db"
        uuid.UUID(seen.header("airport-client-session-id") or "")
    assert len({seen.header("airport-client-session-id") for seen in wire.seen}) == 1


def test_the_calls_of_a_scan_share_trace_path_and_transaction(
    wire: WireServer, hand_client: Client
) -> None:
    table = hand_client.table("w.t")
    table.scan().to_arrow()
    first = [wire.last("endpoints"), wire.last("DoGet")]
    table.scan().to_arrow()
    second = wire.last("DoGet")
    assert {seen.header("airport-transaction-id") for seen in first} == {"tx1"}
    assert {seen.header("airport-flight-path") for seen in first} == {"w/t"}
    traces = {seen.header("airport-trace-id") for seen in first}
    assert len(traces) == 1
    assert second.header("airport-trace-id") not in traces
    assert second.header("airport-transaction-id") == "tx2"


def test_calls_about_the_catalog_carry_no_transaction(
    wire: WireServer, hand_client: Client
) -> None:
    hand_client.create_schema("n")
    hand_client.table("w.t").set_not_null("id")
    for name in ("list_schemas", "catalog_version", "create_schema", "set_not_null"):
        seen = wire.last(name)
        assert seen.header("airport-transaction-id") is None
        assert seen.header("airport-trace-id") is None
        assert seen.header("airport-catalog") == "db"


def test_the_action_is_named_in_a_header(wire: WireServer, hand_client: Client) -> None:
    hand_client.table("w.t").set_not_null("id")
    assert wire.last("list_schemas").headers["airport-action-name"] == ["list_schemas"]
    assert wire.last("set_not_null").headers["airport-action-name"] == ["set_not_null"] * 2


def test_raw_bytes_travel_as_msgpack_strings(wire: WireServer, hand_client: Client) -> None:
    hand_client.table("w.t").scan().to_arrow()
    descriptor = flight.FlightDescriptor.for_path("w", "t").serialize()
    fixstr = bytes([0xA0 | len(descriptor)])
    assert b"\xaadescriptor" + fixstr + descriptor in wire.last("endpoints").body


def test_flights_and_actions_are_no_business_of_the_catalog(
    wire: WireServer, hand_client: Client
) -> None:
    schema = pa.schema([("x", pa.int64())])
    stream = flight.RecordBatchStream(pa.table({"x": [1]}, schema=schema))
    wire.replies["GetFlightInfo"] = lambda request: flight.FlightInfo(
        schema, request["descriptor"], [], 1, -1
    )
    wire.replies["endpoints"] = endpoints(
        flight.FlightEndpoint(b"", ["arrow-flight-reuse-connection://?"])
    )
    wire.replies["ping"] = [b"pong", b"again"]
    wire.stream = lambda: stream
    assert hand_client.take_flight("anything").to_arrow().to_pydict() == {"x": [1]}
    assert hand_client.action("ping", "hello") == [b"pong", b"again"]
    assert wire.last("ping").body == b"hello"
    assert wire.calls_seen() == ["GetFlightInfo", "endpoints", "DoGet", "ping"]
    for seen in wire.seen:
        assert seen.header("airport-catalog") is None
        assert seen.header("airport-transaction-id") is None
    assert wire.last("GetFlightInfo").header("airport-flight-path") is None


def test_a_name_beyond_ascii_is_left_out_of_the_headers(wire: WireServer) -> None:
    wire.catalog = "größe"
    wire.tables["straße"] = wire.tables.pop("t")
    wire.replies["list_schemas"] = lambda _: wire.list_schemas()
    with connect(wire.location, catalog="größe") as client:
        assert client.table("w.straße").scan().count() == 3
    assert wire.last("DoGet").header("airport-flight-path") is None
    assert wire.last("list_schemas").request == {"catalog_name": "größe".encode()}


@pytest.mark.parametrize("location", ["", "http://127.0.0.1:1", "127.0.0.1:8815", "grpc://[x"])
def test_a_location_must_be_one_of_flight(location: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a location such as"):
        connect(location)


def test_a_token_that_no_header_can_carry_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="token"):
        connect("grpc://127.0.0.1:1", token="a\nb")


def test_half_a_certificate_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="belong together"):
        connect("grpc+tls://127.0.0.1:1", cert_chain=b"x")
