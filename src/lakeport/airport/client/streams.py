"""All endpoints of a scan at once: a thread for each, up to a bound, into one bounded queue."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import flight

from lakeport._wording import counted
from lakeport.airport.client.connection import Connection, Headers
from lakeport.airport.client.failures import calling
from lakeport.airport.client.references import DATA_SCHEME, open_reference
from lakeport.airport.client.replies import understanding
from lakeport.errors import InternalError

__all__ = ["ScanSource", "read_endpoints"]

_MAX_THREADS = 8
_QUEUED_PER_THREAD = 2
_OPENING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ScanSource:
    """What the endpoints of a scan have in common."""

    connection: Connection
    headers: Headers
    schema: pa.Schema
    """The bound schema, which every stream must have."""
    wanted: Collection[int]
    """The positions of the columns that are read; servers leave the others null."""


def read_endpoints(
    source: ScanSource, endpoints: Sequence[flight.FlightEndpoint]
) -> Iterator[pa.RecordBatch]:
    """The batches of all endpoints, in no order; closing the iterator cancels the rest."""
    crew = _Crew(source, endpoints)
    try:
        crew.start()
        while (batch := crew.take()) is not None:
            yield batch
    finally:
        crew.stop()


class _Crew:
    """Threads that take endpoint after endpoint, and the queue that they fill."""

    def __init__(self, source: ScanSource, endpoints: Sequence[flight.FlightEndpoint]) -> None:
        self._source = source
        self._endpoints = deque(endpoints)
        count = min(len(endpoints), _MAX_THREADS)
        self._threads = [
            threading.Thread(target=self._work, name="lakeport-scan", daemon=True)
            for _ in range(count)
        ]
        self._capacity = count * _QUEUED_PER_THREAD
        self._changed = threading.Condition()
        self._queue: deque[pa.RecordBatch] = deque()
        self._working = count
        self._failure: BaseException | None = None
        self._stopped = False
        self._streams: dict[threading.Thread, Any] = {}
        """What each thread reads; None while it waits for a server to open its stream."""

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def take(self) -> pa.RecordBatch | None:
        """The next batch; None when there are no more."""
        with self._changed:
            while not self._queue and self._working and self._failure is None:
                self._changed.wait()
            if self._failure is not None:
                raise self._failure
            batch = self._queue.popleft() if self._queue else None
            self._changed.notify_all()
            return batch

    def stop(self) -> None:
        """Cancel what runs, and wait for the threads to end."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            streams = dict(self._streams)
        for stream in streams.values():
            if stream is not None:
                with suppress(pa.ArrowException):
                    stream.cancel()
        # Opening a stream cannot be interrupted. A server that answers does so soon; a thread that
        # waits for one that does not is left to end by itself.
        deadline = time.monotonic() + _OPENING_SECONDS
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                is_opening = streams.get(thread, thread) is None
                thread.join(max(0.0, deadline - time.monotonic()) if is_opening else None)

    def _work(self) -> None:
        try:
            while (endpoint := self._next_endpoint()) is not None:
                for batch in self._batches(endpoint):
                    if not self._put(batch):
                        return
        except BaseException as error:  # noqa: BLE001
            with self._changed:
                self._failure = self._failure or error
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    def _next_endpoint(self) -> flight.FlightEndpoint | None:
        with self._changed:
            if self._stopped or self._failure is not None or not self._endpoints:
                return None
            return self._endpoints.popleft()

    def _put(self, batch: pa.RecordBatch) -> bool:
        with self._changed:
            while len(self._queue) >= self._capacity and not self._stopped:
                self._changed.wait()
            if self._stopped:
                return False
            self._queue.append(batch)
            self._changed.notify_all()
            return True

    def _batches(self, endpoint: flight.FlightEndpoint) -> Iterator[pa.RecordBatch]:
        location = _location(endpoint)
        if location.startswith(DATA_SCHEME):
            batches = open_reference(location, self._source.schema, self._source.wanted)
            return (_relabelled(batch, self._source.schema) for batch in batches)
        return self._fetched(location, endpoint.ticket)

    def _fetched(self, location: str, ticket: flight.Ticket) -> Iterator[pa.RecordBatch]:
        thread = threading.current_thread()
        with self._changed:
            self._streams[thread] = None
        try:
            stream = self._source.connection.do_get(location, ticket, self._source.headers)
            with self._changed:
                self._streams[thread] = stream
                is_stopped = self._stopped
            if is_stopped:
                stream.cancel()
                return
            yield from _read(stream, self._source.schema)
        finally:
            with self._changed:
                del self._streams[thread]


def _read(stream: flight.FlightStreamReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    _check_types(stream.schema, schema)
    while True:
        try:
            with calling("the scan"):
                chunk = stream.read_chunk()
        except StopIteration:
            return
        # A message without rows says nothing that matters here.
        if chunk.data is not None:
            yield _relabelled(chunk.data, schema)


def _relabelled(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    with understanding("rows"):
        batch.validate()
    if not schema.names:
        return batch
    # Columns that were not asked for are null, whatever the schema promises.
    return pa.RecordBatch.from_arrays(batch.columns, names=schema.names)


def _check_types(found: pa.Schema, bound: pa.Schema) -> None:
    if len(found) != len(bound):
        raise InternalError(
            f"the server announced {counted(len(bound), 'column')} and sends {len(found)}; "
            "try refresh()"
        )
    for got, expected in zip(found, bound, strict=True):
        if got.type != expected.type:
            raise InternalError(
                f"the server announced {expected.type} for column {expected.name!r} and sends "
                f"{got.type}; try refresh()"
            )


def _location(endpoint: flight.FlightEndpoint) -> str:
    with understanding("endpoint"):
        locations = endpoint.locations
        if not locations:
            raise InternalError("the server gave an endpoint without a location")
        return str(locations[0].uri.decode())
