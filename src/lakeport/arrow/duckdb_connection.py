"""In-memory DuckDB connections: one for each thread, and sandboxes for SQL of others.

The connections of threads cast Arrow columns with DuckDB's semantics: Arrow's own casts differ in
rounding, infinities and text forms. They also parse SQL and evaluate filters.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

__all__ = [
    "LOSSLESS_SETTINGS",
    "arrow_query",
    "give_back_cursor",
    "register_rows",
    "sandbox",
    "take_cursor",
    "thread_connection",
    "thread_sandbox",
]

LOSSLESS_SETTINGS: Final = "SET arrow_lossless_conversion = true; SET TimeZone = 'UTC'"
"""Values become Arrow without loss, and times with a zone are in UTC."""
_NO_ACCESS: Final = """
    SET python_enable_replacements = false;
    SET autoinstall_known_extensions = false;
    SET autoload_known_extensions = false;
    SET allow_community_extensions = false;
    SET enable_external_access = false;
"""
_MAX_FREE: Final = 16
_local = threading.local()


class _Connections:
    """What one thread at a time uses."""

    __slots__ = ("connection", "cursors", "sandbox")

    def __init__(self) -> None:
        self.connection: Any = None
        self.cursors: list[Any] = []
        self.sandbox: Any = None


_free: deque[_Connections] = deque()


class _Lease:
    """The connections of a thread, which are free for other threads after its end.

    For Python, a thread of gRPC ends with every call of a handler.
    """

    __slots__ = ("connections", "process")

    def __init__(self, connections: _Connections) -> None:
        self.connections = connections
        self.process = os.getpid()

    def __del__(self) -> None:
        # When the interpreter ends, the names of this module are gone.
        if not sys.is_finalizing() and self.process == os.getpid():
            # Never closed here: the thread has ended, and DuckDB could not release Python's lock.
            _free.append(self.connections)


_of_parent: list[object] = []


def _reset_after_fork() -> None:
    """Forget the connections of the parent process, which a forked process must not use.

    They are not released: DuckDB 2.0 would wait for threads that only the parent process has.
    """
    _of_parent.extend((*_local.__dict__.values(), *_free))
    _local.__dict__.clear()
    _free.clear()


@atexit.register
def _close() -> None:
    """Close what no thread uses: DuckDB 2.0 reports connections that outlive the interpreter."""
    _local.__dict__.clear()
    _free.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def _connections() -> _Connections:
    lease: _Lease | None = getattr(_local, "lease", None)
    if lease is None:
        try:
            lease = _Lease(_free.pop())
            # Those that were not used for the longest time are closed.
            while len(_free) > _MAX_FREE:
                _free.popleft()
        except IndexError:
            lease = _Lease(_Connections())
        _local.lease = lease
    return lease.connections


def thread_connection() -> Any:
    """Return the thread's own in-memory DuckDB. It converts every type to Arrow without loss.

    Read a result whole, in the same thread: another one has the connection later.
    """
    own = _connections()
    if own.connection is None:
        import duckdb

        own.connection = duckdb.connect(config={"threads": 1})
        own.connection.execute(LOSSLESS_SETTINGS)
    return own.connection


def arrow_query(connection: Any, sql: str) -> Any:
    """Return the result of a query, to be read as Arrow without a copy of its rows.

    That is `execute` in DuckDB 1.5, and `sql` in DuckDB 2.0, which warns about the other.
    """
    import duckdb

    if duckdb.__version__.startswith("1."):
        return connection.execute(sql)
    return connection.sql(sql)


def register_rows(connection: Any, name: str, rows: pa.Table | pa.RecordBatchReader) -> None:
    """Make rows a view of a connection, all of whose conditions DuckDB evaluates itself.

    DuckDB 1.5 lets pyarrow evaluate those of pyarrow's own objects: NaN is then no number, and a
    list of timestamps has no nanoseconds and no infinity. A reader can be read once.
    """
    below, columns = f"{name}_in_arrow", "*"
    if isinstance(rows, pa.RecordBatchReader):
        # Conditions are not pushed into a capsule, but it cannot be read twice.
        connection.register(below, rows.__arrow_c_stream__())
    else:
        connection.register(below, rows)
        quoted = ['"' + column.replace('"', '""') + '"' for column in rows.schema.names]
        # DuckDB pushes conditions of columns, not of expressions.
        columns = ", ".join(f"coalesce({column}, {column}) AS {column}" for column in quoted)
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT {columns} FROM {below}")  # noqa: S608


def take_cursor() -> Any:
    """Return a second connection of the thread, for a result that is read in pieces.

    Opening one takes as long as reading a small file. Return it with `give_back_cursor` for reuse.
    """
    free = _connections().cursors
    if free:
        return free.pop()
    cursor = thread_connection().cursor()
    cursor.execute(LOSSLESS_SETTINGS)
    return cursor


def give_back_cursor(cursor: Any) -> None:
    """Keep a connection for the next `take_cursor` of this thread."""
    _connections().cursors.append(cursor)


def thread_sandbox() -> Any:
    """Return the thread's own sandbox, for expressions that change nothing in it.

    Opening one takes 15 milliseconds.
    """
    own = _connections()
    if own.sandbox is None:
        own.sandbox = sandbox()
    return own.sandbox


def sandbox(prepare: Callable[[Any], object] | None = None, **settings: str) -> Any:
    """Return a new DuckDB for SQL of others: it has access to nothing but its own memory.

    It reaches no files, no network, no extensions and no variables of Python, and has one thread
    unless `settings` give it more.

    Args:
        prepare: Called with the connection before its configuration is locked.
        settings: More settings of DuckDB, such as `memory_limit`, or a `temp_directory` for what
            exceeds it.
    """
    import duckdb

    connection = duckdb.connect(config={"threads": "1", "temp_directory": "", **settings})
    connection.execute(_NO_ACCESS)
    if prepare is not None:
        prepare(connection)
    connection.execute("SET lock_configuration = true")
    return connection
