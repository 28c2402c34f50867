"""The methods of a table inside a transaction that change rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.arrow import RowSource
from lakeport.ducklake.reading.delete_files import Positions
from lakeport.ducklake.writing.changes.by_row_id import delete_row_ids, update_row_ids
from lakeport.ducklake.writing.changes.merging import Clause, Merge, merge_rows
from lakeport.ducklake.writing.changes.restoring import restore_table
from lakeport.ducklake.writing.changes.statements import (
    append_rows,
    delete_rows,
    overwrite_rows,
    update_rows,
)
from lakeport.ducklake.writing.changes.table_rows import TableRows

if TYPE_CHECKING:
    from lakeport.ducklake.writing.table_writer import TableWriter

__all__ = ["RowStatements", "run_statement"]


class RowStatements:
    """What a table of a transaction does with rows; `TableWriter` has the rest."""

    def append(self, rows: RowSource) -> None:
        """Add rows: an Arrow table, batch or reader, a data frame, a list of dicts."""
        self.change_rows(lambda own: append_rows(own, rows))

    def overwrite(self, rows: RowSource, where: str | None = None) -> None:
        """Replace the rows that pass a condition, or all rows, by others."""
        self.change_rows(lambda own: overwrite_rows(own, rows, where))

    def delete(self, where: str | None = None) -> None:
        """Delete the rows that pass a condition, or all rows."""
        self.change_rows(lambda own: delete_rows(own, where))

    def update(self, assignments: Mapping[str, str], where: str | None = None) -> None:
        """Set columns to the values of SQL expressions, in the rows that pass a condition."""
        self.change_rows(lambda own: update_rows(own, assignments, where))

    def merge(self, rows: RowSource, on: str) -> Merge[None]:
        """Describe a merge of rows into the table; its `execute()` runs it."""
        return Merge(on, lambda on, clauses: self.run_merge(rows, on, clauses))

    def run_merge(self, rows: RowSource, on: str, clauses: Sequence[Clause]) -> None:
        """Merge rows by clauses that are already described."""
        self.change_rows(lambda own: merge_rows(own, rows, on, clauses))

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
