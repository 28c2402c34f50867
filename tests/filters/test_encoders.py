"""No encoder may lose a row: every predicate is judged by DuckDB itself.

For random predicates, what DuckDB keeps must also be kept by what the encoders make of them; and
what an encoder claims to express exactly must be true, false and NULL for the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from lakeport.filters import (
    ArrowEncoder,
    Between,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Constant,
    DuckDBEncoder,
    Expression,
    Filter,
    In,
    LogicalType,
    Not,
    SparkEncoder,
    parse_filter,
    to_arrow,
    to_duckdb_sql,
    to_json,
)

Reference = Callable[[Expression], list[bool | None]]
quick = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def expected(reference: Reference, predicate: Expression) -> list[bool | None]:
    """DuckDB's answer; predicates on which DuckDB itself fails are of no interest."""
    try:
        return reference(predicate)
    except (duckdb.DataError, duckdb.ProgrammingError):
        assume(False)
        raise


def kept(answers: list[bool | None]) -> set[int]:
    return {row for row, answer in enumerate(answers) if answer}


@quick
@given(data=st.data())
def test_duckdb_keeps_every_row_of_the_filter(
    data: st.DataObject,
    predicates: st.SearchStrategy[Expression],
    reference: Reference,
    connection: duckdb.DuckDBPyConnection,
) -> None:
    predicate = data.draw(predicates)
    answers = expected(reference, predicate)

    where = to_duckdb_sql(Filter.of(predicate)) or "TRUE"
    rows = connection.execute(f"SELECT id FROM rows WHERE {where}").fetchall()
    assert kept(answers) <= {row[0] for row in rows}

    exact = DuckDBEncoder().encode_expression(predicate)
    if exact is not None:
        got = connection.execute(f"SELECT {exact} FROM rows ORDER BY id").fetchall()
        assert [row[0] for row in got] == answers


@quick
@given(data=st.data())
def test_arrow_keeps_every_row_of_the_filter(
    data: st.DataObject,
    predicates: st.SearchStrategy[Expression],
    reference: Reference,
    table: pa.Table,
) -> None:
    predicate = data.draw(predicates)
    answers = expected(reference, predicate)

    for in_memory in (True, False):
        expression = to_arrow(Filter.of(predicate), table.schema, in_memory=in_memory)
        assert kept(answers) <= arrow_rows(table, expression)

    exact = ArrowEncoder(table.schema, in_memory=True).encode_expression(predicate)
    if exact is not None:
        got = ds.dataset(table).to_table(columns={"answer": exact})["answer"].to_pylist()
        assert got == answers


@quick
@given(data=st.data())
def test_arrow_keeps_every_row_whatever_the_physical_type(
    data: st.DataObject,
    predicates: st.SearchStrategy[Expression],
    reference: Reference,
    disguises: list[pa.Table],
) -> None:
    predicate = data.draw(predicates)
    answers = expected(reference, predicate)

    for disguise in disguises:
        expression = to_arrow(Filter.of(predicate), disguise.schema, in_memory=True)
        assert kept(answers) <= arrow_rows(disguise, expression)


@pytest.fixture(scope="module")
def disguises(table: pa.Table) -> list[pa.Table]:
    """The same values in other Arrow types, coarser and finer than DuckDB's."""
    first = {
        "i8": pa.int64(),
        "i32": pa.int64(),
        "i64": pa.decimal128(38, 0),
        "u8": pa.int16(),
        "u32": pa.decimal128(12, 2),
        "f32": pa.float64(),
        "d": pa.decimal128(12, 3),
        "w": pa.decimal256(50, 7),
        "s": pa.large_string(),
        "y": pa.large_binary(),
        "tss": pa.timestamp("us"),
        "tms": pa.timestamp("ns"),
        "tz": pa.timestamp("us", tz="America/New_York"),
        "t": pa.time64("ns"),
    }
    second = {
        "s": pa.dictionary(pa.int32(), pa.string()),
        "y": pa.dictionary(pa.int32(), pa.binary()),
        "d": pa.decimal64(9, 2),
        "i32": pa.dictionary(pa.int16(), pa.int32()),
    }
    return [recast(table, first), recast(table, second)]


