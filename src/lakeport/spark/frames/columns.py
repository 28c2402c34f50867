"""The columns of a DataFrame in DuckDB's types.

| Spark | Arrow, DuckDB |
|---|---|
| boolean, tinyint, smallint, int, bigint, float, double, string, binary, date | the same |
| decimal(p, s) | decimal128(p, s), DECIMAL |
| timestamp | timestamp in UTC, TIMESTAMP WITH TIME ZONE |
| timestamp_ntz | timestamp, TIMESTAMP |
| time | time64 in microseconds, TIME |
| interval day to second | duration, INTERVAL |
| interval year to month, interval | month_day_nano_interval, INTERVAL |
| array, map, struct | list, map, struct |
| variant | JSON text, JSON |
| void | int32, INTEGER |

Names that are equal for DuckDB get a number: `id`, `ID` become `id`, `ID_1`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport.errors import InvalidArgumentError, UnsupportedError
from lakeport.types import SPARK_TYPES, spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

__all__ = ["FrameColumn", "arrow_schema", "frame_columns", "select", "sql_type"]

_BINARY_ORDER: Final = "UTF8_BINARY"


@dataclass(frozen=True, slots=True)
class FrameColumn:
    """One column of a DataFrame."""

    name: str
    """The name; unique, also if case is ignored."""
    type: pa.DataType
    expression: str
    """Spark SQL for the values in a type that Arrow has; the first `{}` is the column."""
    can_be_filtered: bool
    """Whether a comparison in Spark means what it means in DuckDB."""


def frame_columns(schema: StructType) -> tuple[FrameColumn, ...]:
    """Return the columns of a DataFrame."""
    if not schema.fields:
        raise InvalidArgumentError("a DataFrame without columns cannot be read")
    names = _unique([field.name for field in schema.fields])
    return tuple(
        _column(name, field.dataType) for name, field in zip(names, schema.fields, strict=True)
    )


def arrow_schema(columns: Sequence[FrameColumn]) -> pa.Schema:
    """Return the Arrow schema of columns; all of them are nullable."""
    return pa.schema([pa.field(column.name, column.type) for column in columns])


def select(frame: DataFrame, columns: Sequence[FrameColumn]) -> DataFrame:
    """Select columns of a DataFrame under unique names, in types that Arrow has."""
    return frame.select([_selected(column) for column in columns])


def _selected(column: FrameColumn) -> Column:
    from pyspark.sql import functions as f

    value = spark_identifier(column.name)
    if column.expression == "{}":
        return f.col(value)
    return f.expr(column.expression.replace("{}", value, 1)).alias(column.name)


def _unique(names: Sequence[str]) -> list[str]:
    taken = {name.lower() for name in names}
    seen: set[str] = set()
    unique = []
    for name in names:
        chosen, number = name, 0
        while chosen.lower() in seen or (number and chosen.lower() in taken):
            number += 1
            chosen = f"{name}_{number}"
        seen.add(chosen.lower())
        unique.append(chosen)
    return unique


def _column(name: str, type: DataType) -> FrameColumn:
    from pyspark.sql import types as t

    if isinstance(type, t.VariantType):
        return FrameColumn(name, pa.json_(pa.string()), "to_json({})", can_be_filtered=False)
    if isinstance(type, t.YearMonthIntervalType):
        months = "CAST(CAST({} AS INTERVAL MONTH) AS INT)"
        expression = f"make_interval(0, {months})"
        return FrameColumn(name, pa.month_day_nano_interval(), expression, can_be_filtered=False)
    arrow = _arrow_type(type)
    if arrow is None:
        raise UnsupportedError(
            f"column {name!r} has the Spark type {type.simpleString()}, for which DuckDB has none: "
            "cast it to another type in the query"
        )
    stored = _without_void(type)
    cast = "{}" if stored is type else f"CAST({{}} AS {sql_type(stored)})"
    is_collated = isinstance(type, t.StringType) and type.collation != _BINARY_ORDER
    return FrameColumn(name, arrow, cast, can_be_filtered=stored is type and not is_collated)


def _arrow_type(type: DataType) -> pa.DataType | None:
    """Return the Arrow type that DuckDB reads; None if there is none."""
    from pyspark.sql import types as t

    match type:
        case t.DecimalType():
            return pa.decimal128(type.precision, type.scale)
        case t.ArrayType():
            item = _arrow_type(type.elementType)
            return None if item is None else pa.list_(item)
        case t.MapType():
            key, value = _arrow_type(type.keyType), _arrow_type(type.valueType)
            return None if key is None or value is None else pa.map_(key, value)
        case t.StructType():
            return _struct_type(type)
        case _:
            return _plain_types().get(type.__class__)


def _struct_type(type: StructType) -> pa.DataType | None:
    members = [(field.name, _arrow_type(field.dataType)) for field in type.fields]
    if not members or any(member is None for _, member in members):
        return None
    return pa.struct(members)


def _plain_types() -> dict[type, pa.DataType]:
    from pyspark.sql import types as t

    return {
        **{getattr(t, row.pyspark): row.arrow for row in SPARK_TYPES.values()},
        # Types of Spark that no lake has.
        t.TimeType: pa.time64("us"),
        t.DayTimeIntervalType: pa.duration("us"),
        t.CalendarIntervalType: pa.month_day_nano_interval(),
        t.NullType: pa.int32(),
    }


def _without_void(type: DataType) -> DataType:
    """Return the type with INT for every void; the same object if there is none."""
    from pyspark.sql import types as t

    match type:
        case t.NullType():
            return t.IntegerType()
        case t.ArrayType():
            item = _without_void(type.elementType)
            return type if item is type.elementType else t.ArrayType(item, type.containsNull)
        case t.MapType():
            key, value = _without_void(type.keyType), _without_void(type.valueType)
            if key is type.keyType and value is type.valueType:
                return type
            return t.MapType(key, value, type.valueContainsNull)
        case t.StructType():
            types = [_without_void(field.dataType) for field in type.fields]
            if all(new is field.dataType for new, field in zip(types, type.fields, strict=True)):
                return type
            return t.StructType(
                [t.StructField(f.name, new) for f, new in zip(type.fields, types, strict=True)]
            )
        case _:
            return type


def sql_type(type: DataType) -> str:
    """Return a type as SQL; `simpleString` does not quote the names of fields."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(type, StructType):
        fields = [f"{spark_identifier(field.name)}: {sql_type(field.dataType)}" for field in type]
        return f"STRUCT<{', '.join(fields)}>"
    if isinstance(type, ArrayType):
        return f"ARRAY<{sql_type(type.elementType)}>"
    if isinstance(type, MapType):
        return f"MAP<{sql_type(type.keyType)}, {sql_type(type.valueType)}>"
    return str(type.simpleString())
