"""Clients that do nothing: their streams end, and their connections make room for others."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from lakeport.airport import Server
from lakeport.airport.client import connect
from lakeport.catalog import CatalogBuilder, ScanOptions
from lakeport.errors import UnavailableError
from lakeport.memory import MemoryCatalog
from lakeport.spark.transport.reader import CancellingReader
from tests.airport.test_drain import BATCHES, ROWS, SCHEMA, Recorder, numbers
from tests.wait import TIMEOUT_SECONDS, wait_until

NUMBERS = pa.schema([("x", pa.int64())])


class Source:
    """A source of rows that has to be closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            yield from numbers()

        return CancellingReader(SCHEMA, batches(), self.closed.set)  # type: ignore[arg-type]


def test_a_scan_whose_client_stops_reading_is_freed_and_ends_with_a_sentence() -> None:
    source = Source()
    catalog = CatalogBuilder("lake").schema("s").table("t", source.scan, schema=SCHEMA).build()
    with Server(catalog, stream_timeout=0.5) as server, connect(server.location) as client:
        reader = client.table("s.t").scan().to_reader()
        reader.read_next_batch()

        assert source.closed.wait(TIMEOUT_SECONDS)

        with pytest.raises(UnavailableError, match=r"table s\.t was ended.* for 0\.5 seconds"):
            reader.read_all()


def test_a_client_that_reads_slowly_gets_everything() -> None:
    source = Source()
    catalog = CatalogBuilder("lake").schema("s").table("t", source.scan, schema=SCHEMA).build()
    with Server(catalog, stream_timeout=30.0) as server, connect(server.location) as client:
        reader = client.table("s.t").scan().to_reader()
        rows = 0
        for batch in reader:
            rows += batch.num_rows
            source.closed.wait(0.001)
    assert rows == ROWS * BATCHES


def test_an_insert_whose_client_stops_sending_is_rolled_back() -> None:
    memory = MemoryCatalog()
    seen = Recorder()
    with (
        Server(memory, stream_timeout=0.5, observer=seen) as server,
        connect(server.location) as client,
    ):
        client.create_schema("s")
        table = client.create_table("s", "t", NUMBERS)
        ended = threading.Event()

        def batches() -> Iterator[pa.RecordBatch]:
            yield pa.record_batch({"x": pa.array([1], pa.int64())})
            with seen.changed:
                assert seen.changed.wait_for(
                    lambda: any(call.verb == "DoExchange" for call in seen.ended),
                    timeout=TIMEOUT_SECONDS,
                )
            ended.set()
            yield pa.record_batch({"x": pa.array([2], pa.int64())})

        with pytest.raises(UnavailableError):
            table.insert(pa.RecordBatchReader.from_batches(NUMBERS, batches()))
        assert ended.is_set()
        assert client.table("s.t").scan().count() == 0
    seen.wait_for("DoExchange", "UNAVAILABLE")


def test_idle_connections_are_closed_when_there_are_too_many_and_busy_ones_are_not() -> None:
    catalog = CatalogBuilder("lake").schema("s").table("t", numbers, schema=SCHEMA).build()
    with (
        Server(catalog, max_connections=20) as server,
        connect(server.location) as client,
        ExitStack() as opened,
    ):
        reader = client.table("s.t").scan().to_reader()
        rows = reader.read_next_batch().num_rows
        address = urlsplit(server.location)
        idle = [
            opened.enter_context(socket.create_connection((address.hostname, address.port)))
            for _ in range(60)
        ]

        assert wait_until(lambda: sum(map(is_closed, idle)) >= 41)

        assert sum(map(is_closed, idle)) < 60
        assert rows + sum(batch.num_rows for batch in reader) == ROWS * BATCHES
        with connect(server.location) as late:
            assert [schema.name for schema in late.schemas()] == ["s"]


def is_closed(connection: socket.socket) -> bool:
    """Whether the server has closed a connection; what it has sent before is dropped."""
    connection.setblocking(False)
    try:
        while connection.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
