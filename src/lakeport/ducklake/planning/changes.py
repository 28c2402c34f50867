"""The changes of a table between two snapshots, as two scan plans: rows inserted, rows deleted.

An update is a deletion and an insertion with the same row id at the same snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import sqlalchemy as sa

from lakeport.ducklake.model import DataFile, Snapshot
from lakeport.ducklake.planning.files import FileColumns
from lakeport.ducklake.planning.inlined_rows import InlinedRows
from lakeport.ducklake.planning.plan import (
    Planner,
    PruningCounts,
    ScanPlan,
    inlined_table,
    inlined_tasks,
)
from lakeport.ducklake.reading.tasks import DeletedRowsTask, FileTask, ScanContext, ScanTask
from lakeport.filters import Filter

__all__ = ["ChangePlan", "plan_changes"]


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """The changes from one snapshot to another, both included.

    Both plans have the columns of the table at the last snapshot, then `rowid` and `snapshot_id`,
    the snapshot that inserted or deleted the row.
    """

    first: Snapshot
    last: Snapshot
    insertions: ScanPlan
    deletions: ScanPlan


def plan_changes(planner: Planner, first: Snapshot) -> ChangePlan:
    """Plan the changes from `first` to the planner's snapshot."""
    names = [column.name for column in planner.state.columns]
    context = planner.context([*names, "rowid", "snapshot_id"], Filter.always())

    def work(connection: sa.Connection) -> tuple[FileColumns, list[InlinedRows]]:
        columns = planner.files(connection, from_snapshot=first.id)
        return columns, planner.inlined(connection, columns, context, from_snapshot=first.id)

    columns, inlined = planner.catalog.database.read(work)
    files = planner.data_files(columns)
    insertions = [task for file in files if (task := _inserted(planner, context, file, first.id))]
    pairs = columns.deleted_pairs()
    deletions: list[ScanTask] = [
        DeletedRowsTask(
            context=context,
            estimated_rows=file.record_count or 0,
            estimated_bytes=file.file_size_bytes or 0,
            file=file,
            first_snapshot=first.id,
            name_mapping=planner.state.name_mapping_of(file),
            inlined_deletes=pairs.get(file.id, b""),
        )
        for file in files
        if file.deletes or file.id in pairs or file.end_snapshot is not None
    ]
    for part in inlined:
        is_inserted = _between(part.begin_snapshots, first.id, planner.snapshot.id)
        is_deleted = _between(part.end_snapshots, first.id, planner.snapshot.id)
        insertions += inlined_tasks(context, inlined_table(context, part.take(is_inserted)))
        deleted_rows = part.take(is_deleted)
        snapshots = deleted_rows.end_snapshots
        deletions += inlined_tasks(context, inlined_table(context, deleted_rows, snapshots))
    return ChangePlan(
        first,
        planner.snapshot,
        _plan(planner, context, insertions),
        _plan(planner, context, deletions),
    )


def _inserted(
    planner: Planner, context: ScanContext, file: DataFile, first: int
) -> ScanTask | None:
    """Return the task of the rows that a file inserted since `first`; None if there are none."""
    if file.begin_snapshot < first and (file.partial_max or -1) < first:
        return None
    return FileTask(
        context=context,
        estimated_rows=file.record_count or 0,
        estimated_bytes=file.file_size_bytes or 0,
        file=file,
        name_mapping=planner.state.name_mapping_of(file),
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
        pruning=PruningCounts(files=len(tasks)),
    )


def _between(snapshots: pa.Array, first: int, last: int) -> pa.Array:
    values = snapshots.fill_null(-1).to_numpy(zero_copy_only=False)
    return pa.array((values >= first) & (values <= last))
