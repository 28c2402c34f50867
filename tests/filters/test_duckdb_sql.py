"""DuckDB SQL: nothing leaves its quotes, nothing runs that should not, and widening is right."""

from __future__ import annotations

import datetime as dt

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeport.filters import (
    Cast,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Constant,
    DuckDBEncoder,
    Expression,
    Filter,
    FunctionCall,
    LogicalType,
    Not,
    Term,
    Unsupported,
    col,
    lit,
    to_duckdb_sql,
)
from lakeport.filters.encoders.duckdb import (
    _MAY_FAIL,
    _NEVER_FAIL,
    BINARY_OPERATORS,
    UNARY_OPERATORS,
)

INTEGER, VARCHAR = LogicalType("INTEGER"), LogicalType("VARCHAR")
BIGINT, DOUBLE = LogicalType("BIGINT"), LogicalType("DOUBLE")
DATE, INTERVAL = LogicalType("DATE"), LogicalType("INTERVAL")
ZONED = LogicalType("TIMESTAMP WITH TIME ZONE")
KNOWN, OTHER, UNKNOWN = col("a") > 1, col("b") < 2, Unsupported("x")
A, B = '("a" > 1)', '("b" < 2)'


@pytest.mark.parametrize(
    ("predicate", "sql"),
    [
        (UNKNOWN, ""),
        (KNOWN & UNKNOWN, A),
        (KNOWN & OTHER, f"({A} AND {B})"),
        (KNOWN | UNKNOWN, ""),
        (KNOWN | OTHER, f"({A} OR {B})"),
        ((KNOWN & UNKNOWN) | OTHER, f"({A} OR {B})"),
        (~KNOWN, f"(NOT {A})"),
        (~UNKNOWN, ""),
        (~(KNOWN & UNKNOWN), ""),
        (~(KNOWN | UNKNOWN), ""),
        (~~(KNOWN & UNKNOWN), ""),
        (col("a").is_in([1, Unsupported("x")]), ""),
        (col("a").between(1, Unsupported("x")), '("a" >= 1)'),
        (~col("a").between(1, Unsupported("x")), ""),
        (Comparison(ComparisonOp.NOT_DISTINCT, KNOWN & UNKNOWN, lit(True)), ""),
        (col("a").is_in([]), "FALSE"),
        (~col("a").is_in([]), "(NOT FALSE)"),
        (col("a").is_not_in([]), "TRUE"),
    ],
)
def test_what_is_unsupported_only_ever_widens(predicate: Expression, sql: str) -> None:
    assert to_duckdb_sql(Filter.of(predicate)) == sql


def test_columns_are_renamed_replaced_or_missing() -> None:
    filter = Filter.of(col("a") == 1, col("b") == 2, col("c") == 3)

    sql = to_duckdb_sql(
        filter, column_mapping={"a": 'A"x'}, column_expressions={"b": "p + q"}, columns=["a", "b"]
    )

    assert sql == '(("A""x" = 1) AND ((p + q) = 2))'


@settings(max_examples=100, deadline=None)
@given(
    name=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), text=st.text()
)
def test_names_and_texts_never_leave_their_quotes(name: str, text: str) -> None:
    with duckdb.connect() as connection:
        quoted = '"' + name.replace('"', '""') + '"'
        connection.execute(f"CREATE TABLE t ({quoted} VARCHAR)")
        connection.execute("INSERT INTO t VALUES (?), ('other')", [text])
        where = to_duckdb_sql(Filter.of(col(name) == text))
        rows = connection.execute(f"SELECT * FROM t WHERE {where}").fetchall()

    assert set(rows) == {(text,)}


@pytest.mark.parametrize(
    "name", ["random", "now", "nextval", "uuid", "getenv", "hash", "current_setting"]
)
def test_volatile_and_unknown_functions_stay_on_the_client(name: str) -> None:
    call = FunctionCall(name, (), INTEGER, catalog="system", schema="main")

    assert DuckDBEncoder().encode_expression(call) is None


def test_functions_of_other_catalogs_stay_on_the_client() -> None:
    call = FunctionCall("lower", (ColumnRef("a", VARCHAR),), VARCHAR, catalog="d", schema="utils")

    assert DuckDBEncoder().encode_expression(call) is None
    assert DuckDBEncoder().encode_expression(Comparison(ComparisonOp.EQUAL, call, lit("x"))) is None


def test_a_function_name_cannot_carry_sql() -> None:
    call = FunctionCall("lower(x); DROP TABLE t; --", (), VARCHAR)

    assert DuckDBEncoder().encode_expression(call) is None


@pytest.mark.parametrize(
    "expression",
    [
        Cast(ColumnRef("a", ZONED), VARCHAR),
        Cast(ColumnRef("a", VARCHAR), ZONED),
        Cast(ColumnRef("a", LogicalType.list(ZONED)), VARCHAR),
        Cast(ColumnRef("a", LogicalType("VARCHAR", alias="JSON")), INTEGER),
        Cast(ColumnRef("a"), INTEGER),
        FunctionCall("year", (ColumnRef("a", ZONED),), LogicalType("BIGINT")),
        FunctionCall("/", (ColumnRef("a", INTEGER), lit(2)), INTEGER, is_operator=True),
        FunctionCall("/", (lit(1.0), ColumnRef("a", LogicalType("DOUBLE"))), LogicalType("DOUBLE")),
    ],
)
def test_what_depends_on_a_session_stays_on_the_client(expression: Expression) -> None:
    assert DuckDBEncoder().encode_expression(expression) is None


