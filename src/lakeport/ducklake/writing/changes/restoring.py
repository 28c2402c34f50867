"""Restore a table, or the whole lake, to an earlier snapshot, as a new snapshot.

Rows are compared by where they are: a row that is in the same place at both snapshots stays there.
Rows that were added since are deleted. Rows that were deleted since are written again with the row
ids that they had. A data file that has not changed is not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.ducklake.engine import LocalEngine
from lakeport.ducklake.metadata.rows import SchemaRow, TableRow
from lakeport.ducklake.planning.plan import Planner
from lakeport.ducklake.reading.data_files import INTERNAL_ROW_ID
from lakeport.ducklake.reading.tasks import FileTask
from lakeport.ducklake.writing.changes.sources import AddressTask, Place, PlaceKey
from lakeport.ducklake.writing.changes.table_rows import TableRows, places_of
from lakeport.ducklake.writing.ddl.definitions import TableDefinition, same_column, table_definition
from lakeport.ducklake.writing.files import uuid7
from lakeport.errors import UnsupportedError
from lakeport.filters import Filter
from lakeport.types import arrow_schema

if TYPE_CHECKING:
    from lakeport.ducklake.lake import Lake
    from lakeport.ducklake.metadata.contents import TableSummary
    from lakeport.ducklake.writing.table_writer import TableWriter
    from lakeport.ducklake.writing.transaction import Transaction

__all__ = ["restore_table", "roll_back"]

Addresses = npt.NDArray[np.int64]
"""Rows of a place: positions, and the snapshots that wrote them, as one number for each row."""


def restore_table(rows: TableRows, version: int) -> None:
    """Give a table the columns, the partitioning, the sort order and the rows of a snapshot."""
    _restore_definition(rows.writer, version)
    _restore_rows(rows, version)


def roll_back(transaction: Transaction, version: int) -> None:
    """Give a lake the schemas, tables, rows and views of a snapshot.

    A table that was dropped since becomes a new table with the same columns and rows.
    """
    lake = transaction.lake
    then, now = lake.contents(version=version), lake.contents(version=transaction.base)
    views = {(view.id, view.schema, view.name, view.sql): view for view in then.views}
    for view in now.views:
        if views.pop((view.id, view.schema, view.name, view.sql), None) is None:
            transaction.drop_view(view.name, view.schema)
    wanted = {table.id: table for table in then.tables}
    for table in now.tables:
        if table.id not in wanted:
            transaction.drop_table(table.name, table.schema)
    _roll_back_schemas(transaction, [s.name for s in now.schemas], [s.name for s in then.schemas])
    present = {table.id: table for table in now.tables if table.id in wanted}
    renamed = [table for id, table in present.items() if table.name != wanted[id].name]
    for table in renamed:  # two tables may have swapped their names
        transaction.table(table.name, table.schema).rename(f"lakeport_{uuid7().hex}")
    for table in renamed:
        transaction.writer(table.id).rename(wanted[table.id].name)
    for id, table in wanted.items():
        if id in present:
            transaction.table(table.name, table.schema).restore(version)
        else:
            _create_again(transaction, table, version)
    for view in views.values():
        transaction.create_view(
            view.name,
            view.sql,
            view.schema,
            column_aliases=view.column_aliases,
            comment=view.comment,
        )


def _roll_back_schemas(transaction: Transaction, now: Sequence[str], then: Sequence[str]) -> None:
    for name in now:
        if name not in then:
            transaction.drop_schema(name, cascade=True)
    for name in then:
        if name not in now:
            transaction.create_schema(name)


def _create_again(transaction: Transaction, table: TableSummary, version: int) -> None:
    """Create a table that was dropped, and copy its rows of a snapshot."""
    lake = transaction.lake
    then = _definition_at(lake, table.id, version)
    writer = transaction.create_table(table.name, {"column": "INTEGER"}, table.schema)
    entry = writer.entry
    columns = tuple(replace(row, begin_snapshot=0, end_snapshot=None) for row in then.columns)
    entry.after = replace(
        writer.definition,
        columns=columns,
        next_column_id=then.next_column_id,
        partition_id=transaction.allocate() if then.partition_keys else None,
        partition_keys=then.partition_keys,
        sort_id=transaction.allocate() if then.sort_keys else None,
        sort_keys=then.sort_keys,
        tags=then.tags,
        column_tags=then.column_tags,
    )
    rows = lake.table_by_id(table.id, version).scan()
    writer.append(rows.to_batches(engine=LocalEngine()))


def _definition_at(lake: Lake, table_id: int, version: int) -> TableDefinition:
    rows = lake.catalog.database.read(
        lambda connection: lake.catalog.table_by_id(connection, table_id, version)
    )
    return table_definition(rows, rows[TableRow][0], rows[SchemaRow][0], version)


def _restore_definition(writer: TableWriter, version: int) -> None:
    """Give a table the columns, the partitioning and the sort order of a snapshot."""
    then = _definition_at(writer.transaction.lake, writer.id, version)
    now = writer.definition
    known = {row.column_id: row for row in now.columns}
    for row in then.columns:
        other = known.get(row.column_id)
        if other is not None and other.column_type != row.column_type:
            raise UnsupportedError(
                f"table {now.name} cannot be restored to snapshot {version}: column "
                f"{row.column_name!r} was {row.column_type} and is {other.column_type} now"
            )
    columns = tuple(
        known[row.column_id]
        if row.column_id in known and same_column(known[row.column_id], row)
        else replace(row, begin_snapshot=0, end_snapshot=None)
        for row in then.columns
    )
    restored = replace(now, columns=columns)
    if then.partition_keys != now.partition_keys:
        restored = replace(
            restored,
            partition_id=writer.transaction.allocate(),
            partition_keys=then.partition_keys,
        )
    if then.sort_keys != now.sort_keys:
        sort_id = writer.transaction.allocate() if then.sort_keys else None
        restored = replace(restored, sort_id=sort_id, sort_keys=then.sort_keys)
    writer.entry.after = restored


def _restore_rows(rows: TableRows, version: int) -> None:
    """Give a table the rows of a snapshot."""
    writer = rows.writer
    lake = writer.transaction.lake
    then_table = lake.table_by_id(writer.id, version)
    state = replace(then_table.planner.state, columns=writer.columns)
    planner = replace(then_table.planner, state=state)
    now, then = rows.places(["snapshot_id"], Filter.always()), _places(planner, ["snapshot_id"])
    same = _unchanged(now, then, version)
    now_rows = _addresses([place for place in now if place.key not in same])
    then_rows = _addresses([place for place in then if place.key not in same])
    lost = {key: _without(found, now_rows.get(key)) for key, found in then_rows.items()}
    gone = {key: _without(found, then_rows.get(key)) for key, found in now_rows.items()}
    lost = {key: positions for key, positions in lost.items() if len(positions)}
    gone = {key: positions for key, positions in gone.items() if len(positions)}
    names = [column.name for column in writer.columns]
    wide = [place for place in _places(planner, names) if place.key in lost]
    rows.add(_read(wide, lost, rows), has_row_ids=True, in_order=True)
    if gone:
        rows.delete(gone, now)


def _places(planner: Planner, names: Sequence[str]) -> list[Place]:
    plan = planner.scan(
        [*names, "rowid", "file_row_number"], None, task_bytes=64 << 20, exact=False
    )
    return places_of(plan.tasks)


def _unchanged(now: Sequence[Place], then: Sequence[Place], version: int) -> set[PlaceKey]:
    """Return the data files with the same live rows at both snapshots."""
    before = {place.key: place.tasks[0] for place in then}
    same = set()
    for place in now:
        task, other = place.tasks[0], before.get(place.key)
        if isinstance(task, FileTask) and isinstance(other, FileTask):
            is_whole = task.file.partial_max is None or task.file.partial_max <= version
            has_same_deletes = (
                [delete.id for delete in task.file.deletes]
                == [delete.id for delete in other.file.deletes]
                and all((d.partial_max or 0) <= version for d in task.file.deletes)
                and task.inlined_deletes == other.inlined_deletes
            )
            if is_whole and has_same_deletes and not task.file.partial_rows:
                same.add(place.key)
    return same


def _addresses(places: Sequence[Place]) -> dict[PlaceKey, pa.Table]:
    """Return the live rows of places: their positions, and the snapshots that wrote them."""
    found = {}
    for place in places:
        tasks = [AddressTask(task, 0) for task in place.tasks]
        batches = list(LocalEngine().stream(tasks, tasks[0].schema))
        if batches:
            # Place, position, row id, snapshot.
            found[place.key] = pa.Table.from_batches(batches).select([1, 3])
    return found


def _without(rows: pa.Table, others: pa.Table | None) -> Addresses:
    """Return the positions of rows that are not among the others, ascending."""
    positions, snapshots = (rows.column(i).to_numpy() for i in range(2))
    if others is not None:
        pairs = np.stack([positions, snapshots], axis=1)
        known = np.stack([others.column(i).to_numpy() for i in range(2)], axis=1)
        kind = np.dtype([("position", np.int64), ("snapshot", np.int64)])
        keep = ~np.isin(
            np.ascontiguousarray(pairs).view(kind).ravel(),
            np.ascontiguousarray(known).view(kind).ravel(),
        )
        positions = positions[keep]
    return np.unique(positions)


def _read(
    places: Sequence[Place], touched: Mapping[PlaceKey, Addresses], rows: TableRows
) -> pa.RecordBatchReader:
    """Return rows in the columns of the table, with their row ids after them."""
    schema = pa.schema([*arrow_schema(rows.writer.columns), pa.field(INTERNAL_ROW_ID, pa.int64())])
    tasks = [AddressTask(task, 0, touched[place.key]) for place in places for task in place.tasks]

    def batches() -> Iterator[pa.RecordBatch]:
        if tasks:
            for batch in LocalEngine().stream(tasks, tasks[0].schema):
                yield pa.RecordBatch.from_arrays(
                    [*batch.columns[3:], batch.column(2)], schema=schema
                )

    return pa.RecordBatchReader.from_batches(schema, batches())
