"""The statements of `queries`: which columns of which tables of the catalog each of them reads.

Each statement is a union query: several selects that are sent as one; see `union_query`.
"""

from __future__ import annotations

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
    MacroImplRow,
    MacroParameterRow,
    MacroRow,
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
    "Exclusions",
    "FileCountRow",
    "FileQuery",
    "FirstSnapshotRow",
    "InlinedColumnRow",
    "InlinedDeleteRow",
    "InlinedDeleteTableRow",
    "PartitionExcludedRow",
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
TABLE_PARAMETER: Final = sa.bindparam("table_id", type_=sa.BigInteger)


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
class FileCountRow(QueryRow):
    """The number of files before any of them is excluded."""

    branch = "file_count"
    files: int


@dataclass(frozen=True, slots=True)
class PartitionExcludedRow(QueryRow):
    """The number of files that their partition values exclude."""

    branch = "partition_excluded"
    files: int


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
    """Add schemas, tables and views, with their tags, and macros."""
    for row in (SchemaRow, TableRow, ViewRow, TagRow, ViewColumnTagRow, MacroRow):
        query.add(row, t[row], t.visible(t[row], at))
    macro = t[MacroRow]
    macros = sa.select(macro.c.macro_id).where(t.visible(macro, at))
    for part in (MacroImplRow, MacroParameterRow):
        query.add(part, t[part], t[part].c.macro_id.in_(macros))


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


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Conditions in the database's SQL for files that no row of a scan can be in."""

    statistics: str | None = None
    """Over a row of `ducklake_file_column_stats`: the file has no matching row."""
    partition: str | None = None
    """Over a partition value, joined with its file: the file has no matching row."""

    def __bool__(self) -> bool:
        return bool(self.statistics or self.partition)


@dataclass(frozen=True, slots=True)
class FileQuery:
    """Which files of a table are read, and what about them."""

    statistics_columns: tuple[int, ...] = ()
    """The columns whose statistics are returned."""
    is_partitioned: bool = False
    inlined_delete_table: str | None = None
    changed: bool = False
    """Whether files are read in which rows were inserted or deleted since a snapshot."""
    exclusions: Exclusions = Exclusions()


def file_query(t: CatalogTables, wanted: FileQuery) -> UnionQuery:
    """Return a query for data files, their deletes, statistics and partition values.

    Statistics and partition values are branches with a row for each value, which are joined in
    Arrow: a database without indexes would join them by sorting.
    """
    query = at_snapshot(t, SNAPSHOT_PARAMETER)
    directory, data = t[InlinedDataTableRow], t[DataFileRow]
    query.add(InlinedDataTableRow, directory, directory.c.table_id == TABLE_PARAMETER)
    visible = _changed_since(data) if wanted.changed else t.visible(data, SNAPSHOT_PARAMETER)
    visible = sa.and_(data.c.table_id == TABLE_PARAMETER, visible)
    kept = sa.select(data.c.data_file_id).where(visible)
    if wanted.exclusions:
        kept = _without_excluded(query, t, kept, visible, wanted.exclusions)
    names = [name for name in column_types(DataFileRow) if name not in _UNUSED]
    columns: dict[str, Any] = {name: data.c[name] for name in (*names, "partial_file_info")}
    chosen = data.c.data_file_id.in_(kept) if wanted.exclusions else visible
    query.add_select("data_file", columns, data, chosen)
    stats = t[FileColumnStatsRow]
    query.add_select(
        "file_statistics",
        {name: _as_number(stats.c[name]) for name in ("data_file_id", "column_id", *_STATISTICS)},
        stats,
        stats.c.table_id == TABLE_PARAMETER,
        stats.c.column_id.in_(
            [sa.literal_column(str(int(column))) for column in wanted.statistics_columns]
        )
        if wanted.statistics_columns
        else sa.false(),
        stats.c.data_file_id.in_(kept),
    )
    values = t[FilePartitionValueRow]
    names = ["data_file_id", "partition_key_index", "partition_value"]
    query.add_select(
        "partition_value",
        {name: values.c[name] for name in names},
        values,
        values.c.table_id == TABLE_PARAMETER if wanted.is_partitioned else sa.false(),
        values.c.data_file_id.in_(kept),
    )
    _add_deletes(query, t, wanted, kept)
    return query


