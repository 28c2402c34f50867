"""Types of `lake.sql`, and how the values of a query become those of the columns of a table."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from lakeport import Lake
from lakeport.errors import InvalidInputError, LakeportError, UnsupportedError
from lakeport.spark.sql.statements import run_statement
from tests.fixtures_lakes import LakeMaker, RealLake

TABLE = """CREATE TABLE t (
    id INTEGER, st STRUCT(a INTEGER, b VARCHAR), l INTEGER[], m MAP(VARCHAR, INTEGER),
    deep STRUCT(x INTEGER, y INTEGER)[]
)"""

# Columns, a query of Spark, and that of DuckDB with the same values.
INSERTS = [
    ("id", "SELECT 1.5", "SELECT 1.5"),
    ("id", "SELECT -2.5", "SELECT -2.5"),
    ("id", "SELECT CAST(2.5 AS DOUBLE)", "SELECT CAST(2.5 AS DOUBLE)"),
    ("id", "SELECT CAST(3.5 AS FLOAT)", "SELECT CAST(3.5 AS FLOAT)"),
    ("st", "SELECT named_struct('b', 'z', 'a', 3)", "SELECT {'b': 'z', 'a': 3}"),
    ("st", "SELECT named_struct('B', 'z', 'A', 3.5)", "SELECT {'B': 'z', 'A': 3.5}"),
    ("st", "SELECT named_struct('a', 3)", "SELECT {'a': 3}"),
    ("st", "SELECT struct(3, 'z')", "SELECT ROW(3, 'z')"),
    ("id, st", "SELECT 1, CAST(NULL AS STRUCT<b: STRING, a: INT>)", "SELECT 1, NULL"),
    ("l", "SELECT array(1.5, NULL)", "SELECT [1.5, NULL]"),
    ("m", "SELECT map('k', 2.5)", "SELECT MAP {'k': 2.5}"),
    (
        "deep",
        "SELECT array(named_struct('y', 1, 'x', 2), NULL)",
        "SELECT [{'y': 1, 'x': 2}, NULL]",
    ),
]

TYPES = [
    ("ARRAY<UINTEGER>", "UINTEGER[]"),
    ("ARRAY<TIMESTAMP_NS>", "TIMESTAMP_NS[]"),
    ("ARRAY<TIMESTAMP>", "TIMESTAMP[]"),
    ("ARRAY<TIMESTAMP_LTZ>", "TIMESTAMPTZ[]"),
    ("ARRAY<INT[]>", "INTEGER[][]"),
    ("array<decimal(10, 2)>[]", "DECIMAL(10, 2)[][]"),
    ("STRUCT<a: INT, `b c` ARRAY<STRING>>", 'STRUCT(a INTEGER, "b c" VARCHAR[])'),
    ('STRUCT<"a,b": HUGEINT>', 'STRUCT("a,b" HUGEINT)'),
    (
        "MAP<STRING, ARRAY<STRUCT<x: TIMESTAMP_NTZ, y: UBIGINT>>>",
        "MAP(VARCHAR, STRUCT(x TIMESTAMP, y UBIGINT)[])",
    ),
]


@pytest.fixture
def pair(make_lake: LakeMaker) -> Iterator[tuple[Lake, RealLake, RealLake]]:
    """Our lake, the same lake for the reference, and another one that the reference fills."""
    ours, theirs = make_lake("sqlite"), make_lake("sqlite")
    with Lake.create(ours.uri, data_path=ours.data_path) as lake:
        yield lake, ours, theirs


def no_spark() -> NoReturn:
    raise AssertionError("the statement has no query, and needs no Spark")


def described(real: RealLake, sql: str) -> list[Any]:
    rows = sorted(real.query(sql), key=repr)
    real.detach()
    return rows


def test_rows_of_a_query_are_assigned_as_by_the_reference(
    spark: Any, pair: tuple[Lake, RealLake, RealLake]
) -> None:
    lake, ours, theirs = pair
    for real in (ours, theirs):
        real.execute(TABLE)
        real.detach()
    for columns, query, same in INSERTS:
        lake.sql(f"INSERT INTO t ({columns}) {query}", spark=spark)
        theirs.execute(f"INSERT INTO t ({columns}) {same}")
        theirs.detach()

    assert described(ours, "SELECT * FROM t") == described(theirs, "SELECT * FROM t")


def test_a_field_that_the_table_lacks_is_an_error(
    spark: Any, pair: tuple[Lake, RealLake, RealLake]
) -> None:
    lake, _, _ = pair
    run_statement(lake, TABLE, no_spark)
    with pytest.raises(InvalidInputError, match="column 'st' has no field 'c'"):
        lake.sql("INSERT INTO t (st) SELECT named_struct('a', 1, 'c', 2)", spark=spark)
    with pytest.raises(InvalidInputError, match="column 'deep' has no field 'z'"):
        lake.sql("INSERT INTO t (deep) SELECT array(named_struct('z', 1))", spark=spark)


@pytest.mark.parametrize(("type", "same"), TYPES)
def test_types_of_spark_are_those_of_the_reference(
    pair: tuple[Lake, RealLake, RealLake], type: str, same: str
) -> None:
    lake, ours, theirs = pair
    run_statement(lake, f"CREATE TABLE t (v {type})", no_spark)
    theirs.execute(f"CREATE TABLE t (v {same})")
    theirs.detach()

    assert described(ours, "DESCRIBE t") == described(theirs, "DESCRIBE t")


@pytest.mark.parametrize(
    ("type", "error", "message"),
    [
        ("MAP<INT>", InvalidInputError, "write ARRAY<type>, MAP<type, type>"),
        ("STRUCT<a>", InvalidInputError, "the field 'a' of a struct has no name or no type"),
        ("STRUCT<a: INT NOT NULL>", UnsupportedError, "cannot be NOT NULL"),
        ("STRUCT<a: INT COMMENT 'x'>", UnsupportedError, "write COMMENT ON COLUMN"),
        ("ARRAY<nothing>", LakeportError, "nothing"),
    ],
)
def test_types_that_cannot_be_stored_are_named(
    pair: tuple[Lake, RealLake, RealLake], type: str, error: builtins.type[Exception], message: str
) -> None:
    lake, _, _ = pair
    with pytest.raises(error, match=message):
        run_statement(lake, f"CREATE TABLE t (v {type})", no_spark)
