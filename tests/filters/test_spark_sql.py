"""Spark SQL as text; what it means is judged in ``test_encoders``."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal

import pytest

from lakeport.filters import (
    Cast,
    ColumnRef,
    Constant,
    Expression,
    Filter,
    FunctionCall,
    LogicalType,
    SparkEncoder,
    Unsupported,
    col,
    lit,
    to_spark_sql,
)

INTEGER, VARCHAR, DOUBLE = LogicalType("INTEGER"), LogicalType("VARCHAR"), LogicalType("DOUBLE")
id_, name, x = col("id", INTEGER), col("name", VARCHAR), col("x", DOUBLE)
ZONED = LogicalType("TIMESTAMP WITH TIME ZONE")
NAN = lit(math.nan)


@pytest.mark.parametrize(
    ("predicate", "sql"),
    [
        (id_ > 5, "(`id` > 5)"),
        (id_ == -5, "(`id` = (-5))"),
        ((id_ > 5) & Unsupported("x"), "(`id` > 5)"),
        ((id_ > 5) | Unsupported("x"), ""),
        (~((id_ > 5) & Unsupported("x")), ""),
        (id_.is_in([1, None]), "(`id` IN (1, CAST(NULL AS INT)))"),
        (id_.is_in([]), "FALSE"),
        (id_.is_not_in([]), "TRUE"),
        (id_.between(1, 3, upper_inclusive=False), "((`id` >= 1) AND (`id` < 3))"),
        (id_.is_not_distinct_from(1), "(`id` <=> 1)"),
        (col("a`b", INTEGER) == 1, "(`a``b` = 1)"),
        (col("${x}", INTEGER) == 1, ""),
        (name == "it's", "(`name` = CAST(X'69742773' AS STRING))"),
        (name == "${spark.master}", "(`name` = CAST(X'247B737061726B2E6D61737465727D' AS STRING))"),
        (name.starts_with("a%"), "startswith(`name`, 'a%')"),
        (name.like("a_%!"), "(`name` LIKE 'a_%!!' ESCAPE '!')"),
        (name.like("_😀"), ""),
        (x < 1.5, "(`x` < CAST('1.5' AS DOUBLE))"),
        (x < 0.0, "(nanvl(`x`, `x`) < CAST('0.0' AS DOUBLE))"),
        (x > 1.5, "(nanvl(`x`, `x`) > CAST('1.5' AS DOUBLE))"),
        (~(x < 1.5), "(NOT (nanvl(`x`, `x`) < CAST('1.5' AS DOUBLE)))"),
        (x == NAN, "(nanvl(`x`, `x`) = CAST('NaN' AS DOUBLE))"),
        (
            col("d", LogicalType.decimal(9, 2)) == Decimal("1.25"),
            "(`d` = CAST('1.25' AS DECIMAL(9,2)))",
        ),
        (col("t", ZONED) < Constant(7, ZONED), "(`t` < timestamp_micros(7L))"),
        (col("u", LogicalType("UUID")) == uuid.UUID(int=0), ""),
        (col("u", LogicalType("UUID")).is_null(), "(`u` IS NULL)"),
        (col("h", LogicalType("HUGEINT")) == 1, ""),
        (col("untyped") == 1, ""),
        (lit("1") == id_, ""),
    ],
)
def test_predicates_become_spark_sql(predicate: Expression, sql: str) -> None:
    assert to_spark_sql(Filter.of(predicate)) == sql


def test_columns_are_renamed_replaced_or_missing() -> None:
    filter = Filter.of(id_ == 1, name == "x", x < 1.0)

    sql = to_spark_sql(
        filter, column_mapping={"id": "id_"}, column_expressions={"name": "p || q"}, columns=["id"]
    )

    assert sql == "((`id_` = 1) AND ((p || q) = 'x'))"


@pytest.mark.parametrize(
    ("expression", "sql"),
    [
        (Cast(ColumnRef("id", INTEGER), VARCHAR), "CAST(`id` AS STRING)"),
        (Cast(ColumnRef("id", INTEGER), LogicalType("TINYINT")), "try_cast(`id` AS TINYINT)"),
        (
            Cast(ColumnRef("id", INTEGER), LogicalType.decimal(3, 1)),
            "try_cast(`id` AS DECIMAL(3,1))",
        ),
        (Cast(ColumnRef("s", VARCHAR), INTEGER), None),
        (Cast(ColumnRef("x", DOUBLE), INTEGER), None),
        (FunctionCall("lower", (ColumnRef("s", VARCHAR),), VARCHAR), None),
        (
            FunctionCall("length", (ColumnRef("s", VARCHAR),), INTEGER),
            "CAST(length(`s`) AS BIGINT)",
        ),
        (FunctionCall("%", (ColumnRef("id", INTEGER), lit(0)), INTEGER), None),
        (FunctionCall("%", (ColumnRef("id", INTEGER), lit(2)), INTEGER), "(`id` % 2)"),
        (FunctionCall("random", (), DOUBLE), None),
    ],
)
def test_only_functions_and_casts_that_mean_the_same_are_used(
    expression: Expression, sql: str | None
) -> None:
    assert SparkEncoder().encode_expression(expression) == sql
