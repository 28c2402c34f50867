"""The resources that all objects of a lake catalog share: the lake, caches, the engine.

A snapshot never changes, so caches are keyed by snapshot. A statement asks once which snapshot is
the newest, when its transaction begins, and all its other requests use that snapshot.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport._cache import LruCache
from lakeport.catalog import (
    STATISTICS_ROWS,
    TimePoint,
    TimeUnit,
    current_request,
    forget_fact,
    once_per_request,
)
from lakeport.ducklake import AutoEngine, Engine, Lake, LakeTable, Scan, ScanPlan, Snapshot
from lakeport.ducklake.maintenance import MaintenancePolicy
from lakeport.ducklake.metadata import LakeContents, why_missing
from lakeport.ducklake.reading import InlinedTask
from lakeport.ducklake.views import ViewDatabase
from lakeport.errors import (
    DefinitionError,
    InvalidArgumentError,
    NotFoundError,
    SnapshotNotFoundError,
)
from lakeport.lakehouse.names import published_schema
from lakeport.lakehouse.writing.transactions import LakeWrites
from lakeport.spark import SparkEngine, retried_when_lost
from lakeport.types import Column, fold_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "SPARK_VIEW_BYTES",
    "LakeResources",
    "ScheduledMaintenance",
    "snapshot_at",
    "transaction_snapshot",
]


_MAX_PLAN_BYTES = 64 * 1024 * 1024
_MAX_SCHEMA_BYTES = 64 * 1024 * 1024
_MAX_TABLE_BYTES = 64 * 1024 * 1024
_MAX_FACT_BYTES = 64 * 1024 * 1024
STATEMENT_SECONDS = 1.0
"""How long after its beginning a transaction answers for calls that do not name it."""
PLAN_SECONDS = 5.0
"""How long a database server is not asked whether a plan of the newest snapshot may be used again.

A ticket may be read just as long after its plan was made.
"""
PRESENT_NAME_SECONDS = 1.0
"""How long a database server is not asked for the present names of tables."""

SPARK_VIEW_BYTES = 64 * 1024 * 1024
"""Views over files of more than this run on Spark, by default, where Spark can run them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledMaintenance:
    """How a server maintains a lake by itself."""

    every: float
    """Seconds between two looks at the lake."""
    policy: MaintenancePolicy


