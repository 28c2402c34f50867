"""DuckDB as a cast function: a lake's values convert exactly as DuckDB converts them.

Arrow's own casts differ from DuckDB's in rounding, infinities and text forms. Everything that is
not a plain widening goes through an in-memory DuckDB, a column at a time, Arrow in and Arrow out.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Final

__all__ = ["give_back_cursor", "take_cursor", "thread_connection"]

_SETTINGS: Final = "SET arrow_lossless_conversion = true; SET TimeZone = 'UTC'"
_local = threading.local()


def _reset_after_fork() -> None:
    """A forked process must not touch its parent's DuckDB."""
    _local.__dict__.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def thread_connection() -> Any:
    """The thread's own in-memory DuckDB, which keeps every type on its way to Arrow."""
    found = getattr(_local, "connection", None)
    if found is None:
        import duckdb

        found = duckdb.connect(config={"threads": 1})
        found.execute(_SETTINGS)
        _local.connection = found
    return found


def take_cursor() -> Any:
    """A connection beside the thread's own, for a result that is read bit by bit.

    A new one costs as much as reading a small file, so give it back to be used again.
    """
    free = _local.__dict__.setdefault("cursors", [])
    if free:
        return free.pop()
    cursor = thread_connection().cursor()
    cursor.execute(_SETTINGS)
    return cursor


def give_back_cursor(cursor: Any) -> None:
    """Keep a connection for the next file."""
    _local.__dict__.setdefault("cursors", []).append(cursor)
