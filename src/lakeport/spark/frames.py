"""A scan plan as a Spark DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeport.ducklake import ScanPlan
from lakeport.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["to_dataframe"]


def to_dataframe(spark: SparkSession, plan: ScanPlan) -> DataFrame:
    """The rows of a plan as a DataFrame."""
    raise UnsupportedError("DataFrames are not there yet")
