"""What all objects of a lake catalog share: the lake, what is known of it, and the Spark session.

A snapshot never changes, so everything here is remembered by snapshot. The newest one is asked for
anew by every request, with one small question.
"""

from __future__ import annotations

import os
import re
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, TypeAlias, Union

from lakeport._cache import SnapshotCache
from lakeport.catalog import TimePoint, TimeUnit, current_request, once_per_request
from lakeport.ducklake import Snapshot
from lakeport.ducklake.metadata import LakeContents, why_missing
from lakeport.ducklake.reading import InlinedTask
from lakeport.errors import DefinitionError, InvalidArgumentError, NotFoundError
from lakeport.spark import Lake, LakeTable, Scan, is_connect, is_running, retried_when_lost, session
from lakeport.types import fold_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "LakeResources",
    "PlanCache",
    "SparkSource",
    "begin_transaction",
    "current_snapshot",
    "snapshot_at",
    "transaction_snapshot",
]

SparkSource: TypeAlias = Union["SparkSession", "Callable[[], SparkSession]"]
"""A session, or a callable that returns the one to use now."""


class LakeResources:
    """A lake with what is remembered of it, and the session that reads it."""

    def __init__(self, lake: Lake, *, spark: SparkSource | None, endpoints: int | None) -> None:
        if endpoints is not None and endpoints < 1:
            raise DefinitionError("a scan needs at least one endpoint")
        self.lake = lake
        self.plans = PlanCache()
        self.details = SnapshotCache(10_000)
        """Small facts that are true of a snapshot for ever: sizes, statistics."""
        self._snapshots = SnapshotCache(10_000)
        self._contents = SnapshotCache(8)
        self._tables = SnapshotCache(1000)
        # Guards the session, which is started when the first scan needs it.
        self._lock = threading.Lock()
        self._find: Callable[[], SparkSession] | None = spark if callable(spark) else None
        self._spark = None if callable(spark) else spark
        self._is_own = spark is None
        self._endpoints = endpoints

    def newest(self) -> Snapshot:
        """Return the newest snapshot; a request reads it once, so all its answers agree."""
        found = once_per_request(("newest snapshot", self), self.lake.snapshot)
        return self._snapshots.remembered(found.id, lambda: found)

    def snapshot(self, id: int) -> Snapshot:
        """A snapshot by its id."""
        return self._snapshots.remembered(id, lambda: self.lake.snapshot(version=id))

    def contents(self, snapshot: Snapshot) -> LakeContents:
        """What the lake holds at a snapshot; commits that only change rows share one answer."""
        return self._contents.remembered(
            snapshot.schema_version, lambda: self.lake.contents(version=snapshot.id)
        )

    def table(self, schema: str, name: str, snapshot: int) -> LakeTable:
        """The table that has this name at a snapshot."""
        return self._tables.remembered(
            (snapshot, fold_name(schema), fold_name(name)),
            lambda: self.lake.table(name, schema, version=snapshot),
        )

    def missing_table(self, schema: str, name: str, snapshot: int, *, shown: str) -> NotFoundError:
        """Return the error about a table that a snapshot does not have; `shown` is its name there.

        It names the snapshots that created and dropped the table, if it ever existed.
        """
        reason = why_missing(self.lake.lifetimes(), schema, name, snapshot)
        if reason is None:
            return NotFoundError(f"there is no table {shown}")
        return NotFoundError(f"there is no table {shown} at snapshot {snapshot}: {reason}")

    def session(self) -> SparkSession:
        """The Spark session: the caller's, or one that is started now if none is running."""
        if self._find is not None:
            return self._find()
        with self._lock:
            if self._spark is None or (self._is_own and not is_running(self._spark)):
                self._spark = session()
            return self._spark

    def endpoints(self) -> int:
        """Into how many parts a scan is divided at most: one for each core, unless told."""
        if self._endpoints is None:
            # Several threads would find the same.
            with retried_when_lost():
                self._endpoints = _cores(self._spark if self._find is None else self._find())
        return self._endpoints


def _cores(spark: SparkSession | None) -> int:
    if spark is not None and not is_connect(spark):
        return max(1, int(spark.sparkContext.defaultParallelism))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_IDENTIFIER = re.compile(r"(\d{1,18})-[0-9a-f]{32}")
_VERSION = re.compile(r"\d{1,18}")


def current_snapshot(access: LakeResources) -> Snapshot:
    """The snapshot of the request's transaction, or the newest."""
    identifier = current_request().transaction_id
    if not identifier:
        return access.newest()
    id = transaction_snapshot(identifier)
    if id is None:
        raise InvalidArgumentError("the transaction is not one of this lake")
    return access.snapshot(id)


def begin_transaction(access: LakeResources) -> str:
    """An identifier of a transaction that reads what is newest now."""
    return f"{access.newest().id}-{uuid.uuid4().hex}"


def transaction_snapshot(identifier: str) -> int | None:
    """The id of the snapshot that a transaction reads; None for an identifier of somebody else."""
    match = _IDENTIFIER.fullmatch(identifier)
    return int(match.group(1)) if match else None


def snapshot_at(access: LakeResources, time_point: TimePoint) -> Snapshot:
    """The snapshot of `AT (VERSION => …)` or `AT (TIMESTAMP => …)`."""
    if time_point.unit is TimeUnit.TIMESTAMP:
        return access.lake.snapshot(timestamp=time_point.value)
    if not _VERSION.fullmatch(time_point.value):
        raise InvalidArgumentError(f"{time_point.value[:80]!r} is not the number of a snapshot")
    return access.snapshot(int(time_point.value))


# About what a task weighs in memory, besides the inlined rows that it carries.
_TASK_BYTES = 2000


class PlanCache:
    """The plans that were made last, as many as fit into `max_bytes`."""

    def __init__(self, *, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._plans: OrderedDict[Hashable, tuple[Scan, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._plans)

    def keep(self, key: Hashable, plan: Scan) -> None:
        """Keep a plan; the ones that were used least lately make room for it."""
        size = _weight(plan)
        with self._lock:
            self._drop(key)
            self._plans[key] = (plan, size)
            self._bytes += size
            while self._bytes > self._max_bytes:
                self._drop(next(iter(self._plans)))

    def find(self, key: Hashable) -> Scan | None:
        """The plan of a key, if it is still there."""
        with self._lock:
            found = self._plans.get(key)
            if found is None:
                return None
            self._plans.move_to_end(key)
            return found[0]

    def _drop(self, key: Hashable) -> None:
        dropped = self._plans.pop(key, None)
        if dropped is not None:
            self._bytes -= dropped[1]


def _weight(plan: Scan) -> int:
    carried = sum(len(task.data) for task in plan.tasks if isinstance(task, InlinedTask))
    return carried + _TASK_BYTES * (len(plan.tasks) + 1)
