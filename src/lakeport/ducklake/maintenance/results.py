"""What maintenance has done, or would do, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Cancel", "MaintenanceResult", "Operation", "Progress", "ProgressCallback", "total"]

Operation: TypeAlias = Literal["merge", "rewrite", "flush", "expire", "clean_up", "remove_orphans"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceResult:
    """The outcome of one operation on a table or a lake. With `dry_run`, nothing was changed."""

    operation: Operation
    table: str | None = None
    """Schema and name of the table; None for an operation on the whole lake."""
    dry_run: bool = False
    files_replaced: int = 0
    """Files that were merged, rewritten, or deleted."""
    files_written: int = 0
    bytes_replaced: int = 0
    bytes_written: int = 0
    """Estimated in a dry run."""
    rows: int = 0
    """Rows that were moved to other files."""
    deletes: int = 0
    """Deleted rows that were removed, or inlined deletes that were moved to files."""
    expired: tuple[int, ...] = ()
    """The snapshots that were removed."""
    commits: tuple[int, ...] = ()
    """The snapshots that were made."""
    redone: int = 0
    """Groups of files that were compacted again, because others had deleted rows of them."""
    paths: tuple[str, ...] = ()
    """The files that were deleted from storage."""
    skipped: tuple[str, ...] = ()
    """What was left as it is, with the reason."""

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to do."""
        return not (
            self.files_replaced or self.files_written or self.rows or self.deletes or self.expired
        )

    @property
    def bytes_saved(self) -> int:
        """Bytes that storage no longer needs, once no snapshot needs the replaced files."""
        return self.bytes_replaced - self.bytes_written


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an operation is."""

    operation: Operation
    table: str | None
    done: int
    """Groups of files that are committed."""
    groups: int
    bytes_done: int
    bytes: int


ProgressCallback: TypeAlias = Callable[[Progress], None]
Cancel: TypeAlias = Callable[[], bool]
"""Returns whether an operation should end; what it has finished is kept."""


def total(results: Iterable[MaintenanceResult], operation: Operation) -> MaintenanceResult:
    """Return the results of several tables as one."""
    found = [result for result in results if result.operation == operation]
    return MaintenanceResult(
        operation=operation,
        dry_run=any(result.dry_run for result in found),
        files_replaced=sum(result.files_replaced for result in found),
        files_written=sum(result.files_written for result in found),
        bytes_replaced=sum(result.bytes_replaced for result in found),
        bytes_written=sum(result.bytes_written for result in found),
        rows=sum(result.rows for result in found),
        deletes=sum(result.deletes for result in found),
        expired=tuple(id for result in found for id in result.expired),
        commits=tuple(id for result in found for id in result.commits),
        redone=sum(result.redone for result in found),
        paths=tuple(path for result in found for path in result.paths),
        skipped=tuple(reason for result in found for reason in result.skipped),
    )
