"""What is read of a table, and where: a scan, and the change feed that is made of two scans.

An update is a deletion and an insertion with the same row id at the same snapshot. So the keys of
both sides of a feed are joined first: those of the smaller side are held in memory, those of the
other stream past them. Then every task that reads rows has the keys of its updates.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lakeport._wording import counted
from lakeport.ducklake.engine import (
    MAX_BYTES,
    AutoEngine,
    Engine,
    LocalEngine,
    ReadTask,
    RunTask,
    resolve_engine,
    spark_engine,
)
from lakeport.ducklake.model import Snapshot
from lakeport.ducklake.planning.changes import ChangePlan
from lakeport.ducklake.planning.plan import Planner, ScanPlan
from lakeport.ducklake.reading.derived_tasks import KEYS, ChangeTask, Keys, KeyTask, count_tasks
from lakeport.ducklake.reading.tasks import ScanTask
from lakeport.errors import UnavailableError, UnsupportedError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["ChangeFeed", "Scan"]

_log = logging.getLogger("lakeport.ducklake")

_INSERT: Final = ("insert", "update_postimage")
_DELETE: Final = ("delete", "update_preimage")

_FEED: Final = pa.schema(
    [("snapshot_id", pa.int64()), ("rowid", pa.int64()), ("change_type", pa.string())]
)

_HERE: Final = LocalEngine()

# Without its optimizer DuckDB holds the right side of a join and streams the left one.
_JOIN: Final = """
    SELECT l.task AS larger, s.task AS smaller, snapshot_id, rowid
    FROM larger l JOIN smaller s USING (snapshot_id, rowid)
