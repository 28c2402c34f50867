"""The rows of a statement: VALUES are computed by DuckDB, queries run on Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeport.ducklake.writing.changes import default_sql, open_workspace
from lakeport.errors import InvalidInputError
from lakeport.spark.frames.columns import sql_type as spark_sql_type
from lakeport.spark.frames.values import not_held, spark_data_type
from lakeport.spark.sql.lake_queries import lake_query
from lakeport.spark.sql.statements.expressions import duckdb_sql
from lakeport.spark.sql.statements.model import Query, Values
from lakeport.types import Column, arrow_schema, duckdb_identifier, spark_identifier, sql_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.ducklake import Lake

__all__ = ["Queries", "inserted_frame", "values_table", "with_constants"]


@dataclass(frozen=True, slots=True)
class Queries:
    """Runs the queries of a statement on Spark, over the newest snapshot of a lake."""

    lake: Lake
    spark: Callable[[], SparkSession]
    """Called only if the statement has a query."""
    ctes: str = ""
    """WITH and its queries, which come before the statement."""

    def frame(self, query: Query) -> DataFrame:
        """Return the DataFrame of a query."""
        text = query.text
        if self.ctes:
            text = f"{self.ctes}\nSELECT * FROM (\n{text}\n)"
        return lake_query(self.lake, self.spark(), text, version=self.lake.snapshot().id)


def values_table(values: Values, columns: Sequence[Column]) -> pa.Table:
    """Return the rows of VALUES in the types of the columns that they are inserted into."""
    rows = []
    for row in values.rows:
        if len(row) != len(columns):
            raise InvalidInputError(
                f"INSERT has {len(columns)} columns, and a row of VALUES has {len(row)} values"
            )
        cells = [_cell(text, column) for text, column in zip(row, columns, strict=True)]
        rows.append(f"({', '.join(cells)})")
    names = ", ".join(duckdb_identifier(column.name) for column in columns)
    with open_workspace() as workspace:
        sql = f"SELECT * FROM (VALUES {', '.join(rows)}) AS v({names})"
        return workspace.stream(sql, arrow_schema(columns)).read_all()


def _cell(text: str, column: Column) -> str:
    if text.strip().upper() == "DEFAULT":
        return default_sql(column)
    return f"CAST(({duckdb_sql(text)}) AS {sql_type(column)})"


def inserted_frame(frame: DataFrame, columns: Sequence[Column], *, by_name: bool) -> DataFrame:
    """Return the rows of a query under the names and in the types of the columns of a table.

    Without `by_name` the columns of the query stand for those of the table in their order.
    """
    if not by_name and len(frame.columns) != len(columns):
        raise InvalidInputError(
            f"INSERT has {len(columns)} columns, and the query has {len(frame.columns)}"
        )
    if not by_name:
        frame = frame.toDF(*(column.name for column in columns))
    known = {column.name.lower(): column for column in columns}
    unknown = [name for name in frame.columns if name.lower() not in known]
    if unknown:
        raise InvalidInputError(f"the table has no column {unknown[0]!r}, which the query has")
    return frame.selectExpr(
        *(
            _cast(field.name, spark_sql_type(field.dataType), known[field.name.lower()])
            for field in frame.schema.fields
        )
    )


def with_constants(frame: DataFrame, constants: Sequence[tuple[Column, Any]]) -> DataFrame:
    """Return rows with further columns, each of which has one value."""
    from pyspark.sql.functions import lit

    columns = []
    for column, value in constants:
        held = lit(value)
        if not_held(column) is None:
            held = held.cast(spark_data_type(column))
        columns.append(held.alias(column.name))
    return frame.select("*", *columns)


def _cast(name: str, type: str, column: Column) -> str:
    """Return a column of a query in the type that Spark has for a column of the table."""
    quoted, target = spark_identifier(name), spark_identifier(column.name)
    if not_held(column) is not None:
        return f"{quoted} AS {target}"
    wanted = spark_sql_type(spark_data_type(column))
    return f"{quoted} AS {target}" if wanted == type else f"CAST({quoted} AS {wanted}) AS {target}"
