"""DoGet: the rows of a scan as a stream of batches that the client can read by position.

Every batch has exactly the columns that the client has bound, in their order and physical layout.
It has no more rows and bytes than the server allows. Columns that the client did not request are
null. Where they would be many bytes, they have Arrow's null type, which has none, if the client
accepts it.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.types as pt
from pyarrow import flight, ipc

from lakeport._cache import cached_by_identity
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

_Piece: TypeAlias = tuple[pa.RecordBatch, int]
"""A batch that may be sent, and its bytes."""


def open_stream(host: ServerState, call: Call, raw_ticket: bytes) -> flight.FlightDataStream:
    """Return the stream of the rows that a ticket describes."""
    ticket = ScanTicket.from_bytes(raw_ticket, limits=host.limits)
    scan = resolve_scan(host, call, ticket)
    budget, release = host.admission.begin_scan(
        call.caller, current_request().is_cancelled, is_immediate=scan.is_immediate
    )
    call.connection.at_end(release)
    scan_request = scan_options(host, ticket)
    call.notes.filter = scan_request.filter
    call.notes.columns = ",".join(ticket.columns or ())
    size, reader = scan.open(scan_request)
    schema, columns = scan.schema, ticket.columns
    options = host.write_options(call)
    has_dictionaries = _has_dictionaries(schema)
    if columns is not None and call.accepts_null_columns and size.rows:
        schema = _without_many_nulls(schema, columns, size.rows)
    source, batch_rows = reader.schema, host.batch_rows
    if not source.names and ticket.rows_only:
        # The client converts a column of its type, and reads no value of it.
        source, batch_rows = project_schema(schema, columns), _COUNTED_BATCH_ROWS
        if (size.rows or 0) > _COUNTED_BATCH_ROWS:
            options = _FEW_BYTES
    align = Alignment(schema, source, columns, scan.subject)
    if reader.schema.names:
        pieces = _aligned(reader, align, batch_rows, host.max_message_size)
    else:
        placeholders = partial(_placeholders, source, align, max_bytes=host.max_message_size)
        pieces = _counted(reader, placeholders, batch_rows)
    total_rows = None if scan_request.filter else size.rows
    batches = _batches(host, scan, reader, pieces, total_rows, budget)
    # pyarrow calls Python for every batch without the context of the request.
    context = contextvars.copy_context()
    if has_dictionaries:
        batches = _as_tables(batches)
    return flight.GeneratorStream(schema, _in_context(batches, context), options=options)


@lru_cache(maxsize=1024)
def _null_bytes(type: pa.DataType) -> float:
    """Return the bytes of a null of a type."""
    return float(pa.nulls(1024, type).nbytes / 1024)


def _without_many_nulls(schema: pa.Schema, requested: tuple[str, ...], rows: int) -> pa.Schema:
    """Return the schema of so many rows, with the null type where nulls would be many bytes."""
    unread = [field.type for field in schema if field.name not in requested]
    if rows * sum(map(_null_bytes, unread)) <= _MANY_NULL_BYTES:
        return schema
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
    pieces: Iterator[_Piece],
    total_rows: int | None,
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
            for piece, size in pieces:
                host.check_running()
                if not sent:
                    note_event("first batch", rows=piece.num_rows)
                check_not_cancelled(notes)
                sent += piece.num_rows
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


def _aligned(
    reader: pa.RecordBatchReader, align: Alignment, rows: int, max_bytes: int
) -> Iterator[_Piece]:
    """Yield the rows of a reader in the schema of the client, in batches that may be sent."""
    sent = 0
    for batch in reader:
        aligned = align(batch)
        row_size = align.size(aligned) / max(aligned.num_rows, 1)
        for piece in _split(aligned, sent, rows, max_bytes):
            sent += piece.num_rows
            yield piece, round(row_size * piece.num_rows)


def _counted(
    reader: pa.RecordBatchReader, placeholders: Callable[[int], list[_Piece]], rows: int
) -> Iterator[_Piece]:
    """Yield batches of placeholders for batches without columns: `rows` rows in each.

    Small files would each be a message. The same batch is sent again and again.
    """
    notes = current_request().notes
    full: list[_Piece] | None = None
    count = 0
    for batch in reader:
        check_not_cancelled(notes)
        count += batch.num_rows
        while count >= rows:
            full = full or placeholders(rows)
            yield from full
            count -= rows
    if count:
        yield from placeholders(count)


def _placeholders(source: pa.Schema, align: Alignment, rows: int, max_bytes: int) -> list[_Piece]:
    """Return so many rows without values, in batches that may be sent."""
    arrays = [_blank(field.type, rows) for field in source]
    values = pa.RecordBatch.from_arrays(arrays, schema=source) if arrays else no_columns(rows)
    batch = align(values)
    row_size = align.size(batch) / rows
    pieces = split(batch, rows=rows, size=max_bytes)
    return [(piece, round(row_size * piece.num_rows)) for piece in pieces]


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


@cached_by_identity
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
