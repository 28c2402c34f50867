"""Open a catalog database in a DuckDB file for one question, and release it at once.

A writer cannot have the file while a reader has it. So the file is attached, read-only, to a DuckDB
in memory that this process keeps, and detached when its last reader is done. Attaching takes about
a sixth of the time of `duckdb.connect`, which starts a new DuckDB.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import duckdb
from duckdb_engine import ConnectionWrapper

from lakeport._files import for_database

__all__ = ["open_duckdb_file"]


def open_duckdb_file(path: str) -> Any:
    """Return a connection, for SQLAlchemy, whose default database is a file."""
    with for_database():
        try:
            return _AttachedConnection(path)
        except duckdb.BinderException as error:
            # This process has the file open for writing: only a connection like that one works.
            if "Unique file handle conflict" not in str(error):
                raise
            return ConnectionWrapper(duckdb.connect(path))


@dataclass(slots=True)
class _Attachment:
    name: str
    readers: int


# Guards the attached files, which concurrent readers share.
_lock: Final = threading.Lock()
_attached: Final[dict[str, _Attachment]] = {}
_numbers: Final = count(1)
_instances: Final[dict[int, duckdb.DuckDBPyConnection]] = {}


def _instance() -> duckdb.DuckDBPyConnection:
    """Return the DuckDB in memory of this process; that of a parent has no threads in a fork."""
    instance = _instances.get(os.getpid())
    if instance is None:
        _attached.clear()
        instance = _instances[os.getpid()] = duckdb.connect()
    return instance


class _AttachedConnection(ConnectionWrapper):
    """A connection to an attached file, which is detached when its last connection is closed."""

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)
        with _lock:
            instance = _instance()
            attachment = _attached.get(self._path)
            if attachment is None:
                attachment = _Attachment(f"catalog_{next(_numbers)}", 0)
                place = self._path.replace("'", "''")
                instance.execute(f"ATTACH '{place}' AS {attachment.name} (TYPE duckdb, READ_ONLY)")
                _attached[self._path] = attachment
            attachment.readers += 1
        self._attachment: _Attachment | None = attachment
        super().__init__(instance.cursor())
        try:
            self.execute(f"USE {attachment.name}")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, and release the file if no other connection reads it."""
        with _lock:
            attachment, self._attachment = self._attachment, None
            if attachment is None:
                return
            super().close()
            attachment.readers -= 1
            if not attachment.readers and _attached.get(self._path) is attachment:
                del _attached[self._path]
                _instance().execute(f"DETACH {attachment.name}")
