"""DoGet: the rows of a scan as a stream of batches that the client can read by position.

Every batch has exactly the columns that the client has bound, in their order and physical layout.
It has no more rows and bytes than the server allows. Columns that the client did not request are
null.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.types as pt
from pyarrow import flight

from lakeport.airport.protocol.codec import encode
from lakeport.airport.protocol.errors import translate_errors
from lakeport.airport.protocol.tickets import ScanTicket
from lakeport.airport.server.headers import Call
from lakeport.airport.server.state import ServerState
from lakeport.airport.server.verbs.scans import CatalogScan, resolve_scan, scan_options
from lakeport.arrow import Alignment, split
from lakeport.catalog import current_request

__all__ = ["open_stream"]


def open_stream(host: ServerState, call: Call, raw_ticket: bytes) -> flight.FlightDataStream:
    """Return the stream of the rows that a ticket describes."""
    ticket = ScanTicket.from_bytes(raw_ticket, limits=host.limits)
    scan = resolve_scan(host, call, ticket)
    options = scan_options(host, ticket)
    size, reader = scan.open(options)
    align = Alignment(scan.schema, reader.schema, ticket.columns, scan.subject)
    batches = _batches(host, scan, reader, align, size.rows)
    # pyarrow calls Python for every batch without the context of the request.
    context = contextvars.copy_context()
    if _has_dictionaries(scan.schema):
        batches = _as_tables(batches)
    return flight.GeneratorStream(
        scan.schema, _in_context(batches, context), options=host.write_options
    )


def _batches(
    host: ServerState,
    scan: CatalogScan,
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
    waiting = host.idle.stream(f"the scan of {scan.subject}", reader.close)
    with translate_errors(f"the scan of {scan.subject}", typed=True, stopping=host.stopping.is_set):
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
