"""The resources that all objects of a lake catalog share: the lake, caches, the engine.

A snapshot never changes, so caches are keyed by snapshot. Every request queries the newest snapshot
again, with one small statement.
"""

from __future__ import annotations

import re
import threading
import uuid
from typing import TYPE_CHECKING

from lakeport._cache import LruCache
from lakeport.catalog import TimePoint, TimeUnit, current_request, once_per_request
from lakeport.ducklake import AutoEngine, Engine, Lake, LakeTable, Scan, ScanPlan, Snapshot
from lakeport.ducklake.metadata import LakeContents, why_missing
from lakeport.ducklake.reading import InlinedTask
from lakeport.errors import DefinitionError, InvalidArgumentError, NotFoundError
from lakeport.spark import SparkEngine, retried_when_lost
from lakeport.types import fold_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "LakeResources",
    "begin_transaction",
    "current_snapshot",
    "snapshot_at",
    "transaction_snapshot",
]


_MAX_PLAN_BYTES = 64 * 1024 * 1024


class LakeResources:
    """A lake, the caches of its metadata, and the engine that reads it."""

    def __init__(self, lake: Lake, *, engine: Engine, endpoints: int | None) -> None:
        if endpoints is not None and endpoints < 1:
            raise DefinitionError("a scan needs at least one endpoint")
        self.lake = lake
        self.engine = engine
        self.plans = LruCache(_MAX_PLAN_BYTES, weigh=_weight)
        self.details = LruCache(10_000)
        """Small facts about a snapshot, which never change: sizes, statistics."""
        self._snapshots = LruCache(10_000)
        self._contents = LruCache(8)
        self._tables = LruCache(1000)
        # Guards the engine of what only Spark can run, made when it is first needed.
        self._lock = threading.Lock()
        self._spark: SparkEngine | None = None
        self._endpoints = endpoints
        self._parallelism: dict[str, int] = {}

    def newest(self) -> Snapshot:
        """Return the newest snapshot; a request reads it once, so all its answers agree."""
        newest = once_per_request(("newest snapshot", self), self.lake.snapshot)
        return self._snapshots.get_or_load(newest.id, lambda: newest)

    def snapshot(self, id: int) -> Snapshot:
        """Return a snapshot by its id."""
        return self._snapshots.get_or_load(id, lambda: self.lake.snapshot(version=id))

    def contents(self, snapshot: Snapshot) -> LakeContents:
        """Return the contents of a snapshot; commits that only change rows share them."""
        return self._contents.get_or_load(
            snapshot.schema_version, lambda: self.lake.contents(version=snapshot.id)
        )

    def table(self, schema: str, name: str, snapshot: int) -> LakeTable:
        """Return the table that has this name at a snapshot."""
        return self._tables.get_or_load(
            (snapshot, fold_name(schema), fold_name(name)),
            lambda: self.lake.table(name, schema, version=snapshot),
        )

    def missing_table(self, schema: str, name: str, snapshot: int, *, shown: str) -> NotFoundError:
        """Return the error for a table that a snapshot lacks; `shown` is its name in the message.

        It names the snapshots that created and dropped the table, if it ever existed.
        """
        reason = why_missing(self.lake.lifetimes(), schema, name, snapshot)
        if reason is None:
            return NotFoundError(f"there is no table {shown}")
        return NotFoundError(f"there is no table {shown} at snapshot {snapshot}: {reason}")

    def session(self) -> SparkSession:
        """Return the Spark session: the engine's, or one that is started now if none is running."""
        with self._lock:
            if self._spark is None:
                engine = self.engine.spark if isinstance(self.engine, AutoEngine) else self.engine
                self._spark = engine if isinstance(engine, SparkEngine) else SparkEngine()
        return self._spark.session()

    def endpoints(self, plan: ScanPlan) -> int:
        """Return the largest number of parts of a scan: as configured, or one for each core."""
        if self._endpoints is not None:
            return self._endpoints
        # Of the engine that reads the plan: a small scan needs no running Spark.
        engine = Scan(plan, self.engine).runs_on
        # Needs no lock: concurrent threads compute the same number.
        if engine.name not in self._parallelism:
            with retried_when_lost():
                self._parallelism[engine.name] = engine.parallelism
        return self._parallelism[engine.name]


_IDENTIFIER = re.compile(r"(\d{1,18})-[0-9a-f]{32}")
_VERSION = re.compile(r"\d{1,18}")


def current_snapshot(access: LakeResources) -> Snapshot:
    """Return the snapshot of the request's transaction, or the newest one."""
    identifier = current_request().transaction_id
    if not identifier:
        return access.newest()
    id = transaction_snapshot(identifier)
    if id is None:
        raise InvalidArgumentError("the transaction is not one of this lake")
    return access.snapshot(id)


def begin_transaction(access: LakeResources) -> str:
    """Return the identifier of a new transaction that reads the newest snapshot."""
    return f"{access.newest().id}-{uuid.uuid4().hex}"


def transaction_snapshot(identifier: str) -> int | None:
    """Return the snapshot id in a transaction identifier; None if it has another form."""
    match = _IDENTIFIER.fullmatch(identifier)
    return int(match.group(1)) if match else None


def snapshot_at(access: LakeResources, time_point: TimePoint) -> Snapshot:
    """Return the snapshot of `AT (VERSION => …)` or `AT (TIMESTAMP => …)`."""
    if time_point.unit is TimeUnit.TIMESTAMP:
        return access.lake.snapshot(timestamp=time_point.value)
    if not _VERSION.fullmatch(time_point.value):
        raise InvalidArgumentError(f"{time_point.value[:80]!r} is not the number of a snapshot")
    return access.snapshot(int(time_point.value))


# The approximate bytes of a task in memory, without its inlined rows.
_TASK_BYTES = 2000


def _weight(plan: ScanPlan) -> int:
    carried = sum(len(task.data) for task in plan.tasks if isinstance(task, InlinedTask))
    return carried + _TASK_BYTES * (len(plan.tasks) + 1)
