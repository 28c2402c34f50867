"""Expressions of clients that take too much: ended by their bounds, or when their client leaves."""

from __future__ import annotations

import resource
import threading
import time
from contextlib import suppress

import psutil
import pyarrow as pa
import pytest

from lakeport.catalog import RequestContext, request_scope
from lakeport.errors import CancelledError, InvalidArgumentError, InvalidInputError
from lakeport.memory.sql.expressions import ScalarExpression, evaluate, parse_expression
from lakeport.memory.sql.process import evaluate_apart
from tests.memory.fixtures_catalog import Workbench

COLUMNS = pa.schema([("a", pa.int64()), ("b", pa.string()), ("l", pa.list_(pa.int64()))])
ROWS = pa.table([[1, 2], ["x", "yy"], [[1], [2, 3]]], schema=COLUMNS)
ENDLESS = (
    "SELECT length(list_filter(range(10000), lambda x: list_sum(list_transform(range(10000), "
    "lambda y: length(regexp_replace(repeat('a', 1000), '(a|aa)+', 'b', 'g')) + x + y)) > 0))"
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
        with pytest.raises(InvalidArgumentError, match="something else than constants"):
            memory_catalog.create(COLUMNS, check_constraints=(text,))


def test_many_rows_are_evaluated_in_pieces() -> None:
    rows = pa.table({"a": range(200_000), "b": ["x" * 1000] * 200_000})
    expression = parse_expression("b || a", rows.schema)

    result = evaluate(expression, rows)

    assert len(result) == 200_000
    assert result[199_999].as_py() == "x" * 1000 + "199999"
    assert len(evaluate(expression, rows.slice(0, 0))) == 0


def test_an_expression_that_never_ends_is_ended_by_its_deadline() -> None:
    with pytest.raises(InvalidInputError, match="longer than an expression may take"):
        evaluate_apart(ENDLESS, ROWS, deadline=2)

    assert not _busy_children()


def test_an_expression_ends_when_its_client_leaves() -> None:
    left = threading.Event()
    request = RequestContext(is_cancelled=left.is_set)
    threading.Timer(1, left.set).start()
    began = time.monotonic()

    with request_scope(request), pytest.raises(CancelledError, match="went away"):
        evaluate_apart(ENDLESS, ROWS, deadline=600)

    assert time.monotonic() - began < 300
    assert not _busy_children()


def _busy_children() -> list[psutil.Process]:
    """Return the children that still compute after their expression was given up."""
    children = psutil.Process().children()
    for child in children:
        child.cpu_percent()
    time.sleep(0.5)
    return [child for child in children if child.is_running() and child.cpu_percent() > 50]


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
