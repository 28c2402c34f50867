"""INSERT, UPDATE and DELETE: batches out, a count back, and with RETURNING a batch for each.

A statement that fails on the client's side is cancelled, so that the server can tell it from one
that ended; DuckDB's client has no such manners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakeport.airport.client.attached import AttachedCatalog
from lakeport.airport.client.defaults import default_values
from lakeport.airport.client.entries import TableEntry
from lakeport.airport.client.exchange import Exchange
from lakeport.airport.client.predicates import ROWID
from lakeport.airport.client.replies import read_map, understanding
from lakeport.airport.client.rows import RowSource, as_sent, chunks, reader_of
from lakeport.airport.client.statements import Statement
from lakeport.catalog.layouts import conform
from lakeport.catalog.schemas import find_rowid_column, without_rowid
from lakeport.errors import InternalError, InvalidArgumentError, NotFoundError, UnsupportedError

__all__ = ["WriteResult", "delete_rows", "insert_rows", "update_rows"]


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What an INSERT, UPDATE or DELETE did."""

    affected_rows: int
    """How many rows the server says it changed."""
    returning: pa.Table | None = None
    """The rows themselves, if they were asked for."""


def insert_rows(
    catalog: AttachedCatalog,
    entry: TableEntry,
    rows: RowSource,
    *,
    returning: bool,
    statement: Statement | None = None,
) -> WriteResult:
    """Add rows. Columns that are left out get their default, or null."""
    columns = without_rowid(entry.schema)
    reader = reader_of(rows, columns)
    return _exchange(
        catalog,
        entry,
        "insert",
        as_sent(columns),
        _to_insert(reader, columns, entry),
        statement=statement,
        returning=columns if returning else None,
    )


def update_rows(
    catalog: AttachedCatalog, entry: TableEntry, rows: RowSource, *, returning: bool
) -> WriteResult:
    """Set the given columns of the rows with the given row identifiers."""
    rowid = _rowid(entry)
    columns = without_rowid(entry.schema)
    reader = reader_of(rows, pa.schema([*columns, rowid.with_name(ROWID)]))
    position = _rowid_position(reader.schema, rowid, entry)
    others = [index for index in range(len(reader.schema)) if index != position]
    changed = [_column(columns, reader.schema.field(i).name, entry) for i in others]
    sent = pa.schema([*as_sent(changed), pa.field(ROWID, rowid.type)])

    def batches() -> Iterator[pa.RecordBatch]:
        for chunk in chunks(reader):
            arrays = [
                conform(chunk.column(index), field.type, f"column {field.name!r}")
                for index, field in zip([*others, position], sent, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=sent)

    returned = sent if returning else None
    return _exchange(catalog, entry, "update", sent, batches(), returning=returned)


def delete_rows(
    catalog: AttachedCatalog, entry: TableEntry, rowids: Any, *, returning: bool
) -> WriteResult:
    """Delete the rows with these identifiers."""
    rowid = _rowid(entry)
    sent = pa.schema([pa.field(ROWID, rowid.type)])
    reader = _rowid_reader(rowids, rowid)
    position = _rowid_position(reader.schema, rowid, entry)

    def batches() -> Iterator[pa.RecordBatch]:
        for chunk in chunks(reader):
            array = conform(chunk.column(position), rowid.type, "the row identifier")
            yield pa.RecordBatch.from_arrays([array], schema=sent)

    returned = without_rowid(entry.schema) if returning else None
    return _exchange(catalog, entry, "delete", sent, batches(), returning=returned)


def _exchange(
    catalog: AttachedCatalog,
    entry: TableEntry,
    operation: str,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    returning: pa.Schema | None,
    statement: Statement | None = None,
) -> WriteResult:
    statement = statement or catalog.begin()
    with Exchange(
        catalog.connection,
        entry.descriptor,
        operation,
        statement.stream_headers(entry.descriptor),
        returns_rows=returning is not None,
    ) as exchange:
        answer = exchange.begin(schema)
        select = None if returning is None else _returned_columns(answer, returning, operation)
        returned: list[pa.RecordBatch] = []
        for batch in batches:
            exchange.send(batch)
            if select is not None:
                returned.append(select(exchange.receive_rows().rows))
        exchange.finish()
        affected = _total_changed(exchange, operation)
    table = None if returning is None else pa.Table.from_batches(returned, as_sent(returning))
    return WriteResult(affected, table)


def _total_changed(exchange: Exchange, operation: str) -> int:
    message = exchange.receive()
    if message is None or message.rows is not None or message.metadata is None:
        raise InternalError(f"the server did not confirm the {operation}")
    with understanding(f"answer to {operation}"):
        return read_map(message.metadata, "result").unsigned("total_changed")


def _returned_columns(
    answer: pa.Schema, wanted: pa.Schema, operation: str
) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Picks the wanted columns from the answers, by name."""
    positions = [answer.get_field_index(name) for name in wanted.names]
    if -1 in positions:
        missing = wanted.names[positions.index(-1)]
        raise InternalError(f"the server's answer to the {operation} lacks column {missing!r}")
    schema = as_sent(wanted)

    def select(batch: pa.RecordBatch) -> pa.RecordBatch:
        with understanding(f"answer to {operation}"):
            arrays = [
                conform(batch.column(position), field.type, f"column {field.name!r}")
                for position, field in zip(positions, schema, strict=True)
            ]
            return pa.RecordBatch.from_arrays(arrays, schema=schema)

    return select


def _to_insert(
    reader: pa.RecordBatchReader, columns: pa.Schema, entry: TableEntry
) -> Iterator[pa.RecordBatch]:
    sources: dict[str, int] = {}
    for index, field in enumerate(reader.schema):
        name = _column(columns, field.name, entry).name
        if name in sources:
            raise InvalidArgumentError(f"column {name!r} is given twice")
        sources[name] = index
    schema = as_sent(columns)
    omitted = default_values([field for field in columns if field.name not in sources])

    def batches() -> Iterator[pa.RecordBatch]:
        for chunk in chunks(reader):
            arrays = [
                conform(chunk.column(sources[field.name]), field.type, f"column {field.name!r}")
                if field.name in sources
                else omitted(field, chunk.num_rows)
                for field in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return batches()


def _column(columns: pa.Schema, name: str, entry: TableEntry) -> pa.Field:
    for field in columns:
        if field.name.casefold() == name.casefold():
            return field
    raise NotFoundError(f"table {entry} has no column {name!r}")


def _rowid(entry: TableEntry) -> pa.Field:
    if entry.rowid is None:
        raise UnsupportedError(f"table {entry} has no row identifier: its rows cannot be changed")
    return entry.rowid


def _rowid_position(schema: pa.Schema, rowid: pa.Field, entry: TableEntry) -> int:
    position = find_rowid_column(schema)
    if position is None:
        position = schema.get_field_index(rowid.name)
    if position < 0:
        raise InvalidArgumentError(
            f"the rows need the row identifier of table {entry}: scan it with 'rowid' in columns"
        )
    return int(position)


def _rowid_reader(rowids: Any, rowid: pa.Field) -> pa.RecordBatchReader:
    if isinstance(rowids, pa.ChunkedArray):
        return pa.table({ROWID: rowids}).to_reader()
    if isinstance(rowids, pa.Array):
        return pa.table({ROWID: rowids}).to_reader()
    if isinstance(rowids, Sequence) and not any(isinstance(item, dict) for item in rowids):
        return reader_of({ROWID: list(rowids)}, pa.schema([rowid.with_name(ROWID)]))
    return reader_of(rowids, pa.schema([rowid.with_name(ROWID)]))
