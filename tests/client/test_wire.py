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
from tests.client.handwritten_server import ROWID_COLUMN, HandwrittenServer, Seen, endpoints

NO_TIME = {"at_unit": b"", "at_value": b""}


def _parameters(seen: Seen) -> dict[str, Any]:
    return {key.decode(): value for key, value in seen.request["parameters"].items()}


def test_a_scan_makes_the_calls_that_duckdb_makes(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    table = client_of_handwritten_server.table("w.t")
    handwritten_server.seen.clear()
    table.scan().to_arrow()
    assert handwritten_server.calls_seen() == [
        "create_transaction",
        "catalog_version",
        "endpoints",
        "DoGet",
    ]


def test_a_fixed_version_is_never_asked_for(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    handwritten_server.is_fixed = True
    client_of_handwritten_server.table("w.t").scan().to_arrow()
    assert handwritten_server.calls_seen() == [
        "list_schemas",
        "create_transaction",
        "endpoints",
        "DoGet",
    ]


def test_the_catalog_is_listed_once(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    for _ in range(3):
        client_of_handwritten_server.schemas()
        client_of_handwritten_server.tables()
        client_of_handwritten_server.table("w.t").scan().to_arrow()
    assert handwritten_server.actions_seen().count("list_schemas") == 1
    client_of_handwritten_server.refresh()
    client_of_handwritten_server.schemas()
    assert handwritten_server.actions_seen().count("list_schemas") == 2


def test_endpoints_are_asked_with_all_fields(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    client_of_handwritten_server.table("w.t").scan(["name"], filter=col("id") > 1).to_arrow()
    seen = handwritten_server.last("endpoints")
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
    handwritten_server: HandwrittenServer,
    client_of_handwritten_server: Client,
    columns: list[str] | None,
    ids: list[int],
) -> None:
    client_of_handwritten_server.table("w.t").scan(columns).to_arrow()
    assert _parameters(handwritten_server.last("endpoints"))["column_ids"] == ids


def test_counting_asks_for_the_row_identifier_alone(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    assert client_of_handwritten_server.table("w.t").scan().count() == 3
    assert _parameters(handwritten_server.last("endpoints"))["column_ids"] == [ROWID_COLUMN]


def test_every_call_says_who_is_calling(handwritten_server: HandwrittenServer) -> None:
    with connect(handwritten_server.location, catalog="db", token="secret") as client:
        client.table("w.t").scan().to_arrow()
    for seen in handwritten_server.seen:
        assert seen.header("airport-user-agent") == f"lakeport/{__version__}"
        assert seen.header("authority") == handwritten_server.location
        assert seen.header("authorization") == "Bearer secret"
        assert seen.header("airport-catalog") == "db"
        uuid.UUID(seen.header("airport-client-session-id") or "")
    assert len({seen.header("airport-client-session-id") for seen in handwritten_server.seen}) == 1


def test_the_calls_of_a_scan_share_trace_path_and_transaction(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    table = client_of_handwritten_server.table("w.t")
    table.scan().to_arrow()
    first = [handwritten_server.last("endpoints"), handwritten_server.last("DoGet")]
    table.scan().to_arrow()
    second = handwritten_server.last("DoGet")
    assert {seen.header("airport-transaction-id") for seen in first} == {"tx1"}
    assert {seen.header("airport-flight-path") for seen in first} == {"w/t"}
    traces = {seen.header("airport-trace-id") for seen in first}
    assert len(traces) == 1
    assert second.header("airport-trace-id") not in traces
    assert second.header("airport-transaction-id") == "tx2"


def test_calls_about_the_catalog_carry_no_transaction(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    client_of_handwritten_server.create_schema("n")
    client_of_handwritten_server.table("w.t").set_not_null("id")
    for name in ("list_schemas", "catalog_version", "create_schema", "set_not_null"):
        seen = handwritten_server.last(name)
        assert seen.header("airport-transaction-id") is None
        assert seen.header("airport-trace-id") is None
        assert seen.header("airport-catalog") == "db"


def test_the_action_is_named_in_a_header(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    client_of_handwritten_server.table("w.t").set_not_null("id")
    assert handwritten_server.last("list_schemas").headers["airport-action-name"] == [
        "list_schemas"
    ]
    assert (
        handwritten_server.last("set_not_null").headers["airport-action-name"]
        == ["set_not_null"] * 2
    )


def test_raw_bytes_travel_as_msgpack_strings(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    client_of_handwritten_server.table("w.t").scan().to_arrow()
    descriptor = flight.FlightDescriptor.for_path("w", "t").serialize()
    fixstr = bytes([0xA0 | len(descriptor)])
    assert b"\xaadescriptor" + fixstr + descriptor in handwritten_server.last("endpoints").body


def test_flights_and_actions_are_no_business_of_the_catalog(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    schema = pa.schema([("x", pa.int64())])
    stream = flight.RecordBatchStream(pa.table({"x": [1]}, schema=schema))
    handwritten_server.replies["GetFlightInfo"] = lambda request: flight.FlightInfo(
        schema, request["descriptor"], [], 1, -1
    )
    handwritten_server.replies["endpoints"] = endpoints(
        flight.FlightEndpoint(b"", ["arrow-flight-reuse-connection://?"])
    )
    handwritten_server.replies["ping"] = [b"pong", b"again"]
    handwritten_server.stream = lambda: stream
    assert client_of_handwritten_server.take_flight("anything").to_arrow().to_pydict() == {"x": [1]}
    assert client_of_handwritten_server.action("ping", "hello") == [b"pong", b"again"]
    assert handwritten_server.last("ping").body == b"hello"
    assert handwritten_server.calls_seen() == ["GetFlightInfo", "endpoints", "DoGet", "ping"]
    for seen in handwritten_server.seen:
        assert seen.header("airport-catalog") is None
        assert seen.header("airport-transaction-id") is None
    assert handwritten_server.last("GetFlightInfo").header("airport-flight-path") is None


def test_a_name_beyond_ascii_is_left_out_of_the_headers(
    handwritten_server: HandwrittenServer,
) -> None:
    handwritten_server.catalog = "größe"
    handwritten_server.tables["straße"] = handwritten_server.tables.pop("t")
    handwritten_server.replies["list_schemas"] = lambda _: handwritten_server.list_schemas()
    with connect(handwritten_server.location, catalog="größe") as client:
        assert client.table("w.straße").scan().count() == 3
    assert handwritten_server.last("DoGet").header("airport-flight-path") is None
    assert handwritten_server.last("list_schemas").request == {"catalog_name": "größe".encode()}


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
