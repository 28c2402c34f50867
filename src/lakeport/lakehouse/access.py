"""What all objects of a lake catalog share: the lake, what is known of it, and the Spark session.

A snapshot never changes, so everything here is remembered by snapshot. The newest one is asked for
anew by every request, with one small question.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, Union

from lakeport.ducklake import Contents, Snapshot, SnapshotCache
from lakeport.ducklake.lifetimes import why_missing
from lakeport.ducklake.text import ascii_lower
from lakeport.errors import DefinitionError, NotFoundError
from lakeport.lakehouse.plans import PlanCache
from lakeport.spark import Lake, LakeTable, session
from lakeport.spark.failures import retried_when_lost
from lakeport.spark.queries import is_connect
from lakeport.spark.session import is_running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LakeAccess", "SparkSource"]

SparkSource: TypeAlias = Union["SparkSession", "Callable[[], SparkSession]"]
"""A session, or a callable that returns the one to use now."""


class LakeAccess:
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
        """The newest snapshot."""
        found = self.lake.snapshot()
        return self._snapshots.remembered(found.id, lambda: found)

    def snapshot(self, id: int) -> Snapshot:
        """A snapshot by its id."""
        return self._snapshots.remembered(id, lambda: self.lake.snapshot(version=id))

    def contents(self, snapshot: Snapshot) -> Contents:
        """What the lake holds at a snapshot; commits that only change rows share one answer."""
        return self._contents.remembered(
            snapshot.schema_version, lambda: self.lake.contents(version=snapshot.id)
        )

    def table(self, schema: str, name: str, snapshot: int) -> LakeTable:
        """The table that has this name at a snapshot."""
        return self._tables.remembered(
            (snapshot, ascii_lower(schema), ascii_lower(name)),
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
