"""SQL expressions of clients: one scalar expression over the columns, and nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeport.errors import InvalidArgumentError, InvalidInputError
from lakeport.memory.sql.expressions import evaluate, parse_expression
from tests.memory.fixtures_catalog import Workbench

COLUMNS = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.string()),
        ("l", pa.list_(pa.int64())),
        ("s", pa.struct([("f", pa.int64())])),
        ("select", pa.int64()),
    ]
)
ROWS = pa.table(
    [
        pa.array([1, 2, None]),
        pa.array(["x", "yy", None]),
        pa.array([[1], [2, 3], None], pa.list_(pa.int64())),
        pa.array([{"f": 1}, {"f": 2}, None]),
        pa.array([5, 6, 7]),
    ],
    schema=COLUMNS,
)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("((a > 1) AND (a < 10))", [False, True, None]),
        ("a + length(b)", [2, 4, None]),
        ("CAST(a AS VARCHAR)", ["1", "2", None]),
        ("a::VARCHAR || b", ["1x", "2yy", None]),
        ("b LIKE 'y%'", [False, True, None]),
        ("A IN (1, 3)", [True, False, None]),
        ("a BETWEEN 2 AND 3", [False, True, None]),
        ("CASE WHEN a IS NULL THEN 'none' ELSE b END", ["x", "yy", "none"]),
        ("s.f * 2", [2, 4, None]),
        ('"select" % 2', [1, 0, 1]),
        ("list_transform(l, lambda x: x + a)", [[2], [4, 5], None]),
        ("list_transform(l, x -> x + a)", [[2], [4, 5], None]),
        ("nullif(a, 1)", [None, 2, None]),
        ("a > 1 -- a remark", [False, True, None]),
        ("42", [42, 42, 42]),
    ],
)
def test_scalar_expressions_are_evaluated_for_every_row(text: str, values: list[object]) -> None:
    result = evaluate(parse_expression(text, COLUMNS), ROWS)
    assert [
        bool(v) if isinstance(e, bool) else v
        for v, e in zip(result.to_pylist(), values, strict=True)
    ] == values


def test_an_expression_says_which_columns_it_reads() -> None:
    assert parse_expression("length(B) > s.f", COLUMNS).columns == ("b", "s")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a >",
        "a, b",
        "a AS b",
        "*",
        "COLUMNS(*)",
        "#1",
        "$1",
        "?",
        "(SELECT 1)",
        "a IN (SELECT 1)",
        "EXISTS (SELECT 1)",
        "ARRAY(SELECT 1)",
        "a UNION SELECT 1",
        "a FROM rows",
        "a FROM read_text('/etc/passwd')",
        "a LIMIT 1",
        "a WHERE true",
        "DISTINCT a",
        "a; SELECT 1",
        "a; DROP TABLE rows",
        "1) FROM rows; ATTACH 'x' AS y; SELECT (1",
        "sum(a)",
        "sum(a) OVER ()",
        "unnest(l)",
        "read_text('/etc/passwd')",
        "read_csv('/etc/passwd')",
        "getenv('HOME')",
        "current_setting('memory_limit')",
        "getvariable('x')",
        "current_user",
        "current_database()",
        "pg_sleep(1)",
        "sleep_ms(1)",
        "nextval('s')",
        "random()",
        "now()",
        "system.main.version()",
        "query('SELECT 1')",
        "missing > 1",
        "missing.a > 1",
    ],
)
def test_everything_else_is_refused(text: str, memory_catalog: Workbench) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_expression(text, COLUMNS)
    with pytest.raises(InvalidArgumentError):
        memory_catalog.create(COLUMNS, check_constraints=(text,))


def test_very_long_and_very_deep_expressions_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="too long"):
        parse_expression("1 + " * 50_000 + "1", COLUMNS)
    with pytest.raises(InvalidArgumentError):
        parse_expression("-" * 20_000 + "1", COLUMNS)


def test_a_value_that_cannot_be_computed_is_an_error() -> None:
    expression = parse_expression("CAST(b AS INTEGER)", COLUMNS)
    with pytest.raises(InvalidInputError, match="'x'"):
        evaluate(expression, ROWS)


@pytest.mark.parametrize(
    "text",
    [
        "repeat(b, 2000000000)",
        "repeat(b, a)",
        "range(1000000000)",
        "generate_series(1, 1000000000)",
        "lpad(b, 1000000000, ' ')",
        "format('{:>1000000000}', b)",
    ],
)
def test_functions_that_make_much_out_of_little_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_expression(text, COLUMNS)


def test_padding_to_a_reasonable_length_is_allowed() -> None:
    expression = parse_expression("lpad(b, 3, '0')", COLUMNS)
    assert evaluate(expression, ROWS).to_pylist() == ["00x", "0yy", None]
