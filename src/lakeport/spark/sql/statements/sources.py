"""The rows of a statement: VALUES are computed by DuckDB, queries run on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from lakeport.types import (
    Column,
    arrow_schema,
    duckdb_identifier,
    fold_name,
    spark_identifier,
    sql_type,
)

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

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
    return frame.select(*(_cast(field, known[field.name.lower()]) for field in frame.schema.fields))


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


def _cast(field: StructField, column: Column) -> SparkColumn:
    """Return a column of a query in the type that Spark has for a column of the table."""
    from pyspark.sql.functions import col

    value = col(spark_identifier(field.name))
    if not_held(column) is None:
        value = _assigned(value, field.dataType, spark_data_type(column), column.name)
    return value.alias(column.name)


def _assigned(value: SparkColumn, found: DataType, wanted: DataType, path: str) -> SparkColumn:
    """Return a value in another type as DuckDB assigns it: fields by name, fractions rounded.

    Spark's CAST takes fields by their positions and cuts fractions off.
    """
    from pyspark.sql import functions as sf
    from pyspark.sql import types

    if spark_sql_type(found) == spark_sql_type(wanted):
        return value
    match found, wanted:
        case types.StructType(), types.StructType() if not _is_unnamed(found):
            fields = _fields(value, found, wanted, path)
            return sf.when(value.isNotNull(), sf.struct(*fields)).cast(wanted)
        case types.ArrayType(), types.ArrayType():
            inside, element = found.elementType, wanted.elementType
            return sf.transform(value, lambda item: _assigned(item, inside, element, path))
        case types.MapType(), types.MapType():
            keys, values = (found.keyType, wanted.keyType), (found.valueType, wanted.valueType)
            entries = sf.transform(
                sf.map_entries(value),
                lambda entry: sf.struct(
                    _assigned(entry["key"], *keys, path), _assigned(entry["value"], *values, path)
                ),
            )
            return sf.map_from_entries(entries)
        case ((types.FloatType() | types.DoubleType()), types.IntegralType()):
            return sf.rint(value).cast(wanted)
        case types.DecimalType(), types.IntegralType():
            return sf.round(value, 0).cast(wanted)
        case _:
            return value.cast(wanted)


def _is_unnamed(struct: StructType) -> bool:
    """Return whether Spark has named the fields, as of `struct(1, 2)`: they have positions only."""
    names: list[str] = struct.names
    return names == [f"col{number}" for number in range(1, len(names) + 1)]


def _fields(
    value: SparkColumn, found: StructType, wanted: StructType, path: str
) -> Iterator[SparkColumn]:
    """Yield the fields that a struct must have; those that it lacks are NULL."""
    from pyspark.sql.functions import lit

    given = {fold_name(field.name): field for field in found.fields}
    unknown = given.keys() - {fold_name(field.name) for field in wanted.fields}
    if unknown:
        raise InvalidInputError(f"column {path!r} has no field {given[min(unknown)].name!r}")
    for field in wanted.fields:
        own = given.get(fold_name(field.name))
        if own is None:
            yield lit(None).cast(field.dataType).alias(field.name)
        else:
            inside = value.getField(own.name)
            shown = f"{path}.{field.name}"
            yield _assigned(inside, own.dataType, field.dataType, shown).alias(field.name)