"""


@dataclass(frozen=True, slots=True, repr=False)
class Scan:
    """A plan of everything that must be read for one query, and the engine that reads it.

    `to_batches`, `to_arrow`, `to_pandas`, `to_polars` and `count` run on the engine of the lake, or
    on the `engine` of the call: an engine, or the name of one. A plan that has only inlined rows
    runs in this process, whatever the engine. `to_spark` always runs on Spark.
    """

    plan: ScanPlan
    engine: Engine
    planner: Planner | None = None
    """How the files are found that later filters of a DataFrame exclude."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self.plan.schema

    @property
    def runs_on(self) -> Engine:
        """The engine that runs the scan, unless a call names another."""
        return _runs_on(self.engine, self.plan.tasks)

    def __repr__(self) -> str:
        return self.explain()

    def explain(self) -> str:
        """Describe what is read, what was left out and which engine reads it."""
        return f"{self.plan.explain()}\n  engine: {self.runs_on.name}"

    def with_tasks(self, tasks: Sequence[ScanTask]) -> Scan:
        """Return a scan of some of the tasks; it runs on the engine that the whole would run on."""
        return Scan(replace(self.plan, tasks=tuple(tasks)), self.runs_on, self.planner)

    def to_batches(
        self, *, max_bytes: int = MAX_BYTES, engine: Engine | str | None = None
    ) -> pa.RecordBatchReader:
        """Return the rows as they are read; on Spark, in no order.

        Reading starts with the first batch. At most about `max_bytes` wait in this process. Closing
        the reader, leaving its `with` block or dropping it ends the scan.
        """
        return _stream(self._engine(engine), self.plan.tasks, self.schema, max_bytes)

    def to_arrow(self, *, engine: Engine | str | None = None) -> pa.Table:
        """Return all rows as an Arrow table."""
        return self.to_batches(engine=engine).read_all()

    def to_pandas(self, *, engine: Engine | str | None = None) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame."""
        return _to_pandas(self.to_arrow(engine=engine))

    def to_polars(self, *, engine: Engine | str | None = None) -> pl.DataFrame:
        """Return all rows as a polars DataFrame."""
        return _to_polars(self.to_arrow(engine=engine))

    def count(self, *, engine: Engine | str | None = None) -> int:
        """Count the rows where they are read; only the columns of the filter are read.

        Without a filter, the catalog has the numbers of rows, and no data file is opened.
        """
        return _count(self._engine(engine), self.plan.tasks)

    def to_spark(self, spark: object = None) -> Any:
        """Return the rows as a DataFrame: read by Spark itself wherever it can.

        Filters of later queries leave out files, too, where Spark reads them itself.

        It belongs to the given session; without one, to that of the lake's engine, or else to the
        active session, or one that is started.
        """
        return spark_engine(self.engine, spark).dataframe(self.plan, self.planner)

    def _engine(self, engine: Engine | str | None) -> Engine:
        return resolve_engine(engine, self.engine)


@dataclass(frozen=True, slots=True)
class ChangeFeed:
    """What happened to a table from one snapshot to another, both included.

    `insertions` and `deletions` are scans of their own; the methods here return both as one feed,
    with the columns `snapshot_id`, `rowid` and `change_type` before those of the table. The type
    of a change is `insert`, `delete`, `update_preimage` or `update_postimage`. The methods run on
    the same engines as those of a scan.
    """

    first: Snapshot
    last: Snapshot
    insertions: Scan
    deletions: Scan

    @property
    def schema(self) -> pa.Schema:
        """The columns of the feed; a column of the table with a name of the feed gets a suffix."""
        *columns, rowid, snapshot = self.insertions.schema
        taken = {field.name.lower() for field in columns}
        if taken & {rowid.name.lower(), snapshot.name.lower()}:
            raise UnsupportedError(
                f"table {self.insertions.plan.table} has a column called rowid or snapshot_id, so "
                "its changes can be read only as insertions and deletions"
            )
        return pa.schema([*_FEED, *(_renamed(field, taken) for field in columns)])

    def to_batches(
        self, *, max_bytes: int = MAX_BYTES, engine: Engine | str | None = None
    ) -> pa.RecordBatchReader:
        """Return the whole feed as it is read, in no order.

        Where there are both insertions and deletions, their keys are read first. This process holds
        the keys of the smaller side and of the updates, and at most about `max_bytes` of rows.
        """
        chosen = self._engine(engine)
        return _stream(chosen, self.tasks(engine=chosen), self.schema, max_bytes)

    def tasks(self, *, engine: Engine | str | None = None) -> list[ChangeTask]:
        """Return the tasks that read the feed; the keys of both sides have been compared.

        For other parts of this package.
        """
        inserted, deleted = self._updates(self._engine(engine))
        return [
            *_change_tasks(self.insertions, inserted, _INSERT, self.schema),
            *_change_tasks(self.deletions, deleted, _DELETE, self.schema),
        ]

    def to_arrow(self, *, engine: Engine | str | None = None) -> pa.Table:
        """Return the whole feed as an Arrow table."""
        return self.to_batches(engine=engine).read_all()

    def to_pandas(self, *, engine: Engine | str | None = None) -> pd.DataFrame:
        """Return the whole feed as a pandas DataFrame."""
        return _to_pandas(self.to_arrow(engine=engine))

    def to_polars(self, *, engine: Engine | str | None = None) -> pl.DataFrame:
        """Return the whole feed as a polars DataFrame."""
        return _to_polars(self.to_arrow(engine=engine))

    def count(self, *, engine: Engine | str | None = None) -> int:
        """Count the rows of the feed; an update has two."""
        tasks = (*self.insertions.plan.tasks, *self.deletions.plan.tasks)
        return _count(self._engine(engine), tasks)

    def to_spark(self, spark: object = None) -> Any:
        """Return the whole feed as a DataFrame, whose updates Spark finds by a join.

        It belongs to the session that `Scan.to_spark` would use.
        """
        plan = ChangePlan(self.first, self.last, self.insertions.plan, self.deletions.plan)
        return spark_engine(self.insertions.engine, spark).change_dataframe(plan, self.schema)

    def _engine(self, engine: Engine | str | None) -> Engine:
        """Return the engine of a call, chosen by all that the feed reads."""
        tasks = (*self.insertions.plan.tasks, *self.deletions.plan.tasks)
        return _runs_on(resolve_engine(engine, self.insertions.engine), tasks)

    def _updates(self, engine: Engine) -> tuple[dict[int, Keys], dict[int, Keys]]:
        """Return the keys of updates by number of the task that reads them: inserted, deleted."""
        inserted, deleted = self.insertions.plan, self.deletions.plan
        if not inserted.tasks or not deleted.tasks:
            return {}, {}
        if inserted.estimated_rows < deleted.estimated_rows:
            common = _common_keys(engine, inserted, deleted)
            return _by_task(common, "smaller"), _by_task(common, "larger")
        common = _common_keys(engine, deleted, inserted)
        return _by_task(common, "larger"), _by_task(common, "smaller")


def _runs_on(engine: Engine, tasks: Sequence[ReadTask | RunTask]) -> Engine:
    """Return the engine that runs tasks: this process, if they carry all of their rows."""
    if isinstance(engine, AutoEngine):
        return engine.choose(tasks)
    return engine if any(task.bytes_to_read for task in tasks) else _HERE


def _stream(
    engine: Engine, tasks: Sequence[ReadTask], schema: pa.Schema, max_bytes: int = MAX_BYTES
) -> pa.RecordBatchReader:
    engine = _runs_on(engine, tasks)
    _log.debug("the engine %s reads %s", engine.name, counted(len(tasks), "task"))
    return engine.stream(tasks, schema, max_bytes=max_bytes)


def _count(engine: Engine, tasks: Sequence[ScanTask]) -> int:
    counts = count_tasks(tasks)
    engine = _runs_on(engine, counts)
    _log.debug("the engine %s counts the rows of %s", engine.name, counted(len(counts), "task"))
    return sum(engine.run(counts))


def _to_pandas(rows: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = rows.to_pandas()
    return frame


def _to_polars(rows: pa.Table) -> pl.DataFrame:
    try:
        import polars as pl
    except ImportError:
        raise UnavailableError('polars is not installed: pip install "lakeport[polars]"') from None
    return pl.DataFrame(pl.from_arrow(rows))


def _change_tasks(
    scan: Scan, updates: dict[int, Keys], types: tuple[str, str], schema: pa.Schema
) -> Iterator[ChangeTask]:
    for number, task in enumerate(scan.plan.tasks):
        yield ChangeTask(task, updates.get(number, {}), types, schema)


def _common_keys(engine: Engine, smaller: ScanPlan, larger: ScanPlan) -> pa.Table:
    """Return the keys that both plans have, with the number of the task that has them in each."""
    import duckdb

    failures: list[Exception] = []
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("PRAGMA disable_optimizer")
        connection.register("smaller", _keys(engine, smaller).read_all())
        connection.register("larger", _recording_errors(_keys(engine, larger), failures))
        try:
            return connection.sql(_JOIN).to_arrow_table()
        except duckdb.Error:
            # DuckDB makes one of its own of an error of the stream, traceback and all.
            if failures:
                raise failures[0] from None
            raise


def _recording_errors(
    reader: pa.RecordBatchReader, failures: list[Exception]
) -> pa.RecordBatchReader:
    """Return a reader of the same batches that appends its error to a list."""

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from reader
        except Exception as error:
            failures.append(error)
            raise

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def _keys(engine: Engine, plan: ScanPlan) -> pa.RecordBatchReader:
    return _stream(engine, [KeyTask(task, number) for number, task in enumerate(plan.tasks)], KEYS)


def _by_task(common: pa.Table, side: str) -> dict[int, Keys]:
    """Return the keys of each task of one side."""
    tasks, snapshots, rowids = (common[name].to_numpy() for name in (side, "snapshot_id", "rowid"))
    order = np.lexsort((rowids, snapshots, tasks))
    tasks, snapshots, rowids = tasks[order], snapshots[order], rowids[order]
    starts = np.flatnonzero(np.diff(tasks, prepend=-1) | np.diff(snapshots, prepend=-1))
    ends = [*starts[1:], len(rowids)]
    found: dict[int, Keys] = {}
    for start, end in zip(starts, ends, strict=False):
        found.setdefault(int(tasks[start]), {})[int(snapshots[start])] = rowids[start:end]
    return found


def _renamed(field: pa.Field, taken: set[str]) -> pa.Field:
    if field.name.lower() not in _FEED.names:
        return field
    number = 1
    while f"{field.name}_{number}".lower() in taken:
        number += 1
    return field.with_name(f"{field.name}_{number}")
