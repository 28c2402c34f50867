"""Rows of files, statistics and inlined rows that a change set adds to tables and removes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lakeport.ducklake.metadata.rows import (
    ColumnMappingRow,
    DataFileRow,
    DeleteFileRow,
    FileColumnStatsRow,
    FilePartitionValueRow,
    FileVariantStatsRow,
    NameMappingRow,
    ScheduledFileRow,
    TableColumnStatsRow,
    TableStatsRow,
)
from lakeport.ducklake.writing.change_set import ChangeSet, TableChange
from lakeport.ducklake.writing.database import (
    CreateInlinedDeleteTable,
    Delete,
    EndInlinedRows,
    EndRows,
    Insert,
    InsertInlinedDeletes,
    InsertInlinedRows,
    Statement,
    Update,
)
from lakeport.ducklake.writing.ddl.definitions import TableDefinition
from lakeport.ducklake.writing.rows.changes_made import Change
from lakeport.ducklake.writing.rows.ids import CommitIds
from lakeport.ducklake.writing.rows.statistics import merge_columns
from lakeport.ducklake.writing.state import CommitState, TableCommitState
from lakeport.ducklake.writing.written import MappedColumn, WrittenDeleteFile, WrittenFile
from lakeport.types import Column

__all__ = ["DataRows", "data_rows", "delete_file_row", "file_rows", "scheduled_rows"]


@dataclass(slots=True)
class DataRows:
    """What the changes of rows and files write."""

    statements: list[Statement] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)


def data_rows(
    changes: ChangeSet, state: CommitState, ids: CommitIds, inlined_tables: Mapping[int, str]
) -> DataRows:
    """Return the rows for all data, and allocate file ids in the order of the reference.

    `inlined_tables` has the table for inlined rows of each table that gets some, by its id.
    """
    rows = DataRows()
    touched = [change for change in changes.tables if change.after and not change.data.is_empty]
    touched.sort(key=lambda change: ids.object(change.id))
    mappings = {
        change.id: _name_mappings(rows, change, state.table(change.id), ids) for change in touched
    }
    files = {}
    for change in touched:
        files[change.id] = [(file, ids.allocate_file()) for file in change.data.files]
        if change.data.inlined_inserts and not change.data.files:
            # No id is used: readers of the reference load statistics again when it has changed.
            ids.allocate_file()
    for change in touched:
        _table(rows, change, state, ids, files[change.id], mappings[change.id], inlined_tables)
    for change in touched:
        _deletes(rows, change, state, ids)
    return rows


def _table(
    rows: DataRows,
    change: TableChange,
    state: CommitState,
    ids: CommitIds,
    files: list[tuple[WrittenFile, int]],
    mappings: Mapping[tuple[MappedColumn, ...], int],
    inlined_tables: Mapping[int, str],
) -> None:
    """Add files, statistics and inlined rows of one table."""
    data, recorded = change.data, state.table(change.id)
    if change.after is None or not (data.files or data.inlined_inserts):
        return
    table_id = ids.object(change.id)
    stats = recorded.stats
    next_row_id = (stats.next_row_id or 0) if stats else 0
    for file, file_id in files:
        mapping = None if file.name_mapping is None else mappings[file.name_mapping]
        rows.statements.append(
            Insert(
                tuple(
                    file_rows(
                        file,
                        file_id,
                        table_id,
                        ids,
                        begin_snapshot=ids.snapshot,
                        row_id_start=next_row_id,
                        mapping=mapping,
                    )
                )
            )
        )
        next_row_id += file.record_count
    columns = change.after.tree
    for insert in data.inlined_inserts:
        count = insert.rows.num_rows
        row_ids = insert.row_ids
        if row_ids is None:
            row_ids = pa.array(range(next_row_id, next_row_id + count), pa.int64())
            next_row_id += count
        name = inlined_tables[table_id]
        if count:
            rows.statements.append(
                InsertInlinedRows(name, columns, row_ids, ids.snapshot, insert.rows)
            )
    if data.files:
        rows.changes.append(Change("inserted_into_table", table_id))
    if data.inlined_inserts:
        rows.changes.append(Change("inlined_insert", table_id))
    added = sum(file.record_count for file in data.files) + data.inlined_rows
    size = sum(file.file_size_bytes for file in data.files)
    new_stats = TableStatsRow(
        table_id=table_id,
        record_count=((stats.record_count or 0) if stats else 0) + added,
        next_row_id=next_row_id,
        file_size_bytes=((stats.file_size_bytes or 0) if stats else 0) + size,
    )
    rows.statements += _statistics(change, recorded, table_id, new_stats, columns)


def file_rows(
    file: WrittenFile,
    file_id: int,
    table_id: int,
    ids: CommitIds,
    *,
    begin_snapshot: int,
    row_id_start: int | None,
    mapping: int | None = None,
    partial_max: int | None = None,
) -> Iterator[DataFileRow | FileColumnStatsRow | FileVariantStatsRow | FilePartitionValueRow]:
    """Return the rows of a data file, its statistics and its partition values."""
    yield DataFileRow(
        data_file_id=file_id,
        table_id=table_id,
        begin_snapshot=begin_snapshot,
        end_snapshot=None,
        file_order=None,
        path=file.path,
        path_is_relative=file.path_is_relative,
        file_format="parquet",
        record_count=file.record_count,
        file_size_bytes=file.file_size_bytes,
        footer_size=file.footer_size,
        row_id_start=row_id_start,
        partition_id=None if file.partition_id is None else ids.object(file.partition_id),
        encryption_key=file.encryption_key,
        mapping_id=mapping,
        partial_max=partial_max,
    )
    for column in file.columns:
        yield FileColumnStatsRow(
            data_file_id=file_id,
            table_id=table_id,
            column_id=column.column_id,
            column_size_bytes=column.size_bytes,
            value_count=column.value_count,
            null_count=column.null_count,
            min_value=_without_nul(column.min_value),
            max_value=_without_nul(column.max_value),
            contains_nan=column.contains_nan,
            extra_stats=column.extra_stats,
        )
    paths = [(column, path) for column in file.columns for path in column.variant_paths]
    for column, path in paths:
        yield FileVariantStatsRow(
            data_file_id=file_id,
            table_id=table_id,
            column_id=column.column_id,
            variant_path=path.path,
            shredded_type=path.shredded_type,
            column_size_bytes=path.size_bytes,
            value_count=path.value_count,
            null_count=path.null_count,
            min_value=_without_nul(path.min_value),
            max_value=_without_nul(path.max_value),
            contains_nan=path.contains_nan,
            extra_stats=path.extra_stats,
        )
    if file.partition_id is not None:
        for index, value in enumerate(file.partition_values):
            yield FilePartitionValueRow(file_id, table_id, index, value)


def _without_nul(text: str | None) -> str | None:
    """Return a text that every database can store; None if it cannot."""
    return None if text is None or "\0" in text else text


def _statistics(
    change: TableChange,
    recorded: TableCommitState,
    table_id: int,
    stats: TableStatsRow,
    columns: tuple[Column, ...],
) -> Iterator[Statement]:
    """Write the totals and bounds as absolute values; the snapshot's key protects them."""
    nodes = {node.id: node for column in columns for node in column.walk()}
    data = change.data
    written = [*(file.columns for file in data.files), *(i.columns for i in data.inlined_inserts)]
    is_first = recorded.stats is None
    merged = merge_columns(
        table_id,
        recorded.column_stats,
        written,
        nodes,
        unknown=recorded.valued_columns,
        is_first=is_first,
    )
    if is_first:
        yield Insert((stats,))
    else:
        totals = {
            "record_count": stats.record_count,
            "next_row_id": stats.next_row_id,
            "file_size_bytes": stats.file_size_bytes,
        }
        yield Update(TableStatsRow, totals, {"table_id": table_id})
    new = tuple(row for id, row in sorted(merged.items()) if id not in recorded.column_stats)
    if new:
        yield Insert(new)
    for column_id, before in recorded.column_stats.items():
        row = merged[column_id]
        if row != before:
            values = {
                "contains_null": row.contains_null,
                "contains_nan": row.contains_nan,
                "min_value": row.min_value,
                "max_value": row.max_value,
                "extra_stats": row.extra_stats,
            }
            yield Update(
                TableColumnStatsRow, values, {"table_id": table_id, "column_id": column_id}
            )


