"""Filters written in Python.

    col("id") > 5
    (col("name").starts_with("a") | col("name").is_null()) & ~col("done")
    Filter.of(col("ts").between(start, end, upper_inclusive=False))

The result is a tree like that of the parser of DuckDB's JSON. A column has the type that `col` was
called with, or none; ``bind`` takes the types from a schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from lakeport.errors import InvalidArgumentError, UnsupportedError
from lakeport.filters.expressions import (
    Between,
    Case,
    CaseBranch,
    Cast,
    Coalesce,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Conjunction,
    Constant,
    Expression,
    Filter,
    FunctionCall,
    In,
    IsNull,
    Not,
    Unsupported,
    type_of,
)
from lakeport.filters.literals import lit
from lakeport.filters.visitor import Visitor
from lakeport.types import (
    BOOLEAN,
    INTEGER_RANGES,
    UNKNOWN,
    VARCHAR,
    LogicalType,
    compares_exactly,
    fold_name,
    from_arrow_type,
    is_infinite,
    preserves_value,
    to_float32,
)

__all__ = ["Term", "bind", "col"]


def col(name: str, type: LogicalType | pa.DataType | None = None) -> Term:
    """Return a column to build predicates with."""
    return Term(ColumnRef(name, UNKNOWN if type is None else _logical_type(type)))


def bind(filter: Filter, schema: pa.Schema, *, zoned_nanoseconds: bool = False) -> Filter:
    """Give columns without a type the one of the schema, and constants the type of their column.

    A constant keeps its own type if the column's cannot hold its value exactly. DuckDB 1.5 reads
    timestamps with a zone in microseconds, whatever their unit in Arrow; `zoned_nanoseconds` gives
    columns in nanoseconds the type TIMESTAMPTZ_NS instead, as DuckDB 2.0 does.
    """
    binder = _Binder(schema, zoned_nanoseconds=zoned_nanoseconds)
    return Filter(tuple(binder.visit(conjunct) for conjunct in filter.conjuncts))


class Term:
    """A value to build predicates with; comparisons return expressions."""

    __slots__ = ("expression",)

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    def __repr__(self) -> str:
        return f"Term({self.expression!r})"

    def __hash__(self) -> int:
        return hash(self.expression)

    def __eq__(self, other: object) -> Comparison:  # type: ignore[override]
        return self._compare(ComparisonOp.EQUAL, other)

    def __ne__(self, other: object) -> Comparison:  # type: ignore[override]
        return self._compare(ComparisonOp.NOT_EQUAL, other)

    def __lt__(self, other: Any) -> Comparison:
        return self._compare(ComparisonOp.LESS, other)

    def __le__(self, other: Any) -> Comparison:
        return self._compare(ComparisonOp.LESS_OR_EQUAL, other)

    def __gt__(self, other: Any) -> Comparison:
        return self._compare(ComparisonOp.GREATER, other)

    def __ge__(self, other: Any) -> Comparison:
        return self._compare(ComparisonOp.GREATER_OR_EQUAL, other)

    def __and__(self, other: Term | Expression) -> Conjunction:
        return self.expression & _expression(other)

    def __rand__(self, other: Expression) -> Conjunction:
        return other & self.expression

    def __or__(self, other: Term | Expression) -> Conjunction:
        return self.expression | _expression(other)

    def __ror__(self, other: Expression) -> Conjunction:
        return other | self.expression

    def __invert__(self) -> Not:
        return Not(self.expression)

    def __bool__(self) -> bool:
        return bool(self.expression)

    def is_distinct_from(self, other: Any) -> Comparison:
        """Return ``IS DISTINCT FROM other``: unequal, where NULL equals NULL."""
        return self._compare(ComparisonOp.DISTINCT, other)

    def is_not_distinct_from(self, other: Any) -> Comparison:
        """Return ``IS NOT DISTINCT FROM other``: equal, where NULL equals NULL."""
        return self._compare(ComparisonOp.NOT_DISTINCT, other)

    def is_null(self) -> IsNull:
        """Return ``IS NULL``."""
        return IsNull(self.expression)

    def is_not_null(self) -> IsNull:
        """Return ``IS NOT NULL``."""
        return IsNull(self.expression, negated=True)

    def is_in(self, items: Iterable[Any]) -> In:
        """Return ``IN (items)``."""
        probe, *values = self._with(*items)
        return In(probe, tuple(values))

    def is_not_in(self, items: Iterable[Any]) -> In:
        """Return ``NOT IN (items)``."""
        probe, *values = self._with(*items)
        return In(probe, tuple(values), negated=True)

    def between(
        self, lower: Any, upper: Any, *, lower_inclusive: bool = True, upper_inclusive: bool = True
    ) -> Between:
        """Return ``BETWEEN lower AND upper``; both bounds are inclusive by default."""
        value, low, high = self._with(lower, upper)
        return Between(
            value,
            low,
            high,
            lower_inclusive=lower_inclusive,
            upper_inclusive=upper_inclusive,
        )

    def starts_with(self, prefix: str) -> FunctionCall:
        """Return the predicate that the text begins with another."""
        return self._text_function("prefix", prefix)

    def ends_with(self, suffix: str) -> FunctionCall:
        """Return the predicate that the text ends with another."""
        return self._text_function("suffix", suffix)

    def contains(self, part: str) -> FunctionCall:
        """Return the predicate that the text contains another."""
        return self._text_function("contains", part)

    def like(self, pattern: str, *, escape: str | None = None) -> FunctionCall:
        """Return ``LIKE pattern``, with ``ESCAPE escape`` if given."""
        if escape is not None:
            return self._text_function("like_escape", pattern, escape)
        return self._text_function("~~", pattern, is_operator=True)

    def field(self, name: str) -> Term:
        """Return a member of a struct."""
        type = next((f.type for f in type_of(self.expression).fields if f.name == name), UNKNOWN)
        key = Constant(name, VARCHAR)
        return Term(FunctionCall("struct_extract", (self.expression, key), return_type=type))

    def cast(self, type: LogicalType | pa.DataType, *, try_cast: bool = False) -> Term:
        """Return the value cast to another type."""
        return Term(Cast(self.expression, _logical_type(type), try_cast=try_cast))

    def _compare(self, op: ComparisonOp, other: Any) -> Comparison:
        left, right = self._with(other)
        return Comparison(op, left, right)

    def _with(self, *others: Any) -> tuple[Expression, ...]:
        operands = (_expression(o) if isinstance(o, Term | Expression) else lit(o) for o in others)
        return _unify_types(self.expression, *operands)

    def _text_function(self, name: str, *texts: str, is_operator: bool = False) -> FunctionCall:
        subject = self.expression
        if isinstance(subject, ColumnRef) and subject.type == UNKNOWN:
            subject = ColumnRef(subject.name, VARCHAR)
        arguments = (subject, *(Constant(text, VARCHAR) for text in texts))
        return FunctionCall(name, arguments, return_type=BOOLEAN, is_operator=is_operator)


class _Binder(Visitor[Expression]):
    """Rebuilds a tree with the types of a schema."""

    def __init__(self, schema: pa.Schema, *, zoned_nanoseconds: bool) -> None:
        self._schema = schema
        self._zoned_nanoseconds = zoned_nanoseconds

    def visit_column_ref(self, expression: ColumnRef) -> Expression:
        index = self._schema.get_field_index(expression.name)
        if expression.type != UNKNOWN or index < 0:
            return expression
        type = self._schema.field(index).type
        if self._zoned_nanoseconds and type == pa.timestamp("ns", "UTC"):
            return ColumnRef(expression.name, _ZONED_NANOSECONDS)
        return ColumnRef(expression.name, from_arrow_type(type))

    def visit_constant(self, expression: Constant) -> Expression:
        return expression

    def visit_comparison(self, expression: Comparison) -> Expression:
        left, right = _unify_types(*self._all((expression.left, expression.right)))
        return Comparison(expression.op, left, right)

    def visit_conjunction(self, expression: Conjunction) -> Expression:
        return Conjunction(expression.op, self._all(expression.children))

    def visit_between(self, expression: Between) -> Expression:
        operands = (expression.input, expression.lower, expression.upper)
        value, lower, upper = _unify_types(*self._all(operands))
        return Between(value, lower, upper, expression.lower_inclusive, expression.upper_inclusive)

    def visit_in(self, expression: In) -> Expression:
        probe, *items = _unify_types(*self._all((expression.probe, *expression.items)))
        return In(probe, tuple(items), negated=expression.negated)

    def visit_not(self, expression: Not) -> Expression:
        return Not(self.visit(expression.child))

    def visit_is_null(self, expression: IsNull) -> Expression:
        return IsNull(self.visit(expression.child), negated=expression.negated)

    def visit_coalesce(self, expression: Coalesce) -> Expression:
        return Coalesce(_unify_types(*self._all(expression.children), as_result=True))

    def visit_function_call(self, expression: FunctionCall) -> Expression:
        call = expression
        arguments = self._all(call.arguments)
        type = call.return_type if call.return_type != UNKNOWN else _member_type(call, arguments)
        return FunctionCall(call.name, arguments, type, call.is_operator, call.catalog, call.schema)

    def visit_cast(self, expression: Cast) -> Expression:
        return Cast(self.visit(expression.child), expression.type, try_cast=expression.try_cast)

    def visit_case(self, expression: Case) -> Expression:
        branches = (CaseBranch(self.visit(b.when), self.visit(b.then)) for b in expression.branches)
        return Case(tuple(branches), self.visit(expression.otherwise))

    def visit_unsupported(self, expression: Unsupported) -> Expression:
        return expression

    def _all(self, expressions: Iterable[Expression]) -> tuple[Expression, ...]:
        return tuple(self.visit(expression) for expression in expressions)


def _member_type(call: FunctionCall, arguments: Sequence[Expression]) -> LogicalType:
    """Return the type of a member of a struct, UNKNOWN for the results of other functions."""
    if not call.is_builtin or call.name.lower() not in _MEMBERS or len(arguments) != 2:
        return UNKNOWN
    subject, key = arguments
    name = key.value if isinstance(key, Constant) else None
    if not isinstance(name, str):
        return UNKNOWN
    fields = type_of(subject).fields if type_of(subject).id == "STRUCT" else ()
    found = [f.type for f in fields if fold_name(f.name) == fold_name(name)]
    return found[0] if len(found) == 1 else UNKNOWN


def _expression(value: Term | Expression) -> Expression:
    return value.expression if isinstance(value, Term) else value


def _logical_type(type: LogicalType | pa.DataType) -> LogicalType:
    match type:
        case LogicalType():
            return type
        case pa.DataType():
            return from_arrow_type(type)
    raise InvalidArgumentError(
        f"{type!r} is not a type: give an Arrow type such as pa.string(), or a LogicalType"
    )


def _unify_types(*operands: Expression, as_result: bool = False) -> tuple[Expression, ...]:
    """Return operands as DuckDB compares them: constants in the type of the first other operand.

    DuckDB compares a BIGINT or a DECIMAL with a DOUBLE as two DOUBLEs. Where the result depends on
    that, or if the operands are a result themselves, the others are cast to the float type.
    """
    types = [type_of(e) for e in operands if not isinstance(e, Constant)]
    type = types[0] if types else UNKNOWN
    floating = next((t for t in _FLOATS if t in map(type_of, operands)), None)
    numbers = [e for e in operands if isinstance(e, Constant) and _is_number(e.value)]
    exact = [n for n in numbers if _is_exact(n.type)]
    if floating is not None and numbers:
        cast = {
            t
            for t in types
            if _is_exact(t)
            if not preserves_value(t, floating)
            if as_result or not all(compares_exactly(n.value, t, floating) for n in numbers)
        }
        # Beside a DOUBLE, a number that no FLOAT equals must not be rounded to a FLOAT.
        if type != floating and type in _FLOATS and any(_coerced(n, type) is n for n in exact):
            cast.add(type)
        type = floating if type in cast else type
        operands = tuple(
            Cast(e, floating) if type_of(e) in cast and not isinstance(e, Constant) else e
            for e in operands
        )
    return tuple(_coerced(e, type) if isinstance(e, Constant) else e for e in operands)


def _is_exact(type: LogicalType) -> bool:
    return type.id == "DECIMAL" or type.id in INTEGER_RANGES


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def _coerced(constant: Constant, type: LogicalType) -> Constant:
    value = constant.value
    if constant.type == type or type == UNKNOWN:
        return constant
    if value is None:
        return Constant(None, type)
    if type == _ZONED_NANOSECONDS:
        return _in_nanoseconds(constant)
    try:
        return lit(_converted(value, type), type) if isinstance(value, _NUMBERS) else constant
    except UnsupportedError:
        return constant


_NUMBERS = (int, float, Decimal)
_MEMBERS = frozenset({"struct_extract", "array_extract"})
_FLOATS = (LogicalType("DOUBLE"), LogicalType("FLOAT"))
_ZONED_NANOSECONDS = LogicalType("TIMESTAMPTZ_NS")


def _in_nanoseconds(constant: Constant) -> Constant:
    if constant.type.id != "TIMESTAMP WITH TIME ZONE":
        return constant
    infinite = is_infinite(constant.value, constant.type)
    try:
        return lit(constant.value * (1 if infinite else 1000), _ZONED_NANOSECONDS)
    except UnsupportedError:
        return constant  # outside of the years 1677 to 2262, which nanoseconds can count


def _converted(value: Any, type: LogicalType) -> Any:
    numeric = _is_exact(type) or type in _FLOATS
    if isinstance(value, bool) or not numeric:
        raise UnsupportedError("not a number")
    try:
        if type.id in ("FLOAT", "DOUBLE"):
            number: Any = to_float32(float(value)) if type.id == "FLOAT" else float(value)
            exact = number != number or Fraction(number) == Fraction(value)
        else:
            number = int(value) if type.id in INTEGER_RANGES else Decimal(value)
            exact = Fraction(number) == Fraction(value)
    except (OverflowError, ValueError, ArithmeticError) as error:
        raise UnsupportedError("not representable") from error
    if not exact:
        raise UnsupportedError("not representable")
    return number
