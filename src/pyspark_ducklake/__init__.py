"""Makes `ducklake` known to Spark, which looks into every package called `pyspark_…` by itself."""

from lakeport.spark.source.data_source import DuckLakeSource as DefaultSource

__all__ = ["DefaultSource"]
