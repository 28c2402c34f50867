"""A plain Flight client can list, describe and read everything."""

from __future__ import annotations

from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.catalog import ANY, CatalogBuilder, StaticCatalog, rowid_field
from tests.airport.flight_client import RawFlightClient, Serving, path

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"]})
COLUMNS = ROWS.schema


@pytest.fixture
def catalog() -> StaticCatalog:
    builder = CatalogBuilder("shop")
    schema = builder.schema("sales", comment="What we sold")
    schema.table("orders", ROWS, comment="All orders")
    schema.table("parts", pa.table({"x": range(100_000)}), endpoints=3)
    schema.scalar_function("f", lambda x: x, parameters={"x": pa.int64()}, returns=pa.int64())
    schema.table_function("g", lambda x: ROWS, parameters={"x": ANY}, schema=COLUMNS, comment="Gs")
    schema.table_function_in_out("h", lambda rows: rows, schema=COLUMNS)
    builder.schema("empty")
    return builder.build()


@pytest.fixture
def flight_client(start_server: Serving, catalog: StaticCatalog) -> RawFlightClient:
    return start_server(catalog)


@pytest.mark.parametrize("parts", [("sales", "orders"), ("shop", "sales", "orders")])
def test_a_table_is_described_by_two_or_three_parts(
    flight_client: RawFlightClient, parts: tuple[str, ...]
) -> None:
    info = flight_client.info(path(*parts))

    assert info.descriptor == path(*parts)
    assert info.schema.equals(COLUMNS)
    assert info.total_records == 3
    assert info.total_bytes == ROWS.nbytes
    assert flight_client.read(info.endpoints[0].ticket).equals(ROWS)


def test_all_endpoints_together_are_the_table(flight_client: RawFlightClient) -> None:
    info = flight_client.info(path("sales", "parts"))

    read = pa.concat_tables([flight_client.read(endpoint.ticket) for endpoint in info.endpoints])

    assert len(info.endpoints) == 3
    assert read.column("x").to_pylist() == list(range(100_000))


def test_endpoints_tell_where_the_server_is(flight_client: RawFlightClient) -> None:
    (endpoint,) = flight_client.info(path("sales", "orders")).endpoints
    (location,) = endpoint.locations

    assert location.uri.decode() == flight_client.server.location
    client = flight.FlightClient(location)
    assert client.do_get(endpoint.ticket).read_all().equals(ROWS)


def test_an_advertised_address_is_told_instead(
    start_server: Serving, catalog: StaticCatalog
) -> None:
    flight_client = start_server(catalog, advertise="grpc+tls://lake.example:443")

    (endpoint,) = flight_client.info(path("sales", "orders")).endpoints
    (listed,) = next(iter(flight_client.client.list_flights())).endpoints

    for found in (endpoint, listed):
        assert [location.uri for location in found.locations] == [b"grpc+tls://lake.example:443"]
    assert flight_client.scan(path("__databases")).column("location").to_pylist() == [
        "grpc+tls://lake.example:443"
    ]
    # DuckDB keeps its connection all the same.
    (reused,) = flight_client.endpoints(path("sales", "orders"))
    assert reused.locations[0].uri == b"arrow-flight-reuse-connection://?"


def test_a_server_on_all_addresses_tells_to_reuse_the_connection(
    start_server: Serving, catalog: StaticCatalog
) -> None:
    flight_client = start_server(catalog, location="grpc://0.0.0.0:0")

    (endpoint,) = flight_client.info(path("sales", "orders")).endpoints

    assert flight_client.server.location.startswith("grpc://127.0.0.1:")
    assert endpoint.locations[0].uri == b"arrow-flight-reuse-connection://?"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (("sales", "nope"), r"there is no table sales\.nope"),
        (("nope", "orders"), "there is no schema 'nope'"),
        (("other", "sales", "orders"), "there is no catalog 'other'"),
    ],
)
def test_what_is_not_there_is_not_found(
    flight_client: RawFlightClient, parts: tuple[str, ...], message: str
) -> None:
    with pytest.raises(KeyError, match=message):
        flight_client.info(path(*parts))


@pytest.mark.parametrize("parts", [("orders",), ("a", "b", "c", "d", "e")])
def test_a_malformed_path_is_an_invalid_argument(
    flight_client: RawFlightClient, parts: tuple[str, ...]
) -> None:
    with pytest.raises(pa.ArrowInvalid, match=f"not by {len(parts)} part"):
        flight_client.info(path(*parts))


