"""The `ducklake_*` tables as SQLAlchemy sees them, whatever format version wrote them.

The columns a catalog really has are probed once. A column that its version lacks reads as NULL and
a table that its version lacks reads as empty, so one set of queries serves every version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from lakeport.ducklake.metadata.database import Database

__all__ = ["CatalogTables", "existing_columns", "existing_tables", "probe_statement"]

NUMBER: Final = sa.BigInteger()
FLAG: Final = sa.Boolean()
TEXT: Final = sa.Text()

_VALIDITY = {"begin_snapshot": NUMBER, "end_snapshot": NUMBER}
_PATH = {"path": TEXT, "path_is_relative": FLAG}

TABLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "metadata": {"key": TEXT, "value": TEXT, "scope": TEXT, "scope_id": NUMBER},
    "snapshot": {"snapshot_id": NUMBER, "snapshot_time": TEXT, "schema_version": NUMBER},
    "snapshot_changes": {
        "snapshot_id": NUMBER,
        "changes_made": TEXT,
        "author": TEXT,
        "commit_message": TEXT,
        "commit_extra_info": TEXT,
    },
    "schema_versions": {"begin_snapshot": NUMBER, "schema_version": NUMBER, "table_id": NUMBER},
    "schema": {"schema_id": NUMBER, "schema_uuid": TEXT, **_VALIDITY, "schema_name": TEXT, **_PATH},
    "table": {
        "table_id": NUMBER,
        "table_uuid": TEXT,
        **_VALIDITY,
        "schema_id": NUMBER,
        "table_name": TEXT,
        **_PATH,
    },
    "view": {
        "view_id": NUMBER,
        "view_uuid": TEXT,
        **_VALIDITY,
        "schema_id": NUMBER,
        "view_name": TEXT,
        "dialect": TEXT,
        "sql": TEXT,
        "column_aliases": TEXT,
    },
    "column": {
        "column_id": NUMBER,
        **_VALIDITY,
        "table_id": NUMBER,
        "column_order": NUMBER,
        "column_name": TEXT,
        "column_type": TEXT,
        "initial_default": TEXT,
        "default_value": TEXT,
        "nulls_allowed": FLAG,
        "parent_column": NUMBER,
        "default_value_type": TEXT,
    },
    "tag": {"object_id": NUMBER, **_VALIDITY, "key": TEXT, "value": TEXT},
    "column_tag": {
        "table_id": NUMBER,
        "column_id": NUMBER,
        **_VALIDITY,
        "key": TEXT,
        "value": TEXT,
    },
    "view_column_tag": {
        "view_id": NUMBER,
        "column_name": TEXT,
        **_VALIDITY,
        "key": TEXT,
        "value": TEXT,
    },
    "data_file": {
        "data_file_id": NUMBER,
        "table_id": NUMBER,
        **_VALIDITY,
        **_PATH,
        "file_format": TEXT,
        "record_count": NUMBER,
        "file_size_bytes": NUMBER,
        "footer_size": NUMBER,
        "row_id_start": NUMBER,
        "partition_id": NUMBER,
        "encryption_key": TEXT,
        "mapping_id": NUMBER,
        "partial_max": NUMBER,
        "partial_file_info": TEXT,
    },
    "delete_file": {
        "delete_file_id": NUMBER,
        "table_id": NUMBER,
        **_VALIDITY,
        "data_file_id": NUMBER,
        **_PATH,
        "format": TEXT,
        "delete_count": NUMBER,
        "file_size_bytes": NUMBER,
        "footer_size": NUMBER,
        "encryption_key": TEXT,
        "partial_max": NUMBER,
    },
    "file_column_stats": {
        "data_file_id": NUMBER,
        "table_id": NUMBER,
        "column_id": NUMBER,
        "value_count": NUMBER,
        "null_count": NUMBER,
        "min_value": TEXT,
        "max_value": TEXT,
        "contains_nan": FLAG,
    },
    "file_partition_value": {
        "data_file_id": NUMBER,
        "table_id": NUMBER,
        "partition_key_index": NUMBER,
        "partition_value": TEXT,
    },
    "table_stats": {
        "table_id": NUMBER,
        "record_count": NUMBER,
        "next_row_id": NUMBER,
        "file_size_bytes": NUMBER,
    },
    "table_column_stats": {
        "table_id": NUMBER,
        "column_id": NUMBER,
        "contains_null": FLAG,
        "contains_nan": FLAG,
        "min_value": TEXT,
        "max_value": TEXT,
        "extra_stats": TEXT,
    },
    "column_mapping": {"mapping_id": NUMBER, "table_id": NUMBER, "type": TEXT},
    "name_mapping": {
        "mapping_id": NUMBER,
        "column_id": NUMBER,
        "source_name": TEXT,
        "target_field_id": NUMBER,
        "parent_column": NUMBER,
        "is_partition": FLAG,
    },
    "partition_info": {"partition_id": NUMBER, "table_id": NUMBER, **_VALIDITY},
    "partition_column": {
        "partition_id": NUMBER,
        "table_id": NUMBER,
        "partition_key_index": NUMBER,
        "column_id": NUMBER,
        "transform": TEXT,
    },
    "sort_info": {"sort_id": NUMBER, "table_id": NUMBER, **_VALIDITY},
    "sort_expression": {
        "sort_id": NUMBER,
        "table_id": NUMBER,
        "sort_key_index": NUMBER,
        "expression": TEXT,
        "dialect": TEXT,
        "sort_direction": TEXT,
        "null_order": TEXT,
    },
    "inlined_data_tables": {"table_id": NUMBER, "table_name": TEXT, "schema_version": NUMBER},
}

# Names of tables that were different in older versions.
_OLDER_NAMES = {"file_column_stats": "file_column_statistics"}
_KNOWN_NAMES = [f"ducklake_{name}" for name in (*TABLES, *_OLDER_NAMES.values())]


class CatalogTables:
    """The catalog's tables with every column that Lakeport reads, present or not."""

    def __init__(self, database: Database, present: Mapping[str, frozenset[str]]) -> None:
        self.database = database
        self._present = present
        self._metadata = sa.MetaData()
        self._sources = {name: self._source(name, columns) for name, columns in TABLES.items()}

    def __getitem__(self, name: str) -> sa.FromClause:
        return self._sources[name]

    def visible(self, source: sa.FromClause, snapshot: ColumnElement[int]) -> ColumnElement[bool]:
        """The validity rule: begun at or before the snapshot, and not ended by it."""
        end = source.c.end_snapshot
        return sa.and_(source.c.begin_snapshot <= snapshot, sa.or_(end.is_(None), end > snapshot))

    def _source(self, name: str, columns: Mapping[str, Any]) -> sa.FromClause:
        physical = f"ducklake_{name}"
        if physical not in self._present:
            physical = f"ducklake_{_OLDER_NAMES.get(name, name)}"
        found = self._present.get(physical)
        if found is None:
            nothing = [_absent(column, kind) for column, kind in columns.items()]
            return sa.select(*nothing).where(sa.false()).subquery(f"no_{name}")
        table = sa.Table(
            physical,
            self._metadata,
            *(sa.Column(column, kind) for column, kind in columns.items() if column in found),
            schema=self.database.schema,
        )
        if found >= columns.keys():
            return table
        selected = [
            table.c[column] if column in found else _absent(column, kind)
            for column, kind in columns.items()
        ]
        return sa.select(*selected).subquery(f"old_{name}")


