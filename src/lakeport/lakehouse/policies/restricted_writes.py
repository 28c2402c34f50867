"""INSERT, UPDATE and DELETE on a table as a caller with policies sees it.

New rows must be rows that the policies admit. Other rows are not there for UPDATE and DELETE.
RETURNING returns what the caller would read of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.arrow import combine, register_rows, sandbox
from lakeport.auth import Restriction
from lakeport.catalog import DMLOptions, DMLResult, field_is_rowid
from lakeport.ducklake.writing import TableWriter
from lakeport.errors import ConstraintError, PermissionDeniedError
from lakeport.lakehouse.names import ROWID
from lakeport.lakehouse.policies.seen_rows import SeenRows
from lakeport.lakehouse.writing.returning import stored_rows
from lakeport.types import fold_name

__all__ = ["RestrictedWrites", "WritableTable"]


class WritableTable(Protocol):
    """The unrestricted table below."""

    def insert(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        """Add rows."""
        ...

    def update_rows_through(
        self,
        changes: Callable[[TableWriter], pa.RecordBatchReader],
        schema: pa.Schema,
        options: DMLOptions,
    ) -> DMLResult:
        """Set columns in the rows of these row ids."""
        ...

    def delete_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        """Delete the rows of these row ids."""
        ...


class RestrictedWrites:
    """The writes of one table, each within what its own policies admit.

    Args:
        table: The unrestricted table.
        shown: Its name, for messages.
        seen: What the caller reads of the table.
        restriction: Returns the restriction for `insert`, `update` or `delete`.
        row_ids: Returns the row ids of the rows that a restriction admits.
        seen_with: Returns what a restriction leaves of rows of the table.
    """

    def __init__(
        self,
        table: WritableTable,
        shown: str,
        *,
        seen: Restriction,
        restriction: Callable[[str], Restriction | None],
        row_ids: Callable[[Restriction], pa.ChunkedArray],
        seen_with: Callable[[Restriction], SeenRows],
    ) -> None:
        self._table = table
        self._shown = shown
        self._seen = seen
        self._restriction = restriction
        self._row_ids = row_ids
        self._seen_with = seen_with

    def insert(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        """Add rows; raise PermissionDeniedError if a policy does not admit one of them."""
        restriction = self._restriction("insert")
        condition = None if restriction is None else restriction.row_filter
        options = self._returning(options, None)
        if condition is not None:
            batches = self._admitted(rows, condition)
            rows = pa.RecordBatchReader.from_batches(rows.schema, batches)
        try:
            return self._table.insert(rows, options)
        except ConstraintError as error:
            seen = self._seen_with(self._seen)
            shown = {column.name for column in seen.visible.columns}
            hidden = {column.name for column in seen.summary.columns} - shown
            if any(repr(name) in str(error) for name in hidden):
                raise ConstraintError(
                    f"rows of {self._shown} need values of columns that you do not see"
                ) from None
            raise

    def update_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        """Set columns in the rows that are there for the caller, and stay there."""
        row_id = rows.schema.names[_rowid(rows.schema)]

        def changes(writer: TableWriter) -> pa.RecordBatchReader:
            return pa.RecordBatchReader.from_batches(
                rows.schema, self._updates(writer, rows, row_id)
            )

        return self._table.update_rows_through(
            changes, rows.schema, self._returning(options, row_id)
        )

    def delete_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        """Delete the rows that are there for the caller."""
        restriction = self._restriction("delete")
        options = self._returning(options, None)
        if restriction is None or not restriction.restricts_rows:
            return self._table.delete_rows(rows, options)
        ids = self._row_ids(restriction)
        position = _rowid(rows.schema)

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in rows:
                yield batch.filter(pc.is_in(batch.column(position), value_set=ids))

        present = pa.RecordBatchReader.from_batches(rows.schema, batches())
        return self._table.delete_rows(present, options)

    def _returning(self, options: DMLOptions, row_id: str | None) -> DMLOptions:
        """Return options with which RETURNING has what the caller reads of the rows."""
        if not options.returning:
            return options
        seen = self._seen_with(self._seen)

        def emit(batch: pa.RecordBatch) -> None:
            rows = seen.of(pa.Table.from_batches([batch]), row_id=row_id)
            arrays = [combine(column) for column in rows.columns]
            options.emit(pa.RecordBatch.from_arrays(arrays, schema=rows.schema))

        return replace(options, emit=emit)

    def _updates(
        self, writer: TableWriter, rows: pa.RecordBatchReader, row_id: str
    ) -> Iterator[pa.RecordBatch]:
        """Yield the changes of rows that are there, with stored values instead of their masks."""
        restriction = self._restriction("update")
        seen = self._seen_with(self._seen)
        admitted = (
            self._seen_with(restriction) if restriction and restriction.restricts_rows else None
        )
        sent = {fold_name(name) for name in rows.schema.names}
        masked = sent & {fold_name(name) for name in seen.visible.masked}
        needed = masked | (self._seen.columns if masked else frozenset())
        moves = False
        if restriction is not None and admitted is not None:
            needed |= restriction.columns
            moves = not sent.isdisjoint(restriction.columns)
        names = [column.name for column in writer.columns if fold_name(column.name) in needed]
        for batch in rows:
            if admitted is None and not masked:
                yield batch
                continue
            exists, stored = stored_rows(writer, names, batch.column(row_id).to_numpy(), row_id)
            present = batch.filter(exists)
            if admitted is not None:
                ids = admitted.of(stored, row_id=row_id).column(ROWID)
                keep = pc.is_in(present.column(row_id), value_set=ids)
                present, stored = present.filter(keep), stored.filter(keep)
            present = seen.restored(present, stored, row_id)
            if moves and admitted is not None:
                self._check_stay(admitted, _changed(stored, present))
            yield present

    def _check_stay(self, admitted: SeenRows, rows: pa.Table) -> None:
        if admitted.of(rows).num_rows != rows.num_rows:
            raise PermissionDeniedError(
                f"you may not update these rows of {self._shown}: your policies do not admit the "
                "rows that they would become"
            )

    def _admitted(self, rows: pa.RecordBatchReader, condition: str) -> Iterator[pa.RecordBatch]:
        import duckdb

        database = sandbox()
        try:
            for batch in rows:
                register_rows(database, "new_rows", pa.Table.from_batches([batch]))
                try:
                    ((passing,),) = database.execute(
                        f"SELECT count(*) FROM new_rows WHERE {condition}"  # noqa: S608
                    ).fetchall()
                except duckdb.Error:  # the condition reads a hidden column, or fails for a row
                    passing = -1
                if passing != batch.num_rows:
                    raise PermissionDeniedError(
                        f"you may not insert these rows into {self._shown}: your policies admit "
                        "other rows only"
                    )
                yield batch
        finally:
            database.close()


def _rowid(schema: pa.Schema) -> int:
    return next(i for i, field in enumerate(schema) if field_is_rowid(field))


def _changed(stored: pa.Table, changes: pa.RecordBatch) -> pa.Table:
    """Return rows as changes leave them."""
    columns = {name: stored.column(name) for name in stored.schema.names}
    columns |= {name: changes.column(name) for name in changes.schema.names}
    return pa.table(columns)
