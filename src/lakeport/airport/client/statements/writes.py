"""INSERT, UPDATE and DELETE: send batches, read the count and, with RETURNING, a batch for each.

A statement that fails in the client is cancelled, so that the server does not treat it as
complete.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lakeport.airport.client.catalog import AttachedCatalog
from lakeport.airport.client.entries import TableEntry
from lakeport.airport.client.predicates import ROWID
from lakeport.airport.client.replies import decoding_reply, read_map
from lakeport.airport.client.statements.exchange import Exchange
from lakeport.airport.client.statements.statement import Statement
from lakeport.arrow import RowSource, convert, reader_of, sandbox
from lakeport.catalog import find_rowid_column, without_rowid
from lakeport.errors import (
    InternalError,
    InvalidArgumentError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
    first_line,
)
from lakeport.types import UNKNOWN, fold_name, from_arrow_type

__all__ = [
    "CHUNK_ROWS",
    "WriteResult",
    "chunks",
    "default_values",
    "delete_rows",
    "insert_rows",
    "update_rows",
    "wire_schema",
]


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of an INSERT, UPDATE or DELETE."""

    affected_rows: int
    """The number of changed rows that the server reported."""
    returning: pa.Table | None = None
    """The changed rows, if `returning` was set."""


def insert_rows(
    catalog: AttachedCatalog,
    entry: TableEntry,
    rows: RowSource,
    *,
    returning: bool,
    statement: Statement | None = None,
) -> WriteResult:
    """Add rows. Omitted columns get their default, or null."""
    columns = without_rowid(entry.schema)
    reader = reader_of(rows, columns)
    return _exchange(
        catalog,
        entry,
        "insert",
        wire_schema(columns),
        _to_insert(reader, columns, entry),
        statement=statement,
        returning=columns if returning else None,
    )


def update_rows(
    catalog: AttachedCatalog, entry: TableEntry, rows: RowSource, *, returning: bool
) -> WriteResult:
    """Set the columns of `rows` in the rows with these row identifiers."""
    rowid = _rowid(entry)
    columns = without_rowid(entry.schema)
    reader = reader_of(rows, pa.schema([*columns, rowid.with_name(ROWID)]))
    position = _rowid_position(reader.schema, rowid, entry)
    others = [index for index in range(len(reader.schema)) if index != position]
    changed = [_column(columns, reader.schema.field(i).name, entry) for i in others]
    sent = pa.schema([*wire_schema(changed), pa.field(ROWID, rowid.type)])

    def batches() -> Iterator[pa.RecordBatch]:
        for chunk in chunks(reader):
            arrays = [
                convert(chunk.column(index), field.type, f"column {field.name!r}")
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
            array = convert(chunk.column(position), rowid.type, "the row identifier")
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
        reply = exchange.send_schema(schema)
        select = None if returning is None else _returned_columns(reply, returning, operation)
        returned: list[pa.RecordBatch] = []
        for batch in batches:
            exchange.send(batch)
            if select is not None:
                returned.append(select(exchange.receive_rows().rows))
        exchange.finish()
        affected = _total_changed(exchange, operation)
    table = None if returning is None else pa.Table.from_batches(returned, wire_schema(returning))
    return WriteResult(affected, table)


def _total_changed(exchange: Exchange, operation: str) -> int:
    message = exchange.receive()
    if message is None or message.rows is not None or message.metadata is None:
        raise InternalError(f"the server did not confirm the {operation}")
    with decoding_reply(f"reply to {operation}"):
        return read_map(message.metadata, "result").unsigned("total_changed")


def _returned_columns(
    reply: pa.Schema, columns: pa.Schema, operation: str
) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return a function that selects columns of the replies by name."""
    positions = [reply.get_field_index(name) for name in columns.names]
    if -1 in positions:
        missing = columns.names[positions.index(-1)]
        raise InternalError(f"the server's reply to the {operation} lacks column {missing!r}")
    schema = wire_schema(columns)

    def select(batch: pa.RecordBatch) -> pa.RecordBatch:
        with decoding_reply(f"reply to {operation}"):
            arrays = [
                convert(batch.column(position), field.type, f"column {field.name!r}")
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
            raise InvalidArgumentError(f"column {name!r} occurs twice")
        sources[name] = index
    schema = wire_schema(columns)
    omitted = default_values([field for field in columns if field.name not in sources])

    def batches() -> Iterator[pa.RecordBatch]:
        for chunk in chunks(reader):
            arrays = [
                convert(chunk.column(sources[field.name]), field.type, f"column {field.name!r}")
                if field.name in sources
                else omitted(field, chunk.num_rows)
                for field in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return batches()


def _column(columns: pa.Schema, name: str, entry: TableEntry) -> pa.Field:
    for field in columns:
        if fold_name(field.name) == fold_name(name):
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


Values: TypeAlias = Callable[[pa.Field, int], pa.Array]
"""Returns this number of values for a column."""


def default_values(omitted: Sequence[pa.Field]) -> Values:
    """Return a function that makes the values of omitted columns; null without a default."""
    with_default = [field.name for field in omitted if _expression(field)]
    if not with_default:
        return _nulls
    if importlib.util.find_spec("duckdb") is None:
        raise UnsupportedError(
            f"column {with_default[0]!r} has a default that DuckDB computes; "
            "pass a value, or install the duckdb package"
        )
    return _computed()


def _computed() -> Values:
    import duckdb

    connection = sandbox()

    def values(field: pa.Field, rows: int) -> pa.Array:
        expression = _expression(field)
        if not expression:
            return _nulls(field, rows)
        try:
            # `project` takes one expression: its text cannot contain a second statement.
            computed = connection.sql(f"SELECT 1 FROM range({rows})").project(  # noqa: S608
                f"({expression}){_cast(field.type)} AS value"
            )
            array = computed.to_arrow_table().column(0).combine_chunks()
        except duckdb.Error as error:
            reason = first_line(error)
            raise InvalidInputError(
                f"the default of column {field.name!r} cannot be computed: {reason}"
            ) from None
        return convert(array, field.type, f"the default of column {field.name!r}")

    return values


def _cast(type: pa.DataType) -> str:
    logical = from_arrow_type(type)
    is_plain = not isinstance(type, pa.BaseExtensionType) and logical != UNKNOWN
    return f"::{logical.sql()}" if is_plain else ""


def _nulls(field: pa.Field, rows: int) -> pa.Array:
    return pa.nulls(rows, field.type)


def _expression(field: pa.Field) -> str:
    text: bytes = (field.metadata or {}).get(b"default", b"")
    return text.decode(errors="replace").strip()


CHUNK_ROWS = 2048
"""The most rows that DuckDB puts into one message."""


def chunks(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a reader in batches of at most CHUNK_ROWS; no empty ones."""
    for batch in reader:
        for start in range(0, batch.num_rows, CHUNK_ROWS):
            yield batch.slice(start, CHUNK_ROWS)


def wire_schema(fields: Iterable[pa.Field]) -> pa.Schema:
    """Return the schema that DuckDB sends: nullable fields, only metadata of extension types."""
    return pa.schema([pa.field(f.name, f.type, metadata=_extension(f)) for f in fields])


def _extension(field: pa.Field) -> dict[bytes, bytes] | None:
    metadata = {
        key: value
        for key, value in (field.metadata or {}).items()
        if key.startswith(b"ARROW:extension:")
    }
    return metadata or None
