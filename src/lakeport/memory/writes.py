"""INSERT, UPDATE and DELETE: the batches of a statement become one change of the table's rows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.arrow import concat, convert
from lakeport.catalog import DMLOptions, find_rowid_column
from lakeport.errors import InvalidArgumentError, NullRowIdError
from lakeport.memory.changes import ColumnUpdate, RowChange
from lakeport.memory.constraints import check_checks, check_not_null
from lakeport.memory.rows import CHUNK_ROWS, Chunk, RowVersions, split_into_chunks
from lakeport.memory.state import Definition, TableState

__all__ = ["prepare_delete", "prepare_insert", "prepare_update"]

_CHECK_ROWS = 16 * CHUNK_ROWS
# New values are sorted whenever so many rows or bytes have been received.
_FLUSH_ROWS = 1 << 18
_FLUSH_BYTES = 1 << 27


def prepare_insert(
    table: TableState, rows: pa.RecordBatchReader, options: DMLOptions, statement_id: int
) -> tuple[RowChange, int]:
    """Return the change that adds all rows of the reader, and their number."""
    definition = table.current.definition
    sources = _sources(definition, rows.schema, str(table))
    # All chunks of a statement share one array of its id.
    statement_ids = pa.repeat(pa.scalar(statement_id, pa.int64()), CHUNK_ROWS)
    chunks: list[Chunk] = []
    unchecked = 0
    count = 0
    for batch in rows:
        if batch.num_rows == 0:
            continue
        columns = _full_columns(definition, sources, batch, str(table))
        check_not_null(definition, enumerate(columns), str(table))
        first = table.rowids.allocate(batch.num_rows)
        chunks.extend(split_into_chunks(columns, first, batch.num_rows, statement_ids))
        count += batch.num_rows
        unchecked += batch.num_rows
        if unchecked >= _CHECK_ROWS:
            _check_chunks(table, chunks, unchecked)
            unchecked = 0
        if options.returning:
            options.emit(pa.RecordBatch.from_arrays(columns, schema=definition.columns))
    _check_chunks(table, chunks, unchecked)
    change = RowChange(table.id, definition, statement_id, inserted=tuple(chunks))
    table.bounds.add(definition.columns, chunks)
    return change, count


def prepare_update(
    table: TableState, rows: pa.RecordBatchReader, options: DMLOptions, statement_id: int
) -> tuple[RowChange, int]:
    """Return the change that sets new values, and the number of rows."""
    definition = table.current.definition
    rowid = _rowid_column(rows.schema, str(table))
    sources = _sources(definition, rows.schema, str(table), rowid=rowid)
    set_columns = [index for index, source in enumerate(sources) if source is not None]
    needs_rows = options.returning or bool(definition.checks)
    updates_by_row = _SortedUpdates(table, set_columns)
    for batch in rows:
        rowids = _rowids(batch, rowid)
        values = {
            index: _column(definition, index, batch.column(source), str(table))
            for index, source in enumerate(sources)
            if source is not None
        }
        check_not_null(definition, values.items(), str(table))
        if needs_rows:
            _check_and_emit(table, rowids, values, options)
        updates_by_row.add(rowids, [values[index] for index in set_columns])
    updates = updates_by_row.finish()
    change = RowChange(table.id, definition, statement_id, updates=updates)
    for update in updates:
        for index, array in update.values.items():
            table.bounds.add_column(definition.columns.field(index), [array])
    touched = [update.touched.rowids for update in updates]
    return change, len(_last_of_each(concat(touched))) if touched else 0


def prepare_delete(
    table: TableState, rows: pa.RecordBatchReader, options: DMLOptions, statement_id: int
) -> tuple[RowChange, int]:
    """Return the change that deletes rows, and their number."""
    definition = table.current.definition
    rowid = _rowid_column(rows.schema, str(table))
    ids: list[pa.Array] = []
    emitted = table.current.rows
    for batch in rows:
        rowids = _ascending(_rowids(batch, rowid))
        ids.append(rowids)
        if options.returning:
            deleted_rows = emitted.find(rowids)
            if deleted_rows is not None:
                # A row whose id is repeated is returned once.
                emitted = emitted.without(deleted_rows.rowids)
                options.emit(_batch(definition, deleted_rows))
    deleted = table.current.rows.row_versions(_ascending(concat(ids))) if ids else None
    return (
        RowChange(table.id, definition, statement_id, deleted=deleted),
        0 if deleted is None else len(deleted.rowids),
    )


class _SortedUpdates:
    """Collects new values and sorts them by row id, a bounded number at a time."""

    def __init__(self, table: TableState, set_columns: Sequence[int]) -> None:
        self._rows = table.current.rows
        self._set_columns = set_columns
        self._rowids: list[pa.Array] = []
        self._values: list[list[pa.Array]] = []
        self._count = 0
        self._bytes = 0
        self._updates: list[ColumnUpdate] = []

    def add(self, rowids: pa.Array, values: list[pa.Array]) -> None:
        self._rowids.append(rowids)
        self._values.append(values)
        self._count += len(rowids)
        self._bytes += sum(array.nbytes for array in values)
        if self._count >= _FLUSH_ROWS or self._bytes >= _FLUSH_BYTES:
            self._flush()

    def finish(self) -> tuple[ColumnUpdate, ...]:
        self._flush()
        return tuple(self._updates)

    def _flush(self) -> None:
        if not self._count:
            return
        rowids = concat(self._rowids)
        last = _last_of_each(rowids)
        ascending = rowids.take(last)
        touched: RowVersions = self._rows.row_versions(ascending)
        order = last
        if len(touched.rowids) < len(last):
            order = last.take(pc.index_in(touched.rowids, value_set=ascending))
        if len(touched.rowids):
            columns = zip(*self._values, strict=True)
            self._updates.append(
                ColumnUpdate(
                    touched,
                    {
                        index: concat(arrays).take(order)
                        for index, arrays in zip(self._set_columns, columns, strict=True)
                    },
                )
            )
        self._rowids, self._values, self._count, self._bytes = [], [], 0, 0


def _check_and_emit(
    table: TableState, rowids: pa.Array, values: dict[int, pa.Array], options: DMLOptions
) -> None:
    """Check the complete new rows of a batch, and emit them in the order received."""
    definition = table.current.definition
    existing = table.current.rows.find(_ascending(rowids))
    if existing is None:
        return
    where = pc.index_in(rowids, value_set=existing.rowids)
    present = where.is_valid()
    where = where.drop_null()
    columns = [
        values[index].filter(present) if index in values else existing.columns[index].take(where)
        for index in range(len(existing.columns))
    ]
    check_checks(definition, columns, str(table))
    if options.returning:
        columns.append(rowids.filter(present))
        options.emit(pa.RecordBatch.from_arrays(columns, schema=definition.published()))


def _check_chunks(table: TableState, chunks: Sequence[Chunk], rows: int) -> None:
    """Check the CHECK constraints for the last `rows` rows of new chunks."""
    definition = table.current.definition
    if not definition.checks or not rows:
        return
    recent: list[Chunk] = []
    for chunk in reversed(chunks):
        if rows <= 0:
            break
        recent.append(chunk)
        rows -= len(chunk)
    check_checks(
        definition,
        [
            pa.chunked_array([chunk.columns[index] for chunk in recent], field.type)
            for index, field in enumerate(definition.columns)
        ],
        str(table),
    )


def _sources(
    definition: Definition, received: pa.Schema, table: str, *, rowid: int | None = None
) -> list[int | None]:
    """Return for each column its position in the batches; None if it is not sent."""
    sources: list[int | None] = [None] * len(definition.columns)
    marked = find_rowid_column(received) if rowid is None else rowid
    for position, field in enumerate(received):
        index = definition.index(field.name)
        if index is not None:
            sources[index] = position
        elif position != marked:
            definition.require(field.name, table)
    return sources


def _full_columns(
    definition: Definition, sources: Sequence[int | None], batch: pa.RecordBatch, table: str
) -> list[pa.Array]:
    return [
        pa.nulls(batch.num_rows, definition.columns.field(index).type)
        if source is None
        else _column(definition, index, batch.column(source), table)
        for index, source in enumerate(sources)
    ]


def _column(definition: Definition, index: int, values: pa.Array, table: str) -> pa.Array:
    field = definition.columns.field(index)
    return convert(values, field.type, f"column {field.name!r} of table {table}")


def _rowid_column(schema: pa.Schema, table: str) -> int:
    position = find_rowid_column(schema)
    if position is None:
        raise InvalidArgumentError(f"the rows for table {table} have no row id column")
    return position


def _rowids(batch: pa.RecordBatch, position: int) -> pa.Array:
    rowids = batch.column(position)
    if rowids.null_count:
        raise NullRowIdError
    return convert(rowids, pa.int64(), "the row id")


def _ascending(rowids: pa.Array) -> pa.Array:
    """Return the row ids in order, each once."""
    return rowids.take(_last_of_each(rowids))


def _last_of_each(rowids: pa.Array) -> pa.Array:
    """Return the last position of each row id, in the order of the row ids."""
    order = pc.array_sort_indices(rowids)
    ordered = rowids.take(order)
    if len(ordered) < 2:
        return order
    differs = pc.not_equal(ordered.slice(0, len(ordered) - 1), ordered.slice(1))
    return order.filter(concat([differs, pa.array([True])]))


def _batch(definition: Definition, chunk: Chunk) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*chunk.columns, chunk.rowids], schema=definition.published())
