"""The statements of `queries`: which columns of which tables of the catalog each of them reads.

Each statement is a union query: several selects that are sent as one; see `union_query`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from lakeport.ducklake.metadata.catalog_tables import (
    CatalogTables,
    existing_columns,
    existing_tables,
)
from lakeport.ducklake.metadata.rows import (
    CatalogRow,
    ColumnMappingRow,
    ColumnRow,
    ColumnTagRow,
    DataFileRow,
    DeleteFileRow,
    FileColumnStatsRow,
    FilePartitionValueRow,
    InlinedDataTableRow,
    MetadataRow,
    NameMappingRow,
    PartitionColumnRow,
    PartitionInfoRow,
    QueryRow,
    SchemaRow,
    SchemaVersionRow,
    SnapshotRow,
    SortExpressionRow,
    SortInfoRow,
    TableColumnStatsRow,
    TableRow,
    TableStatsRow,
    TagRow,
    ViewColumnTagRow,
    ViewRow,
    column_types,
)
from lakeport.ducklake.metadata.union_query import UnionQuery, portable
from lakeport.types import fold_name

__all__ = [
    "SNAPSHOT_PARAMETER",
    "FirstSnapshotRow",
    "InlinedColumnRow",
    "InlinedDeleteRow",
    "InlinedDeleteTableRow",
    "add_listing",
    "at_snapshot",
    "file_query",
    "name_parameters",
    "same_name",
    "snapshot_id",
    "table_query",
]

# Columns of a data file that the file query does not need.
_UNUSED: Final = frozenset({"table_id", "file_order"})
_STATISTICS = ("value_count", "null_count", "min_value", "max_value", "contains_nan")
# Everything about a table except its files.
_DETAILS: Final[tuple[type[CatalogRow], ...]] = (
    ColumnTagRow,
    PartitionInfoRow,
    PartitionColumnRow,
    SortInfoRow,
    SortExpressionRow,
    TableStatsRow,
    TableColumnStatsRow,
    SchemaVersionRow,
    InlinedDataTableRow,
)

SNAPSHOT_PARAMETER: Final = sa.bindparam("at", type_=sa.BigInteger)


@dataclass(frozen=True, slots=True)
class InlinedDeleteTableRow(QueryRow):
    """The table with the inlined deletes of a table, if it exists."""

    branch = "inlined_delete_table"
    table_name: str


@dataclass(frozen=True, slots=True)
class InlinedDeleteRow(QueryRow):
    """A row of a table with inlined deletes: a deleted position of a data file."""

    branch = "inlined_delete"
    file_id: int
    row_id: int
    begin_snapshot: int


@dataclass(frozen=True, slots=True)
class InlinedColumnRow(QueryRow):
    """A column of a table with inlined rows, as the database describes it."""

    branch = "inlined_column"
    table_name: str
    column_name: str
    position: int
    data_type: str


@dataclass(frozen=True, slots=True)
class FirstSnapshotRow(QueryRow):
    """The first snapshot at or after a schema version."""

    branch = "first_snapshot"
    schema_version: int
    snapshot_id: int


def snapshot_id(t: CatalogTables, version: int | None) -> ColumnElement[int]:
    """Return the parameter of a version, or a query for the newest snapshot."""
    if version is not None:
        return SNAPSHOT_PARAMETER
    newest = sa.func.max(t[SnapshotRow].c.snapshot_id).label("snapshot_id")
    return sa.select(sa.select(newest).cte("newest").c.snapshot_id).scalar_subquery()


def at_snapshot(t: CatalogTables, at: ColumnElement[int]) -> UnionQuery:
    """Return a query that begins with the row of its snapshot."""
    query = UnionQuery()
    snapshot = t[SnapshotRow]
    query.add(SnapshotRow, snapshot, snapshot.c.snapshot_id == at)
    return query


def add_listing(query: UnionQuery, t: CatalogTables, at: ColumnElement[int]) -> None:
    """Add schemas, tables and views, with their tags."""
    for row in (SchemaRow, TableRow, ViewRow, TagRow, ViewColumnTagRow):
        query.add(row, t[row], t.visible(t[row], at))


def table_query(
    t: CatalogTables,
    at: ColumnElement[int],
    matches: ColumnElement[bool],
    schema_matches: ColumnElement[bool],
) -> UnionQuery:
    """Return a query for everything about one table except its files."""
    query = at_snapshot(t, at)
    table, schema, column, tag = t[TableRow], t[SchemaRow], t[ColumnRow], t[TagRow]
    joined = table.join(schema, table.c.schema_id == schema.c.schema_id)
    schema_matches = sa.and_(schema_matches, t.visible(schema, at))
    matches = sa.and_(matches, t.visible(table, at), t.visible(schema, at))
    matching = sa.select(table.c.table_id).select_from(joined).where(matches).cte("chosen")
    ids = sa.select(matching.c.table_id)
    query.add(MetadataRow, t[MetadataRow])
    query.add(SchemaRow, schema, schema_matches)
    query.add(TableRow, table, matches, joined=joined)
    query.add(ColumnRow, column, column.c.table_id.in_(ids))
    query.add(TagRow, tag, tag.c.object_id.in_(ids))
    for row in _DETAILS:
        query.add(row, t[row], t[row].c.table_id.in_(ids))
    mapping, names = t[ColumnMappingRow], t[NameMappingRow]
    mapping_ids = sa.select(mapping.c.mapping_id).where(mapping.c.table_id.in_(ids))
    query.add(NameMappingRow, names, names.c.mapping_id.in_(mapping_ids))
    _add_inlined(query, t, ids)
    return query


def _add_inlined(query: UnionQuery, t: CatalogTables, ids: sa.Select[Any]) -> None:
    """Add the tables that hold inlined rows and inlined deletes."""
    existing = existing_tables(t.database)
    matching = ids.subquery("named")
    name = sa.literal("ducklake_inlined_delete_").concat(sa.cast(matching.c.table_id, sa.String()))
    query.add(InlinedDeleteTableRow, existing, existing.c.table_name.in_(sa.select(name)))
    columns, directory = existing_columns(t.database), t[InlinedDataTableRow]
    names = sa.select(directory.c.table_name).where(directory.c.table_id.in_(ids))
    query.add(InlinedColumnRow, columns, columns.c.table_name.in_(names))
    snapshots = t[SnapshotRow]
    # A version inside a transaction has no snapshot of its own; the next newer snapshot fits it.
    first = (
        sa.select(
            directory.c.schema_version, sa.func.min(snapshots.c.snapshot_id).label("snapshot_id")
        )
        .where(
            directory.c.table_id.in_(ids), snapshots.c.schema_version >= directory.c.schema_version
        )
        .group_by(directory.c.schema_version)
        .subquery("first_snapshot")
    )
    query.add(FirstSnapshotRow, first)


def file_query(
    t: CatalogTables,
    statistics_columns: Sequence[int],
    partition_keys: int,
    inlined_delete_table: str | None,
    *,
    changed: bool,
) -> UnionQuery:
    """Return a query for data files with their deletes, statistics and partition values.

    Rows of data files are dictionaries: their columns depend on the filter (`s1_min_value`) and on
    the partitioning (`p0`), and DuckDB reads them as a table of files.
    """
    table_id = sa.bindparam("table_id", type_=sa.BigInteger)
    query = at_snapshot(t, SNAPSHOT_PARAMETER)
    directory = t[InlinedDataTableRow]
    query.add(InlinedDataTableRow, directory, directory.c.table_id == table_id)
    data = t[DataFileRow]
    names = [name for name in column_types(DataFileRow) if name not in _UNUSED]
    columns: dict[str, Any] = {name: data.c[name] for name in (*names, "partial_file_info")}
    source: Any = data
    for column_id in statistics_columns:
        stats = t[FileColumnStatsRow]
        condition = sa.and_(stats.c.table_id == table_id, stats.c.column_id == column_id)
        only = _only_row(stats, _STATISTICS, condition, f"s{column_id}")
        source = source.outerjoin(only, only.c.data_file_id == data.c.data_file_id)
        columns |= {f"s{column_id}_{name}": only.c[name] for name in ("data_file_id", *_STATISTICS)}
    for index in range(partition_keys):
        values = t[FilePartitionValueRow]
        condition = sa.and_(values.c.table_id == table_id, values.c.partition_key_index == index)
        only = _only_row(values, ("partition_value",), condition, f"p{index}")
        source = source.outerjoin(only, only.c.data_file_id == data.c.data_file_id)
        columns[f"p{index}"] = only.c.partition_value
    visible = _changed_since(data) if changed else t.visible(data, SNAPSHOT_PARAMETER)
    query.add_select("data_file", columns, source, data.c.table_id == table_id, visible)
    deletes = t[DeleteFileRow]
    begun = deletes.c.begin_snapshot <= SNAPSHOT_PARAMETER
    visible = begun if changed else t.visible(deletes, SNAPSHOT_PARAMETER)
    query.add(DeleteFileRow, deletes, deletes.c.table_id == table_id, visible)
    if inlined_delete_table:
        rows = sa.table(
            inlined_delete_table,
            *(sa.column(name, sa.BigInteger) for name in column_types(InlinedDeleteRow)),
            schema=t.database.schema,
        )
        query.add(InlinedDeleteRow, rows, rows.c.begin_snapshot <= SNAPSHOT_PARAMETER)
    return query


def _only_row(
    source: sa.FromClause, names: Sequence[str], condition: ColumnElement[bool], alias: str
) -> sa.Subquery:
    """Return the rows of a table about files, without those of files that have several.

    DuckLake may record two partition values under one key. Then the value of that file is unknown,
    and the join must not return the file twice.
    """
    values = [sa.func.max(_as_number(source.c[name])).label(name) for name in names]
    return (
        sa.select(source.c.data_file_id, *values)
        .where(condition)
        .group_by(source.c.data_file_id)
        .having(sa.func.count() == 1)
        .subquery(alias)
    )


def _as_number(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return a truth value as a number, for which every database has max(); others unchanged."""
    is_flag = isinstance(column.type, sa.Boolean)
    return sa.cast(portable(column), sa.BigInteger) if is_flag else column


def name_parameters(schema: str, name: str) -> dict[str, str]:
    """Return the parameters of `same_name` for a schema and a table."""
    return {
        "schema": schema,
        "schema_lower": fold_name(schema),
        "name": name,
        "name_lower": fold_name(name),
    }


def same_name(column: ColumnElement[str], parameter: str) -> ColumnElement[bool]:
    """Compare names without regard to ASCII case, as DuckDB does."""
    exact, lower = (
        sa.bindparam(name, type_=sa.String) for name in (parameter, f"{parameter}_lower")
    )
    return sa.or_(column == exact, sa.func.lower(column) == lower)


def _changed_since(data: sa.FromClause) -> ColumnElement[bool]:
    """Match files whose rows may have been inserted or deleted between two snapshots."""
    from_snapshot = sa.bindparam("from_snapshot", type_=sa.BigInteger)
    end = data.c.end_snapshot
    return sa.and_(
        data.c.begin_snapshot <= SNAPSHOT_PARAMETER, sa.or_(end.is_(None), end >= from_snapshot)
    )
