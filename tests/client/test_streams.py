"""Streams end early, fail in the middle and are cancelled, and no thread is left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport import Server
from lakeport.airport.client import Client, connect
from lakeport.catalog import CatalogBuilder, Partition, ScanOptions
from lakeport.errors import CancelledError, ConstraintError, LakeportError, UnavailableError
from lakeport.filters import col
from tests.client.conftest import Attach
from tests.client.handwritten_server import REUSE, HandwrittenServer, endpoints
from tests.wait import TIMEOUT_SECONDS, wait_until

SCHEMA = pa.schema([("x", pa.int64())])
BATCH = pa.record_batch({"x": range(1000)})


class Endless:
    """A table of several endpoints that never end, and that tells when each was stopped."""

    name = "endless"
    comment = ""

    def __init__(self, parts: int = 3) -> None:
        self.parts = parts
        self.stopped = threading.Semaphore(0)

    def arrow_schema(self, columns: Any = None) -> pa.Schema:
        return SCHEMA

    def endpoints(self, options: ScanOptions) -> list[Partition]:
        return [Partition(str(i).encode()) for i in range(self.parts)]

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(SCHEMA, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield BATCH
        finally:
            self.stopped.release()


def _scan_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "lakeport-scan"]


@pytest.fixture
def endless() -> Endless:
    return Endless()


@pytest.fixture
def client(attach_client: Attach, endless: Endless) -> Client:
    return attach_client(CatalogBuilder().schema("s").table(endless).build())


def _wait_until_stopped(endless: Endless) -> None:
    for _ in range(endless.parts):
        assert endless.stopped.acquire(timeout=TIMEOUT_SECONDS)


def test_a_limit_cancels_the_streams(client: Client, endless: Endless) -> None:
    assert client.table("s.endless").scan(limit=5000).count() == 5000
    assert not _scan_threads()
    _wait_until_stopped(endless)


def test_dropping_a_reader_cancels_the_streams(client: Client, endless: Endless) -> None:
    reader = client.table("s.endless").scan().to_reader()
    assert reader.read_next_batch().num_rows == 1000
    assert _scan_threads()
    del reader
    assert not _scan_threads()
    _wait_until_stopped(endless)


def test_an_error_of_the_consumer_cancels_the_streams(client: Client, endless: Endless) -> None:
    def consume() -> None:
        for _ in client.table("s.endless").scan(filter=col("x") >= 0).to_reader():
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        consume()
    assert not _scan_threads()
    _wait_until_stopped(endless)


def test_a_reader_that_is_never_read_starts_nothing(client: Client, endless: Endless) -> None:
    reader = client.table("s.endless").scan().to_reader()
    assert not _scan_threads()
    del reader


def test_a_server_that_stops_ends_the_stream(endless: Endless) -> None:
    server = Server(CatalogBuilder().schema("s").table(endless).build()).start()
    with connect(server.location) as client:
        reader = client.table("s.endless").scan().to_reader()
        reader.read_next_batch()
        stopper = threading.Thread(target=server.stop)
        stopper.start()
        with pytest.raises((UnavailableError, CancelledError)):
            for _ in reader:
                pass
        stopper.join()
    assert not _scan_threads()


def test_a_failure_in_the_middle_reaches_the_reader(attach_client: Attach) -> None:
    def rows(options: ScanOptions) -> Iterator[pa.RecordBatch]:
        yield BATCH
        raise ConstraintError("row 1001 is broken")

    catalog = CatalogBuilder().schema("s").table("t", rows, schema=SCHEMA).build()
    reader = attach_client(catalog).table("s.t").scan().to_reader()
    with pytest.raises(ConstraintError, match=r"^row 1001 is broken$"):
        reader.read_all()
    assert not _scan_threads()


def test_one_failing_endpoint_fails_the_scan(attach_client: Attach) -> None:
    class OneBad(Endless):
        def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
            if options.partition == b"1":
                raise UnavailableError("part 1 is away")
            return super().scan(options)

    table = OneBad()
    client = attach_client(CatalogBuilder().schema("s").table(table).build())
    with pytest.raises(UnavailableError, match="part 1 is away"):
        client.table("s.endless").scan().count()
    assert not _scan_threads()


def test_a_server_that_does_not_answer_runs_into_the_timeout(
    handwritten_server: HandwrittenServer,
) -> None:
    release, asked = threading.Event(), threading.Event()

    def hang() -> Any:
        asked.set()
        release.wait(TIMEOUT_SECONDS)
        return flight.RecordBatchStream(handwritten_server.tables["t"].full_schema.empty_table())

    handwritten_server.stream = hang
    try:
        with connect(handwritten_server.location, catalog="db", timeout=0.5) as client:

            def ends_while_the_stream_hangs() -> bool:
                with pytest.raises(LakeportError):
                    client.table("w.t").scan().to_arrow()
                # On a busy machine a call before the stream may have taken as long.
                return asked.is_set()

            assert wait_until(ends_while_the_stream_hangs)
    finally:
        release.set()


def test_a_stream_that_is_still_opening_does_not_hold_up_the_rest(
    handwritten_server: HandwrittenServer,
) -> None:
    release, opening = threading.Event(), threading.Event()
    schema = handwritten_server.tables["t"].full_schema
    batch = pa.RecordBatch.from_pylist(handwritten_server.tables["t"].rows, schema)
    opened: list[bytes] = []

    def stream() -> Any:
        opened.append(b"")
        if len(opened) == 2:
            opening.set()
            release.wait(TIMEOUT_SECONDS)
        return flight.GeneratorStream(schema, iter([batch] * 3))

    handwritten_server.stream = stream
    endpoint = flight.FlightEndpoint(b"t", [REUSE])
    handwritten_server.replies["endpoints"] = endpoints(endpoint, endpoint)
    with connect(handwritten_server.location, catalog="db") as client:
        reader = client.table("w.t").scan().to_reader()
        reader.read_next_batch()
        assert opening.wait(TIMEOUT_SECONDS)
        del reader
        still_opening = _scan_threads()
        release.set()
        for thread in still_opening:
            thread.join(TIMEOUT_SECONDS)
    assert not _scan_threads()


def test_a_closed_client_says_so(client: Client) -> None:
    client.close()
    with pytest.raises(UnavailableError, match="the client is closed"):
        client.schemas()
    client.close()
