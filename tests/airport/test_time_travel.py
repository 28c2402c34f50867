"""Reading the past: AT clauses of DuckDB, and `ts` and `ts_ns` of the JSON contract."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.catalog import (
    CatalogBuilder,
    CatalogVersion,
    ScanOptions,
    StaticCatalog,
    TimePoint,
    TimeUnit,
)
from lakeport.errors import NotFoundError
from tests.airport.flight_client import RawFlightClient, Serving, path

OLD = pa.table({"x": [1]})
NEW = pa.table({"x": [1, 2], "y": ["a", "b"]})
BORN = "2020-01-01"
FAR_FUTURE = 32_503_680_000


class History:
    """A table with two versions; it did not exist before 2020, and changed in 2024."""

    name = "t"
    comment = ""

    def __init__(self) -> None:
        self.asked: list[TimePoint | None] = []

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        return NEW.schema

    def schema_at(self, time_point: TimePoint) -> pa.Schema:
        return self._at(time_point).schema

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        self.asked.append(options.time_point)
        return self._at(options.time_point).to_reader()

    def _at(self, point: TimePoint | None) -> pa.Table:
        if point is None:
            return NEW
        if point.unit is TimeUnit.TIMESTAMP:
            if point.value < BORN:
                raise NotFoundError(f"there is no table s.t at {point}")
            return OLD if point.value < "2024" else NEW
        versions = {"1": OLD, "2": NEW}
        if point.value not in versions:
            raise NotFoundError(f"there is no version {point.value} of table s.t")
        return versions[point.value]


@pytest.fixture
def table() -> History:
    return History()


@pytest.fixture
def flight_client(start_server: Serving, table: History) -> RawFlightClient:
    plain = pa.table({"x": [1]})
    return start_server(
        CatalogBuilder("lake").schema("s").table(table).table("plain", plain).build()
    )


def command(**request: Any) -> flight.FlightDescriptor:
    named = {"schema_name": "s", "table_name": "t", **request}
    return flight.FlightDescriptor.for_command(json.dumps(named).encode())


def by_descriptor(flight_client: RawFlightClient, **request: Any) -> pa.Table:
    info = flight_client.info(command(**request))
    return pa.concat_tables([flight_client.read(endpoint.ticket) for endpoint in info.endpoints])


def by_ticket(flight_client: RawFlightClient, **request: Any) -> pa.Table:
    return flight_client.read(command(**request).command)


def by_endpoints(flight_client: RawFlightClient, **request: Any) -> pa.Table:
    found = flight_client.endpoints(command(**request))
    return pa.concat_tables(
        [flight_client.read(e.ticket) for e in found] or [NEW.schema.empty_table()]
    )


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (("VERSION", "1"), OLD),
        (("version", "2"), NEW),
        (("TIMESTAMP", "2021-01-01 00:00:00"), OLD),
        (("TIMESTAMP", "2024-06-01 00:00:00+00"), NEW),
        (("", ""), NEW),
    ],
)
def test_an_at_clause_reads_the_rows_and_columns_of_then(
    flight_client: RawFlightClient, at: tuple[str, str], expected: pa.Table
) -> None:
    descriptor = flight_client.items("s")["t"].descriptor
    reply = flight_client.call(
        "flight_info", descriptor=descriptor.serialize(), at_unit=at[0], at_value=at[1]
    )
    info = flight.FlightInfo.deserialize(reply)

    assert info.descriptor == descriptor
    assert info.schema.equals(expected.schema)
    assert flight_client.scan(descriptor, at=at).equals(expected)


def test_the_table_hears_what_the_user_wrote(
    flight_client: RawFlightClient, table: History
) -> None:
    flight_client.scan(path("s", "t"), at=("TIMESTAMP", "2021-01-01 00:00:00"))

    assert table.asked == [TimePoint(TimeUnit.TIMESTAMP, "2021-01-01 00:00:00")]


class Altered(StaticCatalog):
    """A catalog whose tables change."""

    def catalog_version(self) -> CatalogVersion:
        return CatalogVersion(2)


@pytest.mark.parametrize("descriptor", [path("s", "t"), command()])
def test_a_time_that_take_flight_did_not_bind_is_refused_where_columns_differ(
    start_server: Serving, table: History, descriptor: flight.FlightDescriptor
) -> None:
    schemas = CatalogBuilder("lake").schema("s").table(table).build().schemas()
    flight_client = start_server(Altered(schemas, name="lake"))
    attached = flight_client.with_headers(airport_catalog="lake")

    # DuckDB has bound what GetFlightInfo told, and segfaults over a stream of fewer columns.
    assert flight_client.info(descriptor).schema.equals(NEW.schema)
    with pytest.raises(pa.ArrowNotImplementedError, match=r'had other columns .*"ts": '):
        flight_client.endpoints(descriptor, at=("VERSION", "1"))
    assert flight_client.scan(descriptor, at=("VERSION", "2")).equals(NEW)
    assert flight_client.scan(flight_client.items("s")["t"].descriptor, at=("VERSION", "1")).equals(
        OLD
    )
    assert attached.scan(descriptor, at=("VERSION", "1")).equals(OLD)


def test_a_nameless_catalog_that_is_fixed_can_be_read_at_any_time(
    start_server: Serving, table: History
) -> None:
    flight_client = start_server(CatalogBuilder().schema("s").table(table).build())
    descriptor = flight_client.items("s")["t"].descriptor

    assert descriptor == path("s", "t")
    assert flight_client.scan(descriptor, at=("VERSION", "1")).equals(OLD)


@pytest.mark.parametrize("action", ["flight_info", "endpoints"])
def test_an_unknown_version_is_not_found(flight_client: RawFlightClient, action: str) -> None:
    at = {"at_unit": "VERSION", "at_value": "9"}

    with pytest.raises(KeyError, match=r"there is no version 9 of table s\.t"):
        flight_client.call(action, descriptor=path("s", "t").serialize(), parameters=at, **at)


@pytest.mark.parametrize("read", [by_descriptor, by_ticket, by_endpoints])
@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ({}, NEW),
        ({"ts": None, "ts_ns": None}, NEW),
        ({"ts": 1_609_459_200}, OLD),
        ({"ts_ns": 1_609_459_200 * 10**9 + 5}, OLD),
        ({"ts": 1_717_200_000}, NEW),
    ],
    ids=["now", "nulls", "ts", "ts_ns", "later"],
)
def test_a_json_time_reads_the_state_of_then(
    flight_client: RawFlightClient,
    read: Callable[..., pa.Table],
    time: dict[str, Any],
    expected: pa.Table,
) -> None:
    assert read(flight_client, **time).equals(expected)


def test_a_json_time_is_told_to_the_table_in_utc(
    flight_client: RawFlightClient, table: History
) -> None:
    by_ticket(flight_client, ts_ns=1_609_459_200_123_456_789)

    assert table.asked == [TimePoint(TimeUnit.TIMESTAMP, "2021-01-01 00:00:00.123456+00")]


def test_the_descriptor_of_a_json_request_is_echoed_byte_by_byte(
    flight_client: RawFlightClient,
) -> None:
    spelled = flight.FlightDescriptor.for_command(
        b'{ "ts":1609459200,"table_name":"t" , "schema_name":"s"}'
    )

    info = flight_client.info(spelled)

    assert info.descriptor == spelled
    assert info.schema.equals(OLD.schema)
    assert len(info.endpoints) == 1


@pytest.mark.parametrize("read", [by_descriptor, by_ticket, by_endpoints])
@pytest.mark.parametrize(
    "time",
    [{"ts": FAR_FUTURE}, {"ts_ns": FAR_FUTURE * 10**9}, {"ts": 2**63 - 1}, {"ts": 10**30}],
    ids=["ts", "ts_ns", "int64", "beyond int64"],
)
def test_a_future_time_has_no_rows(
    flight_client: RawFlightClient, read: Callable[..., pa.Table], time: dict[str, int]
) -> None:
    assert read(flight_client, **time).num_rows == 0


@pytest.mark.parametrize("read", [by_descriptor, by_ticket, by_endpoints])
@pytest.mark.parametrize("time", [{"ts": 0}, {"ts": 1_000_000_000}, {"ts_ns": 1}])
def test_a_time_before_the_data_existed_has_no_rows(
    flight_client: RawFlightClient, read: Callable[..., pa.Table], time: dict[str, int]
) -> None:
    assert read(flight_client, **time).num_rows == 0


def test_a_future_time_needs_no_history(flight_client: RawFlightClient) -> None:
    assert by_descriptor(flight_client, table_name="plain", ts=FAR_FUTURE).num_rows == 0


def test_a_past_time_needs_a_history(flight_client: RawFlightClient) -> None:
    with pytest.raises(pa.ArrowNotImplementedError, match=r"table s\.plain has no history"):
        by_descriptor(flight_client, table_name="plain", ts=1)


@pytest.mark.parametrize("read", [by_descriptor, by_ticket, by_endpoints])
@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"ts": 1, "ts_ns": 1}, "give one of ts and ts_ns, not both"),
        ({"ts": -1}, "ts must not be negative"),
        ({"ts_ns": -1}, "ts_ns must not be negative"),
        ({"ts": 1.5}, "ts must be an integer"),
        ({"ts": "1"}, "ts must be an integer"),
        ({"ts": True}, "ts must be an integer"),
        ({"ts_ns": [1]}, "ts_ns must be an integer"),
        ({"schema_name": None}, "schema_name is missing"),
        ({"table_name": None}, "table_name is missing"),
        ({"table_name": 7}, "table_name must be text"),
        ({"catalog_name": 7}, "catalog_name must be text"),
    ],
)
def test_a_wrong_json_request_is_an_invalid_argument(
    flight_client: RawFlightClient,
    read: Callable[..., pa.Table],
    request_: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(pa.ArrowInvalid, match=message):
        read(flight_client, **request_)


@pytest.mark.parametrize("text", [b"{", b"[]", b"null", b'"x"', b"{'a': 1}", b"\xff", b"x"])
def test_a_command_that_is_no_json_object_is_an_invalid_argument(
    flight_client: RawFlightClient, text: bytes
) -> None:
    with pytest.raises(pa.ArrowInvalid, match="descriptor: "):
        flight_client.info(flight.FlightDescriptor.for_command(text))


def test_a_json_request_may_name_the_catalog(flight_client: RawFlightClient) -> None:
    assert by_ticket(flight_client, catalog_name="lake").num_rows == 2
    with pytest.raises(KeyError, match="there is no catalog 'other'"):
        by_ticket(flight_client, catalog_name="other")


def test_columns_can_be_chosen_in_the_past(flight_client: RawFlightClient) -> None:
    read = flight_client.scan(command(ts=1_717_200_000), column_ids=[1])

    assert read.to_pydict() == {"x": [None, None], "y": ["a", "b"]}
