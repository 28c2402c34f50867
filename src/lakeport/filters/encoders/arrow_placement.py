"""Find the place of a constant among the values that an Arrow column can contain.

A comparison in DuckDB happens in one type, an Arrow column may have another: 2^40 against
``int32``, microseconds against ``timestamp[s]``, 1.5 against an integer. Casting either side may
fail or round. So the constant is placed on the column's own scale: at one of its values, between
two, or beyond an end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Final, Literal

import pyarrow as pa

from lakeport.filters.expressions import Constant
from lakeport.types import (
    INTEGER_RANGES,
    TIMESTAMP_UNITS,
    ZONED_TIMESTAMPS,
    LogicalType,
    is_infinite,
)

__all__ = ["Placement", "is_discrete", "keeps_order", "place_constant"]


@dataclass(frozen=True, slots=True)
class Placement:
    """A place on a column's scale.

    The constant is ``at`` the value, or ``between`` it and the next one, or ``below`` or ``above``
    all values of the column; then the value is arbitrary.
    """

    value: pa.Scalar
    position: Literal["at", "between", "below", "above"]


@dataclass(frozen=True, slots=True)
class _Scale:
    """The values of a type: integers from ``low`` to ``high``, ``per_unit`` of them to a unit."""

    dimension: str
    per_unit: Fraction
    low: int
    high: int


def is_discrete(type: pa.DataType) -> bool:
    """Return whether constants can be placed among the values of the type."""
    return _arrow_scale(type) is not None


def keeps_order(type: pa.DataType, logical: LogicalType) -> bool:
    """Return whether values of the Arrow type have the same order in the DuckDB type.

    They have not if DuckDB rounds the values: a column with more decimals than its type.
    """
    scale = _arrow_scale(type)
    if scale is None or logical.id == "UNKNOWN":
        return scale is not None
    if logical.id in ("FLOAT", "DOUBLE"):
        exact = 2**53 if logical.id == "DOUBLE" else 2**24
        return scale.dimension == "number" and scale.per_unit == 1 and scale.high <= exact
    seen = _logical_unit(logical)
    return seen is not None and seen[0] == scale.dimension and scale.per_unit <= seen[1]


def place_constant(constant: Constant, type: pa.DataType) -> Placement | None:
    """Place a constant that is not NULL; return ``None`` for a column of another kind."""
    scale = _arrow_scale(type)
    if scale is None:
        return None
    if isinstance(constant.value, float) and not math.isfinite(constant.value):
        # DuckDB sorts NaN above all numbers.
        if scale.dimension != "number":
            return None
        return Placement(_scalar(0, type), "below" if constant.value < 0 else "above")
    measured = _to_scale(constant)
    if measured is None or measured[0] != scale.dimension:
        return None
    if is_infinite(constant.value, constant.type):
        same_unit = _logical_unit(constant.type) == (scale.dimension, scale.per_unit)
        return Placement(_scalar(constant.value, type), "at") if same_unit else None
    exact = measured[1] * scale.per_unit
    if exact < scale.low:
        return Placement(_scalar(0, type), "below")
    if exact > scale.high:
        return Placement(_scalar(0, type), "above")
    whole = math.floor(exact)
    return Placement(_scalar(whole, type), "at" if whole == exact else "between")


def _to_scale(constant: Constant) -> tuple[str, Fraction] | None:
    if isinstance(constant.value, float):
        return "number", Fraction(constant.value)
    if isinstance(constant.value, Decimal):
        return "number", Fraction(constant.value)
    unit = _logical_unit(constant.type)
    return None if unit is None else (unit[0], Fraction(constant.value) / unit[1])


def _logical_unit(type: LogicalType) -> tuple[str, Fraction] | None:
    if type.id == "DECIMAL" or type.id in INTEGER_RANGES:
        return "number", Fraction(10 ** (type.scale or 0) if type.id == "DECIMAL" else 1)
    if type.id in TIMESTAMP_UNITS:
        dimension = "timestamptz" if type.id in ZONED_TIMESTAMPS else "timestamp"
        return dimension, Fraction(TIMESTAMP_UNITS[type.id])
    return _UNITS.get(type.id)


def _arrow_scale(type: pa.DataType) -> _Scale | None:
    if pa.types.is_integer(type):
        bits = type.bit_width
        signed = pa.types.is_signed_integer(type)
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        return _Scale("number", Fraction(1), low, high)
    if pa.types.is_decimal(type):
        high = 10**type.precision - 1
        return _Scale("number", Fraction(10) ** type.scale, -high, high)
    if pa.types.is_timestamp(type):
        dimension = "timestamp" if type.tz is None else "timestamptz"
        return _Scale(dimension, Fraction(_PER_SECOND[type.unit]), -(2**63), 2**63 - 1)
    if pa.types.is_time(type):
        per_second = _PER_SECOND[type.unit]
        return _Scale("time", Fraction(per_second), 0, 86_400 * per_second)
    if pa.types.is_date32(type):
        return _Scale("timestamp", Fraction(1, 86_400), -(2**31), 2**31 - 1)
    if pa.types.is_date64(type):
        return _Scale("timestamp", Fraction(1000), -(2**63), 2**63 - 1)
    return None


def _scalar(raw: int, type: pa.DataType) -> pa.Scalar:
    if pa.types.is_decimal(type):
        return pa.scalar(_WIDE.scaleb(Decimal(raw), -type.scale), type)
    if pa.types.is_integer(type):
        return pa.scalar(raw, type)
    return pa.scalar(raw, pa.int32() if type.bit_width == 32 else pa.int64()).cast(type)


_WIDE: Final = Context(prec=80)
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_UNITS: Final = {
    "DATE": ("timestamp", Fraction(1, 86_400)),
    "TIME": ("time", Fraction(10**6)),
    "TIME_NS": ("time", Fraction(10**9)),
}
