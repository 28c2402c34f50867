"""The state that a commit reads inside its transaction: of the touched tables only, in few queries.

Everything here was read after the lock was taken, so it is what the new snapshot follows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeVar

import sqlalchemy as sa

from lakeport.ducklake.metadata.queries import CatalogReader
from lakeport.ducklake.metadata.rows import (
    ColumnMappingRow,
    ColumnRow,
    DataFileRow,
    DeleteFileRow,
    FileColumnStatsRow,
    InlinedDataTableRow,
    MetadataRow,
    NameMappingRow,
    PartitionInfoRow,
    SnapshotChangesRow,
    SnapshotRow,
    TableColumnStatsRow,
    TableRow,
    TableStatsRow,
    VersionedRow,
)
from lakeport.ducklake.metadata.union_query import QueryResult, UnionQuery
from lakeport.ducklake.snapshots import parse_catalog_timestamp
from lakeport.ducklake.writing.change_set import ChangeSet, DataChanges, TableChange
from lakeport.ducklake.writing.database import CatalogWriter
from lakeport.ducklake.writing.rows.changes_made import parse_changes
from lakeport.ducklake.writing.written import MappedColumn
from lakeport.errors import CorruptLakeError

__all__ = ["CommitState", "TableCommitState", "read_state"]

_NO_TABLE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommitState:
    """What the catalog records now about a table that the commit touches."""

    table: TableRow | None = None
    """The table's row; None if the table has been dropped."""
    stats: TableStatsRow | None = None
    column_stats: Mapping[int, TableColumnStatsRow] = field(default_factory=dict)
    valued_columns: frozenset[int] = frozenset()
    """Columns without bounds that have values: their bounds are unknown and stay so."""
    inlined_tables: tuple[InlinedDataTableRow, ...] = ()
    """In the order of their schema versions."""
    data_files: Mapping[int, DataFileRow] = field(default_factory=dict)
    """Those of the touched data files that are valid now."""
    delete_files: Mapping[int, tuple[DeleteFileRow, ...]] = field(default_factory=dict)
    """The valid delete files of the touched data files."""
    inlined_deletes: Mapping[int, int] = field(default_factory=dict)
    """The number of inlined deletes of each touched data file."""
    mappings: Mapping[tuple[MappedColumn, ...], int] = field(default_factory=dict)
    columns: tuple[ColumnRow, ...] | None = None
    """The columns, read only if another transaction has altered the table."""
    partition_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitState:
    """What the catalog records when the commit begins."""

    latest: SnapshotRow
    time: datetime
    """The time of the new snapshot, which is after that of the latest one."""
    since_base: tuple[SnapshotChangesRow, ...]
    """The changes of every snapshot after the base of the transaction."""
    missing: tuple[int, ...] = ()
    """Snapshots after the base that have been expired."""
    tables: Mapping[int, TableCommitState] = field(default_factory=dict)
    metadata: Mapping[tuple[int, str], str] = field(default_factory=dict)
    """The values of the metadata entries of the commit, by table and key."""
    has_prefix: bool = False
    """The format of the lake is 1.1: tables for inlined rows have prefixed columns."""

    def table(self, table_id: int) -> TableCommitState:
        """Return the state of a table; an empty one for a table that is created."""
        return self.tables.get(table_id, TableCommitState())


