"""A server that is told to end finishes what it has begun, and cuts nothing short unnoticed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport import CallEnded, Server
from lakeport.airport.client import Client, connect
from lakeport.catalog import Action, CatalogBuilder, ScanOptions, StaticCatalog, current_request
from lakeport.errors import UnavailableError
from lakeport.memory import MemoryCatalog
from tests.wait import TIMEOUT_SECONDS

ROWS = 4096
BATCHES = 400

SCHEMA = pa.schema([("x", pa.int64()), ("text", pa.string())])


class Recorder:
    """An observer that remembers everything."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.started: list[str] = []
        self.ended: list[CallEnded] = []
        self.scans: list[bool | None] = []
        self.rows = self.bytes = 0

    def call_started(self, verb: str) -> None:
        with self.changed:
            self.started.append(verb)

    def call_ended(self, call: CallEnded) -> None:
        with self.changed:
            self.ended.append(call)
            self.changed.notify_all()

    def scan_started(self) -> None:
        self.scans.append(None)

    def batch_sent(self, rows: int, size: int) -> None:
        self.rows += rows
        self.bytes += size

    def scan_ended(self, *, complete: bool) -> None:
        self.scans.remove(None)
        self.scans.append(complete)

    def wait_for(self, verb: str, status: str) -> CallEnded:
        """The first call that ended like this."""

        def found() -> CallEnded | None:
            return next((c for c in self.ended if (c.verb, c.status) == (verb, status)), None)

        with self.changed:
            call = self.changed.wait_for(found, timeout=TIMEOUT_SECONDS)
        assert call, self.ended
        return call


def numbers() -> Iterator[pa.RecordBatch]:
    """Rows far beyond what the network can hold, so that a reader decides how far a scan gets."""
    text = pa.array(["x" * 40] * ROWS)
    for number in range(BATCHES):
        values = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
        yield pa.record_batch([values, text], schema=SCHEMA)


@pytest.fixture
def catalog() -> StaticCatalog:
    return CatalogBuilder("lake").schema("s").table("numbers", numbers, schema=SCHEMA).build()


def state(server: Server) -> str:
    return server.state


def test_a_stream_that_runs_is_finished_and_new_calls_are_refused(catalog: StaticCatalog) -> None:
    server = Server(catalog).start()
    location = server.location
    with connect(location) as client, connect(location) as late:
        reader = client.table("s.numbers").scan().to_reader()
        rows = reader.read_next_batch().num_rows
        finished: list[bool] = []
        draining = threading.Thread(target=lambda: finished.append(server.drain(TIMEOUT_SECONDS)))
        draining.start()
        while state(server) == "ready":
            draining.join(0.01)

        with pytest.raises(UnavailableError, match="shutting down; try again"):
            late.schemas()

        assert state(server) == "draining"
        rows += sum(batch.num_rows for batch in reader)
        draining.join(TIMEOUT_SECONDS)
    assert rows == ROWS * BATCHES
    assert finished == [True]
    assert state(server) == "stopped"


def test_a_stream_beyond_the_limit_ends_with_an_error_never_short(catalog: StaticCatalog) -> None:
    server = Server(catalog).start()
    with connect(server.location) as client:
        reader = client.table("s.numbers").scan().to_reader()
        reader.read_next_batch()

        assert server.drain(0.0) is False

        with pytest.raises(UnavailableError, match="shutting down"):
            reader.read_all()


def test_stop_ends_a_drain(catalog: StaticCatalog) -> None:
    server = Server(catalog).start()
    with connect(server.location) as client:
        reader = client.table("s.numbers").scan().to_reader()
        reader.read_next_batch()
        draining = threading.Thread(target=server.drain, args=(10 * TIMEOUT_SECONDS,))
        draining.start()
        while state(server) == "ready":
            draining.join(0.01)

        server.stop(grace=0.1)

        draining.join(TIMEOUT_SECONDS)
        assert not draining.is_alive()
        with pytest.raises(UnavailableError):
            reader.read_all()


def test_a_server_without_calls_drains_at_once(catalog: StaticCatalog) -> None:
    server = Server(catalog).start()

    assert server.drain() is True

    assert state(server) == "stopped"
    assert server.drain() is True


def test_an_insert_that_runs_is_finished() -> None:
    memory = MemoryCatalog()
    server = Server(memory).start()
    with connect(server.location) as client:
        client.create_schema("s")
        table = client.create_table("s", "t", pa.schema([("x", pa.int64())]))
        first, go_on = threading.Event(), threading.Event()

        def batches() -> Iterator[pa.RecordBatch]:
            for number in range(3):
                yield pa.record_batch({"x": pa.array([number], pa.int64())})
                first.set()
                assert go_on.wait(TIMEOUT_SECONDS)

        rows = pa.RecordBatchReader.from_batches(pa.schema([("x", pa.int64())]), batches())
        inserting = threading.Thread(target=table.insert, args=(rows,))
        inserting.start()
        assert first.wait(TIMEOUT_SECONDS)
        draining = threading.Thread(target=server.drain, args=(TIMEOUT_SECONDS,))
        draining.start()
        while state(server) == "ready":
            draining.join(0.01)
        go_on.set()
        inserting.join(TIMEOUT_SECONDS)
        draining.join(TIMEOUT_SECONDS)

    with Server(memory) as again, connect(again.location) as client:
        assert client.table("s.t").scan().count() == 3


