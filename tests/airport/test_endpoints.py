"""Several endpoints per table, partitions elsewhere, and tables that the client reads itself."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport import Limits
from lakeport.catalog import (
    CatalogBuilder,
    Endpoint,
    FileFormat,
    FileReference,
    FunctionReference,
    Partition,
    ScanOptions,
)
from tests.airport.flight_client import RawFlightClient, Serving, path

COLUMNS = pa.schema([("x", pa.int64())])
FUNCTION_CALL = "data:application/x-msgpack-duckdb-function-call;base64,"
FILE = "data:application/msgpack;base64,"


class Parted:
    """A table in parts that are chosen by the test."""

    name = "t"
    comment = ""

    def __init__(self, parts: Sequence[Endpoint]) -> None:
        self._parts = parts
        self.asked: list[ScanOptions] = []

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        return COLUMNS

    def endpoints(self, options: ScanOptions) -> Sequence[Endpoint]:
        self.asked.append(options)
        return self._parts

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        self.asked.append(options)
        return pa.table({"x": [int(options.partition or 0)]}).to_reader()


def serve(start_server: Serving, *parts: Endpoint) -> tuple[RawFlightClient, Parted]:
    table = Parted(parts)
    return start_server(CatalogBuilder().schema("s").table(table).build()), table


def uris(endpoint: flight.FlightEndpoint) -> list[str]:
    return [location.uri.decode() for location in endpoint.locations]


def data_of(uri: str, prefix: str) -> dict[str, Any]:
    assert uri.startswith(prefix)
    decoded: dict[str, Any] = msgpack.unpackb(base64.b64decode(uri[len(prefix) :], validate=True))
    return decoded


def test_every_part_is_an_endpoint_with_its_own_ticket(start_server: Serving) -> None:
    flight_client, _ = serve(start_server, *(Partition(str(n).encode()) for n in range(5)))

    found = flight_client.endpoints(path("s", "t"))

    assert len(found) == 5
    assert len({endpoint.ticket.ticket for endpoint in found}) == 5
    with ThreadPoolExecutor(5) as pool:
        rows = list(pool.map(lambda e: flight_client.read(e.ticket).column("x").to_pylist(), found))
    assert rows == [[0], [1], [2], [3], [4]]


def _nested(depth: int) -> str:
    expression: dict[str, Any] = {"expression_class": "BOUND_REF"}
    for _ in range(depth):
        expression = {
            "expression_class": "BOUND_CONJUNCTION",
            "type": "CONJUNCTION_AND",
            "children": [expression],
        }
    return json.dumps({"filters": [expression], "column_binding_names_by_index": ["x"]})


@pytest.mark.parametrize(
    ("filters", "token", "limits"),
    [
        (_nested(1) + " " * 2000, b"1", Limits(json_bytes=2000)),
        (_nested(30), b"1", Limits(json_depth=20)),
        (_nested(1) + " " * 1600, b"1", Limits(json_bytes=2000, ticket_bytes=1700)),
        (_nested(1) + " " * 1000, b"1".zfill(1000), Limits(ticket_bytes=2000)),
    ],
    ids=["too long", "too deep", "too long for a ticket", "too long with its part"],
)
def test_a_filter_beyond_the_bounds_is_left_out_since_it_is_a_hint(
    start_server: Serving, filters: str, token: bytes, limits: Limits
) -> None:
    table = Parted([Partition(token)])
    flight_client = start_server(CatalogBuilder().schema("s").table(table).build(), limits=limits)

    assert flight_client.scan(path("s", "t"), filters=filters).to_pydict() == {"x": [1]}

    planned, scanned = table.asked[-2:]
    assert not planned.filter
    assert not scanned.filter


def test_a_filter_within_the_bounds_is_planned_and_scanned_with(start_server: Serving) -> None:
    flight_client, table = serve(start_server, Partition(b"1"))

    flight_client.scan(path("s", "t"), filters=_nested(1))

    assert [bool(options.filter) for options in table.asked] == [True, True]


def test_a_filter_that_cannot_be_read_is_refused(start_server: Serving) -> None:
    flight_client, _ = serve(start_server, Partition(b"1"))

    with pytest.raises(pa.ArrowInvalid, match="not valid JSON"):
        flight_client.endpoints(path("s", "t"), filters="{")


def test_a_ticket_that_is_too_large_without_a_filter_is_refused(start_server: Serving) -> None:
    table = Parted([Partition(b"1".zfill(3000))])
    flight_client = start_server(
        CatalogBuilder().schema("s").table(table).build(), limits=Limits(ticket_bytes=2000)
    )

    with pytest.raises(pa.ArrowInvalid, match="the ticket is too large"):
        flight_client.endpoints(path("s", "t"))


def test_a_declared_number_of_endpoints_splits_a_table(start_server: Serving) -> None:
    data = pa.table({"x": range(100_000)})
    catalog = CatalogBuilder().schema("s").table("t", data, endpoints=4).build()
    flight_client = start_server(catalog)

    assert len(flight_client.endpoints(path("s", "t"))) == 4
    assert flight_client.scan(path("s", "t")).column("x").to_pylist() == list(range(100_000))


def test_no_part_at_all_is_no_endpoint(start_server: Serving) -> None:
    flight_client, _ = serve(start_server)

    assert flight_client.endpoints(path("s", "t")) == []


def test_a_part_may_be_on_another_server(start_server: Serving) -> None:
    flight_client, _ = serve(start_server, Partition(b"1", "grpc://other:8815"), Partition(b"2"))

    elsewhere, here = flight_client.endpoints(path("s", "t"))

    assert uris(elsewhere) == ["grpc://other:8815"]
    assert uris(here) == ["arrow-flight-reuse-connection://?"]
    # A ticket holds everything, so that any replica can answer it.
    assert flight_client.read(elsewhere.ticket).column("x").to_pylist() == [1]


def test_the_parts_are_chosen_with_the_columns_of_the_request(start_server: Serving) -> None:
    flight_client, table = serve(start_server, Partition(b"1"))

    flight_client.scan(path("s", "t"), column_ids=[0])

    assert [options.columns for options in table.asked] == [("x",), ("x",)]
    assert [options.partition for options in table.asked] == [None, b"1"]


def test_a_ticket_is_answered_by_a_replica(start_server: Serving) -> None:
    first, _ = serve(start_server, Partition(b"7"))
    second, _ = serve(start_server, Partition(b"8"))
    (endpoint,) = first.endpoints(path("s", "t"))

    assert second.read(endpoint.ticket).column("x").to_pylist() == [7]


def test_a_function_reference_is_a_data_uri_with_a_call(start_server: Serving) -> None:
    reference = FunctionReference(
        "read_csv",
        ("a.csv", ["b.csv", "c.csv"], pa.scalar(3, pa.int8())),
        {"header": True, "sep": "|"},
    )
    flight_client, _ = serve(start_server, reference)

    (endpoint,) = flight_client.endpoints(path("s", "t"))
    (uri,) = uris(endpoint)
    call = data_of(uri, FUNCTION_CALL)

    assert set(call) == {"function_name", "data"}
    assert call["function_name"] == "read_csv"
    with pa.ipc.open_stream(call["data"]) as stream:
        (batch,) = list(stream)
    assert batch.to_pylist() == [
        {
            "arg_0": "a.csv",
            "arg_1": ["b.csv", "c.csv"],
            "arg_2": 3,
            "header": True,
            "sep": "|",
        }
    ]
    assert batch.schema.field("arg_0").type == pa.string()
    assert batch.schema.field("arg_1").type == pa.list_(pa.string())
    assert batch.schema.field("arg_2").type == pa.int8()
    assert batch.schema.field("header").type == pa.bool_()


@pytest.mark.parametrize("format", list(FileFormat))
def test_a_file_reference_is_a_data_uri_with_a_format(
    start_server: Serving, format: FileFormat
) -> None:
    flight_client, _ = serve(start_server, FileReference("s3://bucket/a b.parquet", format))

    (endpoint,) = flight_client.endpoints(path("s", "t"))

    assert data_of(uris(endpoint)[0], FILE) == {
        "format": format.value,
        "uri": "s3://bucket/a b.parquet",
    }


def test_references_and_partitions_can_be_mixed(start_server: Serving) -> None:
    flight_client, _ = serve(
        start_server, Partition(b"1"), FileReference("a.parquet"), Partition(b"2")
    )

    found = [
        uris(endpoint)[0].partition(":")[0] for endpoint in flight_client.endpoints(path("s", "t"))
    ]

    assert found == ["arrow-flight-reuse-connection", "data", "arrow-flight-reuse-connection"]


def test_a_reference_table_gives_one_endpoint_per_reference(start_server: Serving) -> None:
    references = [FunctionReference("read_parquet", (f"{n}.parquet",)) for n in range(3)]
    catalog = CatalogBuilder().schema("s").reference_table("t", references, schema=COLUMNS).build()
    flight_client = start_server(catalog)

    for found in (
        flight_client.endpoints(path("s", "t")),
        flight_client.info(path("s", "t")).endpoints,
    ):
        assert len(found) == 3
        assert all(uris(endpoint)[0].startswith(FUNCTION_CALL) for endpoint in found)


def test_a_reference_table_is_not_read_through_the_server(start_server: Serving) -> None:
    catalog = (
        CatalogBuilder()
        .schema("s")
        .reference_table("t", FileReference("a.parquet"), schema=COLUMNS)
        .build()
    )

    with pytest.raises(
        pa.ArrowInvalid, match="table 't' is read by the client from its references"
    ):
        start_server(catalog).read(b'{"schema_name": "s", "table_name": "t"}')


def test_something_that_is_no_endpoint_is_an_error(start_server: Serving) -> None:
    flight_client, _ = serve(start_server, "a.parquet")  # type: ignore[arg-type]

    with pytest.raises(flight.FlightInternalError, match="str is not an endpoint"):
        flight_client.endpoints(path("s", "t"))


def test_a_partition_that_the_table_does_not_know_is_refused(start_server: Serving) -> None:
    catalog = CatalogBuilder().schema("s").table("t", pa.table({"x": [1]})).build()
    flight_client = start_server(catalog)
    (endpoint,) = flight_client.endpoints(path("s", "t"))
    forged = msgpack.unpackb(endpoint.ticket.ticket)
    forged["partition"] = b"0:999"

    with pytest.raises(pa.ArrowInvalid, match="not a partition of table 't'"):
        flight_client.read(msgpack.packb(forged))
