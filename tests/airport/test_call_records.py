"""What an observer gets of each call: who asked for what, and what came of it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport import CallEnded
from lakeport.auth import AccessRequest
from lakeport.catalog import (
    Catalog,
    CatalogBuilder,
    CreateSchemaOptions,
    CreateTableOptions,
    current_request,
)
from lakeport.memory import MemoryCatalog
from tests.airport.flight_client import RawFlightClient, Serving, one_row, opening, path
from tests.wait import TIMEOUT_SECONDS

COLUMNS = pa.schema([("x", pa.int64())])
TOKEN = "correct-horse-battery-staple"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CLEAN = (pa.ArrowException, KeyError, flight.FlightError)


class Recorder:
    """An observer that keeps the calls that ended."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._ended: list[CallEnded] = []

    def call_started(self, verb: str) -> None:
        """Keep nothing."""

    def call_ended(self, call: CallEnded) -> None:
        with self._changed:
            self._ended.append(call)
            self._changed.notify_all()

    def scan_started(self) -> None:
        """Keep nothing."""

    def batch_sent(self, rows: int, size: int) -> None:
        """Keep nothing."""

    def scan_ended(self, *, complete: bool) -> None:
        """Keep nothing."""

    def one(self, wanted: Callable[[CallEnded], object]) -> CallEnded:
        """Return the first call that is like this, as soon as there is one."""

        def found() -> CallEnded | None:
            return next((call for call in self._ended if wanted(call)), None)

        with self._changed:
            call = self._changed.wait_for(found, timeout=TIMEOUT_SECONDS)
        assert call, self._ended
        return call


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def flight_client(start_server: Serving, recorder: Recorder) -> RawFlightClient:
    memory = MemoryCatalog()
    schema = memory.create_schema("s", CreateSchemaOptions())
    for name in ("t", "secret"):
        schema.create_table(name, COLUMNS, CreateTableOptions())
    functions = CatalogBuilder().schema("s")

    @functions.table_function_in_out(schema=lambda rows: rows)
    def echo(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        return rows

    def authorize(access: AccessRequest) -> bool:
        return access.name != "secret"

    catalogs: dict[str, Catalog] = {"lake": memory, "functions": functions.build()}
    return start_server(
        catalogs,
        auth={TOKEN: "ada"},
        authorize=authorize,
        observer=recorder,
        headers={"authorization": f"Bearer {TOKEN}", "airport-catalog": "lake"},
    )


def test_a_scan_is_recorded_with_its_caller_table_version_and_size(
    flight_client: RawFlightClient, recorder: Recorder
) -> None:
    flight_client.change("insert", path("s", "t"), pa.table({"x": [1, 2, 3]}))
    traced = flight_client.with_headers(traceparent=f"00-{TRACE}-00f067aa0ba902b7-01")
    assert traced.scan(path("s", "t")).num_rows == 3

    call = recorder.one(lambda c: c.verb == "DoGet")
    assert (call.identity, call.catalog, call.table, call.snapshot) == ("ada", "lake", "s.t", "2")
    assert (call.status, call.reason, call.rows_sent, call.rows_received) == ("OK", "", 3, 0)
    assert call.bytes_sent >= 24
    assert call.trace_id == TRACE
    assert call.peer.startswith("ipv4:127.0.0.1:")
    planned = recorder.one(lambda c: c.operation == "endpoints")
    assert (planned.verb, planned.table, planned.trace_id) == ("DoAction", "s.t", TRACE)


def test_a_write_is_recorded_with_the_rows_that_came(
    flight_client: RawFlightClient, recorder: Recorder
) -> None:
    flight_client.change("insert", path("s", "t"), pa.table({"x": [1, 2, 3]}), returning=True)

    call = recorder.one(lambda c: c.operation == "insert")
    assert (call.verb, call.identity, call.table, call.catalog) == (
        "DoExchange",
        "ada",
        "s.t",
        "lake",
    )
    assert (call.rows_received, call.rows_sent) == (3, 3)
    assert call.bytes_received >= 24


def test_a_function_is_recorded_with_the_rows_both_ways(
    flight_client: RawFlightClient, recorder: Recorder
) -> None:
    to = flight_client.with_headers(airport_catalog="functions")
    with to.open_exchange(path("s", "echo"), "table_function_in_out") as (writer, reader):
        writer.write_metadata(opening(one_row()))
        writer.begin(COLUMNS)
        assert reader.schema == COLUMNS
        writer.write_batch(pa.record_batch({"x": [1, 2]}))
        writer.done_writing()
        for _ in reader:
            pass

    call = recorder.one(lambda c: c.operation == "table_function_in_out")
    assert (call.catalog, call.table, call.rows_received, call.rows_sent) == (
        "functions",
        "s.echo",
        2,
        2,
    )


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("secret", "PERMISSION_DENIED", "you may not read lake.s.secret"),
        ("missing", "NOT_FOUND", "there is no table s.missing"),
    ],
)
def test_a_refusal_is_recorded_with_its_reason(
    flight_client: RawFlightClient, recorder: Recorder, name: str, status: str, reason: str
) -> None:
    with pytest.raises(CLEAN):
        flight_client.info(path("s", name))

    call = recorder.one(lambda c: c.verb == "GetFlightInfo")
    assert (call.identity, call.catalog, call.table) == ("ada", "lake", f"s.{name}")
    assert (call.status, call.reason) == (status, reason)
    assert call.peer


