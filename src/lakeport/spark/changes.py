"""The change feed of a table, read on Spark.

An update is a deletion and an insertion with the same row id at the same snapshot. So the keys of
both sides are joined first: those of the smaller side are held in the driver, those of the other
stream past them. Then every task that reads rows knows which of them belong to updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import numpy as np
import pyarrow as pa

from lakeport.ducklake.planning import ChangePlan
from lakeport.ducklake.reading import ScanTask
from lakeport.errors import UnsupportedError
from lakeport.spark.scan import Scan, with_columns
from lakeport.spark.session import session
from lakeport.spark.transport.stream import MAX_BYTES, stream
from lakeport.types import spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ChangeFeed"]

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Keys: TypeAlias = dict[int, Numbers]
"""The row ids of each snapshot, ascending."""

_INSERT: Final = ("insert", "update_postimage")
_DELETE: Final = ("delete", "update_preimage")

_FEED: Final = pa.schema(
    [("snapshot_id", pa.int64()), ("rowid", pa.int64()), ("change_type", pa.string())]
)
_KEYS: Final = pa.schema([("task", pa.int64()), ("rowid", pa.int64()), ("snapshot_id", pa.int64())])

# Without its optimizer DuckDB holds the right side of a join and streams the left one.
_JOIN: Final = """
    SELECT l.task AS larger, s.task AS smaller, snapshot_id, rowid
    FROM larger l JOIN smaller s USING (snapshot_id, rowid)
"""


@dataclass(frozen=True, slots=True)
class ChangeFeed(ChangePlan):
    """What happened to a table from one snapshot to another, both included.

    `insertions` and `deletions` are scans of their own; the methods here give both as one feed,
    with the columns `snapshot_id`, `rowid` and `change_type` before those of the table. The type
    of a change is `insert`, `delete`, `update_preimage` or `update_postimage`.
    """

    insertions: Scan
    deletions: Scan

    @classmethod
    def of(cls, feed: ChangePlan) -> Self:
        """A change feed of the format, ready to run."""
        return cls(feed.first, feed.last, Scan.of(feed.insertions), Scan.of(feed.deletions))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the feed; a column of the table with a name of ours gets a suffix."""
        *columns, rowid, snapshot = self.insertions.schema
        taken = {field.name.lower() for field in columns}
        if taken & {rowid.name.lower(), snapshot.name.lower()}:
            raise UnsupportedError(
                f"table {self.insertions.table} has a column called rowid or snapshot_id, so its "
                "changes can be read only as insertions and deletions"
            )
        return pa.schema([*_FEED, *(_renamed(field, taken) for field in columns)])

    def to_batches(
        self, spark: SparkSession | None = None, *, max_bytes: int = MAX_BYTES
    ) -> pa.RecordBatchReader:
        """The whole feed as it comes, in no order, while one Spark job reads it.

        Where there are both insertions and deletions, their keys are read first. The driver holds
        the keys of the smaller side and of the updates, and at most `max_bytes` of rows. Dropping
        the reader cancels the job.
        """
        spark = spark or session()
        inserted, deleted = self._updates(spark)
        tasks = [
            *_tagged(self.insertions, inserted, _INSERT, self.schema),
            *_tagged(self.deletions, deleted, _DELETE, self.schema),
        ]
        return stream(spark, tasks, self.schema, max_bytes=max_bytes)

    def to_arrow(self, spark: SparkSession | None = None) -> pa.Table:
        """The whole feed as an Arrow table."""
        return self.to_batches(spark).read_all()

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The whole feed as a DataFrame; Spark finds the updates by a join."""
        spark = spark or session()
        names = self.schema.names
        inserted, deleted = self.insertions.to_spark(spark), self.deletions.to_spark(spark)
        feed = _with_change_types(inserted, deleted, _INSERT).unionAll(
            _with_change_types(deleted, inserted, _DELETE)
        )
        return feed.toDF(*names)

    def _updates(self, spark: SparkSession) -> tuple[dict[int, Keys], dict[int, Keys]]:
        """The keys of updates, by number of the task that reads them: inserted, deleted."""
        inserted, deleted = self.insertions, self.deletions
        if not inserted.tasks or not deleted.tasks:
            return {}, {}
        if inserted.estimated_rows < deleted.estimated_rows:
            common = _common_keys(spark, inserted, deleted)
            return _by_task(common, "smaller"), _by_task(common, "larger")
        common = _common_keys(spark, deleted, inserted)
        return _by_task(common, "larger"), _by_task(common, "smaller")


@dataclass(frozen=True, slots=True)
class _TaggedTask:
    """Reads the rows of a task, each with the type of its change."""

    task: ScanTask
    updates: Keys
    types: tuple[str, str]
    schema: pa.Schema

    @property
    def estimated_bytes(self) -> int:
        """What is read at most."""
        return self.task.estimated_bytes

    def read(self) -> Iterator[pa.RecordBatch]:
        types = pa.array(self.types)
        for batch in self.task.read():
            *columns, rowids, snapshots = batch.columns
            updated = _contains(self.updates, snapshots.to_numpy(), rowids.to_numpy())
            change_types = types.take(pa.array(updated.astype(np.int8)))
            yield pa.RecordBatch.from_arrays(
                [snapshots, rowids, change_types, *columns], schema=self.schema
            )


@dataclass(frozen=True, slots=True)
class _KeyTask:
    """Reads the row ids and snapshots of a task's rows, and nothing else of a file."""

    number: int
    task: ScanTask

    @property
    def estimated_bytes(self) -> int:
        """What is read at most."""
        return self.task.estimated_bytes

    def read(self) -> Iterator[pa.RecordBatch]:
        for batch in with_columns(self.task, ("rowid", "snapshot_id")).read():
            number = pa.array(np.full(batch.num_rows, self.number))
            yield pa.RecordBatch.from_arrays([number, *batch.columns[-2:]], schema=_KEYS)


