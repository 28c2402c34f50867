"""The Spark type of every DuckLake type: Spark itself reads the text."""

from __future__ import annotations

from typing import Any

import pytest

from lakeport.ducklake import Column, spark_type

# The table of the format's types; what Spark cannot hold exactly is documented as text or a number.
EXPECTED = {
    "boolean": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
    "int128": "decimal(38,0)",
    "uint128": "string",
    "float32": "float",
    "float64": "double",
    "decimal(9,2)": "decimal(9,2)",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamp_s": "timestamp_ntz",
    "timestamp_ms": "timestamp_ntz",
    "timestamp_ns": "bigint",
    "timestamptz": "timestamp",
    "varchar": "string",
    "json": "string",
    "blob": "binary",
    "uuid": "string",
}


@pytest.mark.parametrize("type", sorted(EXPECTED))
def test_spark_reads_the_type_of_a_column(spark: Any, type: str) -> None:
    text = spark_type(Column(id=1, name="c", type=type))

    frame = spark.sql(f"SELECT CAST(NULL AS {text}) AS c")

    assert frame.schema["c"].dataType.simpleString() == EXPECTED[type]


def test_spark_reads_nested_types_with_any_field_name(spark: Any) -> None:
    leaf = Column(id=3, name="odd `name`", type="int32")
    struct = Column(id=2, name="element", type="struct", children=(leaf,))
    column = Column(id=1, name="c", type="list", children=(struct,))

    frame = spark.sql(f"SELECT CAST(NULL AS {spark_type(column)}) AS c")

    assert frame.schema["c"].dataType.elementType.fieldNames() == ["odd `name`"]
