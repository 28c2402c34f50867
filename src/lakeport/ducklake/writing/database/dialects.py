"""What differs between the four databases: quoting, parameters, types, times, error codes.

Errors are classified by SQLSTATE, error number or class, never by the text of a message: servers
send messages in other languages. DuckDB has no codes, and one of its classes serves many errors.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa

from lakeport.ducklake.metadata.location import DatabaseKind
from lakeport.ducklake.metadata.rows import CatalogRow, column_types

__all__ = ["TIME_COLUMNS", "Dialect", "dialect_of"]

TIME_COLUMNS: Final = frozenset({"snapshot_time", "schedule_start"})
_UUIDS: Final = frozenset({"schema_uuid", "table_uuid", "view_uuid"})
_REQUIRED: Final = frozenset({("metadata", "key"), ("metadata", "value")})
_PRIMARY_KEYS: Final = {
    "snapshot": "snapshot_id",
    "snapshot_changes": "snapshot_id",
    "schema": "schema_id",
    "data_file": "data_file_id",
    "delete_file": "delete_file_id",
}
_TYPES: Final[dict[DatabaseKind, dict[str, str]]] = {
    "duckdb": {
        "int": "BIGINT",
        "str": "VARCHAR",
        "bool": "BOOLEAN",
        "time": "TIMESTAMPTZ",
        "uuid": "UUID",
    },
    "sqlite": {
        "int": "BIGINT",
        "str": "VARCHAR",
        "bool": "BIGINT",
        "time": "VARCHAR",
        "uuid": "VARCHAR",
    },
    "postgresql": {
        "int": "BIGINT",
        "str": "VARCHAR",
        "bool": "BOOLEAN",
        "time": "TIMESTAMPTZ",
        "uuid": "UUID",
    },
    # The reference has TEXT, which ends at 64 KiB, and DATETIME, which has no fractions.
    "mysql": {
        "int": "BIGINT",
        "str": "LONGTEXT",
        "bool": "TINYINT(1)",
        "time": "DATETIME(6)",
        "uuid": "TEXT",
    },
}

# unique_violation, serialization_failure, deadlock_detected, lock_not_available
_POSTGRESQL_COLLISIONS: Final = frozenset({"23505", "40001", "40P01", "55P03"})
# ER_DUP_ENTRY, ER_LOCK_DEADLOCK, ER_LOCK_WAIT_TIMEOUT
_MYSQL_COLLISIONS: Final = frozenset({1062, 1213, 1205})
# CR_CONN_HOST_ERROR, CR_SERVER_GONE_ERROR, CR_SERVER_LOST
_MYSQL_LOST: Final = frozenset({0, 2003, 2006, 2013})
_SQLITE_COLLISIONS: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DUCKDB_LOCKED: Final = ("could not set lock", "unique file handle", "different configuration")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The SQL of one database."""

    kind: DatabaseKind

    @property
    def placeholder(self) -> str:
        """The text that stands for a parameter in a statement."""
        return "?" if self.kind in ("duckdb", "sqlite") else "%s"

    @property
    def ddl_commits(self) -> bool:
        """Whether CREATE TABLE commits the transaction that it is in."""
        return self.kind == "mysql"

    def identifier(self, name: str) -> str:
        """Return a quoted name; a statement with parameters may contain it."""
        mark = "`" if self.kind == "mysql" else '"'
        return self.literally(f"{mark}{name.replace(mark, mark * 2)}{mark}")

    def literally(self, sql: str) -> str:
        """Return SQL without parameters as the driver must get it, in which % begins one."""
        return sql if self.placeholder == "?" else sql.replace("%", "%%")

    def table(self, schema: str | None, name: str) -> str:
        """Return the quoted name of a table."""
        return (
            f"{self.identifier(schema)}.{self.identifier(name)}"
            if schema
            else (self.identifier(name))
        )

    def parameter(self, value: Any) -> Any:
        """Return a value in the form that the driver accepts."""
        if isinstance(value, bool) and self.kind in ("sqlite", "mysql"):
            return int(value)
        if isinstance(value, datetime):
            return self.time(value)
        return value

    def time(self, moment: datetime) -> str:
        """Return a time in UTC as text, as the reference writes it."""
        text = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        return text if self.kind == "mysql" else f"{text}+00"

    def create_table(self, schema: str | None, row: type[CatalogRow]) -> str:
        """Return the statement that creates a catalog table, in DuckLake's column order."""
        types = _TYPES[self.kind]
        columns = []
        for name, python_type in column_types(row).items():
            special = "time" if name in TIME_COLUMNS else "uuid" if name in _UUIDS else None
            sql = f"{self.identifier(name)} {types[special or python_type.__name__]}"
            if _PRIMARY_KEYS.get(row.branch) == name:
                sql += " PRIMARY KEY"
            elif (row.branch, name) in _REQUIRED:
                sql += " NOT NULL"
            columns.append(sql)
        table = self.table(schema, f"ducklake_{row.branch}")
        # Names that differ in case are different values, also for MySQL.
        suffix = " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin" if self.kind == "mysql" else ""
        return f"CREATE TABLE {table} ({', '.join(columns)}){suffix}"

    def is_collision(self, error: BaseException) -> bool:
        """Return whether a transaction failed because of another one, and can be repeated."""
        cause = _cause(error)
        match self.kind:
            case "postgresql":
                return getattr(cause, "sqlstate", None) in _POSTGRESQL_COLLISIONS
            case "mysql":
                return _number(cause) in _MYSQL_COLLISIONS
            case "sqlite":
                code = getattr(cause, "sqlite_errorcode", None)
                # The low byte is the primary code of SQLite's extended codes.
                return code is not None and code & 0xFF in _SQLITE_COLLISIONS
            case "duckdb":
                return _is_duckdb_collision(cause)

    def is_lost(self, error: BaseException) -> bool:
        """Return whether the connection was lost, so that the outcome of a commit is unknown."""
        cause = _cause(error)
        if isinstance(cause, TimeoutError):
            return True
        if self.kind == "mysql":
            return _number(cause) in _MYSQL_LOST
        if self.kind == "postgresql":
            import psycopg

            state = getattr(cause, "sqlstate", None)
            closed = state is None and isinstance(cause, psycopg.OperationalError)
            # 08: connection exception; 57P: the server shuts down, or ended the session.
            return closed or (state or "").startswith(("08", "57P"))
        return False


def dialect_of(kind: DatabaseKind) -> Dialect:
    """Return the SQL of a database."""
    return Dialect(kind)


def _cause(error: BaseException) -> BaseException:
    return error.orig or error if isinstance(error, sa.exc.DBAPIError) else error


def _number(error: BaseException) -> int | None:
    first = error.args[0] if error.args else None
    return first if isinstance(first, int) else None


def _is_duckdb_collision(error: BaseException) -> bool:
    import duckdb

    if isinstance(error, duckdb.TransactionException | duckdb.ConstraintException):
        return True
    # Another process or another connection of this process has the file open.
    is_open = isinstance(error, duckdb.IOException | duckdb.ConnectionException)
    is_open = is_open or isinstance(error, duckdb.BinderException)
    return is_open and any(sign in str(error).lower() for sign in _DUCKDB_LOCKED)
