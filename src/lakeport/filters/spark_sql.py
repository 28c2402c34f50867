"""A filter as the condition of a Spark DataFrame.

Columns are expected with the Spark type that holds their DuckDB type: TIMESTAMP as
``timestamp_ntz``, UBIGINT as ``decimal(20,0)``, and so on (``spark_literals``). Predicates on
types without such a counterpart are dropped, but for IS NULL.

Spark agrees with DuckDB on NaN and on -0.0, its Parquet reader does not: it skips row groups by
statistics and dictionaries that know neither. Floating point columns are therefore hidden from it
in ``nanvl``, except where no row can be lost.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

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
from lakeport.filters.spark_functions import spark_cast, spark_function, spark_text_match
from lakeport.filters.spark_literals import has_spark_type, spark_identifier, spark_literal
from lakeport.filters.sql import SqlEncoder
from lakeport.filters.text_match import text_match
from lakeport.filters.types import LogicalType
from lakeport.filters.values import INTEGER_RANGES

__all__ = ["SparkEncoder", "to_spark_sql"]

_FLOATING = frozenset({"FLOAT", "DOUBLE"})
_READER_AGREES = frozenset(
    {ComparisonOp.EQUAL, ComparisonOp.LESS, ComparisonOp.LESS_OR_EQUAL}
)  # none of these is true for NaN


def to_spark_sql(
    filter: Filter,
    *,
    column_mapping: Mapping[str, str] | None = None,
    column_expressions: Mapping[str, str] | None = None,
    columns: Collection[str] | None = None,
) -> str:
    """The filter as Spark SQL, ``""`` if nothing of it can be expressed."""
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
        """A name that cannot leave its place."""
        return spark_identifier(name)

    def predicate(self, expression: Expression) -> str | None:
        """The exact encoding, or one that the Parquet reader can use as well."""
        match expression:
            case Comparison(op, ColumnRef(), Constant()) if op in _READER_AGREES:
                return self._for_reader([expression]) or self.visit(expression)
            case Between():
                return self._for_reader(expression.as_comparisons()) or self.visit(expression)
            case _:
                return self.visit(expression)

    def visit_column_ref(self, expression: ColumnRef) -> str | None:
        """A column of a type that Spark has."""
        if not has_spark_type(expression.type):
            return None
        column = self.column(expression)
        if column is None or expression.type.id not in _FLOATING:
            return column
        return f"nanvl({column}, {column})"

    def visit_constant(self, expression: Constant) -> str | None:
        """A typed literal."""
        return spark_literal(expression.value, expression.type)

    def visit_comparison(self, expression: Comparison) -> str | None:
        """A comparison of values of one type."""
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
        """Two comparisons."""
        parts = self._all(expression.as_comparisons())
        return None if parts is None else self.joined(ConjunctionOp.AND, parts)

    def visit_in(self, expression: In) -> str | None:
        """IN with a list of values of the probe's type."""
        if not expression.items:
            return self.among_nothing(expression)
        parts = self._all((expression.probe, *expression.items))
        if parts is None:
            return None
        if not all(_comparable(expression.probe, item) for item in expression.items):
            return None
        keyword = "NOT IN" if expression.negated else "IN"
        return f"({parts[0]} {keyword} ({', '.join(parts[1:])}))"

    def visit_not(self, expression: Not) -> str | None:
        """NOT."""
        child = self.visit(expression.child)
        return None if child is None else f"(NOT {child})"

    def visit_is_null(self, expression: IsNull) -> str | None:
        """IS NULL or IS NOT NULL; a column's type does not matter."""
        child = expression.child
        sql = self.column(child) if isinstance(child, ColumnRef) else self.visit(child)
        return None if sql is None else f"({sql} IS {'NOT ' if expression.negated else ''}NULL)"

    def visit_coalesce(self, expression: Coalesce) -> str | None:
        """COALESCE of values of one type."""
        parts = self._all(expression.children)
        if not parts or not _all_comparable(expression.children):
            return None
        return f"COALESCE({', '.join(parts)})"

    def visit_cast(self, expression: Cast) -> str | None:
        """A cast that gives the same value in Spark."""
        child = self.visit(expression.child)
        return None if child is None else spark_cast(expression, child)

    def visit_case(self, expression: Case) -> str | None:
        """CASE with results of one type."""
        otherwise = self.visit(expression.otherwise)
        branches = [(self.visit(b.when), self.visit(b.then)) for b in expression.branches]
        if otherwise is None or not branches or any(None in branch for branch in branches):
            return None
        if not _all_comparable([*(b.then for b in expression.branches), expression.otherwise]):
            return None
        checks = " ".join(f"WHEN {when} THEN {then}" for when, then in branches)
        return f"(CASE {checks} ELSE {otherwise} END)"

    def visit_function_call(self, expression: FunctionCall) -> str | None:
        """A match of text, or one of the few functions that mean the same."""
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
