"""The methods of a table inside a transaction that change rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from lakeport.arrow import RowSource
from lakeport.ducklake.reading.delete_files import Positions
from lakeport.ducklake.writing.changes.merging import Clause, Merge, merge_rows
from lakeport.ducklake.writing.changes.restoring import restore_table
from lakeport.ducklake.writing.changes.row_ids import delete_row_ids, update_row_ids
from lakeport.ducklake.writing.changes.statements import (
    append_rows,
    delete_rows,
    overwrite_partitions,
    overwrite_rows,
    update_rows,
)
from lakeport.ducklake.writing.changes.table_rows import TableRows
from lakeport.ducklake.writing.distributed import evolved
from lakeport.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lakeport.ducklake.writing.table_writer import TableWriter

__all__ = ["RowStatements", "run_statement"]


class RowStatements:
    """What a table of a transaction does with rows; `TableWriter` has the rest."""

    def append(self, rows: RowSource, *, merge_schema: bool = False) -> None:
        """Add rows: an Arrow table, batch or reader, a data frame, a list of dicts.

        With `merge_schema`, columns that only the rows have become columns of the table.
        """
        source = self._evolved(rows) if merge_schema else rows
        self.change_rows(lambda own: append_rows(own, source))

    def overwrite(
        self,
        rows: RowSource,
        where: str | None = None,
        *,
        dynamic: bool = False,
        merge_schema: bool = False,
    ) -> None:
        """Replace the rows that pass a condition, or all rows, by others.

        With `dynamic`, replace the partitions of the table in which there are new rows.
        """
        if dynamic and where is not None:
            raise InvalidArgumentError("an overwrite has a condition or is dynamic, not both")
        source = self._evolved(rows) if merge_schema else rows
        if dynamic:
            self.change_rows(lambda own: overwrite_partitions(own, source))
        else:
            self.change_rows(lambda own: overwrite_rows(own, source, where))

    def delete(self, where: str | None = None) -> None:
        """Delete the rows that pass a condition, or all rows."""
        self.change_rows(lambda own: delete_rows(own, where))

    def update(self, assignments: Mapping[str, str], where: str | None = None) -> None:
        """Set columns to the values of SQL expressions, in the rows that pass a condition."""
        self.change_rows(lambda own: update_rows(own, assignments, where))

    def merge(self, rows: RowSource, on: str, *, merge_schema: bool = False) -> Merge[None]:
        """Describe a merge of rows into the table; its `execute()` runs it."""
        return Merge(
            on, lambda on, clauses: self.run_merge(rows, on, clauses, merge_schema=merge_schema)
        )

    def run_merge(
        self, rows: RowSource, on: str, clauses: Sequence[Clause], *, merge_schema: bool = False
    ) -> None:
        """Merge rows by clauses that are already described."""
        rows = self._evolved(rows) if merge_schema else rows
        self.change_rows(lambda own: merge_rows(own, rows, on, clauses, merge_schema=merge_schema))

    def delete_row_ids(self, row_ids: Positions) -> int:
        """Delete the rows of these row ids, which may repeat; return how many there were."""
        counts: list[int] = []
        self.change_rows(lambda own: counts.append(delete_row_ids(own, row_ids)))
        return counts[0]

    def update_row_ids(self, changes: pa.RecordBatchReader, id_column: str = "rowid") -> int:
        """Set columns of the rows that one column of the changes names; return how many."""
        counts: list[int] = []
        self.change_rows(lambda own: counts.append(update_row_ids(own, changes, id_column)))
        return counts[0]

    def restore(self, version: int) -> None:
        """Give the table the columns and rows that it had at a snapshot."""
        self.change_rows(lambda own: restore_table(own, version))

    def _evolved(self, rows: RowSource) -> RowSource:
        """Give the table the columns of rows that it lacks; return the rows."""
        return evolved(cast("TableWriter", self), rows)

    def change_rows(self, statement: Callable[[TableRows], None]) -> None:
        """Run a statement on the rows of the table as the transaction sees them."""
        raise NotImplementedError


def run_statement(writer: TableWriter, statement: Callable[[TableRows], None]) -> None:
    """Run a statement on the rows of the table as the transaction sees them."""
    writer.transaction.check_open()
    entry = writer.entry
    if entry.rows is None:
        entry.rows = TableRows(writer)
        entry.rows.take(entry.data)
    try:
        statement(entry.rows)
        entry.data = entry.rows.finish()
    except BaseException:
        files, delete_files = entry.rows.written()
        entry.data = replace(entry.data, files=files, delete_files=delete_files)
        writer.transaction.rollback()
        raise
