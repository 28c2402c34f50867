"""Filters written in Python, and the filter as a value."""

from __future__ import annotations

import datetime as dt
import math
import pickle
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakeport.errors import InvalidArgumentError, UnsupportedError
from lakeport.filters import (
    ColumnRef,
    Comparison,
    ComparisonOp,
    Conjunction,
    ConjunctionOp,
    Constant,
    Filter,
    Interval,
    LogicalType,
    Not,
    Unsupported,
    bind,
    col,
    lit,
    parse_filter,
    to_json,
    type_of,
)

INTEGER, VARCHAR = LogicalType("INTEGER"), LogicalType("VARCHAR")


def test_operators_build_the_tree() -> None:
    five = Constant(5, INTEGER)

    assert (col("id") > 5) == Comparison(ComparisonOp.GREATER, ColumnRef("id"), five)
    assert (col("id") == col("x")) == Comparison(
        ComparisonOp.EQUAL, ColumnRef("id"), ColumnRef("x")
    )
    both = (col("a") < 5) & (col("b") < 5) & col("c")
    assert isinstance(both, Conjunction)
    assert both.op is ConjunctionOp.AND
    assert len(both.children) == 3
    assert ~col("a") == Not(ColumnRef("a"))
    assert (col("a") | col("b")) == (col("a") | col("b"))


@pytest.mark.parametrize(
    ("value", "constant"),
    [
        (None, Constant(None, LogicalType("NULL"))),
        (True, Constant(True, LogicalType("BOOLEAN"))),
        (2**31, Constant(2**31, LogicalType("BIGINT"))),
        (2**64, Constant(2**64, LogicalType("HUGEINT"))),
        (math.nan, Constant(math.nan, LogicalType("DOUBLE"))),
        (Decimal("-1.250"), Constant(Decimal("-1.250"), LogicalType.decimal(4, 3))),
        (Decimal("1E+3"), Constant(Decimal("1E+3"), LogicalType.decimal(4, 0))),
        (b"x", Constant(b"x", LogicalType("BLOB"))),
        (dt.date(2024, 1, 2), Constant(19724, LogicalType("DATE"))),
        (dt.datetime(1970, 1, 1, 0, 0, 1), Constant(10**6, LogicalType("TIMESTAMP"))),
        (
            dt.datetime(1970, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=-1))),
            Constant(3600 * 10**6, LogicalType("TIMESTAMP WITH TIME ZONE")),
        ),
        (dt.time(0, 0, 1), Constant(10**6, LogicalType("TIME"))),
        (dt.timedelta(days=2, seconds=1), Constant(Interval(0, 2, 10**6), LogicalType("INTERVAL"))),
        ([1, None], Constant((1, None), LogicalType.list(INTEGER))),
        (pa.scalar(5, pa.uint8()), Constant(5, LogicalType("UTINYINT"))),
        (pa.scalar(7).cast(pa.timestamp("ns")), Constant(7, LogicalType("TIMESTAMP_NS"))),
        (pa.scalar(dt.date(1970, 1, 2), pa.date64()), Constant(1, LogicalType("DATE"))),
        (
            pa.scalar(uuid.UUID(int=1).bytes, pa.uuid()),
            Constant(uuid.UUID(int=1), LogicalType("UUID")),
        ),
        (pa.scalar(None, pa.int8()), Constant(None, LogicalType("TINYINT"))),
        (pa.scalar([1, 2], pa.list_(pa.int32())), Constant((1, 2), LogicalType.list(INTEGER))),
        (pa.scalar({"a": 1}), Constant((1,), LogicalType.struct({"a": LogicalType("BIGINT")}))),
    ],
    ids=repr,
)
def test_the_type_of_a_literal_is_inferred(value: Any, constant: Constant) -> None:
    assert lit(value) == constant


@pytest.mark.parametrize(
    "value", [object(), 2**200, Decimal("NaN"), Decimal("1e50"), pa.scalar(1, pa.duration("s"))]
)
def test_what_cannot_be_a_constant_is_refused(value: Any) -> None:
    with pytest.raises(UnsupportedError):
        lit(value)


