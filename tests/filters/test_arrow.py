"""Arrow expressions for columns whose type is not quite the constant's."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from lakeport.filters import Expression, Filter, LogicalType, Unsupported, bind, col, lit, to_arrow

UUID = uuid.UUID("123e4567-e89b-12d3-a456-426614174000")
x = col("x")
NAN = lit(math.nan)


def kept(values: list[Any], type: pa.DataType, predicate: Expression) -> list[int] | None:
    """The positions that the predicate keeps, ``None`` if nothing of it could be expressed."""
    table = pa.table({"x": array(values, type), "n": range(len(values))})
    expression = to_arrow(Filter.of(predicate), table.schema, in_memory=True)
    if expression is None:
        return None
    result: list[int] = table.filter(expression)["n"].to_pylist()
    return result


def array(values: list[Any], type: pa.DataType) -> pa.Array:
    if isinstance(type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type, pa.array(values, type.storage_type))
    if pa.types.is_temporal(type):
        return pa.array(values, pa.int32() if type.bit_width == 32 else pa.int64()).cast(type)
    return pa.array(values, type)


@pytest.mark.parametrize(
    ("values", "type", "predicate", "expected"),
    [
        ([1, None, 2**31 - 1], pa.int32(), x < 2**40, [0, 2]),
        ([1, None], pa.int32(), x > 2**40, []),
        ([1, None], pa.int32(), ~(x == 2**40), [0]),
        ([1, None], pa.int32(), x != 1.5, [0]),
        ([1, 2, None], pa.int32(), x > 1.5, [1]),
        ([1, 2, None], pa.int32(), x < math.inf, [0, 1]),
        ([0, 255, None], pa.uint8(), x > -1, [0, 1]),
        ([Decimal("1.25"), None], pa.decimal128(9, 2), x == Decimal("1.250"), [0]),
        ([Decimal("1.25"), None], pa.decimal128(9, 2), x < Decimal("1.251"), [0]),
        ([Decimal("1.25"), None], pa.decimal64(9, 2), x > 1, [0]),
        ([1, None], pa.decimal256(50, 0), x == 10**30, []),
        ([1.0, math.nan, None], pa.float64(), x > 5.0, [1]),
        ([1.0, math.nan, None], pa.float64(), x == NAN, [1]),
        ([1.0, math.nan, None], pa.float64(), x <= NAN, [0, 1]),
        ([1.0, math.nan, None], pa.float64(), x < NAN, [0]),
        ([0.0, -0.0, 1.0], pa.float64(), x.is_in([0.0]), [0, 1]),
        ([1.0, math.nan, -math.nan, 2.0, None], pa.float64(), x.is_in([NAN, 1.0]), [0, 1, 2]),
        ([1.0, math.nan, -math.nan, 2.0, None], pa.float32(), x.is_in([NAN]), [1, 2]),
        ([1.0, math.nan, -math.nan, 2.0, None], pa.float64(), x.is_not_in([NAN, 1.0]), [3]),
        ([1.0, math.nan, -math.nan, 2.0, None], pa.float64(), ~x.is_in([NAN, 1.0]), [3]),
        ([1.0, math.nan, -math.nan, None], pa.float64(), x.is_in([NAN, None]), [1, 2]),
        ([0.1, 0.5], pa.float32(), x > 0.1, [0, 1]),
        ([0.1, 0.5], pa.float16(), x > 0.1, None),
        (["a", None], pa.large_string(), x == "a", [0]),
        (["a", None], pa.dictionary(pa.int8(), pa.string()), x.starts_with("a"), [0]),
        ([b"ab", None], pa.binary(2), x > b"a", [0]),
        ([1, None, 0], pa.bool8(), x == lit(True), [0]),
        ([UUID.bytes, None], pa.uuid(), x == UUID, [0]),
        (["{}", None], pa.json_(), x == "{}", [0]),
        ([0, 86_400_000], pa.date64(), x == dt.date(1970, 1, 2), [1]),
        ([0, 1], pa.date32(), x < dt.datetime(1970, 1, 1, 12), [0]),
        ([0, 1], pa.timestamp("s"), x <= dt.datetime(1970, 1, 1, 0, 0, 0, 5), [0]),
        ([0, 1], pa.timestamp("s"), x == dt.datetime(1970, 1, 1, 0, 0, 0, 5), []),
        ([0, 1], pa.timestamp("ns", "Asia/Tokyo"), x > dt.datetime(1970, 1, 1, tzinfo=dt.UTC), [1]),
        ([0, 1], pa.timestamp("ns", "Asia/Tokyo"), x > dt.datetime(1970, 1, 1), None),
        ([0, 1], pa.time32("s"), x >= dt.time(0, 0, 0, 500_000), [1]),
        ([1, None], pa.int32(), x == "1", None),
        ([[1], None], pa.list_(pa.int32()), x == 1, None),
        ([[1], None], pa.list_(pa.int32()), x.is_null(), [1]),
        ([{"a": 1}, {"a": 2}, None], pa.struct([("a", pa.int32())]), x.field("a") > 1, [1]),
        ([{"a": 1}, None], pa.struct([("a", pa.int32())]), x.field("b") > 1, None),
        ([1, 2, None], pa.int32(), x.is_not_in([1, None]), []),
        ([1, 2, None], pa.int32(), x.is_not_in([1]), [1]),
        ([1, 2, None], pa.int32(), x.is_in([1, 2**40, None]), [0]),
        ([1, None], pa.int32(), x.is_in([]), []),
        ([1, None], pa.int32(), x.is_not_in([]), [0, 1]),
        ([1, None], pa.int32(), ~x.is_in([]), [0, 1]),
        ([1, 2, None], pa.int32(), (x == 1) & Unsupported("u"), [0]),
        ([1, 2, None], pa.int32(), (x == 1) | Unsupported("u"), None),
        ([1, 2, None], pa.int32(), x.is_distinct_from(1), [1, 2]),
        ([1, 2, None], pa.int32(), x == lit(None), []),
    ],
)
def test_a_predicate_keeps_the_right_rows(
    values: list[Any], type: pa.DataType, predicate: Expression, expected: list[int] | None
) -> None:
    assert kept(values, type, predicate) == expected


@pytest.mark.parametrize(
    ("declared", "type"),
    [
        (LogicalType("FLOAT"), pa.float64()),
        (LogicalType("INTEGER"), pa.float64()),
        (LogicalType("INTEGER"), pa.decimal128(9, 2)),
        (LogicalType.decimal(9, 1), pa.decimal128(9, 2)),
    ],
    ids=repr,
)
def test_a_column_that_duckdb_sees_rounded_is_left_to_duckdb(
    declared: LogicalType, type: pa.DataType
) -> None:
    assert (
        to_arrow(Filter.of(col("x", declared) < 1), pa.schema([("x", type)]), in_memory=True)
        is None
    )


def test_missing_and_ambiguous_columns_are_left_to_duckdb() -> None:
    filter = Filter.of(x == 1)

    assert to_arrow(filter, pa.schema([("y", pa.int32())])) is None
    assert to_arrow(filter, pa.schema([("x", pa.int32()), ("x", pa.int32())])) is None
    assert to_arrow(filter, pa.schema([("y", pa.int32())]), column_mapping={"x": "y"}) is not None


def test_nan_is_left_to_duckdb_where_row_groups_may_be_skipped() -> None:
    schema = pa.schema([("x", pa.float64())])

    assert to_arrow(Filter.of(x < 5.0), schema) is not None
    assert to_arrow(Filter.of(x.between(1.0, 5.0)), schema) is not None
    assert to_arrow(Filter.of(x > 5.0), schema) is None
    assert to_arrow(Filter.of(~(x < 5.0)), schema) is None
    assert to_arrow(Filter.of(x > 5.0), schema, in_memory=True) is not None


def test_string_views_can_be_compared() -> None:
    rows = ds.dataset(pa.table({"x": pa.array(["a", "b", None], pa.string_view())}))

    for predicate in (x.starts_with("a"), x == "a", x.is_in(["a"])):
        expression = to_arrow(Filter.of(predicate), rows.schema)
        assert rows.to_table(columns={"kept": expression})["kept"].to_pylist()[:2] == [True, False]


def test_binding_takes_the_types_of_the_schema() -> None:
    schema = pa.schema([("x", pa.decimal128(9, 2)), ("s", pa.string())])

    bound = bind(Filter.of(x.is_in([1, Decimal("1.25")]), col("s") == "a"), schema)

    decimal = LogicalType.decimal(9, 2)
    assert bound == Filter.of(
        col("x", decimal).is_in([1, Decimal("1.25")]), col("s", LogicalType("VARCHAR")) == "a"
    )
