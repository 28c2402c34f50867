"""Comparing the DataFrame of a scan with the rows that are read in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lakeport.ducklake import Scan
from lakeport.spark.frames.values import spark_arrow_schema, spark_schema, to_spark_batch

MakeLake = Callable[..., Any]

IN_FILES = "DATA_INLINING_ROW_LIMIT 0"
VIRTUAL = ("rowid", "snapshot_id", "filename", "file_row_number")


def rows(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))


def expected(scan: Scan) -> Counter[str]:
    """Return the rows that are read in this process, in Spark's types."""
    columns = scan.plan.columns
    batches = [to_spark_batch(batch, columns) for batch in scan.to_batches(engine="local")]
    return rows(pa.Table.from_batches(batches, spark_arrow_schema(columns)))


def physical_plan(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def is_native(frame: Any) -> bool:
    """Whether Spark reads Parquet itself, without any Python."""
    plan = physical_plan(frame)
    return "FileScan parquet" in plan and "MapInArrow" not in plan


def check(scan: Any, spark: Any, *, native: bool | None = None) -> Any:
    """Return the DataFrame of a scan, after comparing it with what is read in this process."""
    frame = scan.to_spark(spark)
    assert frame.schema == spark_schema(scan.plan.columns)
    assert rows(frame.toArrow()) == expected(scan)
    if native is not None:
        assert is_native(frame) is native
    return frame