def probe_statement(database: Database) -> sa.Select[Any]:
    """Which `ducklake_*` tables there are, with their columns."""
    if database.kind == "sqlite":
        master = sa.table("sqlite_master", sa.column("name"), sa.column("type"))
        info = sa.func.pragma_table_info(master.c.name).table_valued("name", name="info")
        return (
            sa.select(master.c.name, info.c.name.label("column_name"))
            .select_from(master.join(info, sa.true()))
            .where(master.c.name.in_(_KNOWN_NAMES))
        )
    columns = sa.table(
        "columns",
        sa.column("table_name"),
        sa.column("column_name"),
        sa.column("table_schema"),
        schema="information_schema",
    )
    return sa.select(columns.c.table_name, columns.c.column_name).where(
        columns.c.table_name.in_(_KNOWN_NAMES), columns.c.table_schema == database.schema
    )


def existing_tables(database: Database) -> sa.FromClause:
    """The names of the tables that exist now, as a source with one column `table_name`."""
    if database.kind == "sqlite":
        master = sa.table("sqlite_master", sa.column("name", TEXT))
        return sa.select(master.c.name.label("table_name")).subquery("existing")
    tables = sa.table(
        "tables",
        sa.column("table_name", TEXT),
        sa.column("table_schema", TEXT),
        schema="information_schema",
    )
    return (
        sa.select(tables.c.table_name)
        .where(tables.c.table_schema == database.schema)
        .subquery("existing")
    )


def existing_columns(database: Database) -> sa.FromClause:
    """The columns of all tables: `table_name`, `column_name`, `position`, `data_type`."""
    if database.kind == "sqlite":
        master = sa.table("sqlite_master", sa.column("name", TEXT))
        info = sa.func.pragma_table_info(master.c.name).table_valued(
            sa.column("cid", NUMBER), sa.column("name", TEXT), sa.column("type", TEXT), name="info"
        )
        return (
            sa.select(
                master.c.name.label("table_name"),
                info.c.name.label("column_name"),
                info.c.cid.label("position"),
                info.c.type.label("data_type"),
            )
            .select_from(master.join(info, sa.true()))
            .where(master.c.name.like("ducklake_inlined_data_%"))
            .subquery("existing_columns")
        )
    columns = sa.table(
        "columns",
        sa.column("table_name", TEXT),
        sa.column("column_name", TEXT),
        sa.column("ordinal_position", NUMBER),
        sa.column("data_type", TEXT),
        sa.column("table_schema", TEXT),
        schema="information_schema",
    )
    return (
        sa.select(
            columns.c.table_name,
            columns.c.column_name,
            columns.c.ordinal_position.label("position"),
            columns.c.data_type,
        )
        .where(columns.c.table_schema == database.schema)
        .subquery("existing_columns")
    )


def _absent(name: str, kind: Any) -> ColumnElement[Any]:
    if isinstance(kind, sa.Boolean):
        return sa.null().cast(sa.BigInteger).label(name)
    if isinstance(kind, sa.Text):
        return sa.null().cast(sa.String(255)).label(name)
    return sa.null().cast(kind).label(name)
