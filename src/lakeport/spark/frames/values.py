"""A lake's values in Spark's types: the schema of a plan's columns, and batches in its layout.

Every value stays exact. Values without a type in Spark become text, numbers or structs. Dates and
timestamps beyond Spark's range, and infinity, keep their number of days or microseconds. A HUGEINT
of 39 digits does not fit in DECIMAL(38,0) and is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lakeport.arrow import rebuild_list, rebuild_map, rebuild_struct, relabel
from lakeport.ducklake.reading import VIRTUAL_COLUMNS
from lakeport.errors import InvalidArgumentError, LakeportError
from lakeport.types import SPARK_TYPES, Column, duckdb_cast, find_type, fold_name, spark_type

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

__all__ = ["not_held", "spark_arrow_schema", "spark_data_type", "spark_schema", "to_spark_batch"]

_INTERVAL: Final = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("micros", pa.int64())])


def spark_schema(columns: Sequence[Column | str]) -> StructType:
    """Return the Spark schema of columns and virtual columns."""
    from pyspark.sql.types import StructField, StructType

    fields = spark_arrow_schema(columns)
    return StructType([StructField(field.name, _data_type(field.type)) for field in fields])


def spark_data_type(column: Column) -> DataType:
    """Return the Spark type of one column; needs no session."""
    return _data_type(_arrow_type(column))


def not_held(column: Column) -> str | None:
    """Return why Spark has no type for a column; None if it has one."""
    try:
        _arrow_type(column)
    except LakeportError as error:
        return str(error)
    except (KeyError, ValueError):
        # Such as a decimal of 99 digits, which neither Spark nor Arrow has.
        return f"column {column.name!r} has type {column.type!r}, which Spark does not have"
    for node in column.walk():
        names = [fold_name(child.name) for child in node.children]
        if node.type == "struct" and len(set(names)) < len(names):
            return f"column {column.name!r} has a struct with two fields of one name for Spark"
    return None


def spark_arrow_schema(columns: Sequence[Column | str]) -> pa.Schema:
    """Return the Arrow schema of batches for `spark_schema(columns)`."""
    return pa.schema(
        [
            pa.field(_name(c), _arrow_type(c) if isinstance(c, Column) else VIRTUAL_COLUMNS[c])
            for c in columns
        ]
    )


def to_spark_batch(batch: pa.RecordBatch, columns: Sequence[Column | str]) -> pa.RecordBatch:
    """Return a batch of a scan task in the layout of `spark_schema(columns)`."""
    if not columns:
        return batch
    arrays = [
        _convert(array, column) if isinstance(column, Column) else array
        for array, column in zip(batch.columns, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=spark_arrow_schema(columns))


def _name(column: Column | str) -> str:
    return column if isinstance(column, str) else column.name


def _arrow_type(column: Column) -> pa.DataType:
    """Return the Arrow type of the column's Spark type."""
    if column.type == "struct":
        return pa.struct([pa.field(c.name, _arrow_type(c)) for c in column.children])
    if column.type == "list":
        return pa.list_(pa.field("element", _arrow_type(column.children[0])))
    if column.type == "map":
        key, value = (_arrow_type(child) for child in column.children)
        return pa.map_(pa.field("key", key, nullable=False), pa.field("value", value))
    if column.type == "interval":
        return _INTERVAL
    name, _, arguments = spark_type(column).partition("(")
    if arguments:
        precision, scale = arguments.rstrip(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return SPARK_TYPES[name].arrow


def _data_type(type: pa.DataType) -> DataType:
    """Return the Spark type of an Arrow type."""
    from pyspark.sql import types

    if pa.types.is_struct(type):
        return types.StructType([types.StructField(f.name, _data_type(f.type)) for f in type])
    if pa.types.is_map(type):
        return types.MapType(_data_type(type.key_type), _data_type(type.item_type))
    if pa.types.is_list(type):
        return types.ArrayType(_data_type(type.value_type))
    if pa.types.is_decimal(type):
        return types.DecimalType(type.precision, type.scale)
    name = next(row.pyspark for row in SPARK_TYPES.values() if row.arrow == type)
    spark: DataType = getattr(types, name)()
    return spark


def _convert(array: pa.Array, column: Column) -> pa.Array:
    target = _arrow_type(column)
    if column.type == "struct":
        # The fields of a NULL struct may have values; `flatten` makes them NULL.
        fields = array.flatten()
        children = [_convert(f, c) for f, c in zip(fields, column.children, strict=True)]
        return rebuild_struct(array, target, children)
    if column.type == "list":
        return rebuild_list(array, target, _convert(array.values, column.children[0]))
    if column.type == "map":
        key, value = column.children
        keys, items = _convert(array.keys, key), _convert(array.items, value)
        return rebuild_map(array, target, keys, items)
    row = find_type(column.type)
    match row.spark_form if row is not None else "same":
        case "decimal":
            return _hugeint_to_decimal(array, column, target)
        case "struct":
            return _interval(array, target)
        case "text":
            return duckdb_cast(array, _with_type(column, "varchar"))
        case "number":
            return array.view(target)
        case "microseconds":
            # DuckDB preserves infinity where a multiplication would overflow.
            return duckdb_cast(array, _with_type(column, "timestamp"))
        case _:
            return relabel(array, target)


def _with_type(column: Column, type: str) -> Column:
    return Column(id=column.id, name=column.name, type=type)


def _hugeint_to_decimal(array: pa.Array, column: Column, target: pa.DataType) -> pa.Array:
    """Read the bytes of a HUGEINT as a decimal without a scale, which has the same."""
    storage = array.storage
    wide = pa.Array.from_buffers(
        target, len(storage), storage.buffers(), storage.null_count, storage.offset
    )
    try:
        wide.validate(full=True)
    except pa.ArrowInvalid:
        raise InvalidArgumentError(
            f"a value of column {column.name!r} has 39 digits, but Spark's widest integer is "
            "DECIMAL(38,0)"
        ) from None
    return wide


def _interval(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return months, days and microseconds as a struct."""
    layout = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])
    data = array.buffers()[1]
    parts = np.frombuffer(data, layout, len(array), array.offset * layout.itemsize)
    children = [
        pa.array(np.ascontiguousarray(parts["months"])),
        pa.array(np.ascontiguousarray(parts["days"])),
        pa.array(parts["nanos"] // 1000),
    ]
    return rebuild_struct(array, target, children)
