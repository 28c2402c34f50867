"""Scan tasks as a DataFrame by Arrow: every DuckLake type, encryption and object store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.ducklake import Column, ScanTask
from lakeport.spark.arrow_map import map_in_arrow
from lakeport.spark.values import spark_arrow_schema, spark_batch, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["carried_frame", "task_frame"]


def task_frame(
    spark: SparkSession, tasks: Sequence[ScanTask], columns: Sequence[Column | str]
) -> DataFrame:
    """Tasks that Python workers read: one partition each."""
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    read = _ReadTasks(tuple(tasks), tuple(columns))
    return map_in_arrow(numbers, read, spark_schema(columns))


def carried_frame(
    spark: SparkSession, tasks: Sequence[ScanTask], columns: Sequence[Column | str]
) -> DataFrame:
    """Tasks that bring their rows along: Spark gets the rows themselves."""
    batches = [spark_batch(batch, columns) for task in tasks for batch in task.read()]
    rows = pa.Table.from_batches(batches, spark_arrow_schema(columns))
    return spark.createDataFrame(rows, schema=spark_schema(columns))


@dataclass(frozen=True, slots=True)
class _ReadTasks:
    """Reads the tasks whose numbers Spark hands to a worker."""

    tasks: tuple[ScanTask, ...]
    columns: tuple[Column | str, ...]

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for rows in self.tasks[number].read():
                    yield spark_batch(rows, self.columns)
