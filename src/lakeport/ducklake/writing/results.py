"""What a write has done."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WriteResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """The outcome of a committed transaction."""

    snapshot: int | None
    """The snapshot that was made; None if there was nothing to commit."""
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    files_added: int = 0
    bytes_added: int = 0
    attempts: int = 1
    """The number of database transactions until the commit succeeded."""
