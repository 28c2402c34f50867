"""Expressions of clients that take too much: ended by their bounds or with their client."""

from __future__ import annotations

import itertools
import resource
from contextlib import suppress

import psutil
import pyarrow as pa
import pytest

from lakeport.catalog import RequestContext, request_scope
from lakeport.errors import CancelledError, InvalidArgumentError, InvalidInputError
from lakeport.memory.sql import process
from lakeport.memory.sql.expressions import ScalarExpression, evaluate, parse_expression
from lakeport.memory.sql.process import evaluate_apart
from tests.memory.fixtures_catalog import Workbench

COLUMNS = pa.schema([("a", pa.int64()), ("b", pa.string()), ("l", pa.list_(pa.int64()))])
ROWS = pa.table([[1, 2], ["x", "yy"], [[1], [2, 3]]], schema=COLUMNS)
# The text depends on both variables: DuckDB 2.0 computes a constant one once.
ENDLESS = (
    "SELECT length(list_filter(range(10000), lambda x: list_sum(list_transform(range(10000), "
    "lambda y: length(regexp_replace(repeat('a', 1000 + (x + y) % 7), '(a|aa)+', 'b', 'g')))) > 0))"
)
MOST = 500
"""MiB that an expression may cost the server: its result is bounded."""


def _peak() -> int:
    """Return the peak of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


@pytest.mark.parametrize(
    "text",
    [
        "repeat('x', '2000000000')",
        "repeat('x', '2e9')",
        "length(repeat(b, '2000000000')) > 0",
        "lpad(b, '2000000000', ' ')",
        "range('1000000000')",
        "repeat(repeat(repeat('x', 10000), 10000), 10)",
        "list_transform(range(10000), lambda x: repeat(repeat('x', 10000), 100))",
        "replace(replace(repeat('x', 10000), 'x', repeat('x', 10000)), 'x', repeat('x', 10000))",
        "list_transform(range(10000), lambda x: list_transform(range(10000), lambda y: b))",
        "array_to_string(list_transform(range(10000), lambda x: repeat(b, 10000)), 'zzzzzzzz')",
    ],
)
def test_an_expression_that_grows_takes_no_memory_of_the_server(text: str) -> None:
    before = _peak()

    # Some of them give a result that is within the bounds.
    with suppress(InvalidArgumentError, InvalidInputError):
        evaluate(parse_expression(text, COLUMNS), ROWS)

    assert _peak() - before < MOST


@pytest.mark.parametrize("size", ["'2000000000'", "'2e9'", "' 2000000000 '", "'-2000000000'"])
def test_a_size_written_as_text_is_refused_like_a_number(
    size: str, memory_catalog: Workbench
) -> None:
    for text in (f"repeat('x', {size})", f"lpad(b, {size}, ' ')", f"length(range({size})) > 0"):
        with pytest.raises(InvalidArgumentError, match="other than constants"):
            memory_catalog.create(COLUMNS, check_constraints=(text,))


def test_many_rows_are_evaluated_in_pieces() -> None:
    rows = pa.table({"a": range(200_000), "b": ["x" * 1000] * 200_000})
    expression = parse_expression("b || a", rows.schema)

    result = evaluate(expression, rows)

    assert len(result) == 200_000
    assert result[199_999].as_py() == "x" * 1000 + "199999"
    assert len(evaluate(expression, rows.slice(0, 0))) == 0


def test_an_expression_that_never_ends_is_ended_by_its_deadline() -> None:
    children = _children_with_an_idle_one()

    with pytest.raises(InvalidInputError, match="longer than an expression may take"):
        evaluate_apart(ENDLESS, ROWS, deadline=2)

    assert len(_ended(children)) == 1


def test_an_expression_ends_when_its_client_leaves() -> None:
    children = _children_with_an_idle_one()
    polls = itertools.count()
    request = RequestContext(is_cancelled=lambda: next(polls) > 10)

    with request_scope(request), pytest.raises(CancelledError, match="disconnected"):
        evaluate_apart(ENDLESS, ROWS, deadline=600)

    assert len(_ended(children)) == 1


def test_the_start_of_a_process_takes_no_time_of_its_expression() -> None:
    while (idle := process._idle_child()) is not None:
        idle.end()
    before = psutil.Process().children()
    polls = itertools.count()

    def slow_down_the_start() -> bool:
        started = [child for child in psutil.Process().children() if child not in before]
        poll = next(polls)
        for child in started:
            if poll == 0:
                child.suspend()
            elif poll == 60:
                child.resume()
        return False

    with request_scope(RequestContext(is_cancelled=slow_down_the_start)):
        # Sixty polls, of 50 ms each at least, take longer than the expression may take.
        result = evaluate_apart("SELECT a + 1 FROM rows", ROWS, deadline=2)

    assert result.column(0).to_pylist() == [2, 3]
    assert next(polls) > 60


def _children_with_an_idle_one() -> list[psutil.Process]:
    """Return the children of this process. One of them at least is ready for an expression."""
    evaluate_apart("SELECT a FROM rows", ROWS)
    return psutil.Process().children()


def _ended(children: list[psutil.Process]) -> list[psutil.Process]:
    return [child for child in children if not child.is_running()]


def test_expressions_after_one_that_was_ended_are_evaluated() -> None:
    for _ in range(6):
        with pytest.raises(InvalidInputError):
            evaluate_apart("SELECT length(repeat('x', 4000000000)) FROM rows", ROWS)
    assert evaluate(parse_expression("length(b)", COLUMNS), ROWS).to_pylist() == [1, 2]


def test_comparisons_need_no_process_of_their_own() -> None:
    assert parse_expression("a > 1 AND a + 1 BETWEEN 2 AND 3 OR b = 'x'", COLUMNS).is_comparison
    for text in ("b", "'constant'", "upper(b) = 'X'", "b || b = 'xx'", "CAST(b AS INT) > 1"):
        assert not parse_expression(text, COLUMNS).is_comparison


def test_every_type_survives_the_way_to_the_process_and_back() -> None:
    rows = pa.table(
        {
            "d": pa.array([1], pa.decimal128(38, 2)),
            "u": pa.array([b"0" * 16], pa.uuid()),
            "e": pa.array(["red"]).dictionary_encode(),
            "t": pa.array([0], pa.timestamp("us", "UTC")),
            "s": pa.array([{"f": [1]}]),
        }
    )
    for name in rows.column_names:
        expression = ScalarExpression(f'coalesce("{name}", "{name}")', (name,))
        expected = rows.column(name).to_pylist()
        assert evaluate(expression, rows).to_pylist() == expected
