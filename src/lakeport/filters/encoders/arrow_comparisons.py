"""Compare Arrow columns with constants, with the results of DuckDB: true, false or NULL."""

from __future__ import annotations

import math
import operator
import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.filters.encoders.arrow_placement import (
    Placement,
    is_discrete,
    keeps_order,
    place_constant,
)
from lakeport.filters.encoders.text_match import TextMatch
from lakeport.filters.expressions import ComparisonOp, Constant
from lakeport.types import LogicalType, compares_exactly, from_arrow_type

__all__ = [
    "ArrowOperand",
    "compare",
    "compare_operands",
    "constant_scalar",
    "is_exact_in_duckdb",
    "is_floating",
    "is_in",
    "is_text",
    "match_text",
    "normalized",
    "null_boolean",
]


@dataclass(frozen=True, slots=True)
class ArrowOperand:
    """An encoded value: its expression, its Arrow type, and its type in DuckDB.

    ``path`` is set for an unchanged column, or an unchanged member of a struct column.
    """

    expression: pc.Expression
    type: pa.DataType
    logical: LogicalType
    path: tuple[str, ...] = ()


def null_boolean() -> pc.Expression:
    """Return a NULL of type boolean."""
    return pc.scalar(pa.scalar(None, pa.bool_()))


def is_floating(type: pa.DataType) -> bool:
    """Return whether the type has NaN."""
    return bool(pa.types.is_floating(type))


def is_text(type: pa.DataType) -> bool:
    """Return whether Arrow has string functions for the type."""
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type))


def normalized(operand: ArrowOperand) -> ArrowOperand:
    """Return the same values in a type that Arrow can compare, if there is one."""
    target = _comparable_type(operand.type)
    if target == operand.type:
        return operand
    return replace(operand, expression=operand.expression.cast(target), type=target)


def is_exact_in_duckdb(operand: ArrowOperand) -> bool:
    """Return whether DuckDB compares the values as they are, not rounded to its own type."""
    if is_discrete(operand.type):
        return keeps_order(operand.type, operand.logical)
    return not is_floating(operand.type) or not _rounds(operand)


def compare(
    op: ComparisonOp, operand: ArrowOperand, constant: Constant, *, check_nan: bool = True
) -> pc.Expression | None:
    """Return ``operand op constant``, ``None`` if Arrow cannot compare them exactly.

    ``check_nan`` may be false where another condition excludes NaN.
    """
    column = operand.expression
    if constant.value is None:
        return _NULL_COMPARISONS.get(op, lambda _: null_boolean())(column)
    if op is ComparisonOp.NOT_DISTINCT:
        equal = compare(ComparisonOp.EQUAL, operand, constant)
        return None if equal is None else column.is_valid() & equal
    if op is ComparisonOp.DISTINCT:
        unequal = compare(ComparisonOp.NOT_EQUAL, operand, constant)
        return None if unequal is None else column.is_null() | unequal
    if is_discrete(operand.type):
        placed = _place(constant, operand)
        return None if placed is None else _compare_placed(op, column, placed)
    if is_floating(operand.type):
        return _compare_float(op, operand, constant, check_nan=check_nan)
    scalar = constant_scalar(constant, operand)
    return None if scalar is None else _OPERATORS[op](column, scalar)


def compare_operands(
    op: ComparisonOp, left: ArrowOperand, right: ArrowOperand
) -> pc.Expression | None:
    """Compare two columns of one type; return ``None`` if that could differ from DuckDB."""
    if op not in _OPERATORS or left.type != right.type or is_floating(left.type):
        return None
    if (
        not is_exact_in_duckdb(left)
        or not is_exact_in_duckdb(right)
        or not _is_comparable(left.type)
    ):
        return None
    same = is_discrete(left.type) or left.logical.id == right.logical.id
    return _OPERATORS[op](left.expression, right.expression) if same else None


