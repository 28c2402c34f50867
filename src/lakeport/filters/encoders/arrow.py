"""A filter as a pyarrow compute expression for data of a known schema.

Constants are written in the types of the schema, so that Arrow never has to compare two types that
it cannot compare. Predicates that cannot be written in the column's type are dropped.

Arrow's Parquet readers skip row groups by statistics without NaN. Therefore the encoder drops
predicates on floating point columns that are true for NaN (in DuckDB, NaN equals itself and is
greater than all numbers), unless ``in_memory`` promises that the data is in memory.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.filters.encoders.arrow_comparisons import (
    ArrowOperand,
    compare,
    compare_operands,
    constant_scalar,
    is_exact_in_duckdb,
    is_floating,
    is_in,
    is_text,
    match_text,
    normalized,
    null_boolean,
)
from lakeport.filters.encoders.base import WideningEncoder
from lakeport.filters.encoders.text_match import text_match
from lakeport.filters.expressions import (
    Between,
    Case,
    Cast,
    Coalesce,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Conjunction,
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
from lakeport.types import BOOLEAN, always_succeeds, preserves_value

__all__ = ["ArrowEncoder", "to_arrow"]

_FALSE_FOR_NAN: Final = frozenset(
    {ComparisonOp.EQUAL, ComparisonOp.LESS, ComparisonOp.LESS_OR_EQUAL}
)
_LENGTHS: Final = frozenset({"length", "len", "char_length", "character_length"})
_MEMBERS: Final = frozenset({"struct_extract", "array_extract"})


def to_arrow(
    filter: Filter,
    schema: pa.Schema,
    *,
    column_mapping: Mapping[str, str] | None = None,
    in_memory: bool = False,
) -> pc.Expression | None:
    """Return the filter as an Arrow expression, ``None`` if nothing of it can be expressed."""
    return ArrowEncoder(schema, column_mapping=column_mapping, in_memory=in_memory).encode(filter)


class ArrowEncoder(WideningEncoder[ArrowOperand]):
    """Writes filters as expressions for data of ``schema``.

    ``column_mapping`` renames columns; predicates on columns that the schema lacks are dropped.
    ``in_memory`` promises that no reader will skip row groups by statistics because of the
    expression, and gives tighter expressions for floating point columns. Columns of the schema in
    ``without_nan`` have no NaN, so statistics show all of their values.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        column_mapping: Mapping[str, str] | None = None,
        in_memory: bool = False,
        without_nan: Collection[str] = (),
    ) -> None:
        self._schema = schema
        self._mapping = dict(column_mapping or {})
        self._in_memory = in_memory
        self._without_nan = frozenset(without_nan)

    def encode(self, filter: Filter) -> pc.Expression | None:
        """Return an expression that keeps at least the rows of the filter, or ``None``."""
        encoded = self.widened_filter(filter)
        return None if encoded is None else encoded.expression

    def encode_expression(self, expression: Expression) -> pc.Expression | None:
        """Return the expression without widening; ``None`` if it cannot be expressed exactly."""
        encoded = self.visit(expression)
        return None if encoded is None else encoded.expression

    def join(self, op: ConjunctionOp, parts: Sequence[ArrowOperand]) -> ArrowOperand:
        """Join predicates by Kleene's AND or OR."""
        join = pc.Expression.__and__ if op is ConjunctionOp.AND else pc.Expression.__or__
        return _boolean(reduce(join, (part.expression for part in parts)))

    def predicate(self, expression: Expression) -> ArrowOperand | None:
        """Return the exact encoding, or a simpler one that is true for the same rows."""
        match expression:
            case Comparison(op, ColumnRef() as column, Constant() as bound):
                if op in _FALSE_FOR_NAN and not _is_nan(bound):
                    operand = self.visit(column)
                    return None if operand is None else _optional(compare(op, operand, bound))
            case Between(ColumnRef(), Constant() as low, Constant() as high):
                if not _is_nan(low) and not _is_nan(high):
                    return self._between_bounds(expression)
            case In(_, items) if items and all(isinstance(item, Constant) for item in items):
                return self._in_constants(expression, exact=False)
        return self._visit_boolean(expression)

    def visit_column_ref(self, expression: ColumnRef) -> ArrowOperand | None:
        """Return a column of the schema, in a type that Arrow can compare."""
        name = self._mapping.get(expression.name, expression.name)
        indices = self._schema.get_all_field_indices(name)
        if len(indices) != 1:
            return None
        column = ArrowOperand(
            pc.field(name), self._schema.field(indices[0]).type, expression.type, path=(name,)
        )
        return normalized(column)

    def visit_constant(self, expression: Constant) -> ArrowOperand | None:
        """Return a boolean. Other constants are encoded in the type of the compared column."""
        if expression.type.id != "BOOLEAN":
            return None
        return _boolean(pc.scalar(pa.scalar(expression.value, pa.bool_())))

    def visit_comparison(self, expression: Comparison) -> ArrowOperand | None:
        """Compare a value with a constant, or two columns of one type."""
        match expression:
            case Comparison(op, Constant() as constant, other) if not isinstance(other, Constant):
                return self.visit_comparison(Comparison(op.flipped, other, constant))
            case Comparison(op, left, Constant() as constant):
                operand = self.visit(left)
                if operand is None or (self._hides_nan(operand) and constant.value is not None):
                    return None
                may_be_nan = not self._is_without_nan(operand)
                return _optional(compare(op, operand, constant, check_nan=may_be_nan))
            case Comparison(op, left, right):
                first, second = self.visit(left), self.visit(right)
                if first is None or second is None:
                    return None
                return _optional(compare_operands(op, first, second))

    def visit_conjunction(self, expression: Conjunction) -> ArrowOperand | None:
        """Join children by AND or OR if all of them are exact."""
        parts = [
            p for child in expression.children if (p := self._visit_boolean(child)) is not None
        ]
        return self._join(expression.op, parts) if len(parts) == len(expression.children) else None

    def visit_between(self, expression: Between) -> ArrowOperand | None:
        """Encode BETWEEN as two comparisons."""
        return self.visit_conjunction(Conjunction(ConjunctionOp.AND, expression.as_comparisons()))

    def visit_in(self, expression: In) -> ArrowOperand | None:
        """Encode IN as a lookup among constants, or as a chain of comparisons."""
        if not expression.items:
            # No value is in an empty list, not even NULL.
            return _boolean(pc.scalar(expression.negated))
        if all(isinstance(item, Constant) for item in expression.items):
            return self._in_constants(expression, exact=True)
        equal = (
            Comparison(ComparisonOp.EQUAL, expression.probe, item) for item in expression.items
        )
        chain: Expression = Conjunction(ConjunctionOp.OR, tuple(equal))
        return self.visit(Not(chain) if expression.negated else chain)

    def visit_not(self, expression: Not) -> ArrowOperand | None:
        """Negate a boolean."""
        child = self._visit_boolean(expression.child)
        return None if child is None else _boolean(~child.expression)

    def visit_is_null(self, expression: IsNull) -> ArrowOperand | None:
        """Test for NULL."""
        child = self.visit(expression.child)
        if (
            child is None
            or pa.types.is_union(child.type)
            or pa.types.is_run_end_encoded(child.type)
        ):
            return None
        column = child.expression
        return _boolean(column.is_valid() if expression.negated else column.is_null())

    def visit_coalesce(self, expression: Coalesce) -> ArrowOperand | None:
        """Return the first value that is not NULL, of values of one type."""
        values = self._unified(expression.children)
        if values is None:
            return None
        first = values[0]
        return ArrowOperand(pc.coalesce(*(v.expression for v in values)), first.type, first.logical)

    def visit_cast(self, expression: Cast) -> ArrowOperand | None:
        """Return the operand of a cast that does not change the value."""
        source, target = type_of(expression.child), expression.type
        if not preserves_value(source, target):
            return None
        if expression.try_cast and not always_succeeds(source, target):
            return None
        child = self.visit(expression.child)
        if child is None or not is_exact_in_duckdb(child):
            return None
        return ArrowOperand(child.expression, child.type, target, child.path)

    def visit_case(self, expression: Case) -> ArrowOperand | None:
        """Encode a CASE with results of one type."""
        conditions = [self._visit_boolean(branch.when) for branch in expression.branches]
        encoded = [condition.expression for condition in conditions if condition is not None]
        values = self._unified([*(b.then for b in expression.branches), expression.otherwise])
        if values is None or not encoded or len(encoded) < len(conditions):
            return None
        value = pc.case_when(pc.make_struct(*encoded), *(value.expression for value in values))
        return ArrowOperand(value, values[0].type, values[0].logical)

    def visit_function_call(self, expression: FunctionCall) -> ArrowOperand | None:
        """Encode a match of text, the length of a text, or a member of a struct."""
        match = text_match(expression)
        if match is not None:
            subject = self.visit(match.subject)
            return None if subject is None else _optional(match_text(match, subject))
        if not expression.is_builtin or not expression.arguments:
            return None
        name, operand = expression.name.lower(), self.visit(expression.arguments[0])
        if operand is None:
            return None
        if name in _LENGTHS and len(expression.arguments) == 1 and is_text(operand.type):
            length = pc.utf8_length(operand.expression)
            type = pa.int32() if pa.types.is_string(operand.type) else pa.int64()
            return ArrowOperand(length, type, expression.return_type)
        return _member(expression, operand) if name in _MEMBERS else None

    def _visit_boolean(self, expression: Expression) -> ArrowOperand | None:
        operand = self.visit(expression)
        return operand if operand is not None and pa.types.is_boolean(operand.type) else None

    def _hides_nan(self, operand: ArrowOperand) -> bool:
        hides = is_floating(operand.type) and not self._in_memory
        return hides and not self._is_without_nan(operand)

    def _is_without_nan(self, operand: ArrowOperand) -> bool:
        return len(operand.path) == 1 and operand.path[0] in self._without_nan

    def _between_bounds(self, expression: Between) -> ArrowOperand | None:
        operand = self.visit(expression.input)
        low, high = expression.as_comparisons()
        parts = []
        for comparison in (low, high):
            bound = comparison.right
            if operand is None or not isinstance(bound, Constant):
                return None
            part = compare(comparison.op, operand, bound, check_nan=False)
            if part is None:
                return None
            parts.append(_boolean(part))
        return self.join(ConjunctionOp.AND, parts)

    def _in_constants(self, expression: In, *, exact: bool) -> ArrowOperand | None:
        constants = [item for item in expression.items if isinstance(item, Constant)]
        present = [constant for constant in constants if constant.value is not None]
        has_null = len(present) < len(constants)
        operand = self.visit(expression.probe)
        if operand is None or (self._hides_nan(operand) and (exact or expression.negated)):
            return None
        if self._hides_nan(operand) and any(_is_nan(constant) for constant in present):
            return None
        matches = is_in(operand, present)
        if matches is None:
            return None
        result = ~matches if expression.negated else matches
        if not exact and not expression.negated:
            return _boolean(matches)
        if not exact and not has_null:
            return _boolean(operand.expression.is_valid() & result)
        decided = matches if has_null else operand.expression.is_valid()
        return _boolean(pc.if_else(decided, result, null_boolean()))

    def _unified(self, expressions: Sequence[Expression]) -> list[ArrowOperand] | None:
        operands = {e: self.visit(e) for e in expressions if not isinstance(e, Constant)}
        model = next(iter(operands.values()), None)
        if model is None:
            model = _constant_model(expressions)
        values = [
            _fitted(e, model) if isinstance(e, Constant) else operands[e] for e in expressions
        ]
        encoded = [value for value in values if value is not None]
        if (
            model is None
            or len(encoded) < len(values)
            or any(v.type != model.type for v in encoded)
        ):
            return None
        return encoded if not pa.types.is_nested(model.type) else None


