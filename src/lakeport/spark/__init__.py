"""The pipeline: lakes on Apache Spark, through PySpark.

`Lake` reads on Spark, `session` gives the session that it reads on, `stream` runs any picklable
tasks as one job that feeds a `pyarrow.RecordBatchReader`. `register_data_source` makes `ducklake`
a format of a session. `SparkTable` and `spark_sql_function` show DataFrames and queries to DuckDB.
"""

from lakeport.spark.changes import Changes
from lakeport.spark.functions import spark_sql_function
from lakeport.spark.lake import Lake, LakeTable
from lakeport.spark.registration import Registration
from lakeport.spark.scan import Scan
from lakeport.spark.session import session
from lakeport.spark.source import register_data_source
from lakeport.spark.stream import stream
from lakeport.spark.table import SparkTable

__all__ = [
    "Changes",
    "Lake",
    "LakeTable",
    "Registration",
    "Scan",
    "SparkTable",
    "register_data_source",
    "session",
    "spark_sql_function",
    "stream",
]
