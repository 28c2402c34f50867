"""The statements behind the questions of `queries`: what is read of which table of the catalog.

A bundle is several selects that travel as one statement; see `bundle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from lakeport.ducklake.metadata.catalog_tables import (
    CatalogTables,
    existing_columns,
    existing_tables,
)
from lakeport.ducklake.metadata.union_query import UnionQuery, portable
from lakeport.types import fold_name

__all__ = [
    "AT",
    "CHANGES",
    "COLUMN",
    "SNAPSHOT",
    "add_names",
    "at_snapshot",
    "file_query",
    "name_parameters",
    "same_name",
    "snapshot_id",
    "table_query",
]

SNAPSHOT = ("snapshot_id", "snapshot_time", "schema_version")
CHANGES = ("snapshot_id", "changes_made", "author", "commit_message", "commit_extra_info")
_VIEW = ("view_id", "schema_id", "view_name", "view_uuid", "dialect", "sql", "column_aliases")
COLUMN = (
    "column_id",
    "begin_snapshot",
    "end_snapshot",
    "column_order",
    "column_name",
    "column_type",
    "initial_default",
    "default_value",
    "nulls_allowed",
    "parent_column",
    "default_value_type",
)
_FILE = (
    "data_file_id",
    "path",
    "path_is_relative",
    "record_count",
    "file_size_bytes",
    "footer_size",
    "begin_snapshot",
    "end_snapshot",
    "row_id_start",
    "partition_id",
    "mapping_id",
    "encryption_key",
    "partial_max",
    "partial_file_info",
    "file_format",
)
_DELETE = (
    "delete_file_id",
    "data_file_id",
    "path",
    "path_is_relative",
    "format",
    "delete_count",
    "file_size_bytes",
    "footer_size",
    "begin_snapshot",
    "end_snapshot",
    "encryption_key",
    "partial_max",
)
_STATS = ("value_count", "null_count", "min_value", "max_value", "contains_nan")

AT: Final = sa.bindparam("at", type_=sa.BigInteger)


def snapshot_id(t: CatalogTables, version: int | None) -> ColumnElement[int]:
    """The parameter of a version, or the newest snapshot."""
    if version is not None:
        return AT
    newest = sa.func.max(t["snapshot"].c.snapshot_id).label("snapshot_id")
    return sa.select(sa.select(newest).cte("newest").c.snapshot_id).scalar_subquery()


def at_snapshot(t: CatalogTables, at: ColumnElement[int]) -> UnionQuery:
    """A bundle that begins with the row of its snapshot."""
    bundle = UnionQuery()
    snapshot = t["snapshot"]
    bundle.add("snapshot", snapshot, SNAPSHOT, snapshot.c.snapshot_id == at)
    return bundle


def add_names(bundle: UnionQuery, t: CatalogTables, at: ColumnElement[int]) -> None:
    """Schemas, tables and views, with their tags."""
    for kind, columns in (
        ("schema", ("schema_id", "schema_name", "schema_uuid")),
        ("table", ("table_id", "schema_id", "table_name", "table_uuid")),
        ("view", _VIEW),
        ("tag", ("object_id", "key", "value")),
        ("view_column_tag", ("view_id", "column_name", "key", "value")),
    ):
        source = t[kind]
        bundle.add(kind, source, columns, t.visible(source, at))


def table_query(
    t: CatalogTables,
    at: ColumnElement[int],
    is_it: ColumnElement[bool],
    schema_is_it: ColumnElement[bool],
) -> UnionQuery:
    """Everything about one table except its files."""
    bundle = at_snapshot(t, at)
    named = t["table"].join(t["schema"], t["table"].c.schema_id == t["schema"].c.schema_id)
    schema_is_it = sa.and_(schema_is_it, t.visible(t["schema"], at))
    is_it = sa.and_(is_it, t.visible(t["table"], at), t.visible(t["schema"], at))
    chosen = sa.select(t["table"].c.table_id).select_from(named).where(is_it).cte("chosen")
    ids = sa.select(chosen.c.table_id)
    path = ("path", "path_is_relative")
    bundle.add("metadata", t["metadata"], ("key", "value", "scope", "scope_id"))
    bundle.add("schema", t["schema"], ("schema_id", "schema_name", *path), schema_is_it)
    columns = ("table_id", "schema_id", "table_name", "table_uuid", *path)
    bundle.add("table", t["table"], columns, is_it, joined=named)
    bundle.add("column", t["column"], COLUMN, t["column"].c.table_id.in_(ids))
    _add_details(bundle, t, ids)
    return bundle


def _add_details(bundle: UnionQuery, t: CatalogTables, ids: sa.Select[Any]) -> None:
    """The details of a table, whose id is a subquery."""
    validity = ("begin_snapshot", "end_snapshot")
    bundle.add("tag", t["tag"], ("key", "value", *validity), t["tag"].c.object_id.in_(ids))
    for kind, columns in (
        ("column_tag", ("column_id", "key", "value", *validity)),
        ("partition_info", ("partition_id", *validity)),
        ("partition_column", ("partition_id", "partition_key_index", "column_id", "transform")),
        ("sort_info", ("sort_id", *validity)),
        (
            "sort_expression",
            (
                "sort_id",
                "sort_key_index",
                "expression",
                "dialect",
                "sort_direction",
                "null_order",
            ),
        ),
        ("table_stats", ("record_count", "next_row_id", "file_size_bytes")),
        (
            "table_column_stats",
            (
                "column_id",
                "contains_null",
                "contains_nan",
                "min_value",
                "max_value",
                "extra_stats",
            ),
        ),
        ("schema_versions", ("begin_snapshot", "schema_version")),
        ("inlined_data_tables", ("table_name", "schema_version")),
    ):
        bundle.add(kind, t[kind], columns, t[kind].c.table_id.in_(ids))
    mapping, names = t["column_mapping"], t["name_mapping"]
    bundle.add(
        "name_mapping",
        names,
        (
            "mapping_id",
            "column_id",
            "source_name",
            "target_field_id",
            "parent_column",
            "is_partition",
        ),
        names.c.mapping_id.in_(sa.select(mapping.c.mapping_id).where(mapping.c.table_id.in_(ids))),
    )
    _add_inlined(bundle, t, ids)


def _add_inlined(bundle: UnionQuery, t: CatalogTables, ids: sa.Select[Any]) -> None:
    """Which tables hold the rows and deletes that the catalog database keeps itself."""
    existing = existing_tables(t.database)
    chosen = ids.subquery("named")
    wanted = sa.literal("ducklake_inlined_delete_").concat(sa.cast(chosen.c.table_id, sa.String()))
    bundle.add(
        "inlined_delete",
        existing,
        ("table_name",),
        existing.c.table_name.in_(sa.select(wanted)),
    )
    columns_now, directory = existing_columns(t.database), t["inlined_data_tables"]
    bundle.add(
        "inlined_column",
        columns_now,
        ("table_name", "column_name", "position", "data_type"),
        columns_now.c.table_name.in_(
            sa.select(directory.c.table_name).where(directory.c.table_id.in_(ids))
        ),
    )
    versions = t["snapshot"]
    # A version that a transaction passed through has no snapshot; the next newer one fits it.
    first = (
        sa.select(
            directory.c.schema_version, sa.func.min(versions.c.snapshot_id).label("snapshot_id")
        )
        .where(
            directory.c.table_id.in_(ids), versions.c.schema_version >= directory.c.schema_version
        )
        .group_by(directory.c.schema_version)
        .subquery("first_snapshot")
    )
    bundle.add("first_snapshot", first, ("schema_version", "snapshot_id"))


def file_query(
    t: CatalogTables,
    statistics_columns: Sequence[int],
    partition_keys: int,
    inlined_delete_table: str | None,
    *,
    from_snapshot: bool,
) -> UnionQuery:
    """Data files with their deletes, and if asked for their statistics and partition values."""
    table_id = sa.bindparam("table_id", type_=sa.BigInteger)
    bundle = at_snapshot(t, AT)
    directory = t["inlined_data_tables"]
    bundle.add("inlined_data_tables", directory, ("table_name",), directory.c.table_id == table_id)
    data = t["data_file"]
    columns: dict[str, Any] = {name: data.c[name] for name in _FILE}
    source: Any = data
    for column_id in statistics_columns:
        stats = t["file_column_stats"]
        mine = sa.and_(stats.c.table_id == table_id, stats.c.column_id == column_id)
        only = _only_row(stats, _STATS, mine, f"s{column_id}")
        source = source.outerjoin(only, only.c.data_file_id == data.c.data_file_id)
        columns |= {f"s{column_id}_{name}": only.c[name] for name in ("data_file_id", *_STATS)}
    for index in range(partition_keys):
        values = t["file_partition_value"]
        mine = sa.and_(values.c.table_id == table_id, values.c.partition_key_index == index)
        only = _only_row(values, ("partition_value",), mine, f"p{index}")
        source = source.outerjoin(only, only.c.data_file_id == data.c.data_file_id)
        columns[f"p{index}"] = only.c.partition_value
    visible = _changed_since(data) if from_snapshot else t.visible(data, AT)
    bundle.add_select("data_file", columns, source, data.c.table_id == table_id, visible)
    deletes = t["delete_file"]
    visible = deletes.c.begin_snapshot <= AT if from_snapshot else t.visible(deletes, AT)
    bundle.add("delete_file", deletes, _DELETE, deletes.c.table_id == table_id, visible)
    if inlined_delete_table:
        names = ("file_id", "row_id", "begin_snapshot")
        rows = sa.table(
            inlined_delete_table,
            *(sa.column(name, sa.BigInteger) for name in names),
            schema=t.database.schema,
        )
        bundle.add("inlined_delete", rows, names, rows.c.begin_snapshot <= AT)
    return bundle


def _only_row(
    source: sa.FromClause, names: Sequence[str], mine: ColumnElement[bool], alias: str
) -> sa.Subquery:
    """What a table records of each file, at most one row a file.

    The real writer may record two partition values under one key: then neither is known, and the
    file must not be read twice.
    """
    values = [sa.func.max(_as_number(source.c[name])).label(name) for name in names]
    return (
        sa.select(source.c.data_file_id, *values)
        .where(mine)
        .group_by(source.c.data_file_id)
        .having(sa.func.count() == 1)
        .subquery(alias)
    )


def _as_number(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """A truth value as a number, of which every database finds the greatest; others as they are."""
    is_flag = isinstance(column.type, sa.Boolean)
    return sa.cast(portable(column), sa.BigInteger) if is_flag else column


def name_parameters(schema: str, name: str) -> dict[str, str]:
    """The parameters of `same_name` for a schema and a table."""
    return {
        "schema": schema,
        "schema_lower": fold_name(schema),
        "name": name,
        "name_lower": fold_name(name),
    }


def same_name(column: ColumnElement[str], parameter: str) -> ColumnElement[bool]:
    """Names are compared without regard to ASCII case, as DuckDB does."""
    exact, lower = (
        sa.bindparam(name, type_=sa.String) for name in (parameter, f"{parameter}_lower")
    )
    return sa.or_(column == exact, sa.func.lower(column) == lower)


def _changed_since(data: sa.FromClause) -> ColumnElement[bool]:
    """Files whose rows may have been inserted or deleted between two snapshots."""
    from_snapshot = sa.bindparam("from_snapshot", type_=sa.BigInteger)
    end = data.c.end_snapshot
    return sa.and_(data.c.begin_snapshot <= AT, sa.or_(end.is_(None), end >= from_snapshot))
