"""`flight_info` and `endpoints`: from a descriptor to tickets, with columns, filter and time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport.server.verbs.scans import column_names
from lakeport.catalog import CatalogBuilder, ScanOptions, rowid_field
from lakeport.errors import InvalidArgumentError
from tests.airport.flight_client import ROWID_COLUMN, RawFlightClient, Serving, path

LAST = pa.schema([("a", pa.int64()), ("b", pa.string()), rowid_field()])
FIRST = pa.schema([rowid_field("key", pa.string()), ("a", pa.int64()), ("b", pa.string())])
NONE = pa.schema([("a", pa.int64()), ("b", pa.string())])
NO_COLUMN = 2**64 - 2


class Asked:
    """A table that remembers the options of its scans."""

    comment = ""

    def __init__(self, name: str, columns: pa.Schema) -> None:
        self.name = name
        self.options: list[ScanOptions] = []
        self._columns = columns

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        return self._columns

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        self.options.append(options)
        return self._columns.empty_table().to_reader()


@pytest.mark.parametrize(
    ("schema", "ids", "names"),
    [
        (LAST, [0, 1], ("a", "b")),
        (LAST, [1, 0], ("b", "a")),
        (LAST, [ROWID_COLUMN], ("rowid",)),
        (LAST, [0, 1, 0, ROWID_COLUMN], ("a", "b", "rowid")),
        (LAST, [NO_COLUMN], ()),
        (LAST, [NO_COLUMN, 1], ("b",)),
        (FIRST, [0, 1], ("a", "b")),
        (FIRST, [ROWID_COLUMN, 1], ("key", "b")),
        (NONE, [ROWID_COLUMN, 0], ("a",)),
        (NONE, [], ()),
    ],
)
def test_column_numbers_count_as_if_the_rowid_were_not_there(
    schema: pa.Schema, ids: list[int], names: tuple[str, ...]
) -> None:
    assert column_names(schema, ids) == names


@pytest.mark.parametrize("number", [2, 3, 2**63, 2**64 - 3, -1])
def test_a_column_number_out_of_range_is_refused(number: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"there is no column number {number}"):
        column_names(LAST, [number])


@pytest.fixture
def tables() -> dict[str, Asked]:
    return {name: Asked(name, s) for name, s in (("last", LAST), ("first", FIRST), ("none", NONE))}


@pytest.fixture
def flight_client(start_server: Serving, tables: dict[str, Asked]) -> RawFlightClient:
    schema = CatalogBuilder().schema("s")
    for table in tables.values():
        schema.table(table)
    return start_server(schema.build(), batch_rows=1000)


@pytest.mark.parametrize(
    ("name", "ids", "columns"),
    [
        ("last", [1, 1, ROWID_COLUMN], ("b", "rowid")),
        ("first", [0, ROWID_COLUMN], ("a", "key")),
        ("none", [0], ("a",)),
        ("last", [], None),
    ],
)
def test_a_table_is_asked_for_the_columns_of_the_request(
    flight_client: RawFlightClient,
    tables: dict[str, Asked],
    name: str,
    ids: list[int],
    columns: tuple[str, ...] | None,
) -> None:
    flight_client.scan(path("s", name), column_ids=ids)

    (options,) = tables[name].options
    assert options.columns == columns
    assert options.batch_size == 1000
    assert options.partition is None
    assert options.time_point is None


def test_a_column_number_out_of_range_is_an_invalid_request(flight_client: RawFlightClient) -> None:
    with pytest.raises(pa.ArrowInvalid, match="there is no column number 7"):
        flight_client.endpoints(path("s", "last"), column_ids=[7])


def test_endpoints_are_read_over_the_existing_connection(flight_client: RawFlightClient) -> None:
    (endpoint,) = flight_client.endpoints(path("s", "last"))

    assert [location.uri for location in endpoint.locations] == [
        b"arrow-flight-reuse-connection://?"
    ]


def test_the_filter_of_a_request_reaches_the_table(
    flight_client: RawFlightClient, tables: dict[str, Asked]
) -> None:
    column = {
        "expression_class": "BOUND_COLUMN_REF",
        "type": "BOUND_COLUMN_REF",
        "alias": "a",
        "query_location": 2**64 - 1,
        "return_type": {"id": "BOOLEAN", "type_info": None},
        "binding": {"table_index": 0, "column_index": 0},
        "depth": 0,
    }
    text = json.dumps({"filters": [column], "column_binding_names_by_index": ["a"]})

    flight_client.scan(path("s", "last"), filters=text)

    assert tables["last"].options[0].filter.columns == {"a"}


@pytest.mark.parametrize("text", ["{", "[]", '{"filters": 1}', "nonsense"])
def test_a_broken_filter_is_an_invalid_request(flight_client: RawFlightClient, text: str) -> None:
    with pytest.raises(pa.ArrowInvalid):
        flight_client.scan(path("s", "last"), filters=text)


def test_flight_info_answers_with_the_descriptor_of_the_request(start_server: Serving) -> None:
    catalog = CatalogBuilder().schema("s").table("t", pa.table({"x": [1, 2]}), comment="c").build()
    descriptor = path("lake", "s", "t")
    flight_client = start_server(catalog, headers={"airport-catalog": "lake"})

    reply = flight_client.call(
        "flight_info", descriptor=descriptor.serialize(), at_unit="", at_value=""
    )
    info = flight.FlightInfo.deserialize(reply)

    assert info.descriptor == descriptor
    assert info.schema.equals(pa.schema([("x", pa.int64())]))
    assert info.total_records == 2
    assert msgpack.unpackb(info.app_metadata)["catalog"] == "lake"
    assert msgpack.unpackb(info.app_metadata)["comment"] == "c"


def test_a_size_that_is_not_known_is_minus_one(flight_client: RawFlightClient) -> None:
    reply = flight_client.call("flight_info", descriptor=path("s", "last").serialize())

    info = flight.FlightInfo.deserialize(reply)
    assert (info.total_records, info.total_bytes) == (-1, -1)


@pytest.mark.parametrize("action", ["flight_info", "endpoints"])
@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (("s", "missing"), r"there is no table s\.missing"),
        (("missing", "t"), "there is no schema 'missing'"),
    ],
)
def test_what_is_not_there_is_not_found(
    flight_client: RawFlightClient, action: str, parts: tuple[str, ...], message: str
) -> None:
    with pytest.raises(KeyError, match=message):
        flight_client.call(action, descriptor=path(*parts).serialize(), parameters={})


@pytest.mark.parametrize("parts", [(), ("a",), ("a", "b", "c", "d", "e")])
def test_a_path_of_another_length_is_refused(
    flight_client: RawFlightClient, parts: tuple[str, ...]
) -> None:
    with pytest.raises(pa.ArrowInvalid, match=f"not by {len(parts)} part"):
        flight_client.endpoints(path(*parts))


@pytest.mark.parametrize(
    ("action", "fields", "message"),
    [
        ("endpoints", {}, "endpoints: field 'descriptor' is missing"),
        ("endpoints", {"descriptor": 7}, "endpoints: field 'descriptor' has the wrong type"),
        ("endpoints", {"descriptor": b"\xff\xff"}, "not a flight descriptor"),
        ("endpoints", {"descriptor": "D"}, "endpoints: field 'parameters' is missing"),
        ("endpoints", {"descriptor": "D", "parameters": []}, "'parameters' has the wrong type"),
        (
            "endpoints",
            {"descriptor": "D", "parameters": {"column_ids": ["a"]}},
            "endpoints.parameters: field 'column_ids' must hold integers",
        ),
        (
            "endpoints",
            {"descriptor": "D", "parameters": {"json_filters": b"\xff"}},
            "field 'json_filters' is not UTF-8 text",
        ),
        (
            "endpoints",
            {"descriptor": "D", "parameters": {"at_unit": "EPOCH", "at_value": "1"}},
            "unknown time travel unit 'EPOCH'",
        ),
        ("flight_info", {}, "flight_info: field 'descriptor' is missing"),
        ("list_schemas", {"catalog_name": 1}, "list_schemas: field 'catalog_name' has the wrong"),
        ("column_statistics", {}, "column_statistics: field 'flight_descriptor' is missing"),
    ],
)
def test_a_malformed_request_is_told_what_is_wrong(
    flight_client: RawFlightClient, action: str, fields: dict[str, Any], message: str
) -> None:
    if fields.get("descriptor") == "D":
        fields = {**fields, "descriptor": path("s", "last").serialize()}

    with pytest.raises(pa.ArrowInvalid, match=message):
        flight_client.call(action, **fields)


@pytest.mark.parametrize("body", [b"\xc1", b"\x93\x01", b"\x81\x01\x02", b"text", b"\x01"])
def test_a_body_that_is_no_map_is_refused(flight_client: RawFlightClient, body: bytes) -> None:
    with pytest.raises(pa.ArrowInvalid, match="list_schemas: the"):
        flight_client.action("list_schemas", body)


def test_strings_that_hold_bytes_are_understood(flight_client: RawFlightClient) -> None:
    # The client packs every C++ string as msgpack str, whatever is in it.
    raw = path("s", "last").serialize()
    header = bytes([0xA0 | len(raw)])
    body = b"\x81\xaadescriptor" + header + raw

    (reply,) = flight_client.action("flight_info", body)

    assert flight.FlightInfo.deserialize(reply).schema.names == LAST.names


def test_a_table_without_a_history_refuses_time_travel(flight_client: RawFlightClient) -> None:
    with pytest.raises(
        pa.ArrowNotImplementedError, match=r"table s\.last has no history: AT \(VERSION => 3\)"
    ):
        flight_client.endpoints(path("s", "last"), at=("VERSION", "3"))
