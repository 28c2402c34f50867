"""The pipeline: lakes on Apache Spark, through PySpark."""

from lakeport.spark.session import session
from lakeport.spark.stream import stream

__all__ = ["session", "stream"]
