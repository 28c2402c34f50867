"""Connections that write: one transaction at a time, in the order in which writers ask for it.

A commit reads the newest snapshot and inserts the next one. Writers that wait for a lock before
they read do not collide: SQLite has `BEGIN IMMEDIATE`, PostgreSQL advisory locks, MySQL named
locks. A DuckDB file is open in one process at most, which has a lock for each file. The reference
takes none of these locks: the primary key of the snapshots detects its commits.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from lakeport._files import for_database
from lakeport.ducklake.metadata.database import Database, open_mysql, open_postgresql
from lakeport.ducklake.writing.database.dialects import dialect_of
from lakeport.ducklake.writing.database.writer import CatalogWriter
from lakeport.errors import UnavailableError

__all__ = ["WriteDatabase"]

_FILE_LOCKS: dict[str, threading.Lock] = {}
_FILE_LOCKS_LOCK: Final = threading.Lock()
# The time is that of a row which exists after the lock was taken.
_LOCK: Final = """
    WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock(%s)) SELECT clock_timestamp() FROM held
"""
_IDLE_SECONDS: Final = 1.0
"""How long a connection must be unused before it is tested whether the server still has it."""


class WriteDatabase:
    """A catalog database, written in short transactions."""

    def __init__(self, database: Database) -> None:
        self.database: Final = database
        self.dialect: Final = dialect_of(database.kind)
        self._engine = _engine(database)

    @contextmanager
    def transaction(self) -> Iterator[CatalogWriter]:
        """Lock the lake and open a transaction; the caller commits, else it is rolled back."""
        with (
            self._file_lock(),
            self._connect() as connection,
            self._named_lock(connection),
        ):
            transaction = connection.begin()
            try:
                now = self._locked(connection)
                yield CatalogWriter(connection, transaction, self.database, self.dialect, now)
            finally:
                if transaction.is_active:
                    transaction.rollback()

    def dispose(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @contextmanager
    def _connect(self) -> Iterator[sa.Connection]:
        """Open a connection; wait while a DuckDB file is open in another process."""
        deadline = time.monotonic() + self.database.lock_timeout
        pause = 0.005
        while True:
            try:
                connection = self._engine.connect()
                break
            except self.database.errors as error:
                is_locked = self.dialect.is_collision(error)
                if not is_locked or time.monotonic() > deadline:
                    message = str(getattr(error, "orig", None) or error)
                    raise self.database.error(message, locked=is_locked) from None
                time.sleep(pause)
                pause = min(pause * 1.5, 0.25)
        with connection:
            yield connection

    def _file_lock(self) -> Any:
        if self.database.kind != "duckdb":
            return nullcontext()
        path = str(Path(self.database.location.path).resolve())
        with _FILE_LOCKS_LOCK:
            return _FILE_LOCKS.setdefault(path, threading.Lock())

    @contextmanager
    def _named_lock(self, connection: sa.Connection) -> Iterator[None]:
        """Hold MySQL's lock of the lake, which no statement releases by accident."""
        if self.database.kind != "mysql":
            yield
            return
        name = f"lakeport-{_lock_number(self.database)}"
        seconds = int(self.database.lock_timeout)
        held = connection.exec_driver_sql("SELECT GET_LOCK(%s, %s)", (name, seconds)).scalar()
        connection.commit()
        if held != 1:
            raise UnavailableError(
                f"the catalog database {self.database.location} is held by other writers"
            )
        try:
            yield
        finally:
            if not connection.invalidated:
                connection.exec_driver_sql("SELECT RELEASE_LOCK(%s)", (name,))
                connection.commit()

    def _locked(self, connection: sa.Connection) -> datetime:
        """Take PostgreSQL's lock of the lake; return the time of the database server after that."""
        if self.database.kind == "postgresql":
            now = connection.exec_driver_sql(_LOCK, (_lock_number(self.database),)).scalar()
        elif self.database.kind == "mysql":
            now = connection.exec_driver_sql("SELECT UTC_TIMESTAMP(6)").scalar()
        else:
            now = None
        if not isinstance(now, datetime):
            return datetime.now(UTC)
        return now if now.tzinfo else now.replace(tzinfo=UTC)


def _lock_number(database: Database) -> int:
    """Return a number for the lake: locks of a server are numbered, and this schema has its own."""
    text = f"lakeport:{database.schema}:{database.location.parameters.get('database', '')}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


def _engine(database: Database) -> sa.Engine:
    location = database.location
    if database.kind == "duckdb":
        return sa.create_engine(
            "duckdb://", creator=lambda: _open_duckdb(location.path), poolclass=NullPool
        )
    if database.kind == "sqlite":
        engine = sa.create_engine(
            "sqlite://",
            creator=lambda: _open_sqlite(location.path, database.lock_timeout),
            poolclass=NullPool,
        )
        sa.event.listen(
            engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE")
        )
        return engine
    is_postgresql = database.kind == "postgresql"
    open_server = open_postgresql if is_postgresql else open_mysql
    engine = sa.create_engine(
        "postgresql+psycopg://" if is_postgresql else "mysql+pymysql://",
        creator=lambda: open_server(location, database.timeout),
        # After the lock, each statement must see what the writer before has committed.
        isolation_level="READ COMMITTED",
        hide_parameters=True,
        pool_size=4,
        max_overflow=28,
        pool_timeout=database.timeout,
        pool_recycle=600,
    )
    _test_idle_connections(engine)
    return engine


def _test_idle_connections(engine: sa.Engine) -> None:
    """Test connections that were unused for some time, as `pool_pre_ping` tests every one."""

    def checked_in(_connection: Any, record: Any) -> None:
        record.info["unused_since"] = time.monotonic()

    def checked_out(connection: Any, record: Any, _proxy: Any) -> None:
        if time.monotonic() - record.info.get("unused_since", time.monotonic()) < _IDLE_SECONDS:
            return
        try:
            engine.dialect.do_ping(connection)
        except Exception as error:
            raise sa.exc.DisconnectionError from error

    sa.event.listen(engine, "checkin", checked_in)
    sa.event.listen(engine, "checkout", checked_out)


def _open_duckdb(path: str) -> Any:
    import duckdb
    from duckdb_engine import ConnectionWrapper

    # The reference makes files of this version, too: only they can hold variants.
    new_file = {} if Path(path).exists() else {"storage_compatibility_version": "v1.5.0"}
    with for_database():
        return ConnectionWrapper(duckdb.connect(path, config=new_file))


def _open_sqlite(path: str, timeout: float) -> Any:
    uri = f"file:{quote(str(Path(path).resolve()))}?mode=rwc"
    with for_database():
        return sqlite3.connect(
            uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
        )
