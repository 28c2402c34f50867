"""Names of new objects: what is refused, and in which directory a schema or table lies."""

from __future__ import annotations

import re
from typing import Final

from lakeport.errors import InvalidArgumentError

__all__ = ["check_name", "directory_name", "reserved_names"]

_SYSTEM: Final = frozenset({"row_id", "begin_snapshot", "end_snapshot"})
_INTERNAL: Final = frozenset({"_ducklake_internal_row_id", "_ducklake_internal_snapshot_id"})

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")


def check_name(name: str, what: str) -> None:
    """Raise InvalidArgumentError for a name that no object can have."""
    if not name or "\0" in name:
        raise InvalidArgumentError(f"{name!r} is not the name of a {what}")


def directory_name(name: str, uuid: str) -> str:
    """Return the directory of a new schema or table: its name if it is plain, else its UUID."""
    return f"{name if _PLAIN.fullmatch(name) else uuid}/"


def reserved_names(*, has_prefix: bool, inlines: bool) -> frozenset[str]:
    """Return the column names that a table cannot have, in lower case."""
    return _INTERNAL | (_SYSTEM if inlines and not has_prefix else frozenset())
