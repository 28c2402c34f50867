"""The outcome of a statement as a DataFrame of one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport.spark.compat import create_dataframe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.ducklake.writing import WriteResult

__all__ = ["result_frame"]

_COLUMNS: Final = pa.schema(
    [
        ("snapshot_id", pa.int64()),
        ("num_affected_rows", pa.int64()),
        ("num_inserted_rows", pa.int64()),
        ("num_updated_rows", pa.int64()),
        ("num_deleted_rows", pa.int64()),
    ]
)


def result_frame(spark: SparkSession, result: WriteResult) -> DataFrame:
    """Return what a statement has done, in the columns that Delta Lake has, and the snapshot."""
    counts = (result.rows_inserted, result.rows_updated, result.rows_deleted)
    values = (result.snapshot, sum(counts), *counts)
    rows = pa.table([[value] for value in values], schema=_COLUMNS)
    return create_dataframe(spark, rows)
