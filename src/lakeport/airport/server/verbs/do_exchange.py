"""DoExchange: find the operation and the catalog of an exchange, and read and write its stream.

`Exchange` hides pyarrow's readers and writers. The operations are in `exchange_functions` and
`exchange_dml`, one handler each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyarrow import flight

from lakeport.airport.protocol.addresses import Address, parse_descriptor
from lakeport.airport.protocol.batch_bounds import BatchBounds
from lakeport.airport.protocol.validation import ContentCheck, check_layout
from lakeport.airport.server.calls import check_not_cancelled
from lakeport.airport.server.headers import Call
from lakeport.airport.server.routing import CatalogRoute
from lakeport.airport.server.state import ServerState
from lakeport.errors import (
    CancelledError,
    InvalidArgumentError,
    InvalidInputError,
    UnsupportedError,
)

__all__ = ["Exchange", "OperationHandler", "run_exchange"]

# Tables often retain inserted rows. Arrow's default pool is several times slower for memory that
# is not released; see docs/decisions/what-was-slow.md.
_SYSTEM_POOL = pa.system_memory_pool()

# Bounds the Python objects of batches with few rows that wait to be concatenated.
_MAX_PENDING_BATCHES = 1024

_DAY = {"us": 86_400 * 10**6, "ns": 86_400 * 10**9}


class Exchange:
    """One exchange: the batches that the client sends, and the replies to it."""

    def __init__(
        self,
        host: ServerState,
        call: Call,
        address: Address,
        context: Any,
        reader: Any,
        writer: Any,
    ) -> None:
        self.host = host
        self.call = call
        self.address = address
        self.returns_rows = call.header("return-chunks") == "1"
        self._context = context
        self._reader = reader
        self._writer = writer
        self._bounds: BatchBounds | None = None
        self._rejected = False
        # A handler that waits for its client returns only when the connection is closed.
        self._idle = host.idle.stream("the exchange", lambda: host.connections.cut(context.peer()))

    @contextmanager
    def after_columns(self) -> Iterator[None]:
        """Delay an error of the block until the client has sent its columns.

        A client that receives an error while it still writes its columns loses the error's type.
        """
        try:
            yield
        except Exception:
            self.input_schema()
            raise

    def bounds(self) -> BatchBounds:
        """Return the bounds of the batches that the client sends."""
        if self._bounds is None:
            self._bounds = BatchBounds(
                self.input_schema(),
                limits=self.host.limits,
                max_bytes=self.host.max_message_size,
            )
        return self._bounds

    def input_schema(self) -> pa.Schema:
        """Return the columns that the client sends. Discards metadata that comes before them."""
        with self._idle:
            schema = self._reader.schema
        limits = self.host.limits
        limits.check(len(schema), limits.columns, "the number of columns")
        return schema

    def read_metadata(self) -> bytes:
        """Return the metadata of the first message of an in-out call, which has no rows."""
        try:
            chunk = self._read_chunk()
        except StopIteration:
            raise InvalidArgumentError(
                "the exchange ended before its parameters were sent"
            ) from None
        if chunk.data is not None or chunk.app_metadata is None:
            raise InvalidArgumentError("the exchange must begin with its parameters")
        return chunk.app_metadata.to_pybytes()  # type: ignore[no-any-return]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches that the client sends, checked."""
        check = ContentCheck(self.input_schema())
        for batch, _ in self._validated_chunks():
            check(batch)
            yield batch

    def coalesced_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the same rows in fewer batches; DuckDB sends only 2048 rows in each."""
        check = ContentCheck(self.input_schema())
        pending: list[pa.RecordBatch] = []
        rows = size = 0
        result: Future[pa.RecordBatch] | None = None
        with ThreadPoolExecutor(1, "lakeport-concat") as executor:
            for batch, batch_size in self._validated_chunks():
                if not batch.num_rows:
                    continue
                pending.append(batch)
                rows += batch.num_rows
                size += batch_size
                if (
                    rows >= self.host.batch_rows
                    or size >= self.host.max_message_size
                    or len(pending) >= _MAX_PENDING_BATCHES
                ):
                    # Batches are checked and concatenated while the next ones arrive.
                    previous, result = result, executor.submit(_concat, pending, check)
                    if previous is not None:
                        yield previous.result()
                    pending, rows, size = [], 0, 0
            if result is not None:
                yield result.result()
        if pending:
            yield _concat(pending, check)

    def send_schema(self, schema: pa.Schema) -> None:
        """Send the columns of the reply; the client waits for them before it sends rows."""
        self._writer.begin(schema, options=self.host.write_options(self.call))

    def write(self, batch: pa.RecordBatch, metadata: bytes | None = None) -> None:
        """Send rows."""
        self.call.notes.rows_sent += batch.num_rows
        self.call.notes.bytes_sent += batch.nbytes
        with self._idle:
            if metadata is None:
                self._writer.write_batch(batch)
            else:
                self._writer.write_with_metadata(batch, metadata)

    def write_metadata(self, metadata: bytes) -> None:
        """Send metadata without rows."""
        self._writer.write_metadata(metadata)

    def drain(self) -> None:
        """Read and discard the rest of the input, unless a batch of it was rejected."""
        while not self._rejected and not self.host.stopping.is_set():
            try:
                self._read_chunk()
            except StopIteration:
                return

    def close(self) -> None:
        """Stop the idle timeout of the exchange."""
        self._idle.close()

    def _validated_chunks(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield the batches with their sizes, layout checked; their values are unchecked."""
        bounds = self.bounds()
        times = [i for i, field in enumerate(self.input_schema()) if pt.is_time64(field.type)]
        while True:
            self.host.check_running()
            check_not_cancelled(self.call.notes)
            try:
                chunk = self._read_chunk()
            except StopIteration:
                self._check_complete()
                return
            if chunk.data is not None:
                size = self._checked_size(chunk.data, bounds)
                self.call.notes.rows_received += chunk.data.num_rows
                self.call.notes.bytes_received += chunk.data.get_total_buffer_size()
                _check_times(chunk.data, times)
                yield chunk.data, size

    def _read_chunk(self) -> Any:
        with self._idle:
            return self._reader.read_chunk()

    def _check_complete(self) -> None:
        """Raise `CancelledError` if the input ended because the client disconnected."""
        if self._context.is_cancelled():
            raise CancelledError("the client disconnected before it had sent all rows")

    def _checked_size(self, batch: pa.RecordBatch, bounds: BatchBounds) -> int:
        try:
            check_layout(batch)
            return bounds.size(batch)
        except InvalidArgumentError:
            self._rejected = True
            raise


