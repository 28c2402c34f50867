"""A scan plan as a DataFrame: read by Spark itself where that is exact, else by Arrow."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport.ducklake import ReadTask
from lakeport.ducklake.planning import Planner, ScanPlan
from lakeport.ducklake.reading import FileTask, InlinedTask, ScanContext, ScanTask
from lakeport.errors import LakeportError
from lakeport.filters.encoders import SparkEncoder
from lakeport.spark.compat import create_dataframe, is_connect, map_in_arrow
from lakeport.spark.frames.file_index import FilePruning
from lakeport.spark.frames.optimizer_rule import install_rule, register_tasks
from lakeport.spark.frames.parquet_columns import has_unique_names
from lakeport.spark.frames.parquet_frames import parquet_dataframe
from lakeport.spark.frames.parquet_scans import ParquetScan, plan_parquet_scans
from lakeport.spark.frames.values import spark_arrow_schema, spark_schema, to_spark_batch
from lakeport.spark.transport.job import group_tasks
from lakeport.types import Column, spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["dataframe_from_inlined_rows", "dataframe_from_tasks", "to_dataframe"]


def to_dataframe(spark: SparkSession, plan: ScanPlan, planner: Planner | None = None) -> DataFrame:
    """Return the rows of a plan as a DataFrame with the schema `spark_schema(plan.columns)`.

    With the planner of the table, the filters of later queries leave out files.
    """
    files = [task for task in plan.tasks if isinstance(task, FileTask)]
    carried = [task for task in plan.tasks if isinstance(task, InlinedTask)]
    others = [task for task in plan.tasks if not isinstance(task, FileTask | InlinedTask)]
    pruning = FilePruning(None if planner is None else planner.excluded_files)
    frames, left = _native_frames(spark, files, pruning, planner)
    if left or others:
        frames.append(dataframe_from_tasks(spark, [*left, *others], plan.columns, planner))
    if carried:
        frames.append(dataframe_from_inlined_rows(spark, carried, plan.columns))
    if not frames:
        return create_dataframe(spark, [], spark_schema(plan.columns))
    return reduce(lambda one, other: one.unionAll(other), frames)


def _native_frames(
    spark: SparkSession, tasks: list[FileTask], pruning: FilePruning, planner: Planner | None
) -> tuple[list[DataFrame], list[FileTask]]:
    """Return DataFrames of the files that Spark reads itself, and the remaining tasks."""
    if not tasks:
        return [], []
    context = tasks[0].context
    names = [column if isinstance(column, str) else column.name for column in context.read_columns]
    condition = _condition(context)
    if condition is None or not has_unique_names(names):
        return [], tasks
    scans, left = plan_parquet_scans(tasks)
    if planner is not None:
        scans = _show_numbers(scans, planner)
    frames = [parquet_dataframe(spark, scan, names, pruning) for scan in scans]
    if condition:
        # The type of a constant filter, such as NULL, may not be BOOLEAN.
        frames = [frame.where(f"CAST(({condition}) AS BOOLEAN)") for frame in frames]
    if len(names) > len(context.columns):
        # The columns of the plan come first; the others are only for the filter.
        selected = [spark_identifier(name) for name in names[: len(context.columns)]]
        frames = [frame.select(*selected) for frame in frames]
    return frames, left


def _show_numbers(scans: list[ParquetScan], planner: Planner) -> list[ParquetScan]:
    """Let Spark's reader compare floating-point numbers with statistics where no file has NaN."""
    hidden = {id for scan in scans for id in scan.hidden_columns}
    if not hidden:
        return scans
    try:
        without_nan = planner.files_without_nan(sorted(hidden))
    except LakeportError:  # the snapshot has expired, or the catalog cannot be reached
        return scans
    return [scan.with_numbers_shown(without_nan) for scan in scans]


def _condition(context: ScanContext) -> str | None:
    """Return the filter as Spark SQL; None if it must be exact and Spark cannot evaluate it."""
    encoder = SparkEncoder()
    conjuncts = context.filter.conjuncts
    if context.exact and any(encoder.encode_expression(part) is None for part in conjuncts):
        return None
    return encoder.encode(context.filter)


# A Connect session does not report its cores.
_UNKNOWN_CORES: Final = 64


def dataframe_from_tasks(
    spark: SparkSession,
    tasks: Sequence[ReadTask],
    columns: Sequence[Column | str],
    planner: Planner | None = None,
) -> DataFrame:
    """Return a DataFrame of tasks that Python workers read; small tasks share a partition.

    With the planner of the table, the filters of later queries leave out files.
    """
    from pyspark.sql.functions import broadcast

    groups = group_tasks(list(enumerate(tasks)), _cores(spark))
    # Tasks are rows: every partition unpickles the whole function, with everything in it.
    pickled = pa.array([pickle.dumps(group) for group in groups], pa.binary())
    rows = pa.table({"number": pa.array(range(len(groups)), pa.int64()), "tasks": pickled})
    groups_by_number = broadcast(create_dataframe(spark, rows))
    numbers = spark.range(0, len(groups), 1, len(groups)).withColumnRenamed("id", "number")
    pickled_groups = numbers.join(groups_by_number, "number").select("tasks")
    if planner is not None and install_rule(spark):
        excluded = register_tasks(planner, columns)
        pickled_groups = pickled_groups.selectExpr("tasks", f"CAST(NULL AS BINARY) AS {excluded}")
    return map_in_arrow(pickled_groups, _ReadTasks(tuple(columns)), spark_schema(columns))


def _cores(spark: SparkSession) -> int:
    return _UNKNOWN_CORES if is_connect(spark) else int(spark.sparkContext.defaultParallelism)


def dataframe_from_inlined_rows(
    spark: SparkSession, tasks: Sequence[ScanTask], columns: Sequence[Column | str]
) -> DataFrame:
    """Return a DataFrame of inlined rows, which are part of their tasks."""
    batches = [to_spark_batch(batch, columns) for task in tasks for batch in task.read()]
    rows = pa.Table.from_batches(batches, spark_arrow_schema(columns))
    return create_dataframe(spark, rows, schema=spark_schema(columns))


@dataclass(frozen=True, slots=True)
class _ReadTasks:
    """Reads the tasks that Spark passes to a worker, without those of files to leave out."""

    columns: tuple[Column | str, ...]

    def __call__(self, groups: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in groups:
            excluded = _excluded(batch)
            for pickled in batch.column(0).to_pylist():
                for _, task in pickle.loads(pickled):  # noqa: S301
                    if isinstance(task, FileTask) and task.file.id in excluded:
                        continue
                    for rows in task.read():
                        yield to_spark_batch(rows, self.columns)


def _excluded(batch: pa.RecordBatch) -> frozenset[int]:
    """Return the ids of files that the optimizer rule has added to the rows of tasks."""
    if batch.num_columns == 1 or batch.num_rows == 0 or not batch.column(1)[0].is_valid:
        return frozenset()
    ids: frozenset[int] = pickle.loads(batch.column(1)[0].as_py())  # noqa: S301
    return ids
