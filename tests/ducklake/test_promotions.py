"""Values that Arrow converts are those that DuckDB's cast gives."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakeport.ducklake.reading.alignment import column_converter
from lakeport.types import duckdb_casts
from lakeport.types.columns import Column

SIGNED = {
    pa.int8(): [-128, 127, 0, None],
    pa.int16(): [-32768, 32767, None],
    pa.int32(): [-(2**31), 2**31 - 1, 16777217, None],
    pa.int64(): [-(2**63), 2**63 - 1, 9007199254740993, 16777217, None],
}
UNSIGNED = {
    pa.uint8(): [255, 0, None],
    pa.uint16(): [65535, None],
    pa.uint32(): [2**32 - 1, 16777217, None],
    pa.uint64(): [2**64 - 1, 2**63 + 1025, 9007199254740993, None],
}
DECIMALS = {
    pa.decimal128(9, 2): [Decimal("-1234567.89"), Decimal("0.01"), None],
    pa.decimal128(18, 0): [Decimal(10**17), Decimal(-1), None],
}
MOMENTS = {
    pa.date32(): [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31), None],
    pa.timestamp("s"): [-1, 0, 2**40, None],
    pa.timestamp("ms"): [-1, 0, 2**50, None],
    pa.timestamp("us"): [-1, 0, 2**60 // 1000, None],
}
NUMBER_TYPES = ("float32", "float64", "decimal(20,2)", "decimal(12,4)", "decimal(38,10)")
MOMENT_TYPES = ("timestamp", "timestamptz", "timestamp_ms", "timestamp_ns")


@pytest.mark.parametrize("type", NUMBER_TYPES)
@pytest.mark.parametrize("source", [*SIGNED, *UNSIGNED, *DECIMALS], ids=str)
def test_numbers_are_promoted_as_duckdb_does(source: pa.DataType, type: str) -> None:
    array = pa.array((SIGNED | UNSIGNED | DECIMALS)[source], source)
    _compare(array, Column(id=1, name="c", type=type))


@pytest.mark.parametrize("type", MOMENT_TYPES)
@pytest.mark.parametrize("source", MOMENTS, ids=str)
def test_moments_are_promoted_as_duckdb_does(source: pa.DataType, type: str) -> None:
    _compare(pa.array(MOMENTS[source], source), Column(id=1, name="c", type=type))


@pytest.mark.parametrize("type", ["timestamp", "timestamptz"])
@pytest.mark.parametrize(
    "array",
    [
        pa.array([2147483647, -2147483647, 5, None], pa.int32()).view(pa.date32()),
        pa.array([2**63 - 1, -(2**63) + 1, 5, None], pa.int64()).view(pa.timestamp("s")),
        pa.array([2**63 - 1, -(2**63) + 1, 5, None], pa.int64()).view(pa.timestamp("ms")),
    ],
    ids=["date", "seconds", "milliseconds"],
)
def test_infinity_stays_infinite(array: pa.Array, type: str) -> None:
    _compare(array, Column(id=1, name="c", type=type))


def _compare(array: pa.Array, column: Column) -> None:
    def outcome(make: Callable[[pa.Array], pa.Array]) -> Any:
        try:
            return make(array)
        except Exception as error:
            return type(error)

    by_duckdb = outcome(lambda given: duckdb_casts.duckdb_cast(given, column))
    ours = outcome(column_converter(pa.field("c", array.type), column, None))
    assert ours == by_duckdb if isinstance(by_duckdb, type) else ours.equals(by_duckdb)


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_promoted_columns_of_a_lake(kind: str, make_lake: Callable[..., Any]) -> None:
    lake = make_lake(kind, "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t(i INTEGER, b BIGINT, d DECIMAL(9,2), a DATE, s TIMESTAMP_S)",
        "INSERT INTO t VALUES (16777217, 9007199254740993, 1.25, '2024-02-29', '1969-12-31 23:59:59'), (NULL, NULL, NULL, 'infinity', NULL), (-1, -1, -0.01, '-infinity', '2024-01-01')",
    )
    promotions = ("i TYPE FLOAT", "b TYPE DOUBLE", "d TYPE DECIMAL(20,5)", "a TYPE TIMESTAMP")
    for promotion in (*promotions, "s TYPE TIMESTAMP"):
        lake.execute(f"ALTER TABLE t ALTER {promotion}")
    lake.check()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_inlined_huge_integers_are_promoted(kind: str, make_lake: Callable[..., Any]) -> None:
    lake = make_lake(kind)
    lake.execute(
        "CREATE TABLE t(a HUGEINT, b UHUGEINT, c HUGEINT[], d STRUCT(h HUGEINT))",
        "INSERT INTO t VALUES (-7, 8, [170141183460469231731687303715884105727, NULL], {'h': 5})",
        "ALTER TABLE t ALTER a TYPE DECIMAL(38,1)",
        "ALTER TABLE t ALTER b TYPE DOUBLE",
        "ALTER TABLE t ALTER c TYPE DOUBLE[]",
        "ALTER TABLE t ALTER d TYPE STRUCT(h FLOAT)",
    )

    lake.check()
