"""A scan plan as a Spark DataFrame: read by Spark itself wherever that is exact, else by Arrow."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from lakeport.ducklake import ScanPlan
from lakeport.ducklake.plan import FileTask, InlinedTask, ScanContext
from lakeport.filters import SparkEncoder
from lakeport.spark.arrow_frames import carried_frame, task_frame
from lakeport.spark.native import native_frame
from lakeport.spark.native_files import native_scans
from lakeport.spark.native_schema import unambiguous
from lakeport.spark.quoting import quoted
from lakeport.spark.values import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["to_dataframe"]


def to_dataframe(spark: SparkSession, plan: ScanPlan) -> DataFrame:
    """The rows of a plan as a DataFrame; `spark_schema(plan.columns)` is its schema."""
    files = [task for task in plan.tasks if isinstance(task, FileTask)]
    carried = [task for task in plan.tasks if isinstance(task, InlinedTask)]
    others = [task for task in plan.tasks if not isinstance(task, FileTask | InlinedTask)]
    frames, left = _native_frames(spark, files)
    if left or others:
        frames.append(task_frame(spark, [*left, *others], plan.columns))
    if carried:
        frames.append(carried_frame(spark, carried, plan.columns))
    if not frames:
        return spark.createDataFrame([], spark_schema(plan.columns))
    return reduce(lambda one, other: one.unionAll(other), frames)


def _native_frames(
    spark: SparkSession, tasks: list[FileTask]
) -> tuple[list[DataFrame], list[FileTask]]:
    """What Spark reads itself, filtered and projected, and the tasks that it cannot read."""
    if not tasks:
        return [], []
    context = tasks[0].context
    names = [column if isinstance(column, str) else column.name for column in context.read_columns]
    condition = _condition(context)
    if condition is None or not unambiguous(names):
        return [], tasks
    scans, left = native_scans(tasks)
    frames = [native_frame(spark, scan, names) for scan in scans]
    if condition:
        # A constant need not be a truth value, as NULL.
        frames = [frame.where(f"CAST(({condition}) AS BOOLEAN)") for frame in frames]
    if len(names) > len(context.columns):
        # The columns of the plan come first; the others were only for the filter.
        chosen = [quoted(name) for name in names[: len(context.columns)]]
        frames = [frame.select(*chosen) for frame in frames]
    return frames, left


def _condition(context: ScanContext) -> str | None:
    """The filter as Spark SQL; None if Spark cannot evaluate it exactly and must."""
    encoder = SparkEncoder()
    conjuncts = context.filter.conjuncts
    if context.exact and any(encoder.encode_expression(part) is None for part in conjuncts):
        return None
    return encoder.encode(context.filter)
