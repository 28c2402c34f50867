"""The rows of RETURNING: what an UPDATE has made of rows, and what a DELETE has removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lakeport._wording import counted
from lakeport.ducklake.writing import TableWriter
from lakeport.ducklake.writing.changes import read_rows
from lakeport.errors import InvalidInputError
from lakeport.filters import Filter
from lakeport.types import fold_name

__all__ = ["RowIds", "SeenRowIds", "UpdatedRows", "deleted_rows", "stored_rows"]

RowIds: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]


def deleted_rows(writer: TableWriter, row_ids: RowIds) -> pa.RecordBatch:
    """Return the rows of these ids in all columns of the table."""
    names = [column.name for column in writer.columns]
    reader = read_rows(writer.rows, names, Filter.always(), row_ids=row_ids)
    table = reader.read_all().combine_chunks()
    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


class SeenRowIds:
    """The row ids of a statement so far, in sorted arrays of which each is larger than the next."""

    def __init__(self) -> None:
        self._runs: list[RowIds] = []

    def new(self, row_ids: RowIds) -> RowIds:
        """Add row ids; return those of them that were not among the earlier ones."""
        added = np.unique(row_ids)
        for run in self._runs:
            found = np.searchsorted(run, added).clip(max=len(run) - 1)
            added = added[run[found] != added]
        if len(added):
            self._runs.append(added)
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            last = self._runs.pop()
            self._runs[-1] = np.union1d(self._runs[-1], last)
        return added

    def all(self) -> RowIds:
        """Return all row ids."""
        return np.concatenate(self._runs) if self._runs else np.empty(0, np.int64)


class UpdatedRows:
    """The changes of an UPDATE, whose new rows are emitted batch by batch."""

    def __init__(
        self,
        writer: TableWriter,
        changes: pa.RecordBatchReader,
        row_id: str,
        emit: Callable[[pa.RecordBatch], None],
    ) -> None:
        self._writer = writer
        self._changes = changes
        self._row_id = row_id
        self._emit = emit
        self._ids: list[RowIds] = []
        given = {fold_name(name) for name in changes.schema.names}
        self._names = [column.name for column in writer.columns]
        self._missing = [name for name in self._names if fold_name(name) not in given]

    def reader(self) -> pa.RecordBatchReader:
        """Return the changes; each batch is emitted before the next one is read."""
        return pa.RecordBatchReader.from_batches(self._changes.schema, self._batches())

    def check(self, updated: int) -> None:
        """Raise InvalidInputError if rows were emitted that the table does not have."""
        named = len(np.unique(np.concatenate(self._ids))) if self._ids else 0
        if named != updated:
            raise InvalidInputError(
                f"{counted(named - updated, 'row')} of the UPDATE do not exist in the table: run "
                "the statement again"
            )

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._changes:
            self._ids.append(batch.column(self._row_id).to_numpy())
            self._emit(self._completed(batch))
            yield batch

    def _completed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the new rows in all columns; DuckDB sends all of them with RETURNING."""
        if not self._missing:
            return batch
        ids = batch.column(self._row_id).to_numpy()
        exists, old = stored_rows(self._writer, self._missing, ids, self._row_id)
        kept = batch.filter(exists)
        columns = {name: kept.column(name) for name in kept.schema.names}
        columns |= {name: old.column(name).combine_chunks() for name in self._missing}
        return pa.RecordBatch.from_pydict(columns)


def stored_rows(
    writer: TableWriter, columns: Sequence[str], ids: RowIds, id_column: str
) -> tuple[pa.Array, pa.Table]:
    """Return which of these row ids exist, and for each of those its row, in the same order."""
    stored = read_rows(
        writer.rows, columns, Filter.always(), id_column=id_column, row_ids=ids
    ).read_all()
    known = stored.column(id_column).to_numpy()
    if not len(known):
        return pa.array(np.zeros(len(ids), np.bool_)), stored
    order = np.argsort(known)
    found = np.searchsorted(known[order], ids).clip(max=len(known) - 1)
    exists = known[order][found] == ids
    return pa.array(exists), stored.take(pa.array(order[found[exists]]))
