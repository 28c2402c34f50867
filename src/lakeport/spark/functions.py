"""`spark_sql('…')`: a table function that runs a query on the cluster and streams its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.catalog import Arguments, FunctionSignature, Parameter, ScanOptions, TableFunction
from lakeport.errors import InvalidInputError
from lakeport.spark.frame_columns import arrow_schema, frame_columns
from lakeport.spark.queries import query, untrusted_query
from lakeport.spark.session import session
from lakeport.spark.table import scan_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["spark_sql_function"]


def spark_sql_function(
    spark: SparkSession | None = None, name: str = "spark_sql", *, trusted: bool = False
) -> TableFunction:
    """A table function for a catalog: `SELECT * FROM spark_sql('SELECT …')`.

    Whoever may call it can read every table and view of the session, with the server's rights.
    To show only some, give it a session of its own: `spark.newSession()`.

    Args:
        spark: The session whose tables, views and functions a query sees. Each query runs in a
            copy of it. Left out: a new session of the active one, without temporary views.
        name: The name of the function in SQL.
        trusted: Let callers do whatever Spark can do: read files by their paths, run scripts, call
            Java methods and the functions that were registered in the session. Otherwise a query
            may use only what is on a list of functions, options and clauses. On a Connect session
            nothing can be checked, so only trusted callers are possible.

    """
    return _SparkSql(name, spark, trusted=trusted)


class _SparkSql:
    comment = "The result of a Spark SQL query, run on the cluster"
    signature = FunctionSignature((Parameter("query", pa.string()),))

    def __init__(self, name: str, spark: SparkSession | None, *, trusted: bool) -> None:
        self.name = name
        self._spark = spark
        self._trusted = trusted

    def schema_for(self, arguments: Arguments) -> pa.Schema:
        """The columns of the result, which Spark tells without running the query."""
        return arrow_schema(frame_columns(self._frame(arguments).schema))

    def execute_table(self, arguments: Arguments, options: ScanOptions) -> pa.RecordBatchReader:
        """Run the query."""
        return scan_frame(self._frame(arguments), options)

    def _frame(self, arguments: Arguments) -> DataFrame:
        text = arguments["query"]
        if not text or not text.strip():
            raise InvalidInputError(f"{self.name} needs the text of a query")
        if self._spark is None:
            self._spark = session().newSession()
        run = query if self._trusted else untrusted_query
        return run(self._spark, text)
