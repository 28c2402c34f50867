"""Comparing the DataFrame of a plan with the rows that the plan gives in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lakeport.ducklake import ScanPlan
from lakeport.spark.frames.values import spark_arrow_schema, spark_schema, to_spark_batch

MakeLake = Callable[..., Any]

IN_FILES = "DATA_INLINING_ROW_LIMIT 0"
VIRTUAL = ("rowid", "snapshot_id", "filename", "file_row_number")


def rows(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))


def expected(plan: ScanPlan) -> Counter[str]:
    """The rows that the plan gives in this process, in Spark's types."""
    batches = [to_spark_batch(batch, plan.columns) for batch in plan.read()]
    return rows(pa.Table.from_batches(batches, spark_arrow_schema(plan.columns)))


def physical_plan(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def is_native(frame: Any) -> bool:
    """Whether Spark reads Parquet itself, without any Python."""
    plan = physical_plan(frame)
    return "FileScan parquet" in plan and "MapInArrow" not in plan


def check(plan: Any, spark: Any, *, native: bool | None = None) -> Any:
    """The DataFrame of a plan, after it was compared with what is read in this process."""
    frame = plan.to_spark(spark)
    assert frame.schema == spark_schema(plan.columns)
    assert rows(frame.toArrow()) == expected(plan)
    if native is not None:
        assert is_native(frame) is native
    return frame