def _name_mappings(
    rows: DataRows, change: TableChange, recorded: TableCommitState, ids: CommitIds
) -> dict[tuple[MappedColumn, ...], int]:
    """Return the mapping ids of added files; equal mappings are used again."""
    mappings = dict(recorded.mappings)
    table_id = ids.object(change.id)
    for file in change.data.files:
        names = file.name_mapping
        if names is None or names in mappings:
            continue
        mapping = mappings[names] = ids.allocate_file()
        rows.statements.append(Insert((ColumnMappingRow(mapping, table_id, "map_by_name"),)))
        rows.statements.append(Insert(tuple(_mapping_rows(mapping, names))))
    return mappings


def _mapping_rows(
    mapping: int, columns: tuple[MappedColumn, ...], parent: int | None = None, first: int = 0
) -> Iterator[NameMappingRow]:
    """Return the rows of a mapping; its nodes are numbered in pre-order."""
    number = first
    for column in columns:
        yield NameMappingRow(
            mapping,
            number,
            column.source_name,
            column.target_field_id,
            parent,
            column.is_partition,
        )
        below = list(_mapping_rows(mapping, column.children, number, number + 1))
        yield from below
        number += 1 + len(below)


def _deletes(rows: DataRows, change: TableChange, state: CommitState, ids: CommitIds) -> None:
    """Add delete files, end data files, and record inlined deletes of one table."""
    data, recorded = change.data, state.table(change.id)
    table_id = ids.object(change.id)
    if data.ended_files:
        keys = tuple((id,) for id in data.ended_files)
        rows.statements.append(EndRows(DataFileRow, ("data_file_id",), keys, ids.snapshot))
    replaced = []
    for file in data.delete_files:
        old = [
            row
            for row in recorded.delete_files.get(file.data_file_id, ())
            if row.delete_file_id == file.replaces
        ]
        replaced += old
        row = delete_file_row(file, ids.allocate_file(), table_id, file.data_file_id, ids)
        rows.statements.append(Insert((row,)))
    if replaced and change.before is not None:
        keys = tuple((row.delete_file_id,) for row in replaced)
        rows.statements.append(Delete(DeleteFileRow, ("delete_file_id",), keys))
        rows.statements.append(Insert(scheduled_rows(change.before, replaced, state)))
        # Clients of the reference detect a replaced delete file by an insert only: without it
        # they would add a second delete file to the data file (DuckDB 1.5.5, ducklake #1406).
        rows.changes.append(Change("inserted_into_table", table_id))
    if data.deletes_files_rows:
        rows.changes.append(Change("deleted_from_table", table_id))
    for ended in data.inlined_row_deletes:
        rows.statements.append(EndInlinedRows(ended.inlined_table, ended.row_ids, ids.snapshot))
    if data.inlined_deletes:
        rows.statements.append(CreateInlinedDeleteTable(table_id))
    for deletes in data.inlined_deletes:
        rows.statements.append(
            InsertInlinedDeletes(table_id, deletes.data_file_id, deletes.positions, ids.snapshot)
        )
    if data.deletes_inlined:
        rows.changes.append(Change("inlined_delete", table_id))


