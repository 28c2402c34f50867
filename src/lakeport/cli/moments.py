"""`--at`: a snapshot by its number or by a time."""

from __future__ import annotations

from typing import TypedDict

__all__ = ["Moment", "moment_of"]


class Moment(TypedDict, total=False):
    """The arguments of a lake's methods that choose a snapshot; empty for the newest."""

    version: int
    timestamp: str


def moment_of(at: str | None) -> Moment:
    """The snapshot that `--at` means."""
    if at is None:
        return {}
    return {"version": int(at)} if at.isdigit() else {"timestamp": at}
