"""Paths of a lake: joined level by level as plain text, and never out of their root.

Percent signs are part of the name: hive folders are stored encoded and exist under that very name.
"""

from __future__ import annotations

import os
import re
import stat
from urllib.parse import unquote

from lakeport.errors import CorruptLakeError

__all__ = ["as_directory", "check_regular", "hive_value", "is_local", "local_path", "resolve"]

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def as_directory(path: str) -> str:
    """A directory with its separator; the empty path stays empty."""
    if not path or path.endswith(("/", "\\")):
        return path
    return path + "/"


def resolve(root: str, path: str, *, relative: bool) -> str:
    """A path of the catalog below `root`, or the path itself when it is absolute."""
    if not relative:
        return path
    parts = re.split(r"[/\\]", path)
    if ".." in parts or path.startswith(("/", "\\")) or "\x00" in path:
        raise CorruptLakeError(f"the relative path {path!r} leads out of {root!r}")
    return as_directory(root) + path


def is_local(path: str) -> bool:
    """Whether a resolved path is on the local file system."""
    return "://" not in path or path.startswith("file:")


def local_path(path: str) -> str:
    """The plain path of a local file, without its `file:` prefix."""
    if path.startswith("file://"):
        return (
            path[len("file://") :]
            if not path.startswith("file://localhost/")
            else path[len("file://localhost") :]
        )
    return path[len("file:") :] if path.startswith("file:/") else path


_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_regular(path: str, *, what: str = "the lake's file") -> None:
    """Refuse a local path that is no regular file: to open a pipe may wait without end."""
    try:
        mode = os.stat(local_path(path)).st_mode  # noqa: PTH116 (a path with a null byte, too)
    except (OSError, ValueError):
        # The caller opens it next, and raises the error that fits.
        return
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise CorruptLakeError(f"{what} {path!r} is not a regular file but {kind}")


def hive_value(path: str, name: str, *, is_text: bool) -> str | None:
    """The value of a column that the folders of a path tell; an empty one is NULL but for text."""
    values = _hive_values(path)
    if name.lower() not in values:
        raise CorruptLakeError(f"the path {path!r} has no folder {name}=")
    value = values[name.lower()]
    return None if value == "" and not is_text else value


def _hive_values(path: str) -> dict[str, str | None]:
    """The `key=value` folders of a path, keys in lower case, values decoded; the first of a key."""
    found: dict[str, str | None] = {}
    for part in re.split(r"[/\\]", path)[:-1]:
        key, equals, value = part.partition("=")
        if equals and key:
            is_null = value == _HIVE_NULL or value.lower() == "null"
            found.setdefault(unquote(key).lower(), None if is_null else unquote(value))
    return found