def read_state(writer: CatalogWriter, catalog: CatalogReader, changes: ChangeSet) -> CommitState:
    """Read the latest snapshot, the changes since the base, and the state of touched tables."""
    touched = [change for change in changes.tables if change.before is not None]
    # Most commits touch one table, whose state is read by the same query.
    first = touched[0].id if touched else _NO_TABLE
    rows = catalog.run(
        writer.connection,
        "commit_state",
        lambda: _state_query(catalog),
        base=changes.base,
        table_id=first,
    )
    snapshots = {row.snapshot_id: row for row in rows[SnapshotRow]}
    if not snapshots:
        raise CorruptLakeError("the catalog has no snapshot at or after the base of a transaction")
    latest = snapshots[max(snapshots)]
    previous = parse_catalog_timestamp(latest.snapshot_time)
    after_base = range(changes.base + 1, latest.snapshot_id + 1)
    altered = {
        change.id
        for row in rows[SnapshotChangesRow]
        for change in parse_changes(row.changes_made)
        if change.keyword == "altered_table"
    }
    tables = {}
    for change in touched:
        found = rows if change.id == first else _table_rows(writer, catalog, change.id)
        is_altered = change.id in altered
        tables[change.id] = _table_state(writer, change, found, is_altered=is_altered)
    return CommitState(
        latest=latest,
        time=max(writer.now, previous + timedelta(microseconds=1)),
        since_base=tuple(rows[SnapshotChangesRow]),
        missing=tuple(id for id in after_base if id not in snapshots),
        tables=tables,
        metadata=_metadata(writer, changes),
        has_prefix=not catalog.version.startswith(("0.", "1.0")),
    )


def _metadata(writer: CatalogWriter, changes: ChangeSet) -> dict[tuple[int, str], str]:
    keys = {(entry.table_id, entry.key) for entry in changes.metadata}
    rows = writer.select(MetadataRow, ["key"], [(key,) for key in sorted({k for _, k in keys})])
    return {
        (row.scope_id, row.key): row.value
        for row in rows
        if row.scope == "table" and row.scope_id is not None and (row.scope_id, row.key) in keys
    }


def _state_query(catalog: CatalogReader) -> UnionQuery:
    base = sa.bindparam("base", type_=sa.BigInteger)
    query = UnionQuery()
    snapshot, changes = catalog.tables[SnapshotRow], catalog.tables[SnapshotChangesRow]
    query.add(SnapshotRow, snapshot, snapshot.c.snapshot_id >= base)
    query.add(SnapshotChangesRow, changes, changes.c.snapshot_id > base)
    _add_table(query, catalog)
    return query


def _table_query(catalog: CatalogReader) -> UnionQuery:
    query = UnionQuery()
    _add_table(query, catalog)
    return query


def _add_table(query: UnionQuery, catalog: CatalogReader) -> None:
    table_id = sa.bindparam("table_id", type_=sa.BigInteger)
    table = catalog.tables[TableRow]
    query.add(TableRow, table, table.c.table_id == table_id, table.c.end_snapshot.is_(None))
    for row in (TableStatsRow, TableColumnStatsRow, InlinedDataTableRow):
        source = catalog.tables[row]
        query.add(row, source, source.c.table_id == table_id)


def _table_rows(writer: CatalogWriter, catalog: CatalogReader, table_id: int) -> QueryResult:
    return catalog.run(
        writer.connection, "commit_table", lambda: _table_query(catalog), table_id=table_id
    )


def _table_state(
    writer: CatalogWriter,
    change: TableChange,
    rows: QueryResult,
    *,
    is_altered: bool,
) -> TableCommitState:
    table_id, data = change.id, change.data
    touched = {
        *(read.data_file_id for read in data.read),
        *(file.data_file_id for file in data.delete_files),
        *(deletes.data_file_id for deletes in data.inlined_deletes),
        *data.ended_files,
    }
    if change.compaction is not None:
        touched |= {read.data_file_id for read in change.compaction.sources}
    keys = [(id,) for id in sorted(touched)]
    key = (["table_id"], [(table_id,)])
    files = writer.select(DataFileRow, ["data_file_id"], keys)
    deletes: dict[int, tuple[DeleteFileRow, ...]] = {}
    for delete in writer.select(DeleteFileRow, ["data_file_id"], keys):
        if delete.end_snapshot is None:
            deletes[delete.data_file_id] = (*deletes.get(delete.data_file_id, ()), delete)
    return TableCommitState(
        table=next(iter(rows[TableRow]), None),
        stats=next(iter(rows[TableStatsRow]), None),
        column_stats={row.column_id: row for row in rows[TableColumnStatsRow]},
        valued_columns=_valued_columns(
            writer, change, rows[TableColumnStatsRow], rows[InlinedDataTableRow]
        ),
        inlined_tables=tuple(sorted(rows[InlinedDataTableRow], key=lambda r: r.schema_version)),
        data_files={row.data_file_id: row for row in files if row.end_snapshot is None},
        delete_files=deletes,
        inlined_deletes=_inlined_deletes(writer, table_id, sorted(touched)),
        mappings=_mappings(writer, table_id, data),
        columns=_current(writer.select(ColumnRow, *key)) if is_altered else None,
        partition_id=next(
            (row.partition_id for row in _current(writer.select(PartitionInfoRow, *key))), None
        )
        if is_altered
        else None,
    )