def _tagged(
    scan: Scan, updates: dict[int, Keys], types: tuple[str, str], schema: pa.Schema
) -> Iterator[_TaggedTask]:
    for number, task in enumerate(scan.tasks):
        yield _TaggedTask(task, updates.get(number, {}), types, schema)


def _common_keys(spark: SparkSession, smaller: Scan, larger: Scan) -> pa.Table:
    """The keys that both scans have, with the number of the task that has them in each."""
    import duckdb

    failures: list[Exception] = []
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("PRAGMA disable_optimizer")
        connection.register("smaller", _keys(spark, smaller).read_all())
        connection.register("larger", _recording_errors(_keys(spark, larger), failures))
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
    """The same batches; an error on the way is kept."""

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from reader
        except Exception as error:
            failures.append(error)
            raise

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def _keys(spark: SparkSession, scan: Scan) -> pa.RecordBatchReader:
    return stream(spark, [_KeyTask(*numbered) for numbered in enumerate(scan.tasks)], _KEYS)


def _by_task(common: pa.Table, side: str) -> dict[int, Keys]:
    tasks, snapshots, rowids = (common[name].to_numpy() for name in (side, "snapshot_id", "rowid"))
    order = np.lexsort((rowids, snapshots, tasks))
    tasks, snapshots, rowids = tasks[order], snapshots[order], rowids[order]
    starts = np.flatnonzero(np.diff(tasks, prepend=-1) | np.diff(snapshots, prepend=-1))
    ends = [*starts[1:], len(rowids)]
    found: dict[int, Keys] = {}
    for start, end in zip(starts, ends, strict=False):
        found.setdefault(int(tasks[start]), {})[int(snapshots[start])] = rowids[start:end]
    return found


def _contains(keys: Keys, snapshots: Numbers, rowids: Numbers) -> np.ndarray[Any, Any]:
    """Which of these rows are among the keys."""
    found = np.zeros(len(rowids), np.bool_)
    for snapshot in np.unique(snapshots) if keys else ():
        known = keys.get(int(snapshot))
        if known is not None:
            rows = np.flatnonzero(snapshots == snapshot)
            places = np.searchsorted(known, rowids[rows]).clip(max=len(known) - 1)
            found[rows] = known[places] == rowids[rows]
    return found


def _with_change_types(rows: DataFrame, others: DataFrame, types: tuple[str, str]) -> DataFrame:
    """The rows with the types of their changes: the second where the other side has their key."""
    from pyspark.sql import functions as f

    columns = rows.columns[:-2]
    keys = others.select(
        f.col("snapshot_id").alias("_snapshot"), f.col("rowid").alias("_row")
    ).distinct()
    both = (f.col("r.snapshot_id") == f.col("k._snapshot")) & (f.col("r.rowid") == f.col("k._row"))
    change_type = f.when(f.col("k._row").isNull(), types[0]).otherwise(types[1])
    chosen = [f"r.{spark_identifier(name)}" for name in columns]
    return (
        rows.alias("r")
        .join(keys.alias("k"), both, "left")
        .select("r.snapshot_id", "r.rowid", change_type, *chosen)
    )


def _renamed(field: pa.Field, taken: set[str]) -> pa.Field:
    if field.name.lower() not in _FEED.names:
        return field
    number = 1
    while f"{field.name}_{number}".lower() in taken:
        number += 1
    return field.with_name(f"{field.name}_{number}")
