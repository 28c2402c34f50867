"""Scan tasks as a DataFrame by Arrow: every DuckLake type, encryption and object store."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport.ducklake import Column, ScanTask
from lakeport.spark.arrow_map import map_in_arrow
from lakeport.spark.packing import packed
from lakeport.spark.queries import is_connect
from lakeport.spark.values import spark_arrow_schema, spark_batch, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["carried_frame", "task_frame"]

# A Connect session does not say how many there are.
_UNKNOWN_CORES: Final = 64


def task_frame(
    spark: SparkSession, tasks: Sequence[ScanTask], columns: Sequence[Column | str]
) -> DataFrame:
    """Tasks that Python workers read: each large one is a partition, small ones share some."""
    from pyspark.sql.functions import broadcast

    groups = packed(list(enumerate(tasks)), _cores(spark))
    # As rows: every partition unpickles the whole function, and so all that is in it.
    pickled = pa.array([pickle.dumps(group) for group in groups], pa.binary())
    rows = pa.table({"number": pa.array(range(len(groups)), pa.int64()), "tasks": pickled})
    known = broadcast(spark.createDataFrame(rows))
    numbers = spark.range(0, len(groups), 1, len(groups)).withColumnRenamed("id", "number")
    chosen = numbers.join(known, "number").select("tasks")
    return map_in_arrow(chosen, _ReadTasks(tuple(columns)), spark_schema(columns))


def _cores(spark: SparkSession) -> int:
    return _UNKNOWN_CORES if is_connect(spark) else int(spark.sparkContext.defaultParallelism)


def carried_frame(
    spark: SparkSession, tasks: Sequence[ScanTask], columns: Sequence[Column | str]
) -> DataFrame:
    """Tasks that bring their rows along: Spark gets the rows themselves."""
    batches = [spark_batch(batch, columns) for task in tasks for batch in task.read()]
    rows = pa.Table.from_batches(batches, spark_arrow_schema(columns))
    return spark.createDataFrame(rows, schema=spark_schema(columns))


@dataclass(frozen=True, slots=True)
class _ReadTasks:
    """Reads the tasks that Spark hands to a worker."""

    columns: tuple[Column | str, ...]

    def __call__(self, groups: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in groups:
            for pickled in batch.column(0).to_pylist():
                for _, task in pickle.loads(pickled):  # noqa: S301
                    for rows in task.read():
                        yield spark_batch(rows, self.columns)