def _concat(batches: list[pa.RecordBatch], check: ContentCheck) -> pa.RecordBatch:
    check.check_all(batches)
    return pa.concat_batches(batches, memory_pool=_SYSTEM_POOL)


def _check_times(batch: pa.RecordBatch, positions: list[int]) -> None:
    """Raise `InvalidInputError` for times after 24:00, which crash DuckDB when it reads them."""
    for position in positions:
        column = batch.column(position)
        if len(column):
            latest = pc.max(column.cast(pa.int64())).as_py()
            if latest is not None and latest > _DAY[column.type.unit]:
                raise InvalidInputError(
                    "a time is later than 24:00: DuckDB sends TIME WITH TIME ZONE in a usable form "
                    "only after SET arrow_lossless_conversion = true"
                )


OperationHandler: TypeAlias = Callable[[Exchange, CatalogRoute], None]


def run_exchange(
    host: ServerState,
    call: Call,
    context: flight.ServerCallContext,
    descriptor: flight.FlightDescriptor,
    reader: Any,
    writer: Any,
    operations: dict[str, OperationHandler],
) -> None:
    """Run the operation that the headers name, on the catalog of the descriptor."""
    name = call.header("airport-operation")
    if name is None:
        raise InvalidArgumentError("the exchange has no airport-operation header")
    operation = operations.get(name)
    if operation is None:
        raise UnsupportedError(f"the operation {name[:80]!r} is not supported")
    call.notes.operation = name
    address = parse_descriptor(descriptor, limits=host.limits)
    exchange = Exchange(host, call, address, context, reader, writer)
    try:
        with exchange.after_columns():
            route = host.route(call, address.catalog)
        operation(exchange, route)
    finally:
        exchange.close()
