"""DoGet: the rows of a scan as a stream of batches that the client can read by position.

Every batch has exactly the columns the client has bound, in their order and physical layout, and
no more rows and bytes than the server allows. Columns that nobody asked for are nulls.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.types as pt
from pyarrow import flight

from lakeport.airport.codec import encode
from lakeport.airport.headers import Call
from lakeport.airport.host import Host
from lakeport.airport.scans import Scan, resolve_scan, scan_options
from lakeport.airport.status import answering
from lakeport.airport.tickets import ScanTicket
from lakeport.catalog import current_request
from lakeport.catalog.layouts import conform
from lakeport.errors import InternalError, InvalidInputError

__all__ = ["Alignment", "open_stream", "split"]


def open_stream(host: Host, call: Call, raw_ticket: bytes) -> flight.FlightDataStream:
    """Answer a ticket."""
    ticket = ScanTicket.from_bytes(raw_ticket, limits=host.limits)
    scan = resolve_scan(host, call, ticket)
    options = scan_options(host, ticket)
    # No filter means that the size of the scan is known, and with it the progress.
    total_rows = None if options.filter else scan.size(options).rows
    reader = scan.open(options)
    align = Alignment(scan.schema, reader.schema, ticket.columns, scan.what)
    batches = _batches(host, scan, reader, align, total_rows)
    # pyarrow enters Python anew for every batch, without the context of the request.
    context = contextvars.copy_context()
    if _has_dictionaries(scan.schema):
        batches = _as_tables(batches)
    return flight.GeneratorStream(
        scan.schema, _in_context(batches, context), options=host.write_options
    )


class Alignment:
    """Fits the batches of a reader to the schema that the client has bound."""

    def __init__(
        self, target: pa.Schema, source: pa.Schema, columns: tuple[str, ...] | None, what: str
    ) -> None:
        self._target = target
        self._what = what
        self._nulls: dict[pa.DataType, pa.Array] = {}
        wanted = set(target.names if columns is None else columns)
        self._sources: list[int | None] = []
        for field in target:
            position = source.get_field_index(field.name)
            if position < 0 and field.name in wanted:
                raise InternalError(f"the scan of {what} has no column {field.name!r}")
            self._sources.append(position if field.name in wanted else None)
        self._is_identity = source.equals(target) and None not in self._sources

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in the target schema."""
        if self._is_identity:
            return batch
        arrays = [
            self._null_array(field.type, batch.num_rows)
            if position is None
            else self._cast(batch.column(position), field)
            for field, position in zip(self._target, self._sources, strict=True)
        ]
        if not arrays:
            return batch
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)

    def _null_array(self, type: pa.DataType, rows: int) -> pa.Array:
        known = self._nulls.get(type)
        if known is None or len(known) < rows:
            known = self._nulls[type] = pa.nulls(rows, type)
        return known.slice(0, rows)

    def _cast(self, array: pa.Array, field: pa.Field) -> pa.Array:
        try:
            return conform(array, field.type, f"column {field.name!r}")
        except InvalidInputError as error:
            raise InternalError(
                f"the scan of {self._what} gives {array.type} for column {field.name!r}, "
                f"which is declared {field.type}: {error}"
            ) from None


def split(batch: pa.RecordBatch, *, rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """Slices of a batch with at most so many rows and bytes; a row beyond that goes alone."""
    # Whole buffers are counted much faster than the bytes of a slice, and are never fewer.
    if 0 < batch.num_rows <= rows and batch.get_total_buffer_size() <= size:
        yield batch
        return
    for start in range(0, batch.num_rows, rows):
        yield from _halve(batch.slice(start, rows), size)


def _halve(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    total = batch.nbytes
    if total <= size or batch.num_rows == 1:
        yield batch
        return
    middle = batch.num_rows // 2
    halves = batch.slice(0, middle), batch.slice(middle)
    # What the halves share, a large dictionary, does not become smaller by cutting.
    if sum(half.nbytes for half in halves) > 1.5 * total:
        yield batch
        return
    for half in halves:
        yield from _halve(half, size)


def _batches(
    host: Host,
    scan: Scan,
    reader: pa.RecordBatchReader,
    align: Callable[[pa.RecordBatch], pa.RecordBatch],
    total_rows: int | None,
) -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
    sent = 0
    complete = False
    observer = host.calls.observer
    notes = current_request().notes
    notes.is_sending = True
    observer.scan_started()
    waiting = host.idle.stream(f"the scan of {scan.what}", reader.close)
    with answering(f"the scan of {scan.what}", typed=True, stopping=host.stopping.is_set):
        try:
            for batch in reader:
                for piece in split(align(batch), rows=host.batch_rows, size=host.max_message_size):
                    host.check_running()
                    sent += piece.num_rows
                    with waiting:
                        yield piece, _progress(sent, total_rows)
                    notes.rows_sent += piece.num_rows
                    notes.bytes_sent += piece.nbytes
                    observer.batch_sent(piece)
            complete = True
            notes.is_sending = False
        finally:
            observer.scan_ended(complete=complete)
            waiting.close()
            reader.close()


def _progress(sent: int, total_rows: int | None) -> bytes | None:
    if not total_rows:
        return None
    return encode({"progress": min(1.0, sent / total_rows)})


def _has_dictionaries(schema: pa.Schema) -> bool:
    def has(type: pa.DataType) -> bool:
        if isinstance(type, pa.BaseExtensionType):
            return has(type.storage_type)
        return pt.is_dictionary(type) or any(
            has(type.field(i).type) for i in range(type.num_fields)
        )

    return any(has(field.type) for field in schema)


def _as_tables(
    batches: Iterator[tuple[pa.RecordBatch, bytes | None]],
) -> Iterator[tuple[pa.Table, None]]:
    # pyarrow sends the dictionaries of a table, but not those of a bare batch.
    for batch, _ in batches:
        yield pa.Table.from_batches([batch]), None


def _in_context(
    batches: Iterator[tuple[pa.RecordBatch | pa.Table, bytes | None]], context: contextvars.Context
) -> Iterator[tuple[pa.RecordBatch | pa.Table, bytes | None]]:
    while (item := context.run(next, batches, None)) is not None:
        yield item