def test_the_schema_of_a_table_can_be_asked_for_alone(flight_client: RawFlightClient) -> None:
    found = flight_client.client.get_schema(path("sales", "orders"), flight_client.options()).schema

    assert found.equals(COLUMNS)


def test_the_schema_of_the_databases_flight_can_be_asked_for(
    flight_client: RawFlightClient,
) -> None:
    found = flight_client.client.get_schema(path("__databases"), flight_client.options()).schema

    assert found.names == ["name", "comment", "location"]


@pytest.mark.parametrize(
    "empty", [flight.FlightDescriptor.for_path(), flight.FlightDescriptor.for_command(b"")]
)
def test_an_empty_descriptor_is_answered_with_the_whole_catalog(
    flight_client: RawFlightClient, empty: flight.FlightDescriptor
) -> None:
    info = flight_client.info(empty)
    unpacked = pa.CompressedInputStream(pa.py_buffer(info.app_metadata), "zstd").read()
    whole: dict[str, Any] = msgpack.unpackb(unpacked)

    assert info.descriptor == empty
    assert [schema["name"] for schema in whole["schemas"]] == ["sales", "empty"]
    sales, nothing = whole["schemas"]
    assert sales["comment"] == "What we sold"
    assert nothing == {"name": "empty", "tables": []}
    orders, parts = sales["tables"]
    assert (orders["name"], orders["comment"]) == ("orders", "All orders")
    assert pa.ipc.read_schema(pa.py_buffer(orders["schema"])).equals(COLUMNS)
    assert set(parts) == {"name", "schema"}
    assert sales["scalar_functions"] == [
        {
            "name": "f",
            "signature": {
                "parameters": [{"name": "x", "type": "int64", "kind": "positional"}],
                "return_type": "int64",
            },
        }
    ]
    assert sales["table_functions"] == [
        {
            "name": "g",
            "comment": "Gs",
            "signature": {"parameters": [{"name": "x", "type": "any", "kind": "positional"}]},
        }
    ]
    assert sales["table_functions_in_out"] == [
        {
            "name": "h",
            "signature": {"parameters": [{"name": "rows", "type": "table", "kind": "table"}]},
        }
    ]


def test_the_whole_catalog_is_that_of_the_header(
    start_server: Serving, catalog: StaticCatalog
) -> None:
    flight_client = start_server({"a": catalog, "b": CatalogBuilder().schema("other").build()})
    chosen = flight_client.with_headers(airport_catalog="b")

    info = chosen.info(flight.FlightDescriptor.for_path())

    unpacked = pa.CompressedInputStream(pa.py_buffer(info.app_metadata), "zstd").read()
    assert msgpack.unpackb(unpacked) == {"schemas": [{"name": "other", "tables": []}]}
    with pytest.raises(KeyError, match="name the catalog to use"):
        flight_client.info(flight.FlightDescriptor.for_path())


def test_every_listed_table_can_be_read(flight_client: RawFlightClient) -> None:
    found = {
        msgpack.unpackb(info.app_metadata)["name"]: info
        for info in flight_client.client.list_flights()
    }

    assert set(found) == {"orders", "parts", "f", "g", "h"}
    (endpoint,) = found["orders"].endpoints
    assert flight_client.read(endpoint.ticket).equals(ROWS)
    assert found["f"].endpoints == []


def test_one_schema_is_listed_as_the_client_asks_for_it(flight_client: RawFlightClient) -> None:
    def names(schema: str) -> list[str]:
        options = flight_client.options(
            airport_list_flights_filter_catalog="shop", airport_list_flights_filter_schema=schema
        )
        found = flight_client.client.list_flights(b"", options)
        return [msgpack.unpackb(info.app_metadata)["name"] for info in found]

    assert names("sales") == ["orders", "parts", "f", "g", "h"]
    assert names("empty") == []
    with pytest.raises(KeyError, match="there is no schema 'nope'"):
        names("nope")


def test_a_rowid_is_a_column_for_a_plain_client(start_server: Serving) -> None:
    rows = pa.table(
        [pa.array([1]), pa.array([7])], schema=pa.schema([("x", pa.int64()), rowid_field()])
    )
    flight_client = start_server(CatalogBuilder().schema("s").table("t", rows).build())

    info = flight_client.info(path("s", "t"))

    assert flight_client.read(info.endpoints[0].ticket).to_pydict() == {"x": [1], "rowid": [7]}
