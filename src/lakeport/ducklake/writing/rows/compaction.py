"""Rows of compactions: files that replace others, and inlined rows that move to files.

A merge replaces its sources in all snapshots: their rows are deleted. A rewrite ends them at the
new snapshot: older snapshots still read them.
"""

from __future__ import annotations

from lakeport.ducklake.metadata.rows import (
    DataFileRow,
    DeleteFileRow,
    FileColumnStatsRow,
    FilePartitionValueRow,
    FileVariantStatsRow,
    TableStatsRow,
)
from lakeport.ducklake.writing.change_set import ChangeSet, Compaction
from lakeport.ducklake.writing.database import (
    Delete,
    DeleteInlinedDeletes,
    DeleteInlinedRows,
    EndRows,
    Insert,
    Update,
)
from lakeport.ducklake.writing.ddl.definitions import TableDefinition
from lakeport.ducklake.writing.rows.changes_made import Change
from lakeport.ducklake.writing.rows.data import (
    DataRows,
    delete_file_row,
    file_rows,
    scheduled_rows,
)
from lakeport.ducklake.writing.rows.ids import CommitIds
from lakeport.ducklake.writing.state import CommitState, TableCommitState

__all__ = ["compaction_rows"]


def compaction_rows(changes: ChangeSet, state: CommitState, ids: CommitIds) -> DataRows:
    """Return the rows of all compactions of a change set."""
    rows = DataRows()
    for change in changes.tables:
        if change.compaction is not None and change.before is not None:
            work = _Table(rows, change.before, change.compaction, state, ids)
            work.add_files()
            match change.compaction.kind:
                case "merge_adjacent":
                    work.remove_sources()
                case "rewrite_delete":
                    work.end_sources()
                case "inline_flush":
                    work.flush(changes.base)
    return rows


class _Table:
    """The compaction of one table."""

    def __init__(
        self,
        rows: DataRows,
        table: TableDefinition,
        compaction: Compaction,
        state: CommitState,
        ids: CommitIds,
    ) -> None:
        self._rows = rows
        self._table = table
        self._compaction = compaction
        self._state = state
        self._ids = ids
        self._sources = tuple((source.data_file_id,) for source in compaction.sources)

    @property
    def _recorded(self) -> TableCommitState:
        return self._state.table(self._table.id)

    def add_files(self) -> None:
        """Insert the new files, with the deletes that they have from the beginning."""
        table_id, ids = self._table.id, self._ids
        for new in self._compaction.files:
            begin = ids.snapshot if new.begin_snapshot is None else new.begin_snapshot
            file_id = ids.allocate_file()
            described = file_rows(
                new.file,
                file_id,
                table_id,
                ids,
                begin_snapshot=begin,
                row_id_start=new.row_id_start,
                partial_max=new.partial_max,
            )
            self._rows.statements.append(Insert(tuple(described)))
            if new.deletes is not None:
                deletes = delete_file_row(new.deletes, ids.allocate_file(), table_id, file_id, ids)
                self._rows.statements.append(Insert((deletes,)))

    def remove_sources(self) -> None:
        """Delete the rows of the sources, which no snapshot needs now, and schedule the files."""
        recorded = self._recorded
        data_files = [recorded.data_files[id] for (id,) in self._sources]
        for row in (
            DataFileRow,
            FileColumnStatsRow,
            FileVariantStatsRow,
            FilePartitionValueRow,
            DeleteFileRow,
        ):
            self._rows.statements.append(Delete(row, ("data_file_id",), self._sources))
        scheduled = scheduled_rows(self._table, data_files, self._state)
        self._rows.statements.append(Insert(scheduled))
        self._changes("merge_adjacent", "inline_flush")

    def end_sources(self) -> None:
        """End the sources and their delete files; older snapshots still need them."""
        for row in (DataFileRow, DeleteFileRow):
            self._rows.statements.append(
                EndRows(row, ("data_file_id",), self._sources, self._ids.snapshot)
            )
        if not self._compaction.files:
            # No id is used: readers of the reference load statistics again when it has changed.
            self._ids.allocate_file()
        self._changes("rewrite_delete", "inline_flush")

    def flush(self, base: int) -> None:
        """Delete the inlined rows and inlined deletes that the new files contain."""
        compaction, recorded = self._compaction, self._recorded
        table_id, ids, statements = self._table.id, self._ids, self._rows.statements
        replaced: list[DeleteFileRow] = []
        for file in compaction.delete_files:
            replaced += recorded.delete_files.get(file.data_file_id, ())
            row = delete_file_row(file, ids.allocate_file(), table_id, file.data_file_id, ids)
            statements.append(Insert((row,)))
        if replaced:
            keys = tuple((row.delete_file_id,) for row in replaced)
            statements.append(Delete(DeleteFileRow, ("delete_file_id",), keys))
            statements.append(Insert(scheduled_rows(self._table, replaced, self._state)))
        for name in compaction.flushed_tables:
            statements.append(DeleteInlinedRows(name, base))
        if compaction.delete_files:
            moved = tuple(file.data_file_id for file in compaction.delete_files)
            statements.append(DeleteInlinedDeletes(table_id, moved, base))
            # Clients of the reference detect a new delete file of older deletes by these only.
            self._changes("deleted_from_table", "inserted_into_table")
        if recorded.stats is not None and compaction.files:
            size = sum(new.file.file_size_bytes for new in compaction.files)
            total = {"file_size_bytes": (recorded.stats.file_size_bytes or 0) + size}
            statements.append(Update(TableStatsRow, total, {"table_id": table_id}))
        self._changes("inline_flush")

    def _changes(self, *keywords: str) -> None:
        """Record changes. `inline_flush` makes clients of the reference abort inlined deletes.

        They do not expect that a file of their snapshot is replaced: such a delete would be lost
        (DuckDB 1.5.5).
        """
        self._rows.changes += [Change(keyword, self._table.id) for keyword in keywords]