class LakeResources:
    """A lake, the caches of its metadata, and the engine that reads it."""

    def __init__(
        self,
        lake: Lake,
        *,
        engine: Engine,
        endpoints: int | None,
        spark_view_bytes: int = SPARK_VIEW_BYTES,
        writable: bool = False,
        stages_writes: bool = False,
        add_files_from: Sequence[str] = (),
        statistics_rows: int = STATISTICS_ROWS,
    ) -> None:
        if endpoints is not None and endpoints < 1:
            raise DefinitionError("a scan needs at least one endpoint")
        self.lake = lake
        self.schedule: ScheduledMaintenance | None = None
        """How the server maintains the lake by itself; None if it does not."""
        self.engine = engine
        self.view_database = ViewDatabase()
        self.spark_view_bytes = spark_view_bytes
        self._statistics_rows = statistics_rows
        self.plans = LruCache(_MAX_PLAN_BYTES, weigh=_weight, name="plans")
        self.facts = LruCache(_MAX_FACT_BYTES, weigh=_fact_bytes, name="facts")
        """Small facts about a snapshot, which never change: sizes, statistics."""
        self._schemas = LruCache(_MAX_SCHEMA_BYTES, weigh=_schema_bytes, name="schemas")
        self._snapshots = LruCache(10_000)
        # By session: when it began its last transaction, at which snapshot, and its identifier.
        self._begun = LruCache(10_000)
        # The snapshots that transactions read instead of their first, by their identifiers.
        self._own_snapshots = LruCache(10_000)
        self._contents = LruCache(8, name="listings")
        self._tables = LruCache(_MAX_TABLE_BYTES, weigh=_table_bytes, name="tables")
        # Guards the engine of what only Spark can run, made when it is first needed.
        self._lock = threading.Lock()
        self._spark: SparkEngine | None = None
        self._endpoints = endpoints
        self.writes = LakeWrites(
            self, writable=writable, stages=stages_writes, add_files_from=add_files_from
        )
        self._parallelism: dict[str, int] = {}

    def newest_snapshot(self) -> Snapshot:
        """Return the newest snapshot; a request reads it once, so all its answers agree."""
        newest = once_per_request(("newest snapshot", self), self.lake.newest)
        return self._snapshots.get_or_load(newest.id, lambda: newest)

    def recent_snapshot(self, max_age: float) -> Snapshot:
        """Return a snapshot that is the newest one, or was some seconds ago.

        For what does not decide which rows a statement reads: whether a plan of its snapshot may be
        used again, and by which names its tables are known now.
        """
        recent = once_per_request(
            ("recent snapshot", self, max_age), lambda: self.lake.newest(max_age=max_age)
        )
        return self._snapshots.get_or_load(recent.id, lambda: recent)

    def statement_snapshot(self) -> Snapshot:
        """Return the snapshot of the transaction that the caller's session has just begun.

        For `catalog_version`, which DuckDB sends without a transaction, right after it has begun
        one. Without such a transaction, the newest snapshot.
        """
        begun: tuple[float, int, str] | None = self._begun.get(current_request().session_id)
        if begun is not None and time.monotonic() - begun[0] < STATEMENT_SECONDS:
            return self.snapshot(begun[1])
        return self.newest_snapshot()

    def begin_transaction(self) -> str:
        """Return the identifier of a new transaction that reads the newest snapshot."""
        newest = self.newest_snapshot()
        identifier = f"{newest.id}-{uuid.uuid4().hex}"
        session = current_request().session_id
        if session is not None:
            self._begun.put(session, (time.monotonic(), newest.id, identifier))
        return identifier

    def continue_at(self, id: int, identifier: str | None) -> None:
        """Let a transaction read the snapshot that it has committed.

        DuckDB sends DDL without the transaction; then it is the last one that its session began.
        """
        session = current_request().session_id
        if session is not None:
            begun: tuple[float, int, str] | None = self._begun.get(session)
            if identifier is None and begun is not None:
                identifier = begun[2]
            self._begun.put(session, (time.monotonic(), id, identifier or ""))
        if identifier is not None:
            self._own_snapshots.put(identifier, id)
        forget_fact(("newest snapshot", self))

    def read_from(self, id: int, identifier: str) -> None:
        """Let a transaction read a later snapshot from now on."""
        self._own_snapshots.put(identifier, id)

    def transaction_snapshot(self, identifier: str) -> int | None:
        """Return the id of the snapshot that a transaction reads; None if it is of no lake."""
        own: int | None = self._own_snapshots.get(identifier)
        return transaction_snapshot(identifier) if own is None else own

    def current_snapshot(self) -> Snapshot:
        """Return the snapshot of the request's transaction, or the newest one."""
        identifier = current_request().transaction_id
        if not identifier:
            return self.newest_snapshot()
        id = self.transaction_snapshot(identifier)
        if id is None:
            raise InvalidArgumentError("the transaction is not one of this lake")
        return self.snapshot(id)

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

    def large_tables(self, snapshot: Snapshot) -> frozenset[int]:
        """Return the ids of the tables whose statistics are offered to clients."""
        return self.facts.get_or_load(
            ("large tables", snapshot.id), lambda: frozenset(self._large_tables(snapshot))
        )

    def _large_tables(self, snapshot: Snapshot) -> Iterator[int]:
        counts = self.lake.record_counts()
        for table in self.contents(snapshot).tables:
            rows = counts.get(table.id)
            if rows is not None and rows >= self._statistics_rows * len(table.columns):
                yield table.id

    def published_schema(self, columns: tuple[Column, ...], *, with_rowid: bool) -> pa.Schema:
        """Return the schema that clients see; tables that share their columns share it."""
        # The entry refers to the columns, so no other object can have their id.
        key = (id(columns), with_rowid)
        known: tuple[object, pa.Schema] = self._schemas.get_or_load(
            key, lambda: (columns, published_schema(columns, with_rowid=with_rowid))
        )
        return known[1]

    def missing_table(self, schema: str, name: str, snapshot: int, *, shown: str) -> NotFoundError:
        """Return the error for a table that a snapshot lacks; `shown` is its name in the message.

        It names the snapshots that created and dropped the table, if it ever existed.
        """
        reason = why_missing(self.lake.lifetimes(), schema, name, snapshot)
        if reason is None:
            return NotFoundError(f"there is no table {shown}")
        return NotFoundError(f"there is no table {shown} at snapshot {snapshot}: {reason}")

    @property
    def runs_on_spark(self) -> bool:
        """Whether large scans of the lake run on Spark."""
        return isinstance(self._large_engine, SparkEngine)

    @property
    def _large_engine(self) -> Engine | None:
        return self.engine.spark if isinstance(self.engine, AutoEngine) else self.engine

    def session(self) -> SparkSession:
        """Return the Spark session: the engine's, or one that is started now if none is running."""
        with self._lock:
            if self._spark is None:
                engine = self._large_engine
                self._spark = engine if isinstance(engine, SparkEngine) else SparkEngine()
        return self._spark.session()

    def max_endpoints(self, plan: ScanPlan) -> int:
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


