"""The pipeline: lakes on Apache Spark, through PySpark.

`Lake` reads on Spark, `session` gives the session that it reads on, `stream` runs any picklable
tasks as one job that feeds a `pyarrow.RecordBatchReader`.
"""

from lakeport.spark.lake import Lake, LakeTable
from lakeport.spark.scan import Scan
from lakeport.spark.session import session
from lakeport.spark.stream import stream

__all__ = ["Lake", "LakeTable", "Scan", "session", "stream"]