def delete_file_row(
    file: WrittenDeleteFile, file_id: int, table_id: int, data_file_id: int, ids: CommitIds
) -> DeleteFileRow:
    """Return the row of a delete file."""
    return DeleteFileRow(
        delete_file_id=file_id,
        table_id=table_id,
        begin_snapshot=ids.snapshot if file.begin_snapshot is None else file.begin_snapshot,
        end_snapshot=None,
        data_file_id=data_file_id,
        path=file.path,
        path_is_relative=file.path_is_relative,
        format=file.format,
        delete_count=file.delete_count,
        file_size_bytes=file.file_size_bytes,
        footer_size=file.footer_size,
        encryption_key=file.encryption_key,
        partial_max=ids.snapshot if file.embedded_snapshot is not None else file.last_snapshot,
    )


def scheduled_rows(
    table: TableDefinition, files: Iterable[DataFileRow | DeleteFileRow], state: CommitState
) -> tuple[ScheduledFileRow, ...]:
    """Return the rows that schedule files for deletion; paths begin at the lake's data path."""
    directory = table.path
    is_relative = table.path_is_relative
    if is_relative:
        directory = table.schema.path + table.path
        is_relative = table.schema.path_is_relative
    return tuple(
        ScheduledFileRow(
            data_file_id=row.data_file_id if isinstance(row, DataFileRow) else row.delete_file_id,
            path=directory + row.path if row.path_is_relative else row.path,
            path_is_relative=is_relative and bool(row.path_is_relative),
            schedule_start=state.time.strftime("%Y-%m-%d %H:%M:%S.%f+00"),
        )
        for row in files
    )
