"""Read a catalog in any of four databases: short read-only transactions, errors without secrets.

If a database server does not answer in time, its connection is closed and UnavailableError is
raised. The client measures the time, because a server that hangs does not.

A DuckDB file is opened read-only for one transaction and closed again, so that writers do not wait
longer. While a writer holds the file, the reader waits.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from lakeport._files import check_regular, for_database
from lakeport.ducklake.metadata.location import DatabaseKind, Location
from lakeport.errors import (
    InvalidArgumentError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)

__all__ = ["Database", "is_timeout", "open_mysql", "open_postgresql", "open_sqlite"]

T = TypeVar("T")

LOCK_TIMEOUT_SECONDS: Final = 30.0
TIMEOUT_SECONDS: Final = 60.0
"""The time that a database server has for an answer."""
_CONNECT_SECONDS: Final = 10
_LOCKED = (
    "could not set lock",
    "unique file handle conflict",
    "database is locked",
    "different configuration",
)
# A writer was killed in the middle of a commit, and this connection may not roll it back.
_HOT_JOURNAL: Final = "attempt to write a readonly database"
# The same of a DuckDB file: DuckDB 1.5 replays some logs only if it may write (issue 24103).
_UNREPLAYED_LOG: Final = "Failure while replaying WAL file"
# A storage version, and the id of a type (33 is TIMESTAMPTZ_NS), that this DuckDB does not have.
_WRITTEN_BY_NEWER = ("database file with version number", 'for enum "LogicalTypeId"')


class Database:
    """A catalog database, read in short transactions that each see one consistent state."""

    def __init__(
        self,
        location: Location,
        *,
        metadata_schema: str | None = None,
        lock_timeout: float = LOCK_TIMEOUT_SECONDS,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        if timeout <= 0:
            raise InvalidArgumentError("the time-out of a database must be positive")
        self.location: Final = location
        self.kind: Final[DatabaseKind] = location.kind
        self.schema: Final = _schema(location, metadata_schema)
        self.lock_timeout = lock_timeout
        self.errors: tuple[type[Exception], ...] = (
            sa.exc.DBAPIError,
            # All connections of the pool are waiting for answers.
            sa.exc.TimeoutError,
            *_driver_errors(location.kind),
        )
        self.timeout = timeout
        self.engine: Final = _engine(location, timeout)
        self._autocommit = (
            self.engine.execution_options(isolation_level="AUTOCOMMIT")
            if location.kind == "postgresql"
            else self.engine
        )

    def read(self, work: Callable[[sa.Connection], T], *, autocommit: bool = False) -> T:
        """Run `work` in one read-only transaction, again if the connection was stale or locked.

        With `autocommit`, `work` is a single statement: PostgreSQL then needs one round trip.
        """
        engine = self._autocommit if autocommit else self.engine
        if self.location.path and not Path(self.location.path).exists():
            raise NotFoundError(f"there is no catalog database at {self.location.path!r}")
        if self.location.path:
            check_regular(self.location.path, subject="the catalog database")
        deadline = time.monotonic() + self.lock_timeout
        pause = 0.005
        reconnected = recovered = False
        while True:
            try:
                with engine.connect() as connection, connection.begin():
                    return work(connection)
            except self.errors as error:
                message = str(getattr(error, "orig", None) or error)
                locked = any(sign in message.lower() for sign in _LOCKED)
                if (
                    isinstance(error, sa.exc.DBAPIError)
                    and error.connection_invalidated
                    and not reconnected
                    and not is_timeout(error)
                ):
                    reconnected = True
                elif self.kind == "sqlite" and _HOT_JOURNAL in message and not recovered:
                    recovered = recover_sqlite(self.location.path)
                elif self.kind == "duckdb" and _UNREPLAYED_LOG in message and not recovered:
                    recovered = recover_duckdb(self.location.path)
                elif locked and time.monotonic() < deadline:
                    time.sleep(pause)
                    pause = min(pause * 1.5, 0.25)
                else:
                    if is_timeout(error):
                        message = f"timeout: no answer within {self.timeout:g} seconds"
                    raise self.error(message, locked=locked) from None

    def read_arrow(self, connection: sa.Connection, statement: str) -> pa.Table:
        """Run SQL on a DuckDB file; Python objects would lose nanoseconds and months."""
        raw: Any = connection.connection.dbapi_connection
        raw.execute("SET arrow_lossless_conversion = true")
        return raw.sql(statement).to_arrow_table()

    def dispose(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    def error(self, message: str, *, locked: bool) -> Exception:
        """Return the error to raise for a message of the database, without its secrets."""
        for secret in self.location.secrets:
            message = message.replace(secret, "***")
        first = message.strip().splitlines()[0] if message.strip() else "unknown error"
        if locked:
            return UnavailableError(
                f"the catalog database {self.location} is held by a writer: {first}"
            )
        if any(
            word in first.lower()
            for word in (
                "connect",
                "refused",
                "password",
                "timeout",
                "access denied",
                "too many open files",
            )
        ):
            return UnavailableError(
                f"the catalog database {self.location} cannot be reached: {first}"
            )
        if self.kind == "duckdb" and any(sign in message for sign in _WRITTEN_BY_NEWER):
            return UnsupportedError(_needs_newer_duckdb(str(self.location)))
        return InvalidInputError(f"the catalog database {self.location} cannot be read: {first}")


def _needs_newer_duckdb(location: str) -> str:
    import duckdb

    return (
        f"the catalog database {location} needs a newer DuckDB than {duckdb.__version__}, which is "
        "installed here: its storage format, or a type in it such as TIMESTAMPTZ_NS, is one of "
        "DuckDB 2.0. Install duckdb>=2"
    )


def _schema(location: Location, metadata_schema: str | None) -> str | None:
    """Return the database schema of the `ducklake_*` tables; DuckLake has the same defaults."""
    if metadata_schema is not None:
        return metadata_schema
    return {
        "duckdb": "main",
        "postgresql": "public",
        "mysql": location.parameters.get("database"),
    }.get(location.kind)


def _driver_errors(kind: DatabaseKind) -> tuple[type[Exception], ...]:
    """Return the errors of `creator` functions, which SQLAlchemy does not wrap."""
    if kind == "duckdb":
        import duckdb

        return (duckdb.Error,)
    if kind == "sqlite":
        return (sqlite3.Error,)
    if kind == "postgresql":
        import psycopg

        return (psycopg.Error,)
    import pymysql

    return (pymysql.Error,)


def is_timeout(error: Exception) -> bool:
    """Return whether a database server has not answered in time."""
    cause = getattr(error, "orig", None) or error
    # PyMySQL has one number for every lost connection, and names the reason in the text.
    return isinstance(cause, TimeoutError | sa.exc.TimeoutError) or (
        type(cause).__module__.startswith("pymysql") and "timed out" in str(cause)
    )


def _engine(location: Location, timeout: float) -> sa.Engine:
    if location.kind == "duckdb":
        return sa.create_engine(
            "duckdb://", creator=lambda: _open_duckdb(location.path), poolclass=NullPool
        )
    if location.kind == "sqlite":
        engine = sa.create_engine(
            "sqlite://", creator=lambda: open_sqlite(location.path), poolclass=NullPool
        )
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        return engine
    if location.kind == "postgresql":
        return sa.create_engine(
            "postgresql+psycopg://",
            creator=lambda: open_postgresql(location, timeout),
            isolation_level="REPEATABLE READ",
            hide_parameters=True,
            pool_size=4,
            pool_timeout=timeout,
        )
    return sa.create_engine(
        "mysql+pymysql://",
        creator=lambda: open_mysql(location, timeout),
        isolation_level="REPEATABLE READ",
        hide_parameters=True,
        pool_size=4,
        pool_timeout=timeout,
        pool_recycle=600,
    )


def _open_duckdb(path: str) -> Any:
    from lakeport.ducklake.metadata.drivers.duckdb_file import open_duckdb_file

    return open_duckdb_file(path)


def open_sqlite(path: str) -> sqlite3.Connection:
    """Open a SQLite file for reading."""
    uri = f"file:{quote(str(Path(path).resolve()))}?mode=ro"
    with for_database():
        return sqlite3.connect(
            uri, uri=True, timeout=5.0, isolation_level=None, check_same_thread=False
        )


def recover_sqlite(path: str) -> bool:
    """Roll back what a killed writer has left; return True, also if it could not be done."""
    uri = f"file:{quote(str(Path(path).resolve()))}?mode=rw"
    with suppress(sqlite3.Error), for_database():
        connection = sqlite3.connect(uri, uri=True, timeout=5.0)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        finally:
            connection.close()
    return True


def recover_duckdb(path: str) -> bool:
    """Replay the log that a killed writer has left; return True, also if it could not be done."""
    import duckdb

    with suppress(duckdb.Error), for_database():
        duckdb.connect(path).close()
    return True


def open_postgresql(location: Location, timeout: float) -> Any:
    """Open a connection whose every answer must come in time; times are in UTC."""
    from lakeport.ducklake.metadata.drivers.postgresql import connect

    # A server that lost its network sends nothing: TCP keepalives detect it.
    settings: dict[str, Any] = {
        "connect_timeout": str(_CONNECT_SECONDS),
        "keepalives_idle": "30",
        "keepalives_interval": "10",
        "keepalives_count": "3",
        "tcp_user_timeout": str(int(timeout * 1000)),
        **location.parameters,
    }
    connection = connect(timeout, **settings)
    connection.execute("SET TIME ZONE 'UTC'")
    # Until a large commit is analyzed, PostgreSQL expects one row and joins by nested loops.
    connection.execute("SET enable_nestloop = off")
    # Where a nested loop cannot be avoided, it counts as costly, and queries would be compiled.
    connection.execute("SET jit = off")
    connection.commit()
    return connection


def open_mysql(location: Location, timeout: float) -> Any:
    """Open a connection whose every answer must come in time."""
    import pymysql

    settings: dict[str, Any] = {
        "charset": "utf8mb4",
        "connect_timeout": _CONNECT_SECONDS,
        "read_timeout": timeout,
        "write_timeout": timeout,
        **location.parameters,
    }
    for name in ("port", "connect_timeout", "read_timeout", "write_timeout"):
        if name in settings:
            settings[name] = int(settings[name]) if name == "port" else float(settings[name])
    return pymysql.connect(**settings)
