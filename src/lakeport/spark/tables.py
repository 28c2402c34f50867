"""A Spark DataFrame as a table of a catalog: Spark applies DuckDB's filters and columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, Union

import pyarrow as pa

from lakeport.catalog import (
    Arguments,
    FunctionSignature,
    Parameter,
    ScanOptions,
    TableFunction,
    TableSize,
    project_schema,
)
from lakeport.errors import DefinitionError, InvalidInputError
from lakeport.filters.encoders import SparkEncoder
from lakeport.spark.compat import is_connect
from lakeport.spark.frames.columns import FrameColumn, arrow_schema, frame_columns, select
from lakeport.spark.session import session
from lakeport.spark.sql.queries import query, untrusted_query
from lakeport.spark.transport.frame_stream import stream_dataframe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkTable", "scan_frame", "spark_sql_function"]

FrameSource: TypeAlias = Union["DataFrame", str, Callable[[], "DataFrame"]]


class SparkTable:
    """Any DataFrame as a table that DuckDB can attach.

    ```python
    builder.schema("sales").table("orders", SparkTable(spark.read.parquet("s3://…")))
    builder.schema("sales").table("today", SparkTable("SELECT * FROM orders WHERE …"))
    ```

    Every scan is one Spark query with DuckDB's filter and columns. Its rows have the order of the
    DataFrame.
    """

    def __init__(
        self,
        source: FrameSource,
        *,
        name: str = "",
        comment: str = "",
        spark: SparkSession | None = None,
    ) -> None:
        """Describe a table.

        Args:
            source: A DataFrame; or the text of a Spark SQL query, or a callable without arguments
                that returns a DataFrame. Both are evaluated for every scan.
            name: The name of the table, if the catalog's builder does not set one.
            comment: A description for people.
            spark: The session for SQL text; by default the active one, or a new one.

        """
        self.name = name
        self.comment = comment
        self._source = source
        self._spark = spark
        # Computed at the first use; threads that compute it at once get the same result.
        self._columns: tuple[FrameColumn, ...] | None = None

    def named(self, name: str, comment: str = "") -> SparkTable:
        """Return the same table under another name."""
        return SparkTable(
            self._source, name=name, comment=comment or self.comment, spark=self._spark
        )

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns of the DataFrame, as they were at the first call."""
        if self._columns is None:
            self._columns = frame_columns(self._frame().schema)
        return project_schema(arrow_schema(self._columns), columns)

    def size(self, options: ScanOptions) -> TableSize:  # noqa: ARG002
        """Return the number of rows if Spark's optimizer has it."""
        frame = self._frame()
        if is_connect(frame.sparkSession):
            return TableSize()
        plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001
        rows = plan.stats().rowCount()
        return TableSize(rows=int(str(rows.get())) if rows.isDefined() else None)

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        """Run the query."""
        return scan_frame(self._frame(), options)

    def _frame(self) -> DataFrame:
        if isinstance(self._source, str):
            return query(self._spark or session(), self._source)
        if callable(self._source) and not hasattr(self._source, "sparkSession"):
            return self._source()
        if hasattr(self._source, "sparkSession"):
            return self._source
        raise DefinitionError(
            f"table {self.name!r}: {type(self._source).__name__} is not a DataFrame; pass a "
            "DataFrame, Spark SQL, or a callable that returns a DataFrame"
        )


def scan_frame(frame: DataFrame, options: ScanOptions) -> pa.RecordBatchReader:
    """Return the rows of a DataFrame, with the columns and what Spark can apply of the filter."""
    columns = frame_columns(frame.schema)
    frame = frame.toDF(*[column.name for column in columns])
    comparable = [column.name for column in columns if column.can_be_filtered]
    condition = SparkEncoder(columns=comparable).encode(options.filter)
    if condition:
        frame = frame.where(condition)
    if options.limit is not None and not options.filter:
        frame = frame.limit(options.limit)
    requested = columns
    if options.columns is not None:
        # A batch without columns has no number of rows.
        requested = tuple(c for c in columns if c.name in options.columns) or columns[:1]
    return stream_dataframe(select(frame, requested), arrow_schema(requested))


def spark_sql_function(
    spark: SparkSession | None = None, name: str = "spark_sql", *, trusted: bool = False
) -> TableFunction:
    """Return a table function for a catalog: `SELECT * FROM spark_sql('SELECT …')`.

    Its callers can read every table and view of the session, with the server's rights. To offer
    only some, pass another session: `spark.newSession()`.

    Args:
        spark: The session whose tables, views and functions a query sees. Each query runs in a
            copy of it. By default a new session of the active one, without temporary views.
        name: The name of the function in SQL.
        trusted: Allow everything that Spark can do: read files by their paths, run scripts, call
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
        """Return the columns of the result, without running the query."""
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