def _boolean(expression: pc.Expression) -> ArrowOperand:
    return ArrowOperand(expression, pa.bool_(), BOOLEAN)


def _optional(expression: pc.Expression | None) -> ArrowOperand | None:
    return None if expression is None else _boolean(expression)


def _is_nan(constant: Constant) -> bool:
    return isinstance(constant.value, float) and math.isnan(constant.value)


def _constant_model(expressions: Sequence[Expression]) -> ArrowOperand | None:
    kinds = {type_of(expression).id for expression in expressions}
    return _boolean(null_boolean()) if kinds == {"BOOLEAN"} else None


def _fitted(constant: Constant, model: ArrowOperand | None) -> ArrowOperand | None:
    scalar = None if model is None else constant_scalar(constant, model)
    if scalar is None or model is None:
        return None
    return ArrowOperand(pc.scalar(scalar), model.type, model.logical)


def _member(call: FunctionCall, operand: ArrowOperand) -> ArrowOperand | None:
    if len(call.arguments) != 2 or not operand.path or not pa.types.is_struct(operand.type):
        return None
    key = call.arguments[1]
    name = key.value if isinstance(key, Constant) else None
    if not isinstance(name, str) or len(operand.type.get_all_field_indices(name)) != 1:
        return None
    path = (*operand.path, name)
    member = operand.type.field(name).type
    return normalized(ArrowOperand(pc.field(path), member, call.return_type, path))