def transaction_snapshot(identifier: str) -> int | None:
    """Return the snapshot at which a transaction began; None for an identifier of another form."""
    match = _IDENTIFIER.fullmatch(identifier)
    return int(match.group(1)) if match else None


def snapshot_at(access: LakeResources, time_point: TimePoint) -> Snapshot:
    """Return the snapshot of `AT (VERSION => …)` or `AT (TIMESTAMP => …)`.

    A transaction has no snapshots that were committed after it began: DuckDB relies on statistics
    that cover the snapshots up to its own.
    """
    last = access.current_snapshot() if current_request().transaction_id else None
    if time_point.unit is TimeUnit.TIMESTAMP:
        found = access.lake.snapshot(timestamp=time_point.value)
        return found if last is None or found.id <= last.id else last
    if not _VERSION.fullmatch(time_point.value):
        raise InvalidArgumentError(f"{time_point.value[:80]!r} is not the number of a snapshot")
    found = access.snapshot(int(time_point.value))
    if last is not None and found.id > last.id:
        raise SnapshotNotFoundError(
            f"there is no snapshot {found.id} in this transaction: it began at snapshot {last.id}"
        )
    return found


# The approximate bytes of a task in memory, without its inlined rows.
_TASK_BYTES = 2000


def _weight(plan: ScanPlan | bytes) -> int:
    if isinstance(plan, bytes):
        return _TASK_BYTES
    carried = sum(len(task.data) for task in plan.tasks if isinstance(task, InlinedTask))
    return carried + _TASK_BYTES * (len(plan.tasks) + 1)


# The approximate bytes of a field in memory; nested fields are counted by their children.
_FIELD_BYTES = 500


def _schema_bytes(entry: tuple[tuple[Column, ...], pa.Schema]) -> int:
    columns = entry[0]
    return _FIELD_BYTES * (2 + len(columns) + sum([len(column.children) for column in columns]))


def _table_bytes(table: LakeTable) -> int:
    return _FIELD_BYTES * (sum(1 for column in table.columns for _ in column.walk()) + 10)


# The approximate bytes of an entry of a mapping, and of a fact that is none.
_ENTRY_BYTES = 200
_FACT_BYTES = 500


def _fact_bytes(fact: object) -> int:
    """Return the approximate bytes of a number, of a mapping, or of the statistics of a table."""
    return _FACT_BYTES + _ENTRY_BYTES * (len(fact) if isinstance(fact, Sized) else 0)
