"""`SparkEngine`: tasks of scans as Spark jobs, and plans as DataFrames."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union

import pyarrow as pa

from lakeport.ducklake import ChangePlan, ScanPlan
from lakeport.errors import InvalidArgumentError, UnavailableError
from lakeport.spark.compat import create_dataframe, is_connect
from lakeport.spark.errors import retried_when_lost
from lakeport.spark.session import is_running, session
from lakeport.spark.transport.results import RESULTS, ResultTask, results_of
from lakeport.spark.transport.stream import MAX_BYTES, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.ducklake import Lake, ReadTask, RunTask
    from lakeport.ducklake.planning import Planner
    from lakeport.ducklake.writing.files import FileTarget
    from lakeport.ducklake.writing.tasks import (
        ChangeGroup,
        ChangeQuery,
        FrameWrite,
        Progress,
        SourceTask,
        TaskReport,
        WrittenRows,
    )
    from lakeport.spark.sql.parameters import Arguments
    from lakeport.spark.sql.registration import Registration
    from lakeport.spark.writing.merges import SparkStage

__all__ = ["SparkEngine", "SparkSource"]

SMALL_CHANGE_BYTES: Final = 64 << 20
"""Row-level changes that read less than this of a table run in this process, by default."""

SMALL_SOURCE_BYTES: Final = 8 << 20
"""A merge collects a DataFrame that is smaller than this, by default."""

SparkSource: TypeAlias = Union["SparkSession", "Callable[[], SparkSession]"]
"""A session, or a callable that returns the one to use now."""


class SparkEngine:
    """Runs tasks as jobs of a Spark session.

    Args:
        spark: The session, or a callable that returns the one to use now. Without it, the active
            session is used, or one is started when it is first needed; when its Java process has
            ended, another one replaces it.
        small_change_bytes: Deletes, updates and merges that read less than this of the table run in
            this process.
        small_source_bytes: Merges of a DataFrame with less than this collect it in this process.
    """

    name: Final = "spark"

    def __init__(
        self,
        spark: SparkSource | None = None,
        *,
        small_change_bytes: int = SMALL_CHANGE_BYTES,
        small_source_bytes: int = SMALL_SOURCE_BYTES,
    ) -> None:
        if importlib.util.find_spec("pyspark") is None:
            raise UnavailableError('Spark is not installed: pip install "lakeport[spark]"')
        # Guards the session, which is started when the first scan needs it.
        self._lock = threading.Lock()
        self._find: Callable[[], SparkSession] | None = spark if callable(spark) else None
        self._spark: SparkSession | None = None if callable(spark) else spark
        self._is_own = spark is None
        self.small_change_bytes = small_change_bytes
        self.small_source_bytes = small_source_bytes

    def __repr__(self) -> str:
        return f"SparkEngine({'' if self._is_own else self._find or self._spark!r})"

    def session(self) -> SparkSession:
        """Return the session: the caller's, or one that is started now if none is running."""
        if self._find is not None:
            return self._find()
        with self._lock:
            if self._spark is None or (self._is_own and not is_running(self._spark)):
                self._spark = session()
            return self._spark

    def has_session(self, spark: SparkSession) -> bool:
        """Return whether the engine runs on a session, without starting one."""
        return spark is (self._spark if self._find is None else self._find())

    @property
    def parallelism(self) -> int:
        """How many tasks run at once: the cores of the cluster; those of this machine before."""
        with retried_when_lost():
            spark = self._spark if self._find is None else self._find()
            if spark is not None and not is_connect(spark):
                return max(1, int(spark.sparkContext.defaultParallelism))
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1

    def stream(
        self, tasks: Sequence[ReadTask], schema: pa.Schema, *, max_bytes: int = MAX_BYTES
    ) -> pa.RecordBatchReader:
        """Return the rows of the tasks, in no order, while a Spark job reads them."""
        return stream(self.session(), tasks, schema, max_bytes=max_bytes)

    def run(self, tasks: Sequence[RunTask]) -> Iterator[Any]:
        """Run tasks as a Spark job and yield their results, in no order."""
        with stream(self.session(), [ResultTask(task) for task in tasks], RESULTS) as results:
            for batch in results:
                yield from results_of(batch)

    def dataframe(self, plan: ScanPlan, planner: Planner | None = None) -> DataFrame:
        """Return the rows of a plan as a DataFrame: read by Spark itself wherever it can.

        With a planner, the filters of later queries leave out files.
        """
        from lakeport.spark.frames.dataframes import to_dataframe

        return to_dataframe(self.session(), plan, planner)

    def change_dataframe(self, changes: ChangePlan, schema: pa.Schema) -> DataFrame:
        """Return the rows of a change plan as a DataFrame with the columns of a schema."""
        from lakeport.spark.frames.changes import change_dataframe

        return change_dataframe(self.session(), changes, schema)

    def register(self, lake: Lake, name: str | None = None, *, version: int) -> Registration:
        """Make every table and view of a lake at a snapshot a temporary view of the session."""
        from lakeport.spark.sql.registration import register

        return register(lake, self.session(), name, version=version)

    def sql(
        self, lake: Lake, query: str, *, args: Arguments | None = None, version: int | None = None
    ) -> DataFrame:
        """Return the DataFrame of a query over a lake, or of the outcome of a statement."""
        from lakeport.spark.sql.lake_queries import lake_query
        from lakeport.spark.sql.parameters import with_arguments
        from lakeport.spark.sql.statements import (
            is_listing,
            is_statement,
            result_frame,
            run_listing,
            run_statement,
        )

        query = with_arguments(query, args)
        if is_listing(query):
            rows = run_listing(lake, query, self.session, version=version)
            return create_dataframe(self.session(), rows)
        if not is_statement(query):
            at = lake.snapshot().id if version is None else version
            return lake_query(lake, self.session(), query, version=at)
        if version is not None:
            raise InvalidArgumentError(
                "a statement changes the newest snapshot: only queries have a version or timestamp"
            )
        return result_frame(self.session(), run_statement(lake, query, self.session))

    def frame_schema(self, frame: DataFrame) -> pa.Schema:
        """Return the columns of a DataFrame in Arrow's types."""
        from lakeport.spark.frames.columns import arrow_schema
        from lakeport.spark.writing.appends import distinct_columns

        return arrow_schema(distinct_columns(frame.schema))

    def frame_reader(self, frame: DataFrame) -> pa.RecordBatchReader:
        """Return the rows of a DataFrame in this process, while Spark computes them."""
        from lakeport.spark.frames.columns import arrow_schema, select
        from lakeport.spark.transport.frame_stream import stream_dataframe
        from lakeport.spark.writing.appends import distinct_columns

        columns = distinct_columns(frame.schema)
        return stream_dataframe(select(frame, columns), arrow_schema(columns))

    def write_frame(self, frame: DataFrame, request: FrameWrite) -> WrittenRows:
        """Write the rows of a DataFrame as data files of a table."""
        from lakeport.spark.writing.appends import write_frame

        return write_frame(frame, request)

    def stage(
        self,
        frame: DataFrame,
        task: SourceTask,
        *,
        target: FileTarget,
        title: str,
        progress: Progress | None = None,
    ) -> SparkStage:
        """Compute the rows of a merge's source once and keep them on the executors."""
        from lakeport.spark.writing.merges import stage

        return stage(frame.sparkSession, frame, task, target=target, title=title, progress=progress)

    def run_changes(
        self,
        query: ChangeQuery,
        groups: Sequence[ChangeGroup],
        *,
        target: FileTarget,
        title: str,
        progress: Progress | None = None,
    ) -> list[TaskReport]:
        """Run a query of a delete, update or merge on groups of rows, each in a task."""
        from lakeport.spark.writing.changes import run_changes
        from lakeport.spark.writing.jobs import WriteJob

        spark = self.session()
        return run_changes(spark, WriteJob(spark, target, title, progress), query, groups)
