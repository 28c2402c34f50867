"""A filter as the condition of a Spark DataFrame.

Columns are expected with the Spark type that holds their DuckDB type: TIMESTAMP as
``timestamp_ntz``, UBIGINT as ``decimal(20,0)``, and so on (``lakeport.types``). Predicates on
types without such a counterpart are dropped, except IS NULL.

Spark compares NaN and -0.0 as DuckDB does, but its Parquet reader skips row groups by statistics
and dictionaries without NaN and -0.0. Floating point columns are therefore hidden from the reader
in ``nanvl``, except where no row can be lost.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from lakeport.filters.encoders.base import SqlEncoder
from lakeport.filters.encoders.text_match import TextMatch, text_match
from lakeport.filters.expressions import (
    Between,
    Case,
    Cast,
    Coalesce,
    ColumnRef,
    Comparison,
    ComparisonOp,
    ConjunctionOp,
    Constant,
    Expression,
    Filter,
    FunctionCall,
    In,
    IsNull,
    Not,
    type_of,
)
from lakeport.types import (
    INTEGER_RANGES,
    LogicalType,
    always_succeeds,
    has_spark_type,
    preserves_value,
    spark_can_write,
    spark_cast_type,
    spark_identifier,
    spark_literal,
    spark_string,
)

__all__ = ["SparkEncoder", "spark_cast", "spark_function", "spark_text_match", "to_spark_sql"]

_FLOATING = frozenset({"FLOAT", "DOUBLE"})
_SAFE_FOR_PARQUET_SKIPPING = frozenset(
    {ComparisonOp.EQUAL, ComparisonOp.LESS, ComparisonOp.LESS_OR_EQUAL}
)  # none of these is true for NaN


def to_spark_sql(
    filter: Filter,
    *,
    column_mapping: Mapping[str, str] | None = None,
    column_expressions: Mapping[str, str] | None = None,
    columns: Collection[str] | None = None,
) -> str:
    """Return the filter as Spark SQL, ``""`` if nothing of it can be expressed."""
    encoder = SparkEncoder(
        column_mapping=column_mapping, column_expressions=column_expressions, columns=columns
    )
    return encoder.encode(filter)


class SparkEncoder(SqlEncoder):
    """Writes filters as Spark SQL.

    ``column_mapping`` renames columns. ``column_expressions`` replaces columns by SQL, which is
    taken as it is. ``columns``, if given, are the only ones that exist: predicates on others are
    dropped.
    """

    def quoted(self, name: str) -> str | None:
        """Return a quoted name, ``None`` if Spark would replace a part of it."""
        return spark_identifier(name) if spark_can_write(name) else None

    def predicate(self, expression: Expression) -> str | None:
        """Return the exact encoding, or one that the Parquet reader can use as well."""
        match expression:
            case Comparison(op, ColumnRef(), Constant()) if op in _SAFE_FOR_PARQUET_SKIPPING:
                return self._for_reader([expression]) or self.visit(expression)
            case Between():
                return self._for_reader(expression.as_comparisons()) or self.visit(expression)
            case _:
                return self.visit(expression)

    def visit_column_ref(self, expression: ColumnRef) -> str | None:
        """Return a column of a type that Spark has."""
        if not has_spark_type(expression.type):
            return None
        column = self.column(expression)
        if column is None or expression.type.id not in _FLOATING:
            return column
        return f"nanvl({column}, {column})"

    def visit_constant(self, expression: Constant) -> str | None:
        """Return a typed literal."""
        return spark_literal(expression.value, expression.type)

    def visit_comparison(self, expression: Comparison) -> str | None:
        """Compare values of one type."""
        left, right = self.visit(expression.left), self.visit(expression.right)
        if left is None or right is None or not _comparable(expression.left, expression.right):
            return None
        match expression.op:
            case ComparisonOp.NOT_DISTINCT:
                return f"({left} <=> {right})"
            case ComparisonOp.DISTINCT:
                return f"(NOT ({left} <=> {right}))"
            case op:
                return f"({left} {op.value} {right})"

    def visit_between(self, expression: Between) -> str | None:
        """Encode BETWEEN as two comparisons."""
        parts = self._all(expression.as_comparisons())
        return None if parts is None else self.join(ConjunctionOp.AND, parts)

    def visit_in(self, expression: In) -> str | None:
        """Encode IN with a list of values of the probe's type."""
        if not expression.items:
            return self.encode_empty_in(expression)
        parts = self._all((expression.probe, *expression.items))
        if parts is None:
            return None
        if not all(_comparable(expression.probe, item) for item in expression.items):
            return None
        keyword = "NOT IN" if expression.negated else "IN"
        return f"({parts[0]} {keyword} ({', '.join(parts[1:])}))"

    def visit_not(self, expression: Not) -> str | None:
        """Negate a boolean."""
        child = self.visit(expression.child)
        return None if child is None else f"(NOT {child})"

    def visit_is_null(self, expression: IsNull) -> str | None:
        """Test for NULL; a column may have any type."""
        child = expression.child
        sql = self.column(child) if isinstance(child, ColumnRef) else self.visit(child)
        return None if sql is None else f"({sql} IS {'NOT ' if expression.negated else ''}NULL)"

    def visit_coalesce(self, expression: Coalesce) -> str | None:
        """Encode COALESCE of values of one type."""
        parts = self._all(expression.children)
        if not parts or not _all_comparable(expression.children):
            return None
        return f"COALESCE({', '.join(parts)})"

    def visit_cast(self, expression: Cast) -> str | None:
        """Encode a cast that has the same result in Spark."""
        child = self.visit(expression.child)
        return None if child is None else spark_cast(expression, child)

    def visit_case(self, expression: Case) -> str | None:
        """Encode a CASE with results of one type."""
        otherwise = self.visit(expression.otherwise)
        branches = [(self.visit(b.when), self.visit(b.then)) for b in expression.branches]
        if otherwise is None or not branches or any(None in branch for branch in branches):
            return None
        if not _all_comparable([*(b.then for b in expression.branches), expression.otherwise]):
            return None
        checks = " ".join(f"WHEN {when} THEN {then}" for when, then in branches)
        return f"(CASE {checks} ELSE {otherwise} END)"

    def visit_function_call(self, expression: FunctionCall) -> str | None:
        """Encode a match of text, or one of the few functions with the same meaning."""
        match = text_match(expression)
        if match is not None:
            subject = self.visit(match.subject)
            return None if subject is None else spark_text_match(match, subject)
        arguments = self._all(expression.arguments)
        return None if arguments is None else spark_function(expression, arguments)

    def _for_reader(self, comparisons: Sequence[Comparison]) -> str | None:
        parts = []
        for comparison in comparisons:
            column, bound = comparison.left, comparison.right
            if not isinstance(column, ColumnRef) or not isinstance(bound, Constant):
                return None
            if (
                column.type.id not in _FLOATING
                or column.type != bound.type
                or _is_special(bound.value)
            ):
                return None
            name, literal = self.column(column), spark_literal(bound.value, bound.type)
            if name is None or literal is None:
                return None
            parts.append(f"({name} {comparison.op.value} {literal})")
        return self._join(ConjunctionOp.AND, parts)

    def _all(self, expressions: Sequence[Expression]) -> list[str] | None:
        parts = [part for each in expressions if (part := self.visit(each)) is not None]
        return parts if len(parts) == len(expressions) else None


