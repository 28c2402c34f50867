"""Run the phases of a row-level change on Spark: each group of reads is a task."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.ducklake.writing.tasks import ChangeGroup, ChangeQuery, TaskReport
from lakeport.spark.compat import create_dataframe, map_in_arrow
from lakeport.spark.writing.worker import REPORTS, RunChange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeport.spark.writing.jobs import WriteJob

__all__ = ["run_changes"]


def run_changes(
    spark: SparkSession, job: WriteJob, query: ChangeQuery, groups: Sequence[ChangeGroup]
) -> list[TaskReport]:
    """Run a query on each group; return the reports in the order of the groups."""
    from pyspark.sql.functions import broadcast

    # Groups are rows: every task unpickles the whole function, with everything in it.
    pickled = pa.array([pickle.dumps(group) for group in groups], pa.binary())
    rows = pa.table({"number": pa.array(range(len(groups)), pa.int64()), "tasks": pickled})
    numbers = spark.range(0, len(groups), 1, len(groups)).withColumnRenamed("id", "number")
    frame = numbers.join(broadcast(create_dataframe(spark, rows)), "number").select("tasks")
    return job.run(map_in_arrow(frame, RunChange(query, job.id), REPORTS))
