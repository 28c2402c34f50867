"""A change plan as a DataFrame: Spark finds the updates by a join of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport.ducklake import ChangePlan
from lakeport.spark.frames.dataframes import to_dataframe
from lakeport.types import spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["change_dataframe"]

_INSERT: Final = ("insert", "update_postimage")
_DELETE: Final = ("delete", "update_preimage")


def change_dataframe(spark: SparkSession, changes: ChangePlan, schema: pa.Schema) -> DataFrame:
    """Return insertions and deletions with their types, in columns named as in a schema."""
    inserted = to_dataframe(spark, changes.insertions)
    deleted = to_dataframe(spark, changes.deletions)
    feed = _with_change_types(inserted, deleted, _INSERT).unionAll(
        _with_change_types(deleted, inserted, _DELETE)
    )
    return feed.toDF(*schema.names)


def _with_change_types(rows: DataFrame, others: DataFrame, types: tuple[str, str]) -> DataFrame:
    """Return rows with the types of their changes: the second if the other side has their key."""
    from pyspark.sql import functions as f

    columns = rows.columns[:-2]
    keys = others.select(
        f.col("snapshot_id").alias("_snapshot"), f.col("rowid").alias("_row")
    ).distinct()
    both = (f.col("r.snapshot_id") == f.col("k._snapshot")) & (f.col("r.rowid") == f.col("k._row"))
    change_type = f.when(f.col("k._row").isNull(), types[0]).otherwise(types[1])
    chosen = [f"r.{spark_identifier(name)}" for name in columns]
    return (
        rows.alias("r")
        .join(keys.alias("k"), both, "left")
        .select("r.snapshot_id", "r.rowid", change_type, *chosen)
    )
