"""DoExchange: which operation a client wants, and the two ends of the stream.

`Exchange` hides pyarrow's readers and writers; the operations themselves are in `functions` and
`dml`, one handler each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyarrow import flight

from lakeport.airport.protocol.addresses import Address, parse_descriptor
from lakeport.airport.protocol.batch_bounds import BatchBounds
from lakeport.airport.protocol.validation import ContentCheck, check_layout
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

# Inserted rows are often kept, and Arrow's default pool is several times slower for memory that
# is never given back; see docs/performance.md.
_POOL = pa.system_memory_pool()

# Each batch that waits is some Python objects, however few its rows.
_MAX_WAITING = 1024

_DAY = {"us": 86_400 * 10**6, "ns": 86_400 * 10**9}


class Exchange:
    """One exchange: what the client sends, and how it is answered."""

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
        self._refused = False
        # Only the end of its connection wakes a handler that waits for a client.
        self._waiting = host.idle.stream(
            "the exchange", lambda: host.connections.cut(context.peer())
        )

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Raise what the block raises after the columns have come, and before any row is read.

        A client that meets an error while it still writes its columns loses the error's type.
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
        """The columns that the client sends. Discards metadata that comes before them."""
        with self._waiting:
            schema = self._reader.schema
        limits = self.host.limits
        limits.check(len(schema), limits.columns, "the number of columns")
        return schema

    def read_metadata(self) -> bytes:
        """The metadata-only message that opens an in-out call."""
        try:
            chunk = self._read_chunk()
        except StopIteration:
            raise InvalidArgumentError("the exchange ended before its parameters came") from None
        if chunk.data is not None or chunk.app_metadata is None:
            raise InvalidArgumentError("the exchange must begin with its parameters")
        return chunk.app_metadata.to_pybytes()  # type: ignore[no-any-return]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches that the client sends, until it has sent all."""
        check = ContentCheck(self.input_schema())
        for batch, _ in self._received():
            check(batch)
            yield batch

    def large_batches(self) -> Iterator[pa.RecordBatch]:
        """The same rows in fewer batches: the client's hold 2048 rows, too few for a call each."""
        check = ContentCheck(self.input_schema())
        waiting: list[pa.RecordBatch] = []
        rows = size = 0
        joining: Future[pa.RecordBatch] | None = None
        with ThreadPoolExecutor(1, "lakeport-join") as joiner:
            for batch, batch_size in self._received():
                if not batch.num_rows:
                    continue
                waiting.append(batch)
                rows += batch.num_rows
                size += batch_size
                if (
                    rows >= self.host.batch_rows
                    or size >= self.host.max_message_size
                    or len(waiting) >= _MAX_WAITING
                ):
                    # Batches are checked and joined while the next ones arrive.
                    done, joining = joining, joiner.submit(_joined, waiting, check)
                    if done is not None:
                        yield done.result()
                    waiting, rows, size = [], 0, 0
            if joining is not None:
                yield joining.result()
        if waiting:
            yield _joined(waiting, check)

    def begin(self, schema: pa.Schema) -> None:
        """Announce the columns of the answer; the client waits for it before it sends rows."""
        self._writer.begin(schema, options=self.host.write_options)

    def write(self, batch: pa.RecordBatch, metadata: bytes | None = None) -> None:
        """Answer with rows."""
        self.call.notes.rows_sent += batch.num_rows
        self.call.notes.bytes_sent += batch.nbytes
        with self._waiting:
            if metadata is None:
                self._writer.write_batch(batch)
            else:
                self._writer.write_with_metadata(batch, metadata)

    def write_metadata(self, metadata: bytes) -> None:
        """Answer without rows."""
        self._writer.write_metadata(metadata)

    def drain(self) -> None:
        """Read and drop what the client still sends, unless it sent a batch that was refused."""
        while not self._refused and not self.host.stopping.is_set():
            try:
                self._read_chunk()
            except StopIteration:
                return

    def close(self) -> None:
        """The exchange is over."""
        self._waiting.close()

    def routed(self) -> CatalogRoute:
        """The catalog of the object."""
        return self.host.route(self.call, self.address.catalog)

    def statement(self) -> AbstractContextManager[None]:
        """Commit what happens inside when it succeeds, roll it back when it fails."""
        routed = self.routed()
        return self.host.transactions.statement(routed.catalog, routed.served_as)

    def _received(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield the batches as they come, with their sizes; their contents are unchecked."""
        bounds = self.bounds()
        times = [i for i, field in enumerate(self.input_schema()) if pt.is_time64(field.type)]
        while True:
            self.host.check_running()
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
        with self._waiting:
            return self._reader.read_chunk()

    def _check_complete(self) -> None:
        """Tell the end of the input from a client that was cancelled, killed or cut off."""
        if self._context.is_cancelled():
            raise CancelledError("the client went away before it had sent everything")

    def _checked_size(self, batch: pa.RecordBatch, bounds: BatchBounds) -> int:
        try:
            check_layout(batch)
            return bounds.size(batch)
        except InvalidArgumentError:
            self._refused = True
            raise


def _joined(batches: list[pa.RecordBatch], check: ContentCheck) -> pa.RecordBatch:
    for batch in batches:
        check(batch)
    return pa.concat_batches(batches, memory_pool=_POOL)


def _check_times(batch: pa.RecordBatch, positions: list[int]) -> None:
    """Refuse times beyond a day, which crash the client when it reads them back."""
    for position in positions:
        column = batch.column(position)
        if len(column):
            latest = pc.max(column.cast(pa.int64())).as_py()
            if latest is not None and latest > _DAY[column.type.unit]:
                raise InvalidInputError(
                    "a time lies beyond 24:00: DuckDB sends TIME WITH TIME ZONE in a usable form "
                    "only after SET arrow_lossless_conversion = true"
                )


OperationHandler: TypeAlias = Callable[[Exchange], None]


def run_exchange(
    host: ServerState,
    call: Call,
    context: flight.ServerCallContext,
    descriptor: flight.FlightDescriptor,
    reader: Any,
    writer: Any,
    operations: dict[str, OperationHandler],
) -> None:
    """Run the operation that the headers name."""
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
        operation(exchange)
    finally:
        exchange.close()
