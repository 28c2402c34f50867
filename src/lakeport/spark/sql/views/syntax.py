"""The SQL of a lake's view as a syntax tree, without the changes of DuckDB's printer.

DuckDB stores the text that its printer writes for a view: `INTERVAL 1 MONTH` becomes a call of
`to_months`, `count(*)` a call of `count_star`, and built-in functions are `main.list_value(…)`.
"""

from __future__ import annotations

import re
from typing import Final

from sqlglot import Token, Tokenizer, TokenType, errors, exp, parse

from lakeport.ducklake import View
from lakeport.ducklake.views import CATALOG, check_view_text
from lakeport.errors import UnsupportedError, first_line

__all__ = ["parse_view"]

_UNITS: Final = {
    "to_years": "YEAR",
    "to_months": "MONTH",
    "to_weeks": "WEEK",
    "to_days": "DAY",
    "to_hours": "HOUR",
    "to_minutes": "MINUTE",
    "to_seconds": "SECOND",
}
_OTHER_NAMES: Final = {"list_apply": "list_transform", "array_apply": "list_transform"}
_INTERVAL_TEXT: Final = re.compile(
    r"\s*(-?\d{1,9})\s+(year|month|week|day|hour|minute|second)s?\s*"
)


def parse_view(view: View) -> exp.Query:
    """Return the tree of a view's SELECT; raise `UnsupportedError` if it cannot be parsed."""
    check_view_text(view)
    try:
        statements = parse(_bare_lambdas(view.select(CATALOG)), read="duckdb")
        if len(statements) != 1 or not isinstance(statements[0], exp.Query):
            raise UnsupportedError("the view is not one SELECT")
        return _undo_duckdb_printing(statements[0])
    except errors.SqlglotError as error:
        raise UnsupportedError(f"the view's SQL cannot be parsed: {_first_line(error)}") from None
    except RecursionError:
        raise UnsupportedError("the view's SQL is nested too deeply") from None


def _first_line(error: Exception) -> str:
    return first_line(error).rstrip(".")


def _bare_lambdas(sql: str) -> str:
    """Remove the parentheses that DuckDB prints around lambdas."""
    tokens = Tokenizer(dialect="duckdb").tokenize(sql)
    dropped: list[int] = []
    for index, token in enumerate(tokens[:-2]):
        if token.token_type is TokenType.L_PAREN and _begins_lambda(tokens, index + 1):
            end = _closing(tokens, index)
            if end is not None:
                dropped += [token.start, tokens[end].start]
    positions = set(dropped)
    return "".join(" " if i in positions else letter for i, letter in enumerate(sql))


def _begins_lambda(tokens: list[Token], index: int) -> bool:
    first, second = tokens[index], tokens[index + 1]
    return first.text.lower() == "lambda" or second.token_type is TokenType.ARROW


def _closing(tokens: list[Token], index: int) -> int | None:
    depth = 0
    for position in range(index, len(tokens)):
        if tokens[position].token_type is TokenType.L_PAREN:
            depth += 1
        elif tokens[position].token_type is TokenType.R_PAREN:
            depth -= 1
            if depth == 0:
                return position
    return None


def _undo_duckdb_printing(tree: exp.Query) -> exp.Query:
    for node in reversed(list(tree.walk())):
        original = _original(node)
        if original is not node:
            node.replace(original)
    return tree


def _original(node: exp.Expr) -> exp.Expr:
    """Return a node as its author wrote it; its children are already so."""
    match node:
        case exp.Dot(this=exp.Identifier() as schema, expression=exp.Expr() as call) if (
            schema.name in ("main", "system")
        ):
            return call
        case exp.Anonymous():
            return _original_call(node)
        case exp.ToDays():
            return _interval(node.this, "DAY")
        case exp.Cast() if node.to.is_type("interval"):
            return _interval_of_text(node)
        case exp.EQ(expression=exp.Any(this=exp.Subquery() as query)):
            return exp.In(this=node.this, query=query)
        case exp.Ordered(this=exp.Columns(this=exp.Star())):
            return exp.Ordered(**{**node.args, "this": exp.Var(this="ALL")})
    return node


def _original_call(call: exp.Anonymous) -> exp.Expr:
    name, arguments = call.name.lower(), call.expressions
    if name == "count_star":
        return exp.Count(this=exp.Star())
    if name == "struct_pack":
        return exp.Struct(expressions=arguments)
    if name == "list_value":
        return exp.Array(expressions=arguments)
    if name in _UNITS and len(arguments) == 1:
        return _interval(arguments[0], _UNITS[name])
    if name == "like_escape" and len(arguments) == 3:
        like = exp.Like(this=arguments[0], expression=arguments[1])
        return exp.paren(exp.Escape(this=like, expression=arguments[2]))
    if name == "map":
        return call
    # The parser recognises a function by its name unless that is quoted or qualified.
    return exp.func(_OTHER_NAMES.get(name, name), *arguments, dialect="duckdb")


def _interval(amount: exp.Expr, unit: str) -> exp.Expr:
    while isinstance(amount, exp.Cast | exp.Trunc | exp.Paren):
        amount = amount.this
    if not (isinstance(amount, exp.Literal | exp.Neg) and re.fullmatch(r"-?\d+", amount.sql())):
        raise UnsupportedError("an interval is not a whole number")
    return exp.Interval(this=exp.Literal.string(amount.sql()), unit=exp.Var(this=unit))


def _interval_of_text(cast: exp.Cast) -> exp.Expr:
    match = _INTERVAL_TEXT.fullmatch(cast.this.name.lower()) if cast.this.is_string else None
    if match is None:
        raise UnsupportedError("an interval has more than one part")
    return exp.Interval(
        this=exp.Literal.string(match.group(1)), unit=exp.Var(this=match.group(2).upper())
    )