def constant_scalar(constant: Constant, operand: ArrowOperand) -> pa.Scalar | None:
    """Return the constant in the operand's Arrow type, ``None`` if it has no such value."""
    value, type, logical = constant.value, operand.type, operand.logical.id
    if value is None:
        return pa.scalar(None, type)
    if is_discrete(type):
        placed = _place(constant, operand)
        return placed.value if placed is not None and placed.position == "at" else None
    if is_floating(type):
        number = _exact_float(value)
        fits = number is not None and (type == pa.float64() or _fits_float32(number))
        return pa.scalar(number, type) if fits and is_exact_in_duckdb(operand) else None
    if pa.types.is_boolean(type):
        return pa.scalar(value) if isinstance(value, bool) else None
    if is_text(type) and logical in ("VARCHAR", "ENUM", "UNKNOWN"):
        return (
            pa.scalar(value, type) if isinstance(value, str) and constant.type.id != "BIT" else None
        )
    if _is_binary(type) and logical in ("BLOB", "UUID", "UNKNOWN"):
        raw = value.bytes if isinstance(value, uuid.UUID) else value
        plain = (
            isinstance(raw, bytes)
            and constant.type.id in ("BLOB", "UUID")
            and not constant.type.alias
        )
        return pa.scalar(raw, type) if plain else None
    return None


def is_in(operand: ArrowOperand, constants: Sequence[Constant]) -> pc.Expression | None:
    """Test if the value is one of the constants, none of them NULL; false for a NULL value."""
    if _has_no_lookup(operand.type):
        return None
    values = []
    for constant in constants:
        scalar = constant_scalar(constant, operand)
        if scalar is not None:
            values.append(scalar)
        elif compare(ComparisonOp.EQUAL, operand, constant) is None:
            return None
    # Arrow looks up floating point numbers by their bits, and NaN has several.
    numbers = [value for value in values if not _is_nan(value)]
    matches = operand.expression.isin(_array(numbers, operand.type))
    if len(numbers) == len(values):
        return matches
    return matches | (operand.expression.is_valid() & pc.is_nan(operand.expression))


def match_text(match: TextMatch, operand: ArrowOperand) -> pc.Expression | None:
    """Match text."""
    if not is_text(operand.type) or operand.logical.id not in ("VARCHAR", "UNKNOWN"):
        return None
    column, simple = operand.expression, match.simple()
    if simple is None:
        matched = pc.match_like(column, match.like("\\"))
    elif simple.kind == "equals":
        matched = column == pa.scalar(simple.text, operand.type)
    else:
        matched = _SEARCHES[simple.kind](column, simple.text)
    return ~matched if match.negated else matched


def _place(constant: Constant, operand: ArrowOperand) -> Placement | None:
    if not is_exact_in_duckdb(operand):
        return None
    # DuckDB compares with a float as floats, where several values of the column may be equal.
    is_float, type = constant.type.id in ("FLOAT", "DOUBLE"), from_arrow_type(operand.type)
    if is_float and not compares_exactly(constant.value, type, constant.type):
        return None
    return place_constant(constant, operand.type)


def _compare_placed(op: ComparisonOp, column: pc.Expression, placed: Placement) -> pc.Expression:
    value = placed.value
    always, never = (column <= value) | (column > value), (column < value) & (column > value)
    if placed.position == "at":
        return _OPERATORS[op](column, value)
    if op in (ComparisonOp.EQUAL, ComparisonOp.NOT_EQUAL):
        return never if op is ComparisonOp.EQUAL else always
    less = op in (ComparisonOp.LESS, ComparisonOp.LESS_OR_EQUAL)
    if placed.position == "between":
        return column <= value if less else column > value
    return always if less == (placed.position == "above") else never


def _compare_float(
    op: ComparisonOp, operand: ArrowOperand, constant: Constant, *, check_nan: bool
) -> pc.Expression | None:
    number = _exact_float(constant.value)
    if number is None or not is_exact_in_duckdb(operand) or operand.type == pa.float16():
        return None
    column = operand.expression
    if operand.type == pa.float32() and not _fits_float32(number):
        if constant.type.id != "DOUBLE":
            return None  # DuckDB rounds other numbers to FLOAT
        column = column.cast(pa.float64())
        value = pa.scalar(number, pa.float64())
    else:
        value = pa.scalar(number, operand.type)
    is_nan = pc.is_nan(column)
    if math.isnan(number):
        return _NAN_COMPARISONS[op](is_nan)
    compared = _OPERATORS[op](column, value)
    greater = op in (ComparisonOp.GREATER, ComparisonOp.GREATER_OR_EQUAL)
    return compared | is_nan if greater and check_nan else compared


