"""The columns of the table of types, each against the list that is written out here."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature

import pyarrow as pa
import pytest

from lakeport.arrow import thread_connection
from lakeport.types import (
    BY_ID,
    INTEGER_RANGES,
    NESTED,
    SPARK_TYPES,
    TIMESTAMP_UNITS,
    TYPES,
    ZONED_TIMESTAMPS,
    DuckLakeType,
    LogicalType,
    column_from_duckdb,
    find_type,
    from_arrow_type,
    has_zoned_nanoseconds,
    normalize,
    spark_cast_type,
)
from lakeport.types.arrow import to_arrow_type
from lakeport.types.columns import Column, arrow_type, duckdb_type, spark_type

SIGNED = {"int8", "int16", "int32", "int64"}
UNSIGNED = {"uint8", "uint16", "uint32", "uint64"}
INTEGERS = SIGNED | UNSIGNED
HUGE = {"int128", "uint128"}
FLOATS = {"float32", "float64"}
ZONELESS = {"date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"}
ZONED = {"timestamptz", "timestamptz_ns"}
OTHERS = {"boolean", "time", "time_ns", "timetz", "interval", "varchar", "json", "blob", "uuid"}

Test = Callable[[DuckLakeType], object]

LISTS: dict[str, tuple[Test, set[str]]] = {
    "numbers": (lambda t: t.family == "number", INTEGERS | HUGE | FLOATS),
    "moments": (lambda t: t.family == "timestamp", ZONELESS),
    "instants": (lambda t: t.family == "timestamptz", ZONED),
    "families of one type": (
        lambda t: t.family in ("boolean", "text", "uuid", "time"),
        {"boolean", "varchar", "uuid", "time"},
    ),
    "bounds of files": (
        lambda t: t.bounds != "none",
        INTEGERS | FLOATS | ZONELESS | ZONED | {"boolean", "varchar", "uuid", "time"},
    ),
    "bounds unless retyped": (lambda t: t.bounds == "exact_unless_retyped", FLOATS | ZONED),
    "floating": (lambda t: t.is_floating, FLOATS),
    "without counts": (lambda t: not t.counted, {"timetz", "interval", "variant", "geometry"}),
    "bucket of an integer": (
        lambda t: t.bucket_input == "int64",
        SIGNED | ZONELESS | {"boolean", "time", "timestamptz"},
    ),
    "bucket of a float": (lambda t: t.bucket_input == "float64", FLOATS),
    "bucket of text": (lambda t: t.bucket_input == "text", UNSIGNED | HUGE | {"uuid"}),
    "bucket of UTF-8": (lambda t: t.bucket_input == "utf8", {"varchar"}),
    "exact in Parquet": (
        lambda t: t.exact_in_parquet,
        INTEGERS
        | FLOATS
        | {"boolean", "date", "time", "timestamp", "timestamp_ns", "timestamptz"}
        | {"varchar", "blob", "uuid"},
    ),
    "text in Spark": (lambda t: t.spark_form == "text", {"uuid", "time", "timetz", "uint128"}),
    "number in Spark": (
        lambda t: t.spark_form == "number",
        {"time_ns", "timestamp_ns", "timestamptz_ns"},
    ),
    "finer in Spark": (
        lambda t: t.spark_form == "microseconds",
        {"timestamp_s", "timestamp_ms"},
    ),
    "constants in Spark": (
        lambda t: t.exact_in_spark,
        INTEGERS
        | FLOATS
        | {"boolean", "varchar", "blob", "date", "timestamp", "timestamp_s", "timestamp_ms"}
        | {"timestamptz"},
    ),
    "not computed in views": (
        lambda t: not t.computable_in_spark,
        {"blob", "geometry", "interval", "json", "time", "time_ns", "timestamp_ns"}
        | {"timestamptz_ns", "timetz", "uint128", "uuid", "variant"},
    ),
    "Parquet in Spark": (
        lambda t: t.spark_reads_parquet,
        INTEGERS
        | FLOATS
        | {"boolean", "int128", "date", "timestamp", "timestamptz", "varchar", "json", "blob"},
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_column_of_the_table_has_the_types_of_its_list(name: str) -> None:
    test, expected = LISTS[name]

    assert {row.name for row in TYPES if test(row)} == expected


def test_the_table_has_every_type_of_ducklake() -> None:
    names = INTEGERS | HUGE | FLOATS | ZONELESS | ZONED | OTHERS | {"geometry", "variant"}

    assert {row.name for row in TYPES} == names
    assert len(TYPES) == len(names)
    assert not names & NESTED


def test_the_digits_of_integers_are_those_of_their_greatest_value() -> None:
    digits = {row.name: row.digits for row in TYPES if row.digits is not None}

    assert digits == {
        "int8": 3, "int16": 5, "int32": 10, "int64": 19, "int128": 39,
        "uint8": 3, "uint16": 5, "uint32": 10, "uint64": 20, "uint128": 39,
    }  # fmt: skip


@pytest.mark.parametrize("row", TYPES, ids=lambda row: row.name)
def test_duckdb_gives_a_type_of_the_table_the_arrow_type_of_its_row(row: DuckLakeType) -> None:
    if row.name == "timestamptz_ns" and not has_zoned_nanoseconds():
        pytest.skip("DuckDB 1.5 has no TIMESTAMPTZ_NS")
    table = thread_connection().sql(f"SELECT NULL::{row.duckdb} AS v").to_arrow_table()

    type = table.schema.field("v").type

    assert type == (pa.bool8() if row.name == "boolean" else row.arrow)


def test_a_name_of_sql_is_an_alias_of_ducklakes_name() -> None:
    for row in TYPES:
        assert normalize(row.name.upper()) == row.name
        assert {normalize(alias) for alias in row.aliases} <= {row.name}
    assert normalize("numeric") == "decimal(18,3)"
    assert normalize("DECIMAL( 10 , 2 )") == "decimal(10,2)"


def test_a_decimal_has_a_row_whatever_its_parameters_are() -> None:
    row = find_type("decimal(10,2)")

    assert row is not None
    assert (row.id, row.family, row.bucket_input) == ("DECIMAL", "number", "decimal")
    assert BY_ID["DECIMAL"] is row
    assert find_type("decimal") is None
    assert find_type("struct") is None


def test_a_column_takes_its_types_from_its_row() -> None:
    for row in TYPES:
        column = Column(id=1, name="c", type=row.name)

        assert (arrow_type(column), duckdb_type(column)) == (row.arrow, row.duckdb)
        assert spark_type(column) == row.spark


def test_duckdbs_integer_types_have_the_ranges_of_their_bits() -> None:
    assert INTEGER_RANGES == {
        "TINYINT": (-(2**7), 2**7 - 1),
        "SMALLINT": (-(2**15), 2**15 - 1),
        "INTEGER": (-(2**31), 2**31 - 1),
        "BIGINT": (-(2**63), 2**63 - 1),
        "HUGEINT": (-(2**127), 2**127 - 1),
        "UTINYINT": (0, 2**8 - 1),
        "USMALLINT": (0, 2**16 - 1),
        "UINTEGER": (0, 2**32 - 1),
        "UBIGINT": (0, 2**64 - 1),
        "UHUGEINT": (0, 2**128 - 1),
    }


def test_duckdbs_timestamps_count_the_units_of_their_names() -> None:
    assert TIMESTAMP_UNITS == {
        "TIMESTAMP_S": 1,
        "TIMESTAMP_MS": 10**3,
        "TIMESTAMP": 10**6,
        "TIMESTAMP WITH TIME ZONE": 10**6,
        "TIMESTAMP_NS": 10**9,
        "TIMESTAMPTZ_NS": 10**9,
    }
    assert {"TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"} == ZONED_TIMESTAMPS


def test_a_constant_in_spark_is_cast_to_the_type_that_compares_as_in_duckdb() -> None:
    types = {
        id: spark_cast_type(LogicalType(id)) for id, row in BY_ID.items() if row.exact_in_spark
    }

    assert types | {"DECIMAL": ""} == {
        "BOOLEAN": "BOOLEAN",
        "TINYINT": "TINYINT",
        "SMALLINT": "SMALLINT",
        "INTEGER": "INT",
        "BIGINT": "BIGINT",
        "UTINYINT": "SMALLINT",
        "USMALLINT": "INT",
        "UINTEGER": "BIGINT",
        "UBIGINT": "DECIMAL(20,0)",
        "FLOAT": "FLOAT",
        "DOUBLE": "DOUBLE",
        "VARCHAR": "STRING",
        "BLOB": "BINARY",
        "DATE": "DATE",
        "TIMESTAMP_S": "TIMESTAMP_NTZ",
        "TIMESTAMP_MS": "TIMESTAMP_NTZ",
        "TIMESTAMP": "TIMESTAMP_NTZ",
        "TIMESTAMP WITH TIME ZONE": "TIMESTAMP_LTZ",
        "DECIMAL": "",
    }
    assert {id: row.spark_suffix for id, row in BY_ID.items() if row.spark_suffix is not None} == {
        "TINYINT": "Y",
        "SMALLINT": "S",
        "INTEGER": "",
        "BIGINT": "L",
        "UTINYINT": "S",
        "USMALLINT": "",
        "UINTEGER": "L",
    }


@pytest.mark.parametrize("row", BY_ID.values(), ids=lambda row: row.id)
def test_an_arrow_type_of_the_table_is_the_type_of_its_duckdb_id(row: DuckLakeType) -> None:
    # DuckDB 1.5 reads instants of every unit in microseconds.
    id = "TIMESTAMP WITH TIME ZONE" if row.id == "TIMESTAMPTZ_NS" else row.id

    assert from_arrow_type(row.arrow).id == id
    if row.id != "DECIMAL":
        assert to_arrow_type(LogicalType(row.id)) == row.arrow


def test_a_type_of_spark_has_the_name_and_the_arrow_type_that_pyspark_gives_its_class() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    from pyspark.sql.pandas.types import to_arrow_type as pyspark_arrow_type

    # PySpark 4.1 has no choice of the zone: it is UTC.
    has_zone = "timezone" in signature(pyspark_arrow_type).parameters
    zone = {"timezone": "UTC"} if has_zone else {}
    for name, row in SPARK_TYPES.items():
        made = getattr(types, row.pyspark)()

        assert made.simpleString().upper() == name
        assert pyspark_arrow_type(made, **zone) == row.arrow


def test_the_spark_type_of_every_row_is_a_type_of_spark_a_decimal_or_a_struct() -> None:
    used = {row.spark for row in TYPES}
    parameterised = {name for name in used if name.startswith(("DECIMAL(", "STRUCT<"))}

    assert used - parameterised == SPARK_TYPES.keys()


@pytest.mark.parametrize("row", TYPES, ids=lambda row: row.name)
def test_a_column_of_duckdb_has_the_name_of_its_type_in_the_lake(row: DuckLakeType) -> None:
    if row.name == "timestamptz_ns" and not has_zoned_nanoseconds():
        pytest.skip("DuckDB 1.5 has no TIMESTAMPTZ_NS")
    (type,) = thread_connection().sql(f"SELECT NULL::{row.duckdb} AS v").types

    column = column_from_duckdb("v", type)

    # Geometries and variants are built on other types of DuckDB.
    assert column.type == {"geometry": "blob", "variant": "json"}.get(row.name, row.name)


def test_a_nested_column_of_duckdb_has_the_children_of_a_lakes_column() -> None:
    sql = "STRUCT(a MAP(VARCHAR, DECIMAL(9,2)), b TIMESTAMPTZ[])"
    (type,) = thread_connection().sql(f"SELECT NULL::{sql} AS v").types

    column = column_from_duckdb("v", type)

    assert [(node.name, node.type) for node in column.walk()] == [
        ("v", "struct"),
        ("a", "map"),
        ("key", "varchar"),
        ("value", "decimal(9,2)"),
        ("b", "list"),
        ("element", "timestamptz"),
    ]