def test_what_may_fail_on_a_row_gives_null_instead() -> None:
    number = Cast(ColumnRef("s", VARCHAR), INTEGER)
    total = FunctionCall(
        "+", (ColumnRef("h", LogicalType("HUGEINT")), lit(2**100)), LogicalType("HUGEINT")
    )

    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t AS SELECT 'x' AS s, {2**127 - 1}::HUGEINT AS h")
        for expression in (number, total):
            sql = DuckDBEncoder().encode_expression(expression)
            assert connection.execute(f"SELECT {sql} FROM t").fetchone() == (None,)


A_INTEGER, D_DATE = ColumnRef("a", INTEGER), ColumnRef("d", DATE)
NEXT = FunctionCall("+", (A_INTEGER, lit(1)), INTEGER, is_operator=True)
SQUARE = FunctionCall("*", (NEXT, NEXT), INTEGER, is_operator=True)
FOURTH = FunctionCall("*", (SQUARE, SQUARE), INTEGER, is_operator=True)


def rows_kept(predicate: Expression) -> list[int]:
    """The values of `a` that pass, among a small one and the largest."""
    sql = to_duckdb_sql(Filter.of(predicate))
    assert sql
    with duckdb.connect() as connection:
        rows = connection.execute(
            f"SELECT a FROM (VALUES (1, DATE '2024-01-01', 1.5::DOUBLE), "
            f"({2**31 - 1}, DATE '2024-01-01', 1.5::DOUBLE)) v(a, d, f) WHERE {sql}"
        ).fetchall()
    return [row[0] for row in rows]


@pytest.mark.parametrize(
    "predicate",
    [
        Term(NEXT) > 1,
        Term(NEXT).between(2, 2**40),
        Term(NEXT).is_in([2, 2**31]),
        Term(NEXT).is_not_null(),
        Term(FunctionCall("-", (FunctionCall("-", (NEXT,), INTEGER),), INTEGER)) > 1,
        Term(Cast(NEXT, BIGINT)) > 1,
        Term(Cast(NEXT, LogicalType("DOUBLE"))) > 1.0,
        Term(SQUARE) > 1,
    ],
)
def test_integer_arithmetic_that_is_compared_does_not_overflow(predicate: Expression) -> None:
    assert rows_kept(predicate) == [1, 2**31 - 1]


@pytest.mark.parametrize(
    "predicate",
    [
        Term(FunctionCall("+", (D_DATE, NEXT), DATE, is_operator=True)) > dt.date(2024, 1, 2),
        Term(FunctionCall("to_days", (NEXT,), INTERVAL)).is_not_null(),
        Term(FunctionCall("round", (ColumnRef("f", DOUBLE), NEXT), DOUBLE)) == 1.5,
        Term(FunctionCall("%", (NEXT, lit(2)), INTEGER, is_operator=True)) == 0,
        Term(Cast(FOURTH, BIGINT)) > Term(Cast(A_INTEGER, BIGINT)),
    ],
)
def test_integer_arithmetic_elsewhere_has_its_own_type_and_overflows_to_null(
    predicate: Expression,
) -> None:
    assert rows_kept(predicate) == [1]


def test_the_difference_of_dates_is_no_integer_arithmetic() -> None:
    days = FunctionCall("-", (D_DATE, lit(dt.date(2023, 12, 31))), BIGINT, is_operator=True)

    assert rows_kept(Term(days) == 1) == [1, 2**31 - 1]


def test_every_function_of_the_allow_list_is_a_deterministic_one_of_duckdb() -> None:
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT function_name, stability FROM duckdb_functions() WHERE function_type = 'scalar'"
        ).fetchall()
        macros = connection.execute(
            "SELECT function_name FROM duckdb_functions() WHERE function_type = 'macro'"
        ).fetchall()
    stability = dict(rows) | {name: "CONSISTENT" for (name,) in macros}

    names = _NEVER_FAIL | _MAY_FAIL | BINARY_OPERATORS | UNARY_OPERATORS
    assert {name: stability.get(name) for name in names} == dict.fromkeys(names, "CONSISTENT")


def test_not_of_a_null_is_not_kept() -> None:
    sql = to_duckdb_sql(Filter.of(Not(col("a", INTEGER).is_in([1, None]))))

    with duckdb.connect() as connection:
        assert (
            connection.execute(
                f"SELECT a FROM (VALUES (1), (2), (NULL)) v(a) WHERE {sql}"
            ).fetchall()
            == []
        )


def test_a_filter_too_deep_for_the_interpreter_is_dropped() -> None:
    deep: Expression = KNOWN
    for _ in range(5000):
        deep = Not(deep)

    assert to_duckdb_sql(Filter((deep, OTHER))) == B
    assert Constant(1, INTEGER) == lit(1)
