"""DoGet: the rows of a scan as a stream of batches that the client can read by position.

Every batch has exactly the columns that the client has bound, in their order and physical layout.
It has no more rows and bytes than the server allows. Columns that the client did not request are
null. Where they would be many bytes, they have Arrow's null type, which has none, if the client
accepts it.
"""

from __future__ import annotations

import contextvars
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.types as pt
from pyarrow import flight, ipc

from lakeport._tracing import note_event
from lakeport.airport.protocol.codec import encode
from lakeport.airport.protocol.errors import translate_errors
from lakeport.airport.protocol.tickets import ScanTicket
from lakeport.airport.server.admission import ScanBudget
from lakeport.airport.server.calls import check_not_cancelled
from lakeport.airport.server.headers import Call
from lakeport.airport.server.state import ServerState
from lakeport.airport.server.verbs.scans import CatalogScan, resolve_scan, scan_options
from lakeport.arrow import Alignment, no_columns, split
from lakeport.catalog import current_request, project_schema

__all__ = ["open_stream"]

# More nulls than this, in columns that the client did not request, are left out if it accepts it.
_MANY_NULL_BYTES: Final = 16 * 1024 * 1024

# Six million zeros of a row id are 48 MB, or 200 kB and less work for client and server.
_FEW_BYTES: Final = ipc.IpcWriteOptions(compression="lz4")
# Four megabytes of row ids: larger ones take new memory, smaller ones are more messages.
_COUNTED_BATCH_ROWS: Final = 1 << 19

# Larger batches are sliced at first: the first slice, and how many rows in slices that double.
_SMALL_BATCH_BYTES: Final = 1024 * 1024
_FIRST_BATCH_ROWS: Final = 2048
_FIRST_ROWS: Final = 32_768


def open_stream(host: ServerState, call: Call, raw_ticket: bytes) -> flight.FlightDataStream:
    """Return the stream of the rows that a ticket describes."""
    ticket = ScanTicket.from_bytes(raw_ticket, limits=host.limits)
    scan = resolve_scan(host, call, ticket)
    budget, release = host.admission.begin_scan(call.caller, current_request().is_cancelled)
    call.connection.at_end(release)
    scan_request = scan_options(host, ticket)
    call.notes.filter = scan_request.filter
    call.notes.columns = ",".join(ticket.columns or ())
    size, reader = scan.open(scan_request)
    schema, columns, batch_rows = scan.schema, ticket.columns, host.batch_rows
    source, rows = reader.schema, iter(reader)
    options = host.write_options(call)
    if columns is not None and call.accepts_null_columns and size.rows:
        unread = [field.type for field in schema if field.name not in columns]
        if size.rows * sum(map(_null_bytes, unread)) > _MANY_NULL_BYTES:
            schema = _with_null_columns(schema, columns)
    if not source.names:
        if ticket.rows_only:
            # The client converts a column of its type, and reads no value of it.
            source, batch_rows = project_schema(schema, columns), _COUNTED_BATCH_ROWS
            if (size.rows or 0) > _COUNTED_BATCH_ROWS:
                options = _FEW_BYTES
        rows = _counted(reader, source, batch_rows)
    align = Alignment(schema, source, columns, scan.subject)
    total_rows = None if scan_request.filter else size.rows
    batches = _batches(
        host,
        scan,
        reader,
        rows,
        align,
        total_rows,
        batch_rows=batch_rows,
        budget=budget,
    )
    # pyarrow calls Python for every batch without the context of the request.
    context = contextvars.copy_context()
    if _has_dictionaries(schema):
        batches = _as_tables(batches)
    return flight.GeneratorStream(schema, _in_context(batches, context), options=options)


@lru_cache(maxsize=1024)
def _null_bytes(type: pa.DataType) -> float:
    """Return the bytes of a null of a type."""
    return float(pa.nulls(1024, type).nbytes / 1024)


def _with_null_columns(schema: pa.Schema, requested: Collection[str]) -> pa.Schema:
    """Return the schema with the null type for all columns that were not requested."""
    fields = [
        field
        if field.name in requested
        else pa.field(field.name, pa.null(), metadata=field.metadata)
        for field in schema
    ]
    return pa.schema(fields, metadata=schema.metadata)


def _batches(
    host: ServerState,
    scan: CatalogScan,
    reader: pa.RecordBatchReader,
    rows: Iterator[pa.RecordBatch],
    align: Alignment,
    total_rows: int | None,
    *,
    batch_rows: int,
    budget: ScanBudget,
) -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
    sent = 0
    complete = False
    observer = host.calls.observer
    notes = current_request().notes
    notes.is_sending = True
    observer.scan_started()
    waiting = host.idle.stream(f"the scan of {scan.subject}", reader.close)
    with translate_errors(f"the scan of {scan.subject}", typed=True, stopping=host.stopping.is_set):
        try:
            for batch in rows:
                aligned = align(batch)
                row_size = align.size(aligned) / max(aligned.num_rows, 1)
                for piece in _split(aligned, sent, batch_rows, host.max_message_size):
                    host.check_running()
                    if not sent:
                        note_event("first batch", rows=piece.num_rows)
                    check_not_cancelled(notes)
                    sent += piece.num_rows
                    size = round(row_size * piece.num_rows)
                    budget.check(sent, notes.bytes_sent + size)
                    with waiting:
                        yield piece, _progress(sent, total_rows)
                    notes.rows_sent += piece.num_rows
                    notes.bytes_sent += size
                    observer.batch_sent(piece.num_rows, size)
            note_event("last batch", rows=sent)
            complete = True
            notes.is_sending = False
        finally:
            observer.scan_ended(complete=complete)
            waiting.close()
            reader.close()


def _counted(
    reader: pa.RecordBatchReader, schema: pa.Schema, rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield batches without columns as batches of `rows` rows with placeholder values.

    Small files would each be a message.
    """
    notes = current_request().notes
    count = 0
    for batch in reader:
        check_not_cancelled(notes)
        count += batch.num_rows
        while count >= rows:
            yield _without_values(schema, rows)
            count -= rows
    if count:
        yield _without_values(schema, count)


def _without_values(schema: pa.Schema, rows: int) -> pa.RecordBatch:
    if not schema.names:
        return no_columns(rows)
    arrays = [_blank(field.type, rows) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _blank(type: pa.DataType, rows: int) -> pa.Array:
    # Nulls have a bitmap beside their zeros.
    return _zeros(type).slice(0, rows) if pt.is_primitive(type) else pa.nulls(rows, type)


@lru_cache(maxsize=8)
def _zeros(type: pa.DataType) -> pa.Array:
    size = (_COUNTED_BATCH_ROWS * type.bit_width + 7) // 8
    return pa.Array.from_buffers(type, _COUNTED_BATCH_ROWS, [None, pa.py_buffer(bytes(size))])


def _split(batch: pa.RecordBatch, sent: int, rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """Yield slices of a batch of at most `rows` rows and `size` bytes; small ones at first.

    DuckDB does not send its LIMIT, but cancels the stream when it has enough rows.
    """
    start = 0
    last = min(_FIRST_ROWS, rows) if batch.get_total_buffer_size() > _SMALL_BATCH_BYTES else 0
    while sent + start < last and batch.num_rows - start > min(_FIRST_BATCH_ROWS, rows):
        length = min(rows, max(_FIRST_BATCH_ROWS, sent + start))
        yield from split(batch.slice(start, length), rows=rows, size=size)
        start += length
    if start < batch.num_rows or not start:
        yield from split(batch.slice(start) if start else batch, rows=rows, size=size)


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