def _valued_columns(
    writer: CatalogWriter,
    change: TableChange,
    stats: list[TableColumnStatsRow],
    inlined: list[InlinedDataTableRow],
) -> frozenset[int]:
    """Return the columns without bounds that have values already.

    The reference takes them for empty and records the bounds of the next file as those of the
    table, which is wrong if the bounds were unknown (DuckDB 1.5.5).
    """
    data = change.data
    written = [*(file.columns for file in data.files), *(i.columns for i in data.inlined_inserts)]
    bounded = {c.column_id for columns in written for c in columns if c.min_value is not None}
    unbounded = {
        row.column_id
        for row in stats
        if row.min_value is None and row.max_value is None and row.extra_stats is None
    } & bounded
    if not unbounded:
        return frozenset()
    keys = [(change.id, id) for id in sorted(unbounded)]
    found = {
        row.column_id
        for row in writer.select(FileColumnStatsRow, ["table_id", "column_id"], keys)
        if row.value_count != 0
    }
    for table in sorted(inlined, key=lambda row: row.schema_version)[:-1]:
        # Columns of an older table may have other names: any row of it may have a value.
        if unbounded - found and writer.count(table.table_name):
            return frozenset(unbounded)
    if inlined and change.before is not None:
        newest = max(inlined, key=lambda row: row.schema_version).table_name
        for column in change.before.tree:
            nodes = {node.id for node in column.walk()} & unbounded - found
            if nodes and writer.count(newest, column.name):
                found |= nodes
    return frozenset(found)


V = TypeVar("V", bound=VersionedRow)


def _current(rows: list[V]) -> tuple[V, ...]:
    return tuple(row for row in rows if row.end_snapshot is None)


def _inlined_deletes(writer: CatalogWriter, table_id: int, files: list[int]) -> dict[int, int]:
    name = f"ducklake_inlined_delete_{table_id}"
    if not files or not writer.table_exists(name):
        return {}
    table = writer.dialect.table(writer.database.schema, name)
    sql = f"SELECT file_id, count(*) FROM {table} GROUP BY file_id"
    wanted = set(files)
    return {row[0]: row[1] for row in writer.execute(sql).all() if row[0] in wanted}


def _mappings(
    writer: CatalogWriter, table_id: int, data: DataChanges
) -> dict[tuple[MappedColumn, ...], int]:
    """Return the name mappings of a table, if files of the commit need one."""
    if all(file.name_mapping is None for file in data.files):
        return {}
    known = writer.select(ColumnMappingRow, ["table_id"], [(table_id,)])
    children: dict[tuple[int, int | None], list[NameMappingRow]] = defaultdict(list)
    keys = [(row.mapping_id,) for row in known]
    names = writer.select(NameMappingRow, ["mapping_id"], keys)
    for row in sorted(names, key=lambda row: row.column_id):
        children[(row.mapping_id, row.parent_column)].append(row)

    def build(mapping: int, parent: int | None) -> tuple[MappedColumn, ...]:
        return tuple(
            MappedColumn(
                source_name=row.source_name,
                target_field_id=row.target_field_id,
                is_partition=bool(row.is_partition),
                children=build(mapping, row.column_id),
            )
            for row in children.get((mapping, parent), ())
        )

    return {build(row.mapping_id, None): row.mapping_id for row in known}
