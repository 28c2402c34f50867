"""INSERT, UPDATE and DELETE on a table as a caller with policies sees it.

New rows must be rows that the policies admit. Other rows are not there for UPDATE and DELETE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.arrow import sandbox
from lakeport.auth import Restriction
from lakeport.catalog import DMLOptions, DMLResult, field_is_rowid
from lakeport.errors import PermissionDeniedError, UnsupportedError

__all__ = ["RestrictedWrites", "WritableTable"]


class WritableTable(Protocol):
    """The unrestricted table below."""

    def insert(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        """Add rows."""
        ...

    def update_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
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
        restriction: Returns the restriction for `insert`, `update` or `delete`.
        row_ids: Returns the row ids of the rows that a restriction admits.
    """

    def __init__(
        self,
        table: WritableTable,
        shown: str,
        restriction: Callable[[str], Restriction | None],
        row_ids: Callable[[Restriction], pa.ChunkedArray],
    ) -> None:
        self._table = table
        self._shown = shown
        self._restriction = restriction
        self._row_ids = row_ids

    def insert(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        """Add rows; raise PermissionDeniedError if a policy does not admit one of them."""
        restriction = self._restriction("insert")
        condition = None if restriction is None else restriction.row_filter
        if condition is None:
            return self._table.insert(rows, options)
        batches = self._admitted(rows, condition)
        return self._table.insert(pa.RecordBatchReader.from_batches(rows.schema, batches), options)

    def update_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        """Set columns in the rows that are there for the caller."""
        return self._table.update_rows(self._present(rows, "update", options), options)

    def delete_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        """Delete the rows that are there for the caller."""
        return self._table.delete_rows(self._present(rows, "delete", options), options)

    def _present(
        self, rows: pa.RecordBatchReader, verb: str, options: DMLOptions
    ) -> pa.RecordBatchReader:
        """Return the changes of rows that are there."""
        if options.returning:
            # The rows would have hidden columns, and values without masks.
            raise UnsupportedError(
                f"RETURNING of {verb.upper()} is not possible for {self._shown}: policies restrict "
                "what you see of it"
            )
        restriction = self._restriction(verb)
        if restriction is None or not restriction.restricts_rows:
            return rows
        ids = self._row_ids(restriction)
        position = next(i for i, field in enumerate(rows.schema) if field_is_rowid(field))

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in rows:
                yield batch.filter(pc.is_in(batch.column(position), value_set=ids))

        return pa.RecordBatchReader.from_batches(rows.schema, batches())

    def _admitted(self, rows: pa.RecordBatchReader, condition: str) -> Iterator[pa.RecordBatch]:
        import duckdb

        database = sandbox()
        try:
            for batch in rows:
                database.register("new_rows", pa.Table.from_batches([batch]))
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