def recast(table: pa.Table, types: dict[str, pa.DataType]) -> pa.Table:
    for name, type in types.items():
        column = table[name].combine_chunks()
        changed = column.dictionary_encode() if pa.types.is_dictionary(type) else column.cast(type)
        table = table.set_column(table.schema.get_field_index(name), name, changed)
    return table


def arrow_rows(table: pa.Table, expression: pc.Expression | None) -> set[int]:
    return set((table if expression is None else table.filter(expression))["id"].to_pylist())


@quick
@given(data=st.data())
def test_arrow_keeps_every_row_though_row_groups_are_skipped(
    data: st.DataObject,
    predicates: st.SearchStrategy[Expression],
    reference: Reference,
    parquet: Path,
) -> None:
    predicate = data.draw(predicates)
    answers = expected(reference, predicate)
    rows = ds.dataset(parquet)

    expression = to_arrow(Filter.of(predicate), rows.schema)

    assert kept(answers) <= set(rows.to_table(columns=["id"], filter=expression)["id"].to_pylist())


@quick
@given(data=st.data())
def test_the_json_of_a_filter_is_read_back_as_the_same_filter(
    data: st.DataObject, predicates: st.SearchStrategy[Expression]
) -> None:
    filter = Filter.of(data.draw(predicates), data.draw(predicates))

    assert parse_filter(to_json(filter)) == filter


@settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_spark_keeps_every_row_of_the_filter(
    data: st.DataObject,
    predicates: st.SearchStrategy[Expression],
    reference: Reference,
    spark: Any,
    parquet: Path,
) -> None:
    drawn = data.draw(st.lists(predicates, min_size=60, max_size=60))
    encoder = SparkEncoder(columns=spark_columns(spark, parquet))
    judged = []
    for predicate in drawn:
        try:
            answers = reference(predicate)
        except duckdb.Error:
            continue
        judged.append((predicate, answers, encoder.encode(Filter.of(predicate)) or "TRUE"))
        exact = encoder.encode_expression(predicate)
        if exact is not None:
            judged.append((predicate, answers, exact))

    conditions = [f"({sql}) AS p{n}" for n, (_, _, sql) in enumerate(judged)]
    rows = sorted(spark.read.parquet(str(parquet)).selectExpr("id", *conditions).collect())

    for n, (predicate, answers, sql) in enumerate(judged):
        got = [row[n + 1] for row in rows]
        assert kept(answers) <= kept(got), (predicate, sql)
        if encoder.encode_expression(predicate) == sql:
            assert got == answers, (predicate, sql)


@pytest.mark.parametrize(("name", "type"), [("f64", "DOUBLE"), ("f32", "FLOAT")])
def test_spark_keeps_nan_and_negative_zero_though_row_groups_are_skipped(
    name: str, type: str, reference: Reference, spark: Any, parquet: Path
) -> None:
    column, low = ColumnRef(name, LogicalType(type)), Constant(-1.5, LogicalType(type))
    rows = spark.read.parquet(str(parquet))

    zero, one, nan = (Constant(value, column.type) for value in (0.0, 1.0, math.nan))
    for predicate in (
        Comparison(ComparisonOp.EQUAL, column, zero),
        Comparison(ComparisonOp.GREATER_OR_EQUAL, column, zero),
        In(column, (zero, low)),
        Not(Comparison(ComparisonOp.LESS, column, one)),
        Comparison(ComparisonOp.DISTINCT, column, one),
        Between(column, low, one),
        Comparison(ComparisonOp.EQUAL, column, nan),
        Between(column, one, nan),
    ):
        condition = SparkEncoder().encode(Filter.of(predicate))
        got = {row[0] for row in rows.filter(condition).select("id").collect()}
        assert got == kept(reference(predicate)), condition


def spark_columns(spark: Any, parquet: Path) -> list[str]:
    names: list[str] = spark.read.parquet(str(parquet)).columns
    return names