def test_a_catalog_that_does_not_exist_is_no_name_of_the_record(
    flight_client: RawFlightClient, recorder: Recorder
) -> None:
    with pytest.raises(CLEAN):
        flight_client.with_headers(airport_catalog="x" * 200).info(path("s", "t"))

    assert recorder.one(lambda c: c.verb == "GetFlightInfo").catalog == ""


def test_a_wrong_token_is_recorded_without_it(
    flight_client: RawFlightClient, recorder: Recorder
) -> None:
    with pytest.raises(flight.FlightUnauthenticatedError):
        flight_client.with_headers(authorization="Bearer wrong-horse-battery").info(path("s", "t"))

    call = recorder.one(lambda c: c.status == "UNAUTHENTICATED")
    assert call.identity == ""
    assert call.reason
    assert "horse" not in repr(call)


@pytest.mark.parametrize(
    ("headers", "trace"),
    [
        ({"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "airport_trace_id": "a"}, TRACE),
        ({"airport_trace_id": "0d6b-42"}, "0d6b-42"),
        ({"traceparent": "00-" + "0" * 32 + "-00f067aa0ba902b7-01", "airport_trace_id": "a"}, "a"),
        ({"traceparent": "nonsense"}, None),
        ({"airport_trace_id": "a b"}, None),
        ({"airport_trace_id": "a" * 200}, None),
        ({}, None),
    ],
)
def test_a_call_has_the_trace_of_its_client_or_a_new_one(
    start_server: Serving, recorder: Recorder, headers: dict[str, str], trace: str | None
) -> None:
    seen: list[str | None] = []

    def look() -> pa.Table:
        seen.append(current_request().trace_id)
        return pa.table({"x": [1]})

    catalog = CatalogBuilder().schema("s").table("t", look, schema=COLUMNS).build()
    start_server(catalog, observer=recorder).with_headers(**headers).scan(path("s", "t"))

    call = recorder.one(lambda c: c.verb == "DoGet")
    assert call.trace_id == seen[-1]
    if trace is None:
        assert len(call.trace_id) == 32
    else:
        assert call.trace_id == trace


def test_a_client_that_leaves_is_recorded_with_what_it_got(
    start_server: Serving, recorder: Recorder
) -> None:
    left = threading.Event()

    def rows() -> pa.RecordBatchReader:
        def batches() -> object:
            yield pa.record_batch({"x": [1, 2]})
            left.wait(TIMEOUT_SECONDS)
            for _ in range(1000):
                yield pa.record_batch({"x": [3] * 10_000})

        return pa.RecordBatchReader.from_batches(COLUMNS, batches())

    catalog = CatalogBuilder().schema("s").table("t", rows, schema=COLUMNS).build()
    flight_client = start_server(catalog, observer=recorder)
    (endpoint,) = flight_client.endpoints(path("s", "t"))
    reader = flight_client.get(endpoint.ticket)
    assert reader.read_chunk().data.num_rows == 2
    reader.cancel()
    left.set()

    call = recorder.one(lambda c: c.verb == "DoGet")
    assert (call.status, call.table) == ("CANCELLED", "s.t")
    assert call.reason == "the client disconnected before the last row was sent"
    assert call.rows_sent < 10_000_000
