"""The tables of the catalog database that hold inlined rows and deletes: names, types, statements.

A DuckDB file has the columns' own types. The other databases hold values of some types as text or
bytes, because their own types lack values: SQLite has no NaN, PostgreSQL has no NUL in text and
shorter times. `planning.inlined_values` reads these forms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lakeport.ducklake.metadata.location import DatabaseKind
from lakeport.types import NESTED, Column, duckdb_identifier, duckdb_type

__all__ = [
    "create_delete_table",
    "create_inlined_table",
    "delete_table_name",
    "inlined_table_name",
    "physical_type",
    "quoted",
    "system_columns",
]

_INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")

_SQLITE: Final[Mapping[str, str]] = {
    "boolean": "BIGINT",
    **dict.fromkeys(_INTEGERS, "BIGINT"),
    "blob": "BLOB",
}
_POSTGRESQL: Final[Mapping[str, str]] = {
    "boolean": "BOOLEAN",
    "int8": "SMALLINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint8": "INTEGER",
    "uint16": "INTEGER",
    "uint32": "BIGINT",
    "float32": "REAL",
    "float64": "DOUBLE PRECISION",
    "time": "TIME",
    "timetz": "TIMETZ",
    "interval": "INTERVAL",
    "varchar": "BYTEA",
    "json": "BYTEA",
    "blob": "BYTEA",
    "uuid": "UUID",
}
_MYSQL: Final[Mapping[str, str]] = {
    "boolean": "BIGINT",
    **dict.fromkeys(_INTEGERS, "BIGINT"),
    "blob": "LONGBLOB",
}
_TEXT: Final[Mapping[DatabaseKind, str]] = {
    "sqlite": "VARCHAR",
    "postgresql": "VARCHAR",
    "mysql": "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
}
_NATIVE: Final[Mapping[DatabaseKind, Mapping[str, str]]] = {
    "sqlite": _SQLITE,
    "postgresql": _POSTGRESQL,
    "mysql": _MYSQL,
}


def inlined_table_name(table_id: int, schema_version: int) -> str:
    """Return the name of the table for inlined rows of a schema version of a table."""
    return f"ducklake_inlined_data_{table_id}_{schema_version}"


def delete_table_name(table_id: int) -> str:
    """Return the name of the table for inlined deletes of a table's data files."""
    return f"ducklake_inlined_delete_{table_id}"


def system_columns(*, has_prefix: bool) -> tuple[str, str, str]:
    """Return the names of the first columns of an inlined table: row id, begin and end.

    In format 1.1 they have a prefix.
    """
    prefix = "_ducklake_" if has_prefix else ""
    return f"{prefix}row_id", f"{prefix}begin_snapshot", f"{prefix}end_snapshot"


def physical_type(kind: DatabaseKind, column: Column) -> str:
    """Return the database type of a column in an inlined table."""
    if kind == "duckdb":
        return _duckdb(column)
    if kind == "postgresql" and column.type.startswith("decimal("):
        return column.type.upper()
    return _NATIVE[kind].get(column.type, _TEXT[kind])


def create_inlined_table(
    kind: DatabaseKind,
    name: str,
    columns: Sequence[Column],
    *,
    schema: str | None = None,
    has_prefix: bool = False,
) -> str:
    """Return the statement that creates a table for inlined rows of these columns."""
    system = [f"{quoted(kind, column)} BIGINT" for column in system_columns(has_prefix=has_prefix)]
    own = [f"{quoted(kind, column.name)} {physical_type(kind, column)}" for column in columns]
    return f"CREATE TABLE {_qualified(kind, schema, name)}({', '.join([*system, *own])})"


def create_delete_table(kind: DatabaseKind, table_id: int, *, schema: str | None = None) -> str:
    """Return the statement that creates the table for inlined deletes, unless it exists."""
    name = _qualified(kind, schema, delete_table_name(table_id))
    return (
        f"CREATE TABLE IF NOT EXISTS {name}(file_id BIGINT, row_id BIGINT, begin_snapshot BIGINT)"
    )


def quoted(kind: DatabaseKind, name: str) -> str:
    """Return a name as an identifier of a database."""
    if kind == "mysql":
        return "`" + name.replace("`", "``") + "`"
    return '"' + name.replace('"', '""') + '"'


def _qualified(kind: DatabaseKind, schema: str | None, name: str) -> str:
    return quoted(kind, name) if schema is None else f"{quoted(kind, schema)}.{quoted(kind, name)}"


def _duckdb(column: Column) -> str:
    """Return the DuckDB type of stored values; in Arrow a variant is JSON."""
    if column.type == "variant":
        return "VARIANT"
    if column.type not in NESTED:
        return duckdb_type(column)
    children = [(duckdb_identifier(child.name), _duckdb(child)) for child in column.children]
    if column.type == "struct":
        return f"STRUCT({', '.join(f'{name} {type}' for name, type in children)})"
    if column.type == "list":
        return f"{children[0][1]}[]"
    return f"MAP({children[0][1]}, {children[1][1]})"