def test_a_literal_takes_the_type_that_it_is_given() -> None:
    single, decimal = LogicalType("FLOAT"), LogicalType.decimal(9, 2)

    assert lit(0.1, single) == Constant(0.10000000149011612, single)
    assert lit(1, LogicalType("DOUBLE")).value == 1.0
    assert parse_filter(to_json(Filter.of(col("x", single) == lit(0.1, single)))).columns == {"x"}
    assert lit(Decimal("1.5"), decimal) == Constant(Decimal("1.50"), decimal)
    assert lit(7, LogicalType("TIMESTAMP")) == Constant(7, LogicalType("TIMESTAMP"))
    for value, type in (
        (dt.date(2024, 1, 2), LogicalType("TIMESTAMP")),
        (1e300, single),
        (Decimal("1.255"), decimal),
    ):
        with pytest.raises(UnsupportedError):
            lit(value, type)


def test_literals_take_the_type_of_their_column() -> None:
    assert (col("x", LogicalType("BIGINT")) > 5).right == Constant(5, LogicalType("BIGINT"))
    assert (col("x", LogicalType("DOUBLE")) > 5).right == Constant(5.0, LogicalType("DOUBLE"))
    assert (col("x", INTEGER) > 1.5).right == Constant(1.5, LogicalType("DOUBLE"))
    assert (col("x", VARCHAR) > 5).right == Constant(5, INTEGER)


def test_a_filter_is_a_value() -> None:
    first, second = (
        Filter.of((col("a") > 1) & (col("b") == lit(math.nan))),
        Filter.of(col("c").is_null()),
    )
    both = first & second & first

    assert not Filter.always()
    assert len(first.conjuncts) == 2
    assert both.columns == {"a", "b", "c"}
    assert len(both.conjuncts) == 3
    assert pickle.loads(pickle.dumps(both)) == both
    assert hash(pickle.loads(pickle.dumps(both))) == hash(both)
    assert parse_filter(to_json(both)) == both


def test_structural_equality_is_not_equality_of_numbers() -> None:
    double = LogicalType("DOUBLE")

    assert Constant(math.nan, double) == Constant(float("nan"), double)
    assert Constant(0.0, double) != Constant(-0.0, double)
    assert Constant(1, INTEGER) != Constant(1, LogicalType("BIGINT"))
    assert Constant(1, INTEGER) != 1


def test_an_unsupported_part_cannot_be_written() -> None:
    with pytest.raises(UnsupportedError, match="something odd"):
        to_json(Filter.of(Unsupported("something odd")))


def test_every_builder_survives_json_and_binding() -> None:
    schema = pa.schema([("a", pa.int32()), ("s", pa.string())])
    a, s = col("a"), col("s")
    filter = Filter.of(
        a != 1,
        a <= 2,
        a >= 3,
        a.is_not_null(),
        a.is_not_in([1, 2]),
        a.between(1, 2, lower_inclusive=False),
        a.is_not_distinct_from(None),
        s.ends_with("x"),
        s.contains("y"),
        s.like("z%", escape="!"),
        a.cast(VARCHAR, try_cast=True) == "1",
        (a > 1) | s.is_null(),
    )

    bound = bind(filter, schema)

    assert parse_filter(to_json(bound)) == bound
    assert type_of(ColumnRef("a", INTEGER)) == INTEGER
    assert bind(bound, schema) == bound


@pytest.mark.parametrize(
    "write",
    [
        lambda: (col("x") > 1) and (col("y") > 2),
        lambda: (col("x") > 1) or (col("y") > 2),
        lambda: not (col("x") > 1),
        lambda: 1 < col("x") < 5,
        lambda: col("done") and col("x") > 1,
        lambda: not col("done"),
        lambda: col("x") in [col("y")],
        lambda: bool(Not(col("x").expression)),
    ],
)
def test_python_logic_that_would_drop_a_predicate_is_refused(write: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match="join predicates with &, "):
        write()


def test_expressions_are_still_compared_and_found() -> None:
    first, second = col("x") > 1, col("x") > 2

    assert first == (col("x") > 1)
    assert first != second
    assert first in [second, first]
    assert {first: "found"}[col("x") > 1] == "found"
    assert (Filter.of(first) & Filter.of(first, second)).conjuncts == (first, second)


def test_types_are_given_as_arrow_types_too() -> None:
    assert type_of(col("id").cast(pa.string()).expression) == VARCHAR
    assert col("id", pa.int32()).expression == ColumnRef("id", INTEGER)


@pytest.mark.parametrize("type", ["string", str, None, pa.field("x", pa.string())])
def test_a_cast_to_something_that_is_no_type_is_refused(type: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a type"):
        col("id").cast(type)
