"""Which snapshot a request reads: of its time travel clause, of its transaction, or the newest.

A transaction's identifier names its snapshot, so that every replica of a server reads the same one
without having been told.
"""

from __future__ import annotations

import re
import uuid

from lakeport.catalog import TimePoint, TimeUnit, current_request
from lakeport.ducklake import Snapshot
from lakeport.errors import InvalidArgumentError
from lakeport.lakehouse.access import LakeAccess

__all__ = ["begin_transaction", "current_snapshot", "snapshot_at", "transaction_snapshot"]

_IDENTIFIER = re.compile(r"(\d{1,18})-[0-9a-f]{32}")
_VERSION = re.compile(r"\d{1,18}")


def current_snapshot(access: LakeAccess) -> Snapshot:
    """The snapshot of the request's transaction, or the newest."""
    identifier = current_request().transaction_id
    if not identifier:
        return access.newest()
    id = transaction_snapshot(identifier)
    if id is None:
        raise InvalidArgumentError("the transaction is not one of this lake")
    return access.snapshot(id)


def begin_transaction(access: LakeAccess) -> str:
    """An identifier of a transaction that reads what is newest now."""
    return f"{access.newest().id}-{uuid.uuid4().hex}"


def transaction_snapshot(identifier: str) -> int | None:
    """The id of the snapshot that a transaction reads; None for an identifier of somebody else."""
    match = _IDENTIFIER.fullmatch(identifier)
    return int(match.group(1)) if match else None


def snapshot_at(access: LakeAccess, time_point: TimePoint) -> Snapshot:
    """The snapshot of `AT (VERSION => …)` or `AT (TIMESTAMP => …)`."""
    if time_point.unit is TimeUnit.TIMESTAMP:
        return access.lake.snapshot(timestamp=time_point.value)
    if not _VERSION.fullmatch(time_point.value):
        raise InvalidArgumentError(f"{time_point.value[:80]!r} is not the number of a snapshot")
    return access.snapshot(int(time_point.value))
