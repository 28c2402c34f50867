"""Files of the operating system: a reserve of descriptors, and a check before a file is opened.

Some work must not fail when a process has used up its descriptors. The kernel counts them against
the soft limit of a process. `keep_reserve` sets the soft limit below the hard limit; `reserve`
raises it while a block runs.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lakeport.errors import CorruptLakeError, UnavailableError

__all__ = ["check_regular", "for_database", "keep_reserve", "reserve", "usage"]

_RESERVED: Final = 64
_FOLDER: Final = "/proc/self/fd"

# DuckDB 1.5.5 ends the process if it cannot open its file ("terminate called … Attempted to
# dereference unique_ptr that is NULL"), so this many must be free before DuckDB is called.
_NEEDED: Final = 8

# Guards the soft limit, which several threads raise and lower.
_lock = threading.Lock()
_users = 0
_usual: int | None = None


def keep_reserve() -> None:
    """Raise the soft limit of this process to the hard limit, less a reserve."""
    global _usual  # noqa: PLW0603
    import resource

    with _lock:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard == resource.RLIM_INFINITY:
            return
        _usual = max(hard - _RESERVED, hard // 2)
        resource.setrlimit(resource.RLIMIT_NOFILE, (_usual, hard))


@contextmanager
def reserve() -> Iterator[None]:
    """Raise the soft limit to the hard limit while the block runs, if there is a reserve."""
    _enter(1)
    try:
        yield
    finally:
        _enter(-1)


@contextmanager
def for_database() -> Iterator[None]:
    """Raise UnavailableError if too few descriptors are left to open a database file."""
    with reserve():
        taken: list[int] = []
        try:
            while len(taken) < _NEEDED:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            raise UnavailableError(
                "the server has no file descriptors left: raise its limit (ulimit -n), or try "
                "again when it has fewer connections"
            ) from None
        finally:
            for descriptor in taken:
                os.close(descriptor)
        yield


def usage() -> tuple[int, int] | None:
    """Return how many descriptors are open and how many may be; None where /proc is missing."""
    import resource

    try:
        with reserve():
            opened = len(os.listdir(_FOLDER))  # noqa: PTH208 (no object for each)
    except OSError:
        return None
    return opened, _usual or resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _enter(change: int) -> None:
    global _users
    if _usual is None:
        return
    import resource

    with _lock:
        before, _users = _users, _users + change
        if bool(before) != bool(_users):
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard if _users else _usual, hard))


_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_regular(path: str, *, subject: str = "the lake's file") -> None:
    """Raise CorruptLakeError for a local path that is not a regular file.

    Opening a named pipe can block without a time limit. `subject` names the path in the error.
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 (a path with a null byte, too)
    except (OSError, ValueError):
        # The caller opens the file next and raises the error of that.
        return
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise CorruptLakeError(f"{subject} {path!r} is not a regular file but {kind}")
