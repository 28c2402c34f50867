"""Spark's types that hold values of a lake: their classes in PySpark and their types in Arrow.

Which of them holds the values of a lake's type is a column of `lakeport.types.table`. Classes are
named, not imported: Spark workers do not import PySpark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

__all__ = ["SPARK_TYPES", "SparkType"]


@dataclass(frozen=True, slots=True)
class SparkType:
    """A type of Spark that has no children and no parameters."""

    pyspark: str
    """The name of its class in `pyspark.sql.types`."""
    arrow: pa.DataType
    """The Arrow type of its values."""


SPARK_TYPES: Final = {
    "BOOLEAN": SparkType("BooleanType", pa.bool_()),
    "TINYINT": SparkType("ByteType", pa.int8()),
    "SMALLINT": SparkType("ShortType", pa.int16()),
    "INT": SparkType("IntegerType", pa.int32()),
    "BIGINT": SparkType("LongType", pa.int64()),
    "FLOAT": SparkType("FloatType", pa.float32()),
    "DOUBLE": SparkType("DoubleType", pa.float64()),
    "DATE": SparkType("DateType", pa.date32()),
    "TIMESTAMP": SparkType("TimestampType", pa.timestamp("us", "UTC")),
    "TIMESTAMP_NTZ": SparkType("TimestampNTZType", pa.timestamp("us")),
    "STRING": SparkType("StringType", pa.string()),
    "BINARY": SparkType("BinaryType", pa.binary()),
}
"""The types by their names in Spark SQL."""
