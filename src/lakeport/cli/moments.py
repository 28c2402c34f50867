"""`--at`: a snapshot by its number or by a time."""

from __future__ import annotations

import re
from typing import TypedDict

__all__ = ["Moment", "is_version", "moment_of"]


class Moment(TypedDict, total=False):
    """The arguments of a lake's methods that choose a snapshot; empty for the newest."""

    version: int
    timestamp: str


def is_version(at: str) -> bool:
    """Whether `--at` is a number; otherwise it is a time."""
    return re.fullmatch(r"[0-9]{1,18}", at) is not None


def moment_of(at: str | None) -> Moment:
    """The snapshot that `--at` means."""
    if at is None:
        return {}
    return {"version": int(at)} if is_version(at) else {"timestamp": at}
