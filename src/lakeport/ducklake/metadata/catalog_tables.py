"""The `ducklake_*` tables as SQLAlchemy sources, with the same columns in every format version.

The columns that a catalog has are read once from the database. A column that its version lacks
reads as NULL, and a table that its version lacks reads as empty. So one set of queries serves every
version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from lakeport.ducklake.metadata.database import Database
from lakeport.ducklake.metadata.rows import CATALOG_ROWS, CatalogRow, column_types, table_name

__all__ = ["CatalogTables", "existing_columns", "existing_tables", "probe_statement"]

NUMBER: Final = sa.BigInteger()
FLAG: Final = sa.Boolean()
TEXT: Final = sa.Text()

_SQL_TYPES: Final[Mapping[type, Any]] = {int: NUMBER, bool: FLAG, str: TEXT}
# Columns that only older versions have.
_OLDER_COLUMNS: Final = {"data_file": {"partial_file_info": TEXT}}
# Names of tables that were different in older versions.
_OLDER_NAMES: Final = {"file_column_stats": "file_column_statistics"}
_KNOWN_NAMES: Final = [
    *(table_name(row) for row in CATALOG_ROWS),
    *(f"ducklake_{name}" for name in _OLDER_NAMES.values()),
]


class CatalogTables:
    """The catalog's tables with all columns of `rows`; columns that do not exist read as NULL."""

    def __init__(self, database: Database, present: Mapping[str, frozenset[str]]) -> None:
        self.database = database
        self._present = present
        self._metadata = sa.MetaData()
        self._sources = {row: self._source(row.branch, _columns(row)) for row in CATALOG_ROWS}

    def __getitem__(self, row: type[CatalogRow]) -> sa.FromClause:
        return self._sources[row]

    def visible(self, source: sa.FromClause, snapshot: ColumnElement[int]) -> ColumnElement[bool]:
        """Return the validity rule: begun at or before the snapshot, and not ended by it."""
        end = source.c.end_snapshot
        return sa.and_(source.c.begin_snapshot <= snapshot, sa.or_(end.is_(None), end > snapshot))

    def _source(self, name: str, columns: Mapping[str, Any]) -> sa.FromClause:
        physical = f"ducklake_{name}"
        if physical not in self._present:
            physical = f"ducklake_{_OLDER_NAMES.get(name, name)}"
        present = self._present.get(physical)
        if present is None:
            nulls = [_absent(column, kind) for column, kind in columns.items()]
            return sa.select(*nulls).where(sa.false()).subquery(f"no_{name}")
        table = sa.Table(
            physical,
            self._metadata,
            *(sa.Column(column, kind) for column, kind in columns.items() if column in present),
            schema=self.database.schema,
        )
        if present >= columns.keys():
            return table
        selected = [
            table.c[column] if column in present else _absent(column, kind)
            for column, kind in columns.items()
        ]
        return sa.select(*selected).subquery(f"old_{name}")


def probe_statement(database: Database) -> sa.Select[Any]:
    """Return a statement for the `ducklake_*` tables that exist, with their columns."""
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
    """Return the names of the tables that exist, as a source with one column `table_name`."""
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
    """Return the columns of all tables: `table_name`, `column_name`, `position`, `data_type`."""
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


def _columns(row: type[CatalogRow]) -> dict[str, Any]:
    current = {name: _SQL_TYPES[type] for name, type in column_types(row).items()}
    return current | _OLDER_COLUMNS.get(row.branch, {})


def _absent(name: str, kind: Any) -> ColumnElement[Any]:
    if isinstance(kind, sa.Boolean):
        return sa.null().cast(sa.BigInteger).label(name)
    if isinstance(kind, sa.Text):
        return sa.null().cast(sa.String(255)).label(name)
    return sa.null().cast(kind).label(name)
