"""SQL expressions over the columns of a table, evaluated by a DuckDB without any other access.

An expression is parsed and rejected unless it is one scalar expression: no subquery, no second
statement, no function that depends on anything but its arguments. DuckDB then evaluates the text
of the checked tree, not the text of the client. That DuckDB has no files, no network, no extensions
and a locked configuration. Comparisons run in this process. All other expressions run in a child
process with bounds, see `lakeport.memory.sql.process`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa

from lakeport.arrow import arrays_of, no_rows
from lakeport.errors import InvalidArgumentError, InvalidInputError, first_line
from lakeport.filters import (
    SqlSyntaxError,
    constant_value,
    expression_sql,
    function_arguments,
    parse_sql,
)
from lakeport.memory.sql.process import evaluate_apart, open_database
from lakeport.types import fold_name

__all__ = ["ScalarExpression", "check_syntax", "evaluate", "parse_expression"]

_MAX_LENGTH = 1 << 16
_CLASSES = frozenset(
    {
        "BETWEEN",
        "CASE",
        "CAST",
        "COLLATE",
        "COLUMN_REF",
        "COMPARISON",
        "CONJUNCTION",
        "CONSTANT",
        "FUNCTION",
        "LAMBDA",
        "OPERATOR",
        "TYPE",
    }
)
# Their result depends on the connection, not on their arguments.
_NOT_SCALAR = frozenset({"current_setting", "getvariable", "getenv", "query", "query_table"})
_CONNECTION_PREFIXES = ("current_", "has_", "inet_", "pg_", "session_")
_CONNECTION_MACROS = frozenset(
    {"ago", "col_description", "get_block_size", "obj_description", "shobj_description", "user"}
)
# DuckDB's memory limit does not count the texts and lists that these create from a number.
_GROWING = frozenset(
    {
        "array_resize",
        "bar",
        "bitstring",
        "equi_width_bins",
        "generate_series",
        "list_resize",
        "lpad",
        "range",
        "repeat",
        "rpad",
        "to_base",
    }
)
_MAX_GROWTH = 10_000
# Their result is never larger than their arguments.
_COMPARING = frozenset({"BETWEEN", "COMPARISON", "CONJUNCTION"})
_BOUNDED = _COMPARING | {"COLUMN_REF", "CONSTANT"}
_PIECE_ROWS = 1 << 16
_PIECE_BYTES = 1 << 25
_ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%"})
_UNBOUNDED = frozenset({"format", "generate_subscripts", "printf"})
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class ScalarExpression:
    """An expression that passed all checks."""

    sql: str
    """The SQL text, as DuckDB writes it."""
    columns: tuple[str, ...]
    """The columns that it reads, in the order of the table."""
    is_comparison: bool = False
    """Whether it only compares columns and constants, which takes little memory."""


@lru_cache(maxsize=1024)
def parse_expression(text: str, columns: pa.Schema) -> ScalarExpression:
    """Return the checked expression. Raise InvalidArgumentError unless it is a scalar one."""
    tree = _tree(text)
    used = {fold_name(name) for name in _column_names(tree)} - set(_lambda_parameters(tree))
    expression = ScalarExpression(
        sql=_text_of(tree),
        columns=tuple(name for name in columns.names if fold_name(name) in used),
        is_comparison=_is_comparison(tree),
    )
    # DuckDB treats some names that are not columns, such as current_user, as functions.
    if len(expression.columns) < len(used):
        unknown = used.difference(fold_name(name) for name in columns.names)
        raise InvalidArgumentError(f"{text[:200]!r}: there is no column {min(unknown)!r}")
    try:
        evaluate(expression, pa.Table.from_batches([no_rows(columns)]))
    except InvalidInputError as error:
        raise InvalidArgumentError(f"the expression {text!r} cannot be used: {error}") from None
    return expression


def evaluate(expression: ScalarExpression, rows: pa.Table) -> pa.Array:
    """Return the value of the expression for each row."""
    used = list(expression.columns)
    source = rows.select(used) if used else pa.table({"": pa.nulls(rows.num_rows, pa.int8())})
    # DuckDB wrote this text from the checked tree.
    sql = f"SELECT ({expression.sql}) FROM rows"  # noqa: S608
    if expression.is_comparison:
        result = _run(sql, source)
    else:
        pieces = [evaluate_apart(sql, piece) for piece in _pieces(source)]
        result = arrays_of(pa.concat_tables(pieces).column(0))
    if len(result) != rows.num_rows:
        raise InvalidInputError(f"{expression.sql} does not return one value for each row")
    return result


def _pieces(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows in pieces that fit into the memory of a child process; at least one piece."""
    fitting = rows.num_rows * _PIECE_BYTES // max(1, rows.nbytes)
    step = max(1, min(_PIECE_ROWS, fitting))
    for start in range(0, max(1, rows.num_rows), step):
        yield rows.slice(start, step)


def _run(sql: str, rows: pa.Table) -> pa.Array:
    import duckdb

    try:
        with _cursor() as cursor:
            cursor.register("rows", rows)
            column = cursor.sql(sql).to_arrow_table().column(0)
    except duckdb.Error as error:
        raise InvalidInputError(first_line(error)) from None
    return arrays_of(column)


