"""What happened to a table between two snapshots: rows inserted, rows deleted, as two scan plans.

An update is a deletion and an insertion with the same row id at the same snapshot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from lakeport.ducklake.deletes import Positions, read_delete_file
from lakeport.ducklake.files import data_files
from lakeport.ducklake.inlined import InlinedRows
from lakeport.ducklake.model import DataFile, NameMapping, Snapshot
from lakeport.ducklake.plan import BATCH_ROWS, FileTask, Pruning, ScanContext, ScanPlan, ScanTask
from lakeport.ducklake.planning import Planner, inlined_table, inlined_tasks
from lakeport.ducklake.queries import Row
from lakeport.ducklake.read import FileRead, read_file, row_count
from lakeport.filters import Filter

__all__ = ["ChangeFeed", "DeletedRowsTask", "plan_changes"]


@dataclass(frozen=True, slots=True)
class ChangeFeed:
    """The changes from one snapshot to another, both included.

    Both plans have the columns of the table at the last snapshot, then `rowid` and `snapshot_id`,
    the snapshot that inserted or deleted the row.
    """

    first: Snapshot
    last: Snapshot
    insertions: ScanPlan
    deletions: ScanPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRowsTask(ScanTask):
    """The rows of one data file that were deleted in a range of snapshots."""

    file: DataFile
    first_snapshot: int
    names: dict[int, NameMapping] | None = field(default=None, repr=False)
    inlined_deletes: bytes = field(default=b"", repr=False)
    """Pairs of a position and the snapshot that deleted it, as 64-bit integers."""

    def read(self, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows as they were, with the snapshot that deleted each."""
        positions, snapshots = self._deleted()
        if not len(positions):
            return
        request = FileRead(
            file=self.file,
            columns=self.context.read_columns,
            names=self.names,
            layout=self.context.layout_at(self.file.begin_snapshot),
            filter=self.context.filter,
            deleted=np.empty(0, np.int64),
            only=positions,
            only_snapshots=snapshots,
        )
        finish = self.context.finisher()
        for count, arrays in read_file(self.context.storage, request, batch_rows):
            batch = finish(count, arrays)
            if batch is not None:
                yield batch

    def _deleted(self) -> tuple[Positions, Positions]:
        """Every position deleted in the range, ascending, with the snapshot that deleted it."""
        pairs = np.frombuffer(self.inlined_deletes, np.int64).reshape(-1, 2)
        found, when = [pairs[:, 0]], [pairs[:, 1]]
        for delete in self.file.deletes:
            positions, snapshots = read_delete_file(self.context.storage, delete)
            found.append(positions)
            when.append(
                np.full(len(positions), delete.begin_snapshot) if snapshots is None else snapshots
            )
        end = self.file.end_snapshot
        if end is not None and end <= self.context.snapshot:  # whatever was left went with the file
            rows = row_count(self.context.storage, self.file)
            found.append(np.arange(rows))
            when.append(np.full(rows, end))
        positions, snapshots = np.concatenate(found), np.concatenate(when)
        order = np.lexsort((snapshots, positions))
        positions, snapshots = positions[order], snapshots[order]
        first = np.ones(len(positions), np.bool_)
        first[1:] = positions[1:] != positions[:-1]
        inside = first & (snapshots >= self.first_snapshot) & (snapshots <= self.context.snapshot)
        return positions[inside], snapshots[inside]


def plan_changes(planner: Planner, first: Snapshot) -> ChangeFeed:
    """The changes from `first` to the planner's snapshot."""
    names = [column.name for column in planner.state.columns]
    context = planner.context([*names, "rowid", "snapshot_id"], Filter.always())

    def work(connection: sa.Connection) -> tuple[dict[str, list[Row]], list[InlinedRows]]:
        rows = planner.file_rows(connection, (), since=first.id)
        return rows, planner.inlined(connection, rows, context, since=first.id)

    rows, inlined = planner.catalog.database.read(work)
    files = data_files(planner.state, rows)
    inserted = [task for file in files if (task := _inserted(planner, context, file, first.id))]
    pairs: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in rows.get("inlined_delete", ()):
        pairs[row["file_id"]].append((row["row_id"], row["begin_snapshot"]))
    deleted: list[ScanTask] = [
        DeletedRowsTask(
            context=context,
            estimated_rows=file.record_count or 0,
            estimated_bytes=file.file_size_bytes or 0,
            file=file,
            first_snapshot=first.id,
            names=planner.state.mapping_of(file),
            inlined_deletes=np.array(pairs.get(file.id, []), np.int64).tobytes(),
        )
        for file in files
        if file.deletes or file.id in pairs or file.end_snapshot is not None
    ]
    for part in inlined:
        born = _between(part.begin_snapshots, first.id, planner.snapshot.id)
        gone = _between(part.end_snapshots, first.id, planner.snapshot.id)
        inserted += inlined_tasks(context, inlined_table(context, part.take(born)))
        ended = part.take(gone)
        deleted += inlined_tasks(context, inlined_table(context, ended, ended.end_snapshots))
    return ChangeFeed(
        first,
        planner.snapshot,
        _plan(planner, context, inserted),
        _plan(planner, context, deleted),
    )


def _inserted(
    planner: Planner, context: ScanContext, file: DataFile, first: int
) -> ScanTask | None:
    if file.begin_snapshot < first and (file.partial_max or -1) < first:
        return None
    return FileTask(
        context=context,
        estimated_rows=file.record_count or 0,
        estimated_bytes=file.file_size_bytes or 0,
        file=file,
        names=planner.state.mapping_of(file),
        apply_deletes=False,
        first_snapshot=first,
    )


def _plan(planner: Planner, context: ScanContext, tasks: list[ScanTask]) -> ScanPlan:
    return ScanPlan(
        table=f"{planner.state.schema}.{planner.state.name}",
        snapshot=planner.snapshot,
        schema=context.schema,
        columns=context.columns,
        filter=Filter.always(),
        tasks=tuple(tasks),
        pruning=Pruning(files=len(tasks)),
    )


def _between(snapshots: pa.Array, first: int, last: int) -> pa.Array:
    values = snapshots.fill_null(-1).to_numpy(zero_copy_only=False)
    return pa.array((values >= first) & (values <= last))
