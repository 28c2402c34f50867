"""Makes the `ducklake` data source known to a Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register_data_source"]


def register_data_source(spark: SparkSession) -> None:
    """Make `ducklake` a format of a session.

    Spark finds the format by itself where Lakeport is installed.
    """
    from lakeport.spark.data_source import DuckLakeSource

    spark.dataSource.register(DuckLakeSource)
