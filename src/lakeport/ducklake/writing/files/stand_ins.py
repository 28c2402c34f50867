"""Values in the types that Spark uses for types which it does not have.

Spark has no unsigned integers, times, intervals or nanoseconds. A scan returns such a column in
another type, see `DuckLakeType.spark`. Rows from Spark come back in that type, and are converted
with a check of every value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lakeport.types import SPARK_TYPES, Column, arrow_type, duckdb_cast, find_type

__all__ = ["stand_in_converter"]

_INTERVAL: Final = {"months": pa.int32(), "days": pa.int32(), "micros": pa.int64()}


def stand_in_converter(
    source: pa.DataType, column: Column
) -> Callable[[pa.Array], pa.Array] | None:
    """Return what makes values of a column from those of its type in Spark; None for others."""
    row = find_type(column.type)
    if row is None:
        return None
    target = arrow_type(column)
    if row.spark_form == "struct":
        if pt.is_struct(source) and {f.name: f.type for f in source} == _INTERVAL:
            return lambda array: _intervals(array, target)
        return None
    name, _, digits = row.spark.partition("(")
    if digits:
        is_same = pt.is_decimal(source) and source.scale == 0
    elif name == "STRING":
        is_same = pt.is_string(source) or pt.is_large_string(source)
    else:
        is_same = source == SPARK_TYPES[name].arrow
    if not is_same:
        return None
    if row.spark_form == "number":
        return lambda array: array.view(target)
    if row.spark_form == "same" and pt.is_integer(source) and pt.is_integer(target):
        # A safe cast: a value outside of the type's range is an error.
        return lambda array: array.cast(target)
    return lambda array: duckdb_cast(_plain(array), column)


def _plain(array: pa.Array) -> pa.Array:
    return array.cast(pa.string()) if pt.is_large_string(array.type) else array


def _intervals(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return months, days and microseconds as intervals."""
    layout = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])
    parts = np.zeros(len(array), layout)
    months, days, micros = (field.fill_null(0).to_numpy() for field in array.flatten())
    parts["months"], parts["days"], parts["nanos"] = months, days, micros * 1000
    values = pa.py_buffer(parts.tobytes())
    validity = np.packbits(np.asarray(array.is_valid()), bitorder="little")
    return pa.Array.from_buffers(target, len(array), [pa.py_buffer(validity.tobytes()), values])
