"""The rows of a table inside a transaction: those of the base snapshot, and what has changed.

All changes of a transaction are merged. A row that was added and then deleted is never written to
the lake, a row that was updated twice is written once, and each data file gets one delete file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lakeport.ducklake.engine import LocalEngine
from lakeport.ducklake.model import DataFile
from lakeport.ducklake.planning.plan import Planner, ScanPlan
from lakeport.ducklake.reading.data_files import INTERNAL_ROW_ID
from lakeport.ducklake.reading.delete_files import Positions
from lakeport.ducklake.reading.tasks import FileTask, InlinedTask, ScanTask
from lakeport.ducklake.writing.change_set import DataChanges, ReadFile
from lakeport.ducklake.writing.changes.delete_files import AllDeletes, all_deletes
from lakeport.ducklake.writing.changes.own_rows import (
    added_tasks,
    planner_of_new_table,
    written_task,
)
from lakeport.ducklake.writing.changes.sources import (
    AddressTask,
    Place,
    PlaceKey,
    Touched,
    address_schema,
    contains,
    group_addresses,
)
from lakeport.ducklake.writing.changes.target import directory_of, file_target, fitted
from lakeport.ducklake.writing.files import FileTarget, write_files
from lakeport.ducklake.writing.inlining import accepts_rows, inlined_statistics
from lakeport.ducklake.writing.written import (
    InlinedDeletes,
    InlinedRowDeletes,
    InlinedRowInserts,
    WrittenDeleteFile,
    WrittenFile,
)
from lakeport.errors import InternalError
from lakeport.filters import Filter
from lakeport.types import Column, arrow_schema

if TYPE_CHECKING:
    from lakeport.ducklake.writing.table_writer import TableWriter

__all__ = ["TableRows", "places_of"]

_TASK_BYTES: Final = 64 << 20
_HERE: Final = LocalEngine()


@dataclass(slots=True)
class _Deleted:
    """What the transaction has deleted of one data file."""

    file: DataFile
    inlined_before: int
    """The number of inlined deletes of the base snapshot."""
    positions: Positions
    whole: bool = False
    written: WrittenDeleteFile | None = None
    deletes: AllDeletes | None = None


@dataclass(slots=True)
class TableRows:
    """The rows of one table in one transaction."""

    writer: TableWriter
    _files: list[WrittenFile] = field(default_factory=list)
    _added: list[InlinedRowInserts] = field(default_factory=list)
    _deleted: dict[int, _Deleted] = field(default_factory=dict)
    _deleted_inlined: dict[str, Positions] = field(default_factory=dict)
    _is_blind: bool = True

    def places(self, columns: Sequence[str], filter: Filter) -> list[Place]:
        """Return where the rows are that may pass a filter, with the tasks that read them."""
        names = [*columns, "rowid", "file_row_number"]
        plan = self._plan(names, filter)
        places = [] if plan is None else places_of(plan.tasks)
        own: dict[PlaceKey, list[ScanTask]] = {}
        for key, task in self._own_tasks(names):
            own.setdefault(key, []).append(task)
        return [*places, *(Place(key, tuple(tasks)) for key, tasks in own.items())]

    def read(self, places: Sequence[Place], touched: Touched | None = None) -> pa.RecordBatchReader:
        """Return the rows of places with their addresses, or only the touched rows of them."""
        schema = address_schema(places[0].tasks[0].schema) if places else pa.schema([])
        return _HERE.stream(self.reads(places, touched), schema)

    def reads(self, places: Sequence[Place], touched: Touched | None = None) -> list[AddressTask]:
        """Return the tasks that read the rows of places, or only the touched rows of them."""
        return [
            AddressTask(
                task,
                number,
                None if touched is None else touched.get(place.key, np.empty(0, np.int64)),
                self._excluded(place.key),
                has_row_ids=place.key[0] in ("file", "inlined"),
            )
            for number, place in enumerate(places)
            if touched is None or place.key in touched
            for task in place.tasks
        ]

    @property
    def base_columns(self) -> tuple[Column, ...]:
        """The columns of the table at the base snapshot; none if the transaction creates it."""
        table = self.writer.layout
        return () if table is None else table.planner.state.columns

    def undeleted(self, key: PlaceKey, positions: Positions) -> Positions:
        """Return positions of a place without those that the transaction has deleted."""
        excluded = self._excluded(key)
        return positions if excluded is None else positions[~contains(excluded, positions)]

    def add(
        self,
        rows: pa.RecordBatchReader,
        *,
        has_row_ids: bool = False,
        in_order: bool = False,
        inline: bool = True,
    ) -> int:
        """Add rows in the columns of the table; return their number.

        With `has_row_ids` a column of row ids follows, of rows that were updated. `in_order`
        leaves the rows in their order, whatever the sort order of the table is. Without `inline`
        also few rows go to a file.
        """
        limit = self.writer.inlining_limit if inline else 0
        target = file_target(self.writer, in_order=in_order)
        first: list[pa.RecordBatch] = []
        count = 0
        batches = iter(rows)
        while count <= limit and (batch := next(batches, None)) is not None:
            if batch.num_rows:
                first.append(batch)
                count += batch.num_rows
        if not count:
            return 0
        if count <= limit:
            table = pa.Table.from_batches(first)
            if self._inline(table, target, has_row_ids=has_row_ids):
                return count
        internal = [INTERNAL_ROW_ID] if has_row_ids else []
        whole = pa.RecordBatchReader.from_batches(rows.schema, chain(first, batches))
        files = write_files(target, whole, internal=internal)
        self._files += files
        return sum(file.record_count for file in files)

    def delete(self, touched: Touched, places: Sequence[Place]) -> None:
        """Delete rows by their addresses."""
        self._is_blind = False
        by_key = {place.key: place for place in places}
        for key, positions in touched.items():
            kind, name = key
            place = by_key[key]
            if kind == "file" and isinstance(task := place.tasks[0], FileTask):
                self._delete_positions(task, positions)
            elif kind == "inlined":
                known = self._deleted_inlined.get(str(name), np.empty(0, np.int64))
                self._deleted_inlined[str(name)] = np.union1d(known, positions)
            elif kind == "written":
                self._rewrite(str(name), positions)
        added = {int(key[1]): positions for key, positions in touched.items() if key[0] == "added"}
        if added:
            self._added = list(self._without(added))

    def delete_all(self) -> None:
        """Delete all rows."""
        self.delete_places(self.places([], Filter.always()))

    def delete_places(self, places: Sequence[Place]) -> None:
        """Delete the rows of places; files end without being read, where the format allows it."""
        whole = {place.key for place in places if self._can_end(place)}
        rest = [place for place in places if place.key not in whole]
        addresses = [batch.select([0, 1]) for batch in self.read(rest)] if rest else []
        if addresses:
            self.delete(group_addresses(pa.Table.from_batches(addresses), rest), rest)
        for place in places:
            if place.key in whole and isinstance(task := place.tasks[0], FileTask):
                self._entry(task).whole = True
        self._is_blind = False

    def _can_end(self, place: Place) -> bool:
        """Return whether a file ends as a whole when all of its rows are deleted.

        A few rows are deleted one by one. So are those of a file with inlined deletes: the change
        feed of DuckLake 1.5.5 has no rows of such a file when it ends.
        """
        file, task = place.file, place.tasks[0]
        if place.key[0] != "file" or file is None or not isinstance(task, FileTask):
            return False
        if task.inlined_deletes or len(file.deletes) > 1 or file.record_count is None:
            return False
        deleted = sum(delete.delete_count or 0 for delete in file.deletes)
        return file.record_count - deleted > self.writer.inlined_deletes_limit

    def write_inlined(self) -> None:
        """Write rows for the catalog database to files, because the columns are about to change."""
        target = file_target(self.writer, in_order=True)
        for rows in self._added:
            table, internal = rows.rows, []
            if rows.row_ids is not None:
                table, internal = (
                    table.append_column(INTERNAL_ROW_ID, rows.row_ids),
                    [INTERNAL_ROW_ID],
                )
            if table.num_rows:
                self._files += write_files(target, table.to_reader(), internal=internal)
        self._added = []

    def take(self, changes: DataChanges) -> None:
        """Add rows and files that another part of the transaction has prepared."""
        if changes.deletes_files_rows or changes.deletes_inlined:
            raise InternalError("deletes of a table with other changes of rows cannot be added")
        self._files += changes.files
        self._added += changes.inlined_inserts
        self._is_blind = self._is_blind and changes.is_blind

    def written(self) -> tuple[tuple[WrittenFile, ...], tuple[WrittenDeleteFile, ...]]:
        """Return the files that exist now, to be removed if the transaction fails."""
        deletes = (entry.written for entry in self._deleted.values())
        return tuple(self._files), tuple(file for file in deletes if file is not None)

    def finish(self) -> DataChanges:
        """Write the delete files that are missing; return everything that has changed."""
        delete_files, ended, inlined, read = [], [], [], []
        snapshot = self.writer.transaction.base + 1
        limit = self.writer.inlined_deletes_limit
        for entry in self._deleted.values():
            file = entry.file
            read.append(
                ReadFile(
                    data_file_id=file.id,
                    delete_file_id=file.deletes[0].id if file.deletes else None,
                    inlined_deletes=entry.inlined_before,
                )
            )
            if entry.whole:
                ended.append(file.id)
            elif len(entry.positions) <= limit:
                positions = pa.array(entry.positions, pa.int64())
                inlined.append(InlinedDeletes(data_file_id=file.id, positions=positions))
            else:
                if entry.deletes is None:
                    storage = self.writer.transaction.lake.storage
                    entry.deletes = all_deletes(storage, file, entry.positions)
                if entry.deletes.is_complete:
                    ended.append(file.id)
                    continue
                if entry.written is None:
                    entry.written = entry.deletes.write(file_target(self.writer), snapshot)
                delete_files.append(entry.written)
        kept = sum(file.record_count for file in self._files if file.carries_row_ids)
        kept += sum(rows.rows.num_rows for rows in self._added if rows.row_ids is not None)
        return DataChanges(
            files=tuple(self._files),
            delete_files=tuple(delete_files),
            ended_files=tuple(ended),
            inlined_inserts=tuple(rows for rows in self._added if rows.rows.num_rows),
            inlined_deletes=tuple(inlined),
            inlined_row_deletes=tuple(
                InlinedRowDeletes(inlined_table=name, row_ids=pa.array(ids, pa.int64()))
                for name, ids in self._deleted_inlined.items()
            ),
            read=tuple(read),
            is_blind=self._is_blind,
            rewrite_deletes=self._rewrite_deletes,
            updated_rows=kept,
            deleted_rows=self._deleted_rows() - kept,
        )

    def _deleted_rows(self) -> int:
        count = sum(len(ids) for ids in self._deleted_inlined.values())
        for entry in self._deleted.values():
            if entry.whole:
                before = sum(delete.delete_count or 0 for delete in entry.file.deletes)
                count += (entry.file.record_count or 0) - before - entry.inlined_before
            else:
                count += len(entry.positions)
        return count

    def _rewrite_deletes(self, written: WrittenDeleteFile, snapshot: int) -> WrittenDeleteFile:
        """Write a delete file again for another snapshot, and remove the old one."""
        entry = self._deleted[written.data_file_id]
        if entry.deletes is None:
            return written
        entry.written = entry.deletes.write(file_target(self.writer), snapshot)
        self._remove(written.path)
        return entry.written

    def _plan(self, names: Sequence[str], filter: Filter) -> ScanPlan | None:
        """Plan a scan of the base snapshot, in the columns that the transaction leaves."""
        if self.writer.table is None:
            return None
        return self._planner().scan(names, filter, task_bytes=_TASK_BYTES, exact=False)

    def _planner(self) -> Planner:
        """Return a planner of the table in the columns that the transaction leaves."""
        table = self.writer.table
        if table is None:
            return planner_of_new_table(self.writer)
        state = replace(table.planner.state, columns=self.writer.columns)
        return replace(table.planner, state=state)

    def _own_tasks(self, names: Sequence[str]) -> Iterator[tuple[PlaceKey, ScanTask]]:
        """Yield the tasks that read what the transaction itself has added."""
        if not (self._files or self._added):
            return
        context = self._planner().context(names, Filter.always())
        for file in self._files:
            yield ("written", file.path), written_task(context, directory_of(self.writer), file)
        for number, added in enumerate(self._added):
            for task in added_tasks(context, added):
                yield ("added", number), task

    def _excluded(self, key: PlaceKey) -> Positions | None:
        kind, name = key
        if kind == "file":
            entry = self._deleted.get(int(name))
            if entry is None:
                return None
            return np.arange(entry.file.record_count or 0) if entry.whole else entry.positions
        return self._deleted_inlined.get(str(name)) if kind == "inlined" else None

    def _entry(self, task: FileTask) -> _Deleted:
        entry = self._deleted.get(task.file.id)
        if entry is None:
            count = len(np.frombuffer(task.inlined_deletes, np.int64))
            entry = self._deleted[task.file.id] = _Deleted(task.file, count, np.empty(0, np.int64))
        return entry

    def _delete_positions(self, task: FileTask, positions: Positions) -> None:
        entry = self._entry(task)
        entry.positions = np.union1d(entry.positions, positions)
        if entry.written is not None:
            self._remove(entry.written.path)
        entry.written = entry.deletes = None

    def _rewrite(self, path: str, positions: Positions) -> None:
        """Replace a file of this transaction by one without some of its rows."""
        number = next(i for i, file in enumerate(self._files) if file.path == path)
        old = self._files[number]
        names = [column.name for column in self.writer.columns]
        tasks = [
            AddressTask(task, 0, None, positions)
            for key, task in self._own_tasks([*names, "rowid", "file_row_number"])
            if key == ("written", path)
        ]
        columns = arrow_schema(self.writer.columns)
        internal = [INTERNAL_ROW_ID] if old.carries_row_ids else []
        schema = pa.schema([*columns, *(pa.field(name, pa.int64()) for name in internal)])
        left = (
            pa.RecordBatch.from_arrays(
                [*batch.columns[3:], *batch.columns[2 : 2 + len(internal)]], schema=schema
            )
            for task in tasks
            for batch in task.read()
        )
        target = file_target(self.writer, in_order=True)
        reader = pa.RecordBatchReader.from_batches(schema, left)
        self._files[number : number + 1] = write_files(target, reader, internal=internal)
        self._remove(path)

    def _without(self, deleted: dict[int, Positions]) -> Iterator[InlinedRowInserts]:
        for number, added in enumerate(self._added):
            positions = deleted.get(number)
            if positions is None:
                yield added
                continue
            keep = pa.array(~contains(positions, np.arange(added.rows.num_rows)))
            rows = added.rows.filter(keep)
            yield InlinedRowInserts(
                rows=rows,
                row_ids=None if added.row_ids is None else added.row_ids.filter(keep),
                columns=inlined_statistics(rows, self.writer.columns),
            )

    def _inline(self, table: pa.Table, target: FileTarget, *, has_row_ids: bool) -> bool:
        """Keep rows for the catalog database, if it can hold them."""
        columns = self.writer.columns
        row_ids = None
        if has_row_ids:
            row_ids = table.column(INTERNAL_ROW_ID).combine_chunks()
            table = table.drop_columns(INTERNAL_ROW_ID)
        if not self._has_fitting_table():
            return False
        rows = fitted(target, table)
        if not accepts_rows(self.writer.transaction.lake.catalog.database.kind, rows, columns):
            return False
        statistics = inlined_statistics(rows, columns)
        self._added.append(InlinedRowInserts(rows=rows, row_ids=row_ids, columns=statistics))
        return True

    def _has_fitting_table(self) -> bool:
        """Return whether the newest inlined table has the columns of the table.

        It has older ones if inlining was off when the columns changed. A table that the transaction
        alters gets a new inlined table, and one without any gets its first.
        """
        writer = self.writer
        base = writer.layout
        if base is None or not base.planner.state.inlined_tables or base.columns != writer.columns:
            return True
        newest = base.planner.state.inlined_tables[-1].columns
        return [_layout(column) for column in newest] == [_layout(c) for c in writer.columns]

    def _remove(self, path: str) -> None:
        self.writer.transaction.lake.storage.delete(directory_of(self.writer) + path)


def _layout(column: Column) -> list[tuple[int, str, str]]:
    return [(node.id, node.name, node.type) for node in column.walk()]


def places_of(tasks: Sequence[ScanTask]) -> list[Place]:
    """Return the places that the tasks of a plan read: data files and inlined tables."""
    found: dict[PlaceKey, list[ScanTask]] = {}
    for task in tasks:
        found.setdefault(_key(task), []).append(task)
    return [Place(key, tuple(tasks)) for key, tasks in found.items()]


def _key(task: ScanTask) -> PlaceKey:
    if isinstance(task, FileTask):
        return "file", task.file.id
    return "inlined", task.table if isinstance(task, InlinedTask) else ""
