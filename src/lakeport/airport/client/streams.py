"""Read all endpoints of a scan in parallel, with a limited number of threads, into one queue."""

from __future__ import annotations

import base64
import binascii
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyarrow import flight, fs

from lakeport._files import check_regular
from lakeport._wording import counted
from lakeport.airport.client.connection import Connection, Headers
from lakeport.airport.client.replies import REPLY_LIMITS, Reply, decoding_reply, read_map
from lakeport.airport.protocol.codec import read_one_row
from lakeport.airport.protocol.errors import translating_errors
from lakeport.arrow import convert
from lakeport.errors import (
    InternalError,
    InvalidArgumentError,
    LakeportError,
    UnavailableError,
    UnsupportedError,
)
from lakeport.types import duckdb_identifier, from_arrow_type

__all__ = ["DATA_SCHEME", "ScanSource", "open_reference", "read_endpoints"]

_MAX_THREADS = 8
_QUEUED_PER_THREAD = 2
_OPENING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ScanSource:
    """The settings that all endpoints of a scan share."""

    connection: Connection
    headers: Headers
    schema: pa.Schema
    """The bound schema, which every stream must have."""
    positions: Collection[int]
    """The positions of the columns that are read; servers send nulls for the others."""


def read_endpoints(
    source: ScanSource, endpoints: Sequence[flight.FlightEndpoint]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of all endpoints, in no order. Closing the iterator cancels the rest."""
    readers = _EndpointReaders(source, endpoints)
    try:
        readers.start()
        while (batch := readers.take()) is not None:
            yield batch
    finally:
        readers.stop()


class _EndpointReaders:
    """Threads that read endpoints one after another, and the queue that they fill."""

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
        """The stream of each thread; None while the server opens it."""

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def take(self) -> pa.RecordBatch | None:
        """Return the next batch; None at the end."""
        with self._changed:
            while not self._queue and self._working and self._failure is None:
                self._changed.wait()
            if self._failure is not None:
                raise self._failure
            batch = self._queue.popleft() if self._queue else None
            self._changed.notify_all()
            return batch

    def stop(self) -> None:
        """Cancel the open streams, and wait for the threads to end."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            streams = dict(self._streams)
        for stream in streams.values():
            if stream is not None:
                with suppress(pa.ArrowException):
                    stream.cancel()
        # Opening a stream cannot be interrupted. A thread that still waits for its server after
        # the deadline is not joined; it ends when the call ends.
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
            batches = open_reference(location, self._source.schema, self._source.positions)
            return (_with_names(batch, self._source.schema) for batch in batches)
        return self._fetch(location, endpoint.ticket)

    def _fetch(self, location: str, ticket: flight.Ticket) -> Iterator[pa.RecordBatch]:
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
            yield from _read(stream, self._source)
        finally:
            with self._changed:
                del self._streams[thread]


def _read(stream: flight.FlightStreamReader, source: ScanSource) -> Iterator[pa.RecordBatch]:
    schema = source.schema
    _check_types(stream.schema, schema, source.positions)
    while True:
        try:
            with translating_errors("the scan"):
                chunk = stream.read_chunk()
        except StopIteration:
            return
        # A message without rows contains only metadata, which a scan does not use.
        if chunk.data is not None:
            yield _with_names(chunk.data, schema)


def _with_names(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    with decoding_reply("rows"):
        batch.validate()
    if not schema.names:
        return batch
    # Columns that are not read are null, even if the schema declares them NOT NULL.
    return pa.RecordBatch.from_arrays(batch.columns, names=schema.names)


def _check_types(received: pa.Schema, bound: pa.Schema, positions: Collection[int]) -> None:
    if len(received) != len(bound):
        raise InternalError(
            f"the server announced {counted(len(bound), 'column')} and sends {len(received)}; "
            "try refresh()"
        )
    for position, (field, expected) in enumerate(zip(received, bound, strict=True)):
        if position not in positions and pa.types.is_null(field.type):
            continue
        if field.type != expected.type:
            raise InternalError(
                f"the server announced {expected.type} for column {expected.name!r} and sends "
                f"{field.type}; try refresh()"
            )


def _location(endpoint: flight.FlightEndpoint) -> str:
    with decoding_reply("endpoint"):
        locations = endpoint.locations
        if not locations:
            raise InternalError("the server sent an endpoint without a location")
        return str(locations[0].uri.decode())


DATA_SCHEME: Final = "data:"

_FUNCTION_CALL = "application/x-msgpack-duckdb-function-call;base64"
_FILE = "application/msgpack;base64"
_FUNCTIONS: Final = frozenset(
    {
        "read_parquet", "parquet_scan", "read_csv", "read_csv_auto", "read_json", "read_json_auto",
        "read_ndjson", "read_ndjson_auto", "read_ndjson_objects", "read_json_objects", "read_xlsx",
        "delta_scan", "iceberg_scan", "ducklake_scan", "st_read", "range", "generate_series",
    }
)  # fmt: skip


def open_reference(
    uri: str, schema: pa.Schema, positions: Collection[int]
) -> Iterator[pa.RecordBatch]:
    """Return the rows of a `data:` URI in the bound schema; columns that are not read are null."""
    media_type, payload = _decode(uri)
    if media_type == _FUNCTION_CALL:
        function, positional, named = _function_call(payload)
        return _run(function, positional, named, schema, positions)
    if media_type != _FILE:
        raise UnsupportedError(f"this client cannot read {media_type[:80]!r}")
    with decoding_reply("file reference"):
        kind, location = payload.text("format"), payload.text("uri")
    match kind:
        case "parquet":
            return _run("parquet_scan", [location], {}, schema, positions)
        case "ipc-stream" | "ipc-file":
            return _read_ipc(kind, location, schema)
    raise UnsupportedError(f"this client cannot read files of format {kind[:80]!r}")


@decoding_reply("data: endpoint")
def _decode(uri: str) -> tuple[str, Reply]:
    REPLY_LIMITS.check(len(uri), REPLY_LIMITS.ticket_bytes, "the data: URI")
    media_type, _, text = uri.removeprefix(DATA_SCHEME).partition(",")
    try:
        content = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise InvalidArgumentError("it is not base64") from None
    return media_type, read_map(content, "content")


@decoding_reply("function call")
def _function_call(payload: Reply) -> tuple[str, list[Any], dict[str, Any]]:
    function = payload.text("function_name").lower()
    row = read_one_row(payload.blob("data"), "arguments", limits=REPLY_LIMITS)
    values = {name: row.column(i)[0].as_py() for i, name in enumerate(row.schema.names)}
    positional = [values.pop(f"arg_{i}") for i in range(len(values)) if f"arg_{i}" in values]
    if any(name.startswith("arg_") for name in values):
        raise InvalidArgumentError("its positional arguments are not contiguous")
    return function, positional, values


def _run(
    function: str,
    positional: list[Any],
    named: dict[str, Any],
    schema: pa.Schema,
    positions: Collection[int],
) -> Iterator[pa.RecordBatch]:
    if function not in _FUNCTIONS:
        raise UnsupportedError(
            f"the server refers to the function {function[:80]!r}, which this client does not run"
        )
    try:
        import duckdb
    except ImportError:
        raise UnsupportedError(
            f"the rows must be read with DuckDB's {function}; install the duckdb package"
        ) from None
    arguments = [*("?" for _ in positional), *(f"{duckdb_identifier(name)} := ?" for name in named)]
    query = f"SELECT * FROM {function}({', '.join(arguments)})"  # noqa: S608
    lossless = any(isinstance(field.type, pa.BaseExtensionType) for field in schema)
    try:
        with duckdb.connect(config={"arrow_lossless_conversion": str(lossless)}) as connection:
            relation = connection.sql(query, params=[*positional, *named.values()])
            columns = ", ".join(
                duckdb_identifier(name) for name in _names(schema, positions, relation)
            )
            rows = relation.project(columns).to_arrow_reader()
            yield from _in_schema(rows, schema, positions, function)
    except duckdb.Error as error:
        raise UnavailableError(f"{function} failed: {str(error).partition(chr(10))[0]}") from None


def _names(schema: pa.Schema, positions: Collection[int], relation: Any) -> list[str]:
    names = [schema.field(index).name for index in sorted(positions)]
    missing = [name for name in names if name not in relation.columns]
    if missing:
        raise InternalError(f"the referenced rows have no column {missing[0]!r}")
    return names


def _in_schema(
    rows: pa.RecordBatchReader, schema: pa.Schema, positions: Collection[int], function: str
) -> Iterator[pa.RecordBatch]:
    for name in rows.schema.names:
        actual, expected = rows.schema.field(name).type, schema.field(name).type
        if from_arrow_type(actual) != from_arrow_type(expected):
            raise InternalError(
                f"{function} returns {actual} for column {name!r}, "
                f"which the table declares as {expected}"
            )
    for batch in rows:
        arrays = [
            convert(batch.column(field.name), field.type, f"column {field.name!r}")
            if index in positions
            else pa.nulls(batch.num_rows, field.type)
            for index, field in enumerate(schema)
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=schema.names)


def _read_ipc(kind: str, location: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    try:
        filesystem, path = _filesystem(location)
        if isinstance(filesystem, fs.LocalFileSystem):
            check_regular(path, subject="the referenced file")
        if kind == "ipc-stream":
            with filesystem.open_input_stream(path) as file, pa.ipc.open_stream(file) as stream:
                _check_same(stream.schema, schema, location)
                yield from stream
            return
        with filesystem.open_input_file(path) as file, pa.ipc.open_file(file) as reader:
            _check_same(reader.schema, schema, location)
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)
    except LakeportError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise UnavailableError(f"{location[:200]} cannot be read: {error}") from None


def _filesystem(location: str) -> tuple[fs.FileSystem, str]:
    if "://" in location or location.startswith("file:"):
        pair: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(location)
        return pair
    return fs.LocalFileSystem(), location


def _check_same(actual: pa.Schema, expected: pa.Schema, location: str) -> None:
    if not actual.equals(expected, check_metadata=False):
        raise InternalError(f"the columns of {location[:200]} are not those of the table")
