"""The rows of RETURNING: what an UPDATE has made of rows, and what a DELETE has removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from lakeport._wording import counted
from lakeport.ducklake.writing import TableWriter
from lakeport.ducklake.writing.changes import read_rows
from lakeport.errors import InvalidInputError
from lakeport.filters import Filter
from lakeport.types import fold_name

__all__ = ["UpdatedRows", "deleted_rows"]


def deleted_rows(
    writer: TableWriter, row_ids: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> pa.RecordBatch:
    """Return the rows of these ids in all columns of the table."""
    names = [column.name for column in writer.columns]
    reader = read_rows(writer.rows, names, Filter.always(), row_ids=row_ids)
    table = reader.read_all().combine_chunks()
    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


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
        self._ids: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
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
        stored = read_rows(
            self._writer.rows, self._missing, Filter.always(), id_column=self._row_id, row_ids=ids
        ).read_all()
        known = stored.column(self._row_id).to_numpy()
        order = np.argsort(known)
        found = np.searchsorted(known[order], ids).clip(max=max(len(known) - 1, 0))
        exists = known[order][found] == ids if len(known) else np.zeros(len(ids), np.bool_)
        kept = batch.filter(pa.array(exists))
        old = stored.take(pa.array(order[found[exists]])) if len(known) else stored
        columns = {name: kept.column(name) for name in kept.schema.names}
        columns |= {name: old.column(name).combine_chunks() for name in self._missing}
        return pa.RecordBatch.from_pydict(columns)
