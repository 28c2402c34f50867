"""The pipeline: lakes on Apache Spark, through PySpark.

`SparkEngine` runs the scans of a lake, `session` returns a session, `stream` runs any picklable
tasks as one job that feeds a `pyarrow.RecordBatchReader`. `register_data_source` makes `ducklake`
a format of a session. `SparkTable` and `spark_sql_function` show DataFrames and queries to DuckDB.
"""

from lakeport._lazy import attach

# Names are loaded on first use, from the modules that `__init__.pyi` lists.
__getattr__, __dir__, __all__ = attach(__name__)
