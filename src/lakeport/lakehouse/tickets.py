"""The parts of a scan, and the tokens that name them.

A token has the ids of table and snapshot, the number of its part, the number of parts, and a digest
of the planned files. It contains no path, key or credential. The server plans the scan again and
returns the part with this number. So any replica can answer a token, and a forged token reads no
more than its table.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgpack

from lakeport.ducklake.planning import ScanPlan
from lakeport.ducklake.reading import FileTask, InlinedTask, ScanTask
from lakeport.errors import InternalError, InvalidArgumentError

__all__ = ["DIGEST_BYTES", "ScanPartToken", "plan_digest", "split_tasks"]

_VERSION = 1
_MAX_TOKEN_BYTES = 200
DIGEST_BYTES = 16
_MAX_ID = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPartToken:
    """One part of a scan of a table at a snapshot."""

    snapshot: int
    table: int
    """The id of the table, which renaming does not change."""
    digest: bytes
    """The digest of the plan that was divided."""
    part: int
    parts: int

    def to_bytes(self) -> bytes:
        """Return the token as bytes of a ticket."""
        fields = [_VERSION, self.snapshot, self.table, self.digest, self.part, self.parts]
        packed: bytes = msgpack.packb(fields)
        return packed

    @classmethod
    def from_bytes(cls, raw: bytes) -> ScanPartToken:
        """Decode a token; raise InvalidArgumentError for other bytes."""
        fields: Any = None
        if len(raw) <= _MAX_TOKEN_BYTES:
            try:
                fields = msgpack.unpackb(raw)
            except (ValueError, msgpack.UnpackException):
                fields = None
        match fields:
            case [1, int(snapshot), int(table), bytes(digest), int(part), int(parts)] if (
                0 <= snapshot <= _MAX_ID
                and 0 <= table <= _MAX_ID
                and len(digest) == DIGEST_BYTES
                and 0 <= part < parts <= _MAX_ID
            ):
                return cls(snapshot=snapshot, table=table, digest=digest, part=part, parts=parts)
        raise InvalidArgumentError("the ticket names a part of a scan that is not one of ours")


def plan_digest(plan: ScanPlan) -> bytes:
    """Return a digest of a plan: files with their ranges and deletes, number of inlined rows."""
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    inlined = 0
    for task in plan.tasks:
        match task:
            case FileTask(file=file):
                deletes = [delete.id for delete in file.deletes]
                digest.update(repr((file.id, task.start, task.end, deletes)).encode())
                digest.update(hashlib.blake2b(task.inlined_deletes).digest())
            case InlinedTask():
                inlined += task.rows
            case _:
                raise InternalError(f"{type(task).__name__} is not a task of a table's scan")
    digest.update(repr(inlined).encode())
    return digest.digest()


def split_tasks(tasks: Sequence[ScanTask], parts: int) -> list[tuple[ScanTask, ...]]:
    """Split tasks into at most `parts` groups of about the same number of bytes.

    Inlined rows stay together: the catalog database may return them in another order next time.
    """
    files = [[task] for task in tasks if not isinstance(task, InlinedTask)]
    inlined = [task for task in tasks if isinstance(task, InlinedTask)]
    pieces: list[list[Any]] = [*files, inlined] if inlined else list(files)
    count = min(parts, len(pieces))
    groups: list[list[ScanTask]] = [[] for _ in range(count)]
    loads = [(0, part) for part in range(count)]
    # The largest first, each to the group with the fewest bytes.
    for piece in sorted(pieces, key=_bytes, reverse=True):
        load, lightest = loads[0]
        groups[lightest] += piece
        # An empty task has a cost, too.
        heapq.heapreplace(loads, (load + _bytes(piece) + 1, lightest))
    return [tuple(group) for group in groups]


def _bytes(piece: Sequence[ScanTask]) -> int:
    return sum(task.estimated_bytes for task in piece)
