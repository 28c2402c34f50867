"""A Spark DataFrame as a table of a catalog: DuckDB's filters and columns become Spark's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, Union

import pyarrow as pa

from lakeport.catalog import ScanOptions, TableSize, project_schema
from lakeport.errors import DefinitionError
from lakeport.filters import SparkEncoder
from lakeport.spark.frame_columns import FrameColumn, arrow_schema, frame_columns, select
from lakeport.spark.queries import is_connect, query
from lakeport.spark.results import stream_frame
from lakeport.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkTable", "scan_frame"]

FrameSource: TypeAlias = Union["DataFrame", str, Callable[[], "DataFrame"]]


class SparkTable:
    """Any DataFrame as a table that DuckDB can attach.

    ```python
    builder.schema("sales").table("orders", SparkTable(spark.read.parquet("s3://…")))
    builder.schema("sales").table("today", SparkTable("SELECT * FROM orders WHERE …"))
    ```

    Every scan is one Spark query with DuckDB's filter and columns pushed into Catalyst. Its rows
    come in the order that the DataFrame has.
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
                that gives a DataFrame, both asked anew for every scan.
            name: The name of the table, where the catalog's builder does not give one.
            comment: A description for people.
            spark: The session for SQL text; the active one if left out, or a new one.

        """
        self.name = name
        self.comment = comment
        self._source = source
        self._spark = spark
        # Found by the first who asks; several would find the same.
        self._columns: tuple[FrameColumn, ...] | None = None

    def named(self, name: str, comment: str = "") -> SparkTable:
        """The same table under another name."""
        return SparkTable(
            self._source, name=name, comment=comment or self.comment, spark=self._spark
        )

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """The columns of the DataFrame, as it was when they were first asked for."""
        if self._columns is None:
            self._columns = frame_columns(self._frame().schema)
        return project_schema(arrow_schema(self._columns), columns)

    def size(self, options: ScanOptions) -> TableSize:  # noqa: ARG002
        """What Spark's optimizer knows of the size."""
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
            f"table {self.name!r}: {type(self._source).__name__} is not a DataFrame; give one, "
            "Spark SQL, or a callable that returns one"
        )


def scan_frame(frame: DataFrame, options: ScanOptions) -> pa.RecordBatchReader:
    """The rows of a DataFrame, with as much of the filter and columns as Spark can apply."""
    columns = frame_columns(frame.schema)
    frame = frame.toDF(*[column.name for column in columns])
    comparable = [column.name for column in columns if column.can_be_filtered]
    condition = SparkEncoder(columns=comparable).encode(options.filter)
    if condition:
        frame = frame.where(condition)
    if options.limit is not None and not options.filter:
        frame = frame.limit(options.limit)
    wanted = columns
    if options.columns is not None:
        # A batch without columns would forget how many rows it has.
        wanted = tuple(c for c in columns if c.name in options.columns) or columns[:1]
    return stream_frame(select(frame, wanted), arrow_schema(wanted))
