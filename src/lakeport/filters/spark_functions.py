"""The functions and casts that Spark computes exactly as DuckDB does.

Nothing here fails on a row: where DuckDB's own function would fail, there is a wider result or
NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lakeport.filters.casts import always_succeeds, preserves_value
from lakeport.filters.expressions import Cast, Constant, FunctionCall, type_of
from lakeport.filters.spark_literals import has_spark_type, spark_string, spark_type
from lakeport.filters.text_match import TextMatch

__all__ = ["spark_cast", "spark_function", "spark_text_match"]

_SIGNED: Final = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT"})
_ARITHMETIC: Final = frozenset({"+", "-", "*"})
_LENGTHS: Final = frozenset({"length", "len", "char_length", "character_length"})
_ESCAPE: Final = "!"


def spark_text_match(match: TextMatch, subject: str) -> str | None:
    """A match of text; ``None`` if Spark's LIKE might see other characters than DuckDB's."""
    simple = match.simple()
    if simple is None:
        pattern = match.like(_ESCAPE)
        # Spark compiles LIKE by UTF-16 units, DuckDB by characters.
        if any(ord(character) > 0xFFFF for character in pattern):
            return None
        sql = f"({subject} LIKE {spark_string(pattern)} ESCAPE '{_ESCAPE}')"
    elif simple.kind == "equals":
        sql = f"({subject} = {spark_string(simple.text)})"
    else:
        function = {"prefix": "startswith", "suffix": "endswith", "contains": "contains"}[
            simple.kind
        ]
        sql = f"{function}({subject}, {spark_string(simple.text)})"
    return f"(NOT {sql})" if match.negated else sql


def spark_function(call: FunctionCall, arguments: Sequence[str]) -> str | None:
    """A function of encoded arguments, ``None`` if its meaning differs."""
    name = call.name.lower()
    ids = {type_of(argument).id for argument in call.arguments}
    if not call.is_builtin or not arguments:
        return None
    if ids == {"VARCHAR"} and len(arguments) == 1 and name in _LENGTHS:
        return f"CAST(length({arguments[0]}) AS BIGINT)"
    if ids == {"VARCHAR"} and name == "||":
        return f"concat({', '.join(arguments)})"
    if len(ids) == 1 and ids <= _SIGNED and call.return_type.id in ids:
        return _integer_arithmetic(call, name, arguments)
    if ids == {"DOUBLE"} and len(arguments) == 2 and name in _ARITHMETIC:
        return f"({arguments[0]} {name} {arguments[1]})"
    if name in ("substr", "substring") and type_of(call.arguments[0]).id == "VARCHAR":
        return _substring(call, arguments)
    return None


def spark_cast(cast: Cast, child: str) -> str | None:
    """A cast of an encoded child, ``None`` if its meaning differs."""
    source, target = type_of(cast.child), cast.type
    if source == target:
        return child
    if not has_spark_type(source) or not has_spark_type(target):
        return None
    if target.id == "VARCHAR" and not target.alias and source.id in _SIGNED | {"BOOLEAN"}:
        return f"CAST({child} AS STRING)"
    exact = preserves_value(source, target)
    if source.id.startswith("TIMESTAMP") and exact:
        return child
    if source.id in _SIGNED and target.id == "DOUBLE":
        return f"CAST({child} AS DOUBLE)"
    numeric = source.id in _SIGNED | {"DECIMAL", "FLOAT"} and target.id in _SIGNED | {
        "DECIMAL",
        "DOUBLE",
    }
    if not exact or not numeric:
        return None
    keyword = "CAST" if always_succeeds(source, target) else "try_cast"
    return f"{keyword}({child} AS {spark_type(target)})"


def _integer_arithmetic(call: FunctionCall, name: str, arguments: Sequence[str]) -> str | None:
    match arguments:
        case [left, right] if name in ("&", "|"):
            return f"({left} {name} {right})"
        case [left, right] if name in ("%", "//") and _divides_safely(call.arguments[1]):
            return f"({left} {'%' if name == '%' else 'div'} {right})"
        case _ if name not in _ARITHMETIC or call.return_type.id == "BIGINT":
            return None
        case _ if any(isinstance(argument, FunctionCall) for argument in call.arguments):
            return None
    # In BIGINT nothing overflows, and DuckDB may have moved constants so that it does not either.
    wide = [f"CAST({argument} AS BIGINT)" for argument in arguments]
    return f"({f' {name} '.join(wide)})" if len(wide) == 2 else f"({name} {wide[0]})"


def _divides_safely(divisor: Any) -> bool:
    return isinstance(divisor, Constant) and divisor.value not in (None, 0, -1)


def _substring(call: FunctionCall, arguments: Sequence[str]) -> str | None:
    bounds = call.arguments[1:]
    numbers = [bound.value for bound in bounds if isinstance(bound, Constant)]
    if len(numbers) != len(bounds) or len(numbers) != 2:
        return None
    start, length = numbers
    if start is None or length is None or not (1 <= start < 2**31 and 0 <= length < 2**31):
        return None
    return f"substring({arguments[0]}, {start}, {length})"
