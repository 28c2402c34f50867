"""A merge on Spark: the source is computed once and kept, and two jobs join and write.

Rows pass between tasks as bytes of Arrow in a column of binary values. Spark divides them by the
number of the task that gets them; DuckDB joins them there.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakeport.ducklake.writing.files import FileTarget
from lakeport.ducklake.writing.tasks import (
    ChangeGroup,
    Divide,
    FindCandidates,
    JoinTask,
    Progress,
    Side,
    SourceTask,
    TaskReport,
    WriteTask,
    unpack_rows,
)
from lakeport.spark.compat import create_dataframe, is_connect, map_in_arrow
from lakeport.spark.frames.columns import select
from lakeport.spark.writing.appends import distinct_columns
from lakeport.spark.writing.jobs import WriteJob
from lakeport.spark.writing.worker import ITEMS, DivideSource, JoinRows, ReadRows, StageRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkStage", "stage"]

_REPORTS: Final = f"side = {int(Side.REPORT)}"
_ROWS: Final = f"side <> {int(Side.REPORT)}"


def stage(
    spark: SparkSession,
    frame: DataFrame,
    task: SourceTask,
    *,
    target: FileTarget,
    title: str,
    progress: Progress | None = None,
) -> SparkStage:
    """Compute the rows of a DataFrame once and keep them on the executors."""
    job = WriteJob(spark, target, title, progress)
    rows = map_in_arrow(select(frame, distinct_columns(frame.schema)), StageRows(task), ITEMS)
    kept = _Kept.of(rows, is_repeatable=_is_repeatable(frame), job=job)
    try:
        reports = job.run(kept.frame.where(_REPORTS).select("data"))
    except BaseException:
        kept.release()
        raise
    return SparkStage(spark, kept, task, reports, target, progress)


@dataclass(frozen=True, slots=True)
class SparkStage:
    """The rows of a merge's source, kept on the executors."""

    spark: SparkSession
    kept: _Kept
    task: SourceTask
    reports: list[TaskReport]
    target: FileTarget
    progress: Progress | None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in this process."""
        rows = self.kept.frame.where(f"side = {int(Side.SOURCE)}").select("data")
        for row in rows.toLocalIterator(prefetchPartitions=True):
            yield from unpack_rows(row[0]).to_batches()

    def merge(
        self,
        find: FindCandidates,
        reads: Sequence[ChangeGroup],
        join: JoinTask,
        write: WriteTask | None,
        sent: Sequence[ChangeGroup],
        *,
        title: str,
    ) -> list[TaskReport]:
        """Join the rows with those of a table, and write what they become."""
        divide = Divide(schema=self.task.schema, keys=self.task.keys, parts=find.parts)
        rows = self.kept.frame.where(f"side = {int(Side.SOURCE)}").select("data")
        items = map_in_arrow(rows, DivideSource(divide), ITEMS)
        if reads:
            found = map_in_arrow(_groups(self.spark, reads), ReadRows(find), ITEMS)
            items = items.unionAll(found)
        if write is None:
            job = self._job(f"{title}: find and write rows")
            return job.run(_reports(items, find.parts, JoinRows(join, job.id)))
        job = self._job(f"{title}: find rows")
        joined = _tasks(items, find.parts, JoinRows(join, job.id))
        kept = _Kept.of(joined, is_repeatable=True, job=job)
        try:
            found_reports = job.run(kept.frame.where(_REPORTS).select("data"))
            if any(report.result["duplicates"] for report in found_reports):
                return found_reports
            rows = kept.frame.where(_ROWS)
            if sent:
                rows = rows.unionAll(_reads(self.spark, sent))
            job = self._job(f"{title}: write rows")
            parts = join.routes.parts if join.routes is not None else 1
            written = job.run(_reports(rows, parts, JoinRows(write, job.id)))
        finally:
            kept.release()
        return [*found_reports, *written]

    def release(self) -> None:
        """Release the rows."""
        self.kept.release()

    def _job(self, title: str) -> WriteJob:
        return WriteJob(self.spark, self.target, title, self.progress)


def _tasks(items: DataFrame, parts: int, function: Any) -> DataFrame:
    """Run a function on the items of each part."""
    moved = items.repartitionById(parts, "part").select("side", "data")
    return map_in_arrow(moved, function, ITEMS)


def _reports(items: DataFrame, parts: int, function: Any) -> DataFrame:
    return _tasks(items, parts, function).select("data")


def _groups(spark: SparkSession, groups: Sequence[ChangeGroup]) -> DataFrame:
    """Return a DataFrame with a partition for each group of reads."""
    from pyspark.sql.functions import broadcast

    pickled = pa.array([pickle.dumps(group.reads) for group in groups], pa.binary())
    rows = pa.table({"number": pa.array(range(len(groups)), pa.int64()), "data": pickled})
    numbers = spark.range(0, len(groups), 1, len(groups)).withColumnRenamed("id", "number")
    return numbers.join(broadcast(create_dataframe(spark, rows)), "number").select("data")


def _reads(spark: SparkSession, groups: Sequence[ChangeGroup]) -> DataFrame:
    """Return what the tasks of a write read, as items."""
    count = len(groups)
    rows = pa.table(
        {
            "part": pa.array(range(count), pa.int32()),
            "side": pa.array([int(Side.READS)] * count, pa.int32()),
            "data": pa.array([pickle.dumps(group.reads) for group in groups], pa.binary()),
        }
    )
    return create_dataframe(spark, rows)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A DataFrame whose rows are computed once."""

    frame: DataFrame
    is_checkpoint: bool

    @classmethod
    def of(cls, frame: DataFrame, *, is_repeatable: bool, job: WriteJob) -> _Kept:
        """Keep a DataFrame; one that cannot be computed again in the same way is a checkpoint.

        If an executor is lost, Spark computes kept rows again, but not those of a checkpoint: the
        merge ends with an error then.
        """
        if is_repeatable:
            return cls(frame.persist(), is_checkpoint=False)
        with job.named():
            return cls(frame.localCheckpoint(), is_checkpoint=True)

    def release(self) -> None:
        """Release the rows; a lost session has none."""
        with contextlib.suppress(Exception):
            if not self.is_checkpoint:
                self.frame.unpersist()
            elif not is_connect(self.frame.sparkSession):
                # PySpark 4 has no method that releases a checkpoint before Java collects it.
                checkpoint: Any = self.frame
                plan = checkpoint._jdf.queryExecution().analyzed()  # noqa: SLF001
                plan.rdd().unpersist(False)  # noqa: FBT003


def _is_repeatable(frame: DataFrame) -> bool:
    """Return whether Spark computes the same rows again; unknown on a Connect session."""
    if is_connect(frame.sparkSession):
        return False
    in_java: Any = frame
    with contextlib.suppress(Exception):
        return bool(in_java._jdf.queryExecution().analyzed().deterministic())  # noqa: SLF001
    return False
