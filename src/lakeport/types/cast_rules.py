"""The effect of a cast between two types on a value.

``preserves_value``: whenever the cast succeeds, the value is the same number, text or moment.
``always_succeeds``: there is no value of the source type for which the cast fails.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Final

import pyarrow as pa

from lakeport.types.logical import LogicalType
from lakeport.types.table import BY_ID
from lakeport.types.values import INTEGER_RANGES, TIMESTAMP_UNITS, ZONED_TIMESTAMPS

__all__ = ["always_succeeds", "compares_exactly", "preserves_value"]

_FLOAT_DIGITS: Final = {"FLOAT": 24, "DOUBLE": 53}
_FLOAT_DECIMALS: Final = {"FLOAT": 6, "DOUBLE": 15}
_ALWAYS_TEXT: Final = frozenset(
    {*INTEGER_RANGES, "BOOLEAN", "DECIMAL", "FLOAT", "DOUBLE", "DATE", "TIME", "UUID", "ENUM"}
)


def preserves_value(source: LogicalType, target: LogicalType) -> bool:
    """Return whether a successful cast only changes the representation."""
    if source == target:
        return True
    if _is_exact(source) and _is_exact(target):
        return _scale(source) <= _scale(target)
    if source.id in INTEGER_RANGES and target.id in _FLOAT_DIGITS:
        return INTEGER_RANGES[source.id][1] < 1 << _FLOAT_DIGITS[target.id]
    if source.id == "FLOAT":
        return target.id == "DOUBLE"
    if source.id == "ENUM":
        return target.id == "VARCHAR" and not target.alias
    return _is_finer_moment(source, target)


def always_succeeds(source: LogicalType, target: LogicalType) -> bool:
    """Return whether the cast has a result for every value."""
    if source == target:
        return True
    if target.id == "VARCHAR" and not target.alias:
        return source.id in _ALWAYS_TEXT
    if _is_exact(source) and _is_exact(target):
        return _fits(source, target)
    return (_is_exact(source) and target.id in _FLOAT_DIGITS) or (source.id, target.id) == (
        "FLOAT",
        "DOUBLE",
    )


def compares_exactly(value: float | Decimal, source: LogicalType, floating: LogicalType) -> bool:
    """Return whether a number compares with every value of `source` as it does in a float type.

    DuckDB compares a BIGINT with a DOUBLE as two DOUBLEs, so that 2^53 equals 2^53 + 1. Below that,
    no two values of the source type become the same float.
    """
    if preserves_value(source, floating) or not _is_exact(source):
        return True
    number = Fraction(0 if value != value or abs(value) == float("inf") else value)
    if source.id in INTEGER_RANGES:
        return abs(number) < 1 << _FLOAT_DIGITS[floating.id]
    unscaled = number * Fraction(10) ** _scale(source)
    limit = 10 ** _FLOAT_DECIMALS[floating.id]
    return bool(unscaled.denominator == 1 and abs(unscaled) < limit)


def _is_exact(type: LogicalType) -> bool:
    return type.id == "DECIMAL" or type.id in INTEGER_RANGES


def _scale(type: LogicalType) -> int:
    return type.scale or 0


def _fits(source: LogicalType, target: LogicalType) -> bool:
    (low, high), (lowest, highest) = _whole_range(source), _whole_range(target)
    rounds = _scale(source) > _scale(target)
    return lowest <= low - rounds and high + rounds <= highest


def _whole_range(type: LogicalType) -> tuple[int, int]:
    if type.id != "DECIMAL":
        return INTEGER_RANGES[type.id]
    whole = 10 ** ((type.width or 38) - _scale(type)) - 1
    return -whole, whole


def _is_finer_moment(source: LogicalType, target: LogicalType) -> bool:
    if (source.id, target.id) == ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"):
        return True
    zoned = source.id in ZONED_TIMESTAMPS or target.id in ZONED_TIMESTAMPS
    if zoned or target.id not in TIMESTAMP_UNITS:
        return False
    if source.id == "DATE":
        return True
    return source.id in TIMESTAMP_UNITS and TIMESTAMP_UNITS[source.id] <= TIMESTAMP_UNITS[target.id]


_MOST_DIGITS = 38
_SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_DIGITS = {
    row.arrow: row.digits
    for row in BY_ID.values()
    if row.digits is not None and pa.types.is_integer(row.arrow)
}
_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether Arrow's cast has the results of DuckDB's cast."""
    signed, unsigned = _bits(source, _SIGNED), _bits(source, _UNSIGNED)
    if target in _SIGNED:
        return signed <= _bits(target, _SIGNED) or unsigned < _bits(target, _SIGNED)
    if target in _UNSIGNED:
        return unsigned <= _bits(target, _UNSIGNED)
    if pa.types.is_float32(target) or pa.types.is_float64(target):
        is_widened = pa.types.is_float32(source) and pa.types.is_float64(target)
        return bool(is_widened) or min(signed, unsigned) <= 64
    if pa.types.is_decimal128(target):
        room = target.precision - target.scale
        if pa.types.is_decimal128(source):
            is_finer = target.scale >= source.scale
            return bool(is_finer and room >= source.precision - source.scale)
        return bool(room >= _DIGITS.get(source, _MOST_DIGITS + 1))
    large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    return bool(source == large.get(target))


def _bits(type: pa.DataType, family: tuple[pa.DataType, ...]) -> int:
    """Return the width of an integer type, 999 if it is not of the family."""
    return int(type.bit_width) if type in family else 999