def _cursor() -> Any:
    # Without the lock two threads may create the database twice, which is slow.
    with _LOCK:
        return _database().cursor()


@cache
def _database() -> Any:
    # Opened on first use: most catalogs have neither a CHECK nor a change of type.
    return open_database()


@cache
def _functions() -> frozenset[str]:
    """Return the functions whose result depends only on their arguments."""
    with _cursor() as cursor:
        rows = cursor.execute(
            "SELECT function_name, function_type FROM duckdb_functions() "
            "WHERE function_type = 'macro' OR function_type = 'scalar' "
            "GROUP BY ALL HAVING bool_and(stability IS NULL OR stability = 'CONSISTENT')"
        ).fetchall()
    return frozenset(
        name
        for name, kind in rows
        if name not in _NOT_SCALAR | _UNBOUNDED
        and not name.startswith(_CONNECTION_PREFIXES)
        and not (kind == "macro" and name in _CONNECTION_MACROS)
    )


def check_syntax(text: str) -> None:
    """Raise InvalidArgumentError if a text is not one SQL expression of any kind."""
    _parsed(text)


def _tree(text: str) -> dict[str, Any]:
    """Return the parsed expression. Raise unless it is one scalar expression over columns."""
    expression = _parsed(text)
    for part in _parts(expression):
        _check(part, text)
    return expression


def _parsed(text: str) -> dict[str, Any]:
    """Return the expression as the tree of DuckDB's JSON."""
    if len(text) > _MAX_LENGTH:
        raise InvalidArgumentError(f"an SQL expression of {len(text)} characters is too long")
    try:
        with _cursor() as cursor:
            statements = parse_sql(cursor, f"SELECT {text}")
    except RecursionError:
        raise InvalidArgumentError("the SQL expression is nested too deeply") from None
    except SqlSyntaxError as error:
        reason = first_line(error)
        raise InvalidArgumentError(f"{text[:200]!r} is not an SQL expression: {reason}") from None
    node = statements[0]
    if len(statements) != 1 or not _is_bare_select(node):
        raise InvalidArgumentError(f"{text[:200]!r} is not a single scalar expression")
    expression: dict[str, Any] = node["select_list"][0]
    return expression


def _is_bare_select(node: dict[str, Any]) -> bool:
    return (
        node["type"] == "SELECT_NODE"
        and len(node["select_list"]) == 1
        and not node["select_list"][0].get("alias")
        and node["from_table"]["type"] == "EMPTY"
        and not node["cte_map"]["map"]
        and not any(
            node.get(part)
            for part in (
                "modifiers",
                "where_clause",
                "group_expressions",
                "group_sets",
                "having",
                "sample",
                "qualify",
            )
        )
    )


def _check(part: dict[str, Any], text: str) -> None:
    kind = part.get("class")
    if part.get("type") in ("SELECT_NODE", "SET_OPERATION_NODE") or kind == "SUBQUERY":
        raise InvalidArgumentError(f"{text[:200]!r} has a subquery, which is not allowed here")
    if kind is None:
        return
    if kind not in _CLASSES:
        raise InvalidArgumentError(
            f"{text[:200]!r} is not a scalar expression: {kind.lower()} is not allowed here"
        )
    if kind == "FUNCTION":
        name = part["function_name"]
        if fold_name(name) not in _functions() or part.get("catalog"):
            raise InvalidArgumentError(
                f"{text[:200]!r} calls {name!r}, which is not a function of its arguments alone"
            )
        if fold_name(name) in _GROWING and not all(map(_is_small, _growth(part))):
            raise InvalidArgumentError(
                f"{text[:200]!r} calls {name!r} with arguments other than constants of at most "
                f"{_MAX_GROWTH}"
            )


def _growth(part: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the arguments that determine the size of the result."""
    arguments = function_arguments(part)
    return arguments if len(arguments) == 1 else arguments[1:]


def _is_small(argument: dict[str, Any]) -> bool:
    value = constant_value(argument)
    if isinstance(value, str):
        # DuckDB converts a text to a number where the function takes a number.
        with suppress(ValueError):
            return abs(float(value)) <= _MAX_GROWTH
        return True
    return isinstance(value, int) and abs(value) <= _MAX_GROWTH


def _is_comparison(tree: dict[str, Any]) -> bool:
    """Return whether the expression only compares, with arithmetic at most."""
    return tree.get("class") in _COMPARING and all(
        part.get("class") in _BOUNDED
        or (part.get("class") == "FUNCTION" and part["function_name"] in _ARITHMETIC)
        for part in _parts(tree)
        if part.get("class") is not None
    )


def _column_names(tree: dict[str, Any]) -> Iterator[str]:
    for part in _parts(tree):
        if part.get("class") == "COLUMN_REF":
            yield part["column_names"][0]


def _lambda_parameters(tree: dict[str, Any]) -> Iterator[str]:
    for part in _parts(tree):
        if part.get("class") == "LAMBDA" and isinstance(part.get("lhs"), dict):
            yield from (fold_name(name) for name in _column_names(part["lhs"]))


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a tree."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield node
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


def _text_of(expression: dict[str, Any]) -> str:
    with _cursor() as cursor:
        return expression_sql(cursor, expression)
