"""Python and Arrow values as typed constants."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakeport.errors import UnsupportedError
from lakeport.filters.expressions import Constant
from lakeport.filters.json.write import encode_value
from lakeport.types import INTEGER_RANGES, Interval, LogicalType, from_arrow_type, to_float32

__all__ = ["lit"]

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - DuckDB's TIMESTAMP has no zone
_MICROSECOND = dt.timedelta(microseconds=1)
_LITTLE_ENDIAN = frozenset({"HUGEINT", "UHUGEINT", "TIME WITH TIME ZONE"})
_MOMENTS = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "INTERVAL"})


def lit(value: Any, type: LogicalType | None = None) -> Constant:
    """Return a constant of a Python value or an Arrow scalar; the type is inferred unless given.

    ``UnsupportedError`` if no type can be inferred, or the value does not fit the type.
    """
    if isinstance(value, Constant):
        return value
    if isinstance(value, pa.Scalar):
        return _from_scalar(value, type)
    plain, inferred = _infer(value)
    constant = (
        Constant(plain, inferred)
        if type is None
        else Constant(_fitted(plain, inferred, type), type)
    )
    encode_value(constant.value, constant.type)
    return constant


def _fitted(plain: Any, inferred: LogicalType, type: LogicalType) -> Any:
    if inferred.id in _MOMENTS and inferred.id != type.id:
        raise UnsupportedError(f"a {inferred.id} cannot be a constant of type {type.id}")
    if type.id not in ("FLOAT", "DOUBLE") or not isinstance(plain, int | float | Decimal):
        return plain
    try:
        return to_float32(float(plain)) if type.id == "FLOAT" else float(plain)
    except OverflowError as error:
        raise UnsupportedError(f"{plain} is too large for a {type.id}") from error


def _infer(value: Any) -> tuple[Any, LogicalType]:
    match value:
        case None:
            return None, LogicalType("NULL")
        case bool():
            return value, LogicalType("BOOLEAN")
        case int():
            return value, _integer_type(value)
        case float():
            return value, LogicalType("DOUBLE")
        case Decimal():
            return value, _decimal_type(value)
        case str():
            return value, LogicalType("VARCHAR")
        case bytes():
            return value, LogicalType("BLOB")
        case uuid.UUID():
            return value, LogicalType("UUID")
        case Interval():
            return value, LogicalType("INTERVAL")
        case list() | tuple():
            return _infer_list(value)
        case _:
            return _infer_moment(value)


def _infer_moment(value: Any) -> tuple[Any, LogicalType]:
    match value:
        case dt.datetime() if value.tzinfo is None:
            return (value - _EPOCH) // _MICROSECOND, LogicalType("TIMESTAMP")
        case dt.datetime():
            instant = value - _EPOCH.replace(tzinfo=dt.UTC)
            return instant // _MICROSECOND, LogicalType("TIMESTAMP WITH TIME ZONE")
        case dt.date():
            return value.toordinal() - _EPOCH.toordinal(), LogicalType("DATE")
        case dt.time() if value.tzinfo is None:
            seconds = value.hour * 3600 + value.minute * 60 + value.second
            return seconds * 10**6 + value.microsecond, LogicalType("TIME")
        case dt.timedelta():
            micros = value.seconds * 10**6 + value.microseconds
            return Interval(days=value.days, micros=micros), LogicalType("INTERVAL")
        case _:
            raise UnsupportedError(f"a {type(value).__name__} cannot be a constant of a filter")


def _infer_list(values: list[Any] | tuple[Any, ...]) -> tuple[Any, LogicalType]:
    constants = [lit(value) for value in values]
    child = next((c.type for c in constants if c.value is not None), LogicalType("NULL"))
    return tuple(constant.value for constant in constants), LogicalType.list(child)


def _integer_type(value: int) -> LogicalType:
    for id in ("INTEGER", "BIGINT", "HUGEINT", "UHUGEINT"):
        low, high = INTEGER_RANGES[id]
        if low <= value <= high:
            return LogicalType(id)
    raise UnsupportedError("the integer is too large for a constant of a filter")


def _decimal_type(value: Decimal) -> LogicalType:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise UnsupportedError("a DECIMAL can be neither NaN nor infinite")
    scale = max(0, -exponent)
    width = max(len(value.as_tuple().digits) + max(0, exponent), scale, 1)
    if width > 38:
        raise UnsupportedError("the decimal number has more than 38 digits")
    return LogicalType.decimal(width, scale)


def _from_scalar(scalar: pa.Scalar, type: LogicalType | None) -> Constant:
    logical = type or from_arrow_type(scalar.type)
    value = _scalar_value(scalar)
    if _has_zoned_nanoseconds(scalar):
        if type is None and value % 1000:
            logical = LogicalType("TIMESTAMPTZ_NS")
        if logical.id != "TIMESTAMPTZ_NS":
            value //= 1000
    encode_value(value, logical)
    return Constant(value, logical)


def _has_zoned_nanoseconds(scalar: pa.Scalar) -> bool:
    kind = scalar.type
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit == "ns"
    return zoned and bool(scalar.is_valid)


def _scalar_value(scalar: pa.Scalar) -> Any:
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.ExtensionScalar):
        return _extension_value(scalar)
    if pa.types.is_date64(scalar.type):
        return scalar.value // 86_400_000
    if pa.types.is_time32(scalar.type):
        return scalar.value * (10**6 if scalar.type.unit == "s" else 10**3)
    if _has_zoned_nanoseconds(scalar):
        return scalar.value
    if pa.types.is_timestamp(scalar.type) and scalar.type.tz is not None:
        return scalar.cast(pa.timestamp("us", tz="UTC")).value
    if (
        pa.types.is_date(scalar.type)
        or pa.types.is_time(scalar.type)
        or pa.types.is_timestamp(scalar.type)
    ):
        return scalar.value
    if isinstance(scalar, pa.MonthDayNanoIntervalScalar):
        months, days, nanoseconds = scalar.as_py()
        return Interval(months, days, nanoseconds // 1000)
    if (
        pa.types.is_map(scalar.type)
        or pa.types.is_union(scalar.type)
        or pa.types.is_duration(scalar.type)
    ):
        raise UnsupportedError(
            f"an Arrow scalar of type {scalar.type} cannot be a constant of a filter"
        )
    if pa.types.is_struct(scalar.type):
        return tuple(_scalar_value(member) for member in scalar.values())
    if pa.types.is_nested(scalar.type):
        return tuple(_scalar_value(item) for item in scalar)
    return scalar.as_py()


def _extension_value(scalar: pa.ExtensionScalar) -> Any:
    value = scalar.as_py()
    if scalar.type.extension_name == "arrow.bool8":
        return bool(value)
    id = from_arrow_type(scalar.type).id
    if id in _LITTLE_ENDIAN and isinstance(value, bytes):
        return int.from_bytes(value, "little", signed=id == "HUGEINT")
    return value