def _exact_float(value: Any) -> float | None:
    if isinstance(value, float):
        return value
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and Fraction(number) == Fraction(value) else None


def _fits_float32(number: float) -> bool:
    if not math.isfinite(number):
        return True
    try:
        return bool(struct.unpack("<f", struct.pack("<f", number))[0] == number)
    except OverflowError:
        return False


def _rounds(operand: ArrowOperand) -> bool:
    # DuckDB rounds the values to the declared type.
    if operand.logical.id == "UNKNOWN":
        return False
    return operand.logical.id not in ("FLOAT", "DOUBLE") or (
        operand.logical.id == "FLOAT" and operand.type != pa.float32()
    )


def _comparable_type(type: pa.DataType) -> pa.DataType:
    if isinstance(type, pa.BaseExtensionType):
        return _EXTENSIONS.get(type.extension_name, type)
    if pa.types.is_dictionary(type):
        return _comparable_type(type.value_type)
    if pa.types.is_fixed_size_binary(type):
        return pa.binary()
    return {"string_view": pa.large_string(), "binary_view": pa.large_binary()}.get(str(type), type)


def _is_comparable(type: pa.DataType) -> bool:
    return is_discrete(type) or is_text(type) or _is_binary(type) or bool(pa.types.is_boolean(type))


def _is_binary(type: pa.DataType) -> bool:
    fixed = pa.types.is_fixed_size_binary(type)
    return bool(fixed or pa.types.is_binary(type) or pa.types.is_large_binary(type))


def _has_no_lookup(type: pa.DataType) -> bool:
    return bool(pa.types.is_decimal32(type) or pa.types.is_decimal64(type))


def _array(values: Sequence[pa.Scalar], type: pa.DataType) -> pa.Array:
    # Arrow looks up values by their bits, but -0.0 equals 0.0.
    zeros = [pa.scalar(-value.as_py(), value.type) for value in values if _is_zero(value)]
    return pa.array([*values, *zeros], type)


def _is_nan(value: pa.Scalar) -> bool:
    return is_floating(value.type) and math.isnan(value.as_py())


def _is_zero(value: pa.Scalar) -> bool:
    return is_floating(value.type) and value.as_py() == 0


_Comparison = Callable[[Any, Any], pc.Expression]

_OPERATORS: Final[dict[ComparisonOp, _Comparison]] = {
    ComparisonOp.EQUAL: operator.eq,
    ComparisonOp.NOT_EQUAL: operator.ne,
    ComparisonOp.LESS: operator.lt,
    ComparisonOp.LESS_OR_EQUAL: operator.le,
    ComparisonOp.GREATER: operator.gt,
    ComparisonOp.GREATER_OR_EQUAL: operator.ge,
}

_NULL_COMPARISONS: Final[dict[ComparisonOp, Callable[[pc.Expression], pc.Expression]]] = {
    ComparisonOp.DISTINCT: lambda column: column.is_valid(),
    ComparisonOp.NOT_DISTINCT: lambda column: column.is_null(),
}

_NAN_COMPARISONS: Final[dict[ComparisonOp, Callable[[pc.Expression], pc.Expression]]] = {
    ComparisonOp.EQUAL: lambda is_nan: is_nan,
    ComparisonOp.NOT_EQUAL: lambda is_nan: ~is_nan,
    ComparisonOp.LESS: lambda is_nan: ~is_nan,
    ComparisonOp.LESS_OR_EQUAL: lambda is_nan: is_nan | ~is_nan,
    ComparisonOp.GREATER: lambda is_nan: is_nan & ~is_nan,
    ComparisonOp.GREATER_OR_EQUAL: lambda is_nan: is_nan,
}

_SEARCHES: Final[dict[str, _Comparison]] = {
    "prefix": pc.starts_with,
    "suffix": pc.ends_with,
    "contains": pc.match_substring,
}

_EXTENSIONS: Final[dict[str, pa.DataType]] = {
    "arrow.uuid": pa.binary(16),
    "arrow.bool8": pa.bool_(),
    "arrow.json": pa.string(),
}
