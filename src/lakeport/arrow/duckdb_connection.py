"""In-memory DuckDB connections: one for each thread, and sandboxes for SQL of others.

The connections of threads cast Arrow columns with DuckDB's semantics: Arrow's own casts differ in
rounding, infinities and text forms. They also parse SQL and evaluate filters.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Final

__all__ = [
    "arrow_query",
    "give_back_cursor",
    "sandbox",
    "take_cursor",
    "thread_connection",
    "thread_sandbox",
]

_SETTINGS: Final = "SET arrow_lossless_conversion = true; SET TimeZone = 'UTC'"
_NO_ACCESS: Final = """
    SET temp_directory = '';
    SET python_enable_replacements = false;
    SET autoinstall_known_extensions = false;
    SET autoload_known_extensions = false;
    SET allow_community_extensions = false;
    SET enable_external_access = false;
"""
_local = threading.local()


_of_parent: list[dict[str, Any]] = []


def _reset_after_fork() -> None:
    """Forget the connections of the parent process, which a forked process must not use.

    They are not released: DuckDB 2.0 would wait for threads that only the parent process has.
    """
    _of_parent.append(dict(_local.__dict__))
    _local.__dict__.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def thread_connection() -> Any:
    """Return the thread's own in-memory DuckDB. It converts every type to Arrow without loss."""
    connection = getattr(_local, "connection", None)
    if connection is None:
        import duckdb

        connection = duckdb.connect(config={"threads": 1})
        connection.execute(_SETTINGS)
        _local.connection = connection
    return connection


def arrow_query(connection: Any, sql: str, parameters: object = None) -> Any:
    """Return the result of a query, to be read as Arrow without a copy of its rows.

    That is `execute` in DuckDB 1.5, and `sql` in DuckDB 2.0, which warns about the other.
    """
    import duckdb

    if duckdb.__version__.startswith("1."):
        return connection.execute(sql, parameters)
    return connection.sql(sql, params=parameters)


def take_cursor() -> Any:
    """Return a second connection of the thread, for a result that is read in pieces.

    Opening one takes as long as reading a small file. Return it with `give_back_cursor` for reuse.
    """
    free = _local.__dict__.setdefault("cursors", [])
    if free:
        return free.pop()
    cursor = thread_connection().cursor()
    cursor.execute(_SETTINGS)
    return cursor


def give_back_cursor(cursor: Any) -> None:
    """Keep a connection for the next `take_cursor` of this thread."""
    _local.__dict__.setdefault("cursors", []).append(cursor)


def thread_sandbox() -> Any:
    """Return the thread's own sandbox, for expressions that change nothing in it.

    Opening one takes 15 milliseconds.
    """
    connection = getattr(_local, "sandbox", None)
    if connection is None:
        connection = _local.sandbox = sandbox()
    return connection


def sandbox(prepare: Callable[[Any], object] | None = None, **settings: str) -> Any:
    """Return a new DuckDB for SQL of others: it has access to nothing but its own memory.

    It reaches no files, no network, no extensions and no variables of Python, and has one thread
    unless `settings` give it more.

    Args:
        prepare: Called with the connection before its configuration is locked.
        settings: More settings of DuckDB, such as `memory_limit`.
    """
    import duckdb

    connection = duckdb.connect(config={"threads": "1", **settings})
    connection.execute(_NO_ACCESS)
    if prepare is not None:
        prepare(connection)
    connection.execute("SET lock_configuration = true")
    return connection