def _without_excluded(
    query: UnionQuery,
    t: CatalogTables,
    kept: sa.Select[Any],
    visible: ColumnElement[bool],
    exclusions: Exclusions,
) -> sa.Select[Any]:
    """Return the ids of the files that are not excluded; count those that are."""
    data = t[DataFileRow]
    count = sa.cast(sa.func.count(), sa.BigInteger)
    total = sa.select(count.label("files")).select_from(data).where(visible).subquery("total")
    query.add(FileCountRow, total)
    is_postgresql = t.database.kind == "postgresql"

    def excluded(ids: sa.Select[Any]) -> ColumnElement[bool]:
        # PostgreSQL joins by a hash; the other databases make an index of a list of ids.
        if is_postgresql:
            return sa.exists(ids.where(ids.selected_columns[0] == data.c.data_file_id))
        return data.c.data_file_id.in_(ids)

    if exclusions.partition:
        by_partition = excluded(_excluded_by_partition(t, exclusions.partition))
        source = sa.select(count.label("files")).select_from(data).where(visible, by_partition)
        query.add(PartitionExcludedRow, source.subquery("excluded"))
        kept = kept.where(~by_partition)
    if exclusions.statistics:
        kept = kept.where(~excluded(_excluded_by_statistics(t, exclusions.statistics)))
    return sa.select(kept.cte("kept").c.data_file_id)


def _excluded_by_statistics(t: CatalogTables, condition: str) -> sa.Select[Any]:
    stats = t[FileColumnStatsRow]
    return sa.select(stats.c.data_file_id).where(
        stats.c.table_id == TABLE_PARAMETER,
        stats.c.data_file_id.is_not(None),
        sa.text(condition),
    )


def _excluded_by_partition(t: CatalogTables, condition: str) -> sa.Select[Any]:
    """Return files by their partition values.

    DuckLake may record two partition values under one key. Then the value of that file is unknown.
    The partition values of an added file come from its folders; its rows may differ.
    """
    values, data = t[FilePartitionValueRow], t[DataFileRow]
    ids = (
        sa.select(values.c.data_file_id)
        .select_from(values.join(data, values.c.data_file_id == data.c.data_file_id))
        .where(
            values.c.table_id == TABLE_PARAMETER,
            data.c.table_id == TABLE_PARAMETER,
            data.c.mapping_id.is_(None),
        )
        .group_by(values.c.data_file_id, values.c.partition_key_index)
        .having(sa.func.count() == 1, sa.text(f"max(CASE WHEN {condition} THEN 1 ELSE 0 END) = 1"))
        .cte("excluded_by_partition")
    )
    return sa.select(ids.c.data_file_id)


def _add_deletes(
    query: UnionQuery, t: CatalogTables, wanted: FileQuery, kept: sa.Select[Any]
) -> None:
    deletes = t[DeleteFileRow]
    begun = deletes.c.begin_snapshot <= SNAPSHOT_PARAMETER
    visible = begun if wanted.changed else t.visible(deletes, SNAPSHOT_PARAMETER)
    of_kept = [deletes.c.data_file_id.in_(kept)] if wanted.exclusions else []
    query.add(DeleteFileRow, deletes, deletes.c.table_id == TABLE_PARAMETER, visible, *of_kept)
    if wanted.inlined_delete_table:
        rows = sa.table(
            wanted.inlined_delete_table,
            *(sa.column(name, sa.BigInteger) for name in column_types(InlinedDeleteRow)),
            schema=t.database.schema,
        )
        of_kept = [rows.c.file_id.in_(kept)] if wanted.exclusions else []
        query.add(InlinedDeleteRow, rows, rows.c.begin_snapshot <= SNAPSHOT_PARAMETER, *of_kept)


def _as_number(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return a truth value as a number; others unchanged."""
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


def same_name(t: CatalogTables, column: ColumnElement[str], parameter: str) -> ColumnElement[bool]:
    """Compare names without regard to ASCII case, as DuckDB does."""
    exact, lower = (
        sa.bindparam(name, type_=sa.String) for name in (parameter, f"{parameter}_lower")
    )
    if t.database.kind == "sqlite":
        # The same, and three times as fast in a catalog of many tables.
        return sa.collate(column, "NOCASE") == exact
    return sa.or_(column == exact, sa.func.lower(column) == lower)


def _changed_since(data: sa.FromClause) -> ColumnElement[bool]:
    """Match files whose rows may have been inserted or deleted between two snapshots."""
    from_snapshot = sa.bindparam("from_snapshot", type_=sa.BigInteger)
    end = data.c.end_snapshot
    return sa.and_(
        data.c.begin_snapshot <= SNAPSHOT_PARAMETER, sa.or_(end.is_(None), end >= from_snapshot)
    )
