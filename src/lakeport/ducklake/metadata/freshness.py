"""The newest snapshot of a lake. The catalog database is asked only if it may have changed.

A database in a file has a signal that costs microseconds, and that differs after every commit:

* DuckDB: inode, size and times of the file and of its write-ahead log. A file system gives two
  changes of one clock tick the same time, and DuckDB writes a commit some time before readers can
  see it. So the signal of a file that was changed in the last seconds is not used.
* SQLite: `PRAGMA data_version` on a connection that stays open. SQLite defines it to differ after
  commits of other connections, with a rollback journal and with a write-ahead log.

A network file system may return old sizes and times, so only local ones are trusted. A database
server is asked by one statement. Everything that decides whether an answer is fresh is here.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from lakeport._files import for_database
from lakeport.ducklake.metadata.location import Location
from lakeport.ducklake.metadata.queries import CatalogReader
from lakeport.ducklake.metadata.rows import SnapshotRow

__all__ = ["DuckDBFileSignal", "NewestSnapshot", "SQLiteSignal", "Signal"]

QUIET_SECONDS: Final = 2.0
"""How long a DuckDB file must be unchanged before its signal is used."""

_LOCAL_FILE_SYSTEMS: Final = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "tmpfs", "xfs", "zfs"}
)
_MOUNTS: Final = Path("/proc/self/mountinfo")


class Signal(Protocol):
    """A value that differs after every commit to a database."""

    def read(self) -> Hashable | None:
        """Return the value now; None if the database has to be asked."""
        ...

    def close(self) -> None:
        """Release files."""
        ...


class NewestSnapshot:
    """The newest snapshot of a catalog. May be used by many threads."""

    def __init__(self, catalog: CatalogReader, *, signal: Signal | None = None) -> None:
        self._catalog = catalog
        self._signal = _signal_of(catalog.database.location) if signal is None else signal
        # One tuple, replaced as a whole: concurrent readers need no lock.
        self._known: tuple[Hashable | None, float, SnapshotRow | None] | None = None

    def read(self, *, max_age: float = 0.0) -> SnapshotRow | None:
        """Return the row of the newest snapshot; None if the lake has none.

        It is never older than this call. With `max_age`, the answer of a database server may be
        that many seconds old, which saves a round trip. Files are checked in any case.
        """
        # The signal is read first: a commit during the query makes the next signal differ.
        signal = None if self._signal is None else self._signal.read()
        known, now = self._known, time.monotonic()
        if known is not None and self._is_fresh(known, signal, now - max_age):
            return known[2]
        newest = self._catalog.database.read(self._catalog.newest, autocommit=True)
        self._known = (signal, now, newest)
        return newest

    def close(self) -> None:
        """Release files that the signal has open."""
        if self._signal is not None:
            self._signal.close()

    def _is_fresh(
        self,
        known: tuple[Hashable | None, float, SnapshotRow | None],
        signal: Hashable | None,
        since: float,
    ) -> bool:
        if self._signal is None:
            return known[1] > since
        return signal is not None and known[0] == signal


class DuckDBFileSignal:
    """Inode, size and times of a DuckDB file and of its write-ahead log."""

    def __init__(self, path: str, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._paths = (path, f"{path}.wal")
        self._clock = clock

    def read(self) -> Hashable | None:
        """Return the identity of both files; None if one was changed in the last seconds."""
        now = self._clock()
        found = tuple(_identity(path) for path in self._paths)
        if found[0] is None:
            return None
        latest = max(max(identity[3:]) for identity in found if identity is not None)
        return found if latest + QUIET_SECONDS * 1e9 < now else None

    def close(self) -> None:
        """Do nothing: no file is open."""


class SQLiteSignal:
    """`PRAGMA data_version` of a SQLite file, on a connection that is opened once."""

    def __init__(self, path: str, *, connect: Callable[[str], sqlite3.Connection]) -> None:
        self._path = path
        self._connect = connect
        # Guards the connection, which one thread uses at a time.
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._opened = 0

    def read(self) -> Hashable | None:
        """Return the version of the data; None if the file cannot be read now."""
        with self._lock:
            try:
                stat = os.stat(self._path)  # noqa: PTH116 (no object for each request)
                connection = self._connected((stat.st_dev, stat.st_ino))
                (version,) = connection.execute("PRAGMA data_version").fetchone()
            except (OSError, sqlite3.Error):
                self._release()
                return None
            return (self._opened, version)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._release()

    def _connected(self, file: tuple[int, int]) -> sqlite3.Connection:
        """Return the connection; a new one if another file has the path now."""
        if self._connection is None or self._file != file:
            self._release()
            with for_database():
                self._connection = self._connect(self._path)
            self._file = file
            # Two connections may return the same version for different data.
            self._opened += 1
        return self._connection

    def _release(self) -> None:
        connection, self._connection, self._file = self._connection, None, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


def _signal_of(location: Location) -> Signal | None:
    """Return the signal of a database; None if it has none and has to be asked."""
    if location.kind not in ("duckdb", "sqlite"):
        return None
    if not _is_local(location.path):
        return _NoSignal()
    if location.kind == "duckdb":
        return DuckDBFileSignal(location.path)
    from lakeport.ducklake.metadata.database import open_sqlite

    return SQLiteSignal(location.path, connect=open_sqlite)


class _NoSignal:
    """The signal of a file on a network: there is none, and the file is read for every answer."""

    def read(self) -> None:
        return None

    def close(self) -> None:
        pass


def _identity(path: str) -> tuple[int, int, int, int, int] | None:
    """Return device, inode, size and times of a file; None if it does not exist."""
    try:
        stat = os.stat(path)  # noqa: PTH116 (no object for each request)
    except FileNotFoundError:
        return None
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def _is_local(path: str) -> bool:
    """Return whether a file is on a file system of this machine; False where it is not known."""
    try:
        mounts = _MOUNTS.read_text()
    except OSError:
        return False
    folder = os.path.realpath(path)
    kinds: dict[str, str] = {}
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        point = fields.split(" ")[4].encode().decode("unicode_escape")
        if folder == point or folder.startswith(point.rstrip("/") + "/"):
            kinds[point] = rest.split(" ")[0]
    return bool(kinds) and kinds[max(kinds, key=len)] in _LOCAL_FILE_SYSTEMS