def test_an_observer_is_told_of_scans_and_calls(catalog: StaticCatalog) -> None:
    seen = Recorder()
    with Server(catalog, observer=seen) as server, connect(server.location) as client:
        assert client.table("s.numbers").scan().count() == ROWS * BATCHES
        call = seen.wait_for("DoGet", "OK")

    assert call.seconds > 0
    assert seen.scans == [True]
    assert seen.rows == ROWS * BATCHES
    assert seen.bytes > 8 * seen.rows
    assert sorted(seen.started) == sorted(call.verb for call in seen.ended)


def test_an_observer_is_told_how_calls_fail(catalog: StaticCatalog) -> None:
    seen = Recorder()
    server = Server(catalog, observer=seen, auth={"good": "reader"}).start()
    with flight.FlightClient(server.location) as stranger:
        with pytest.raises(flight.FlightUnauthenticatedError):
            list(stranger.list_actions())
        seen.wait_for("ListActions", "UNAUTHENTICATED")

    known = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer good")])
    with flight.FlightClient(server.location) as client:
        with pytest.raises(KeyError):
            client.get_flight_info(flight.FlightDescriptor.for_path("s", "nothing"), known)
        seen.wait_for("GetFlightInfo", "NOT_FOUND")
        with pytest.raises(NotImplementedError):
            list(client.do_action(flight.Action("nothing", b""), known))
        seen.wait_for("DoAction", "UNIMPLEMENTED")
        with pytest.raises(pa.ArrowInvalid):
            client.do_get(flight.Ticket(b"nonsense"), known).read_all()
        seen.wait_for("DoGet", "INVALID_ARGUMENT")
    server.stop()


def test_an_observer_is_told_of_a_client_that_went_away(catalog: StaticCatalog) -> None:
    seen = Recorder()
    with Server(catalog, observer=seen) as server:
        with connect(server.location) as client:
            reader = client.table("s.numbers").scan().to_reader()
            reader.read_next_batch()
            del reader
        with seen.changed:
            assert seen.changed.wait_for(
                lambda: any(call.verb == "DoGet" for call in seen.ended), timeout=TIMEOUT_SECONDS
            )
    assert seen.scans == [False]


class Source:
    """A source of rows that goes away while calls wait for it, as Spark does when it is stopped."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.closed = threading.Event()

    def wait(self) -> None:
        """Wait as long as the call is wanted; then fail in words of its own."""
        self.entered.release()
        cancelled = current_request().is_cancelled
        while not cancelled() and not self.closed.wait(0.01):
            pass
        raise RuntimeError("the cluster was stopped")

    def plan(self, options: ScanOptions) -> pa.RecordBatchReader:
        """A scan that waits before its first batch."""
        self.wait()
        return pa.RecordBatchReader.from_batches(SCHEMA, [])

    def rows(self, options: ScanOptions) -> pa.RecordBatchReader:
        """A scan that waits after its first batch."""

        def batches() -> Iterator[pa.RecordBatch]:
            yield next(numbers())
            self.wait()

        return pa.RecordBatchReader.from_batches(SCHEMA, batches())

    def action(self, body: bytes) -> bytes:
        """An action that waits for its answer."""
        self.wait()
        return body


def test_every_call_that_a_stop_cuts_ends_with_unavailable() -> None:
    source = Source()
    catalog = (
        CatalogBuilder("lake")
        .schema("s")
        .table("planning", source.plan, schema=SCHEMA)
        .table("waiting", source.rows, schema=SCHEMA)
        .build()
    )
    server = Server(catalog, actions=[Action("wait", source.action)]).start()
    location = server.location
    failures: dict[str, Exception] = {}

    def call(name: str, run: Callable[[Client], object]) -> threading.Thread:
        def record() -> None:
            with connect(location) as client:
                try:
                    run(client)
                except Exception as error:
                    failures[name] = error

        thread = threading.Thread(target=record)
        thread.start()
        return thread

    calls = [
        call("planning", lambda client: client.table("s.planning").scan().to_arrow()),
        call("waiting", lambda client: client.table("s.waiting").scan().to_arrow()),
        call("action", lambda client: client.action("wait", b"")),
    ]
    for _ in calls:
        assert source.entered.acquire(timeout=TIMEOUT_SECONDS)

    assert server.drain(0.0) is False

    source.closed.set()
    for thread in calls:
        thread.join(TIMEOUT_SECONDS)
    assert {name: str(error) for name, error in failures.items()} == dict.fromkeys(
        ("planning", "waiting", "action"), "the server is shutting down; try again"
    )
    assert {type(error) for error in failures.values()} == {UnavailableError}


def test_an_insert_that_a_stop_cuts_ends_with_unavailable_and_is_rolled_back() -> None:
    memory = MemoryCatalog()
    server = Server(memory).start()
    with connect(server.location) as client:
        client.create_schema("s")
        table = client.create_table("s", "t", pa.schema([("x", pa.int64())]))
        first, stopped = threading.Event(), threading.Event()

        def batches() -> Iterator[pa.RecordBatch]:
            yield pa.record_batch({"x": pa.array([1], pa.int64())})
            first.set()
            while not stopped.wait(0.01):
                yield pa.record_batch({"x": pa.array([1], pa.int64())})

        rows = pa.RecordBatchReader.from_batches(pa.schema([("x", pa.int64())]), batches())
        stopping = threading.Thread(
            target=lambda: first.wait(TIMEOUT_SECONDS) and server.drain(0.0)
        )
        stopping.start()
        with pytest.raises(UnavailableError, match="shutting down"):
            table.insert(rows)
        stopped.set()
        stopping.join(TIMEOUT_SECONDS)

    with Server(memory) as again, connect(again.location) as client:
        assert client.table("s.t").scan().count() == 0