def _is_special(value: float | None) -> bool:
    return value is None or value == 0 or math.isnan(value)


def _all_comparable(expressions: Sequence[Expression]) -> bool:
    return all(_comparable(expressions[0], other) for other in expressions[1:])


def _comparable(left: Expression, right: Expression) -> bool:
    return _family(type_of(left)) == _family(type_of(right))


def _family(type: LogicalType) -> object:
    if type.id in INTEGER_RANGES:
        return "integer"
    return (type.id, type.width, type.scale)


_SIGNED: Final = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT"})
_ARITHMETIC: Final = frozenset({"+", "-", "*"})
_LENGTHS: Final = frozenset({"length", "len", "char_length", "character_length"})
_ESCAPE: Final = "!"


def spark_text_match(match: TextMatch, subject: str) -> str | None:
    """Match text; return ``None`` if Spark's LIKE may split characters in another way."""
    simple = match.simple()
    if simple is None:
        pattern = match.like(_ESCAPE)
        # Spark matches LIKE by UTF-16 units, DuckDB by characters.
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
    """Return a function of encoded arguments, ``None`` if its meaning differs."""
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
    """Return a cast of an encoded child, ``None`` if its meaning differs."""
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
    return f"{keyword}({child} AS {spark_cast_type(target)})"


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
    # BIGINT cannot overflow here; the type itself could, unlike in DuckDB, which moves constants.
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
