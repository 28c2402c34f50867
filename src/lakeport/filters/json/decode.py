"""The values of constants: DuckDB's JSON to Python, without loss.

| type | Python value |
|---|---|
| BOOLEAN | ``bool`` |
| every integer type, BIGNUM | ``int`` |
| FLOAT, DOUBLE | ``float`` |
| DECIMAL | ``decimal.Decimal`` with the type's scale |
| VARCHAR | ``str``; ``bytes`` if DuckDB holds text that is not UTF-8 |
| BLOB | ``bytes`` |
| BIT | ``str`` of ``0`` and ``1`` |
| UUID | ``uuid.UUID`` |
| DATE | ``int``, days since 1970-01-01 |
| TIME, TIME_NS | ``int``, microseconds or nanoseconds since midnight |
| TIME WITH TIME ZONE | ``int``, packed: ``micros << 24 | 57599 - offset in seconds`` |
| TIMESTAMP_S, _MS, TIMESTAMP, _NS | ``int``, units since the epoch |
| TIMESTAMP WITH TIME ZONE, TIMESTAMPTZ_NS | ``int``, units since the epoch |
| INTERVAL | ``Interval`` |
| ENUM | ``str``, the label |
| LIST, ARRAY, STRUCT | ``tuple`` of values, in order |
| MAP | ``tuple`` of ``(key, value)`` pairs |
| UNION | ``(member index, value)`` |
| any type, NULL | ``None`` |

Infinite dates are ``±(2**31 - 1)``, infinite timestamps ``±(2**63 - 1)``, as in DuckDB.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from lakeport.errors import InvalidArgumentError, UnsupportedError
from lakeport.types import _WIDE_IDS, STORED_AS_INTEGER, Interval, LogicalType, to_float32

__all__ = ["decode_value"]

_WORD: Final = 1 << 64
_EXACT: Final = decimal.Context(prec=60)


def decode_value(document: Any, outer_type: LogicalType | None = None) -> tuple[Any, LogicalType]:
    """Read ``{"type", "is_null", "value"}``.

    Raises ``UnsupportedError`` for a type whose encoding is not known.
    ``outer_type`` is used where the document names no type, as older clients write it.
    """
    if not isinstance(document, dict):
        raise InvalidArgumentError("a value of the filter is not an object")
    type = LogicalType.parse(document["type"]) if document.get("type") is not None else outer_type
    if type is None:
        raise InvalidArgumentError("a value of the filter has no type")
    if document.get("is_null", False) is not False:
        return None, type
    if type.id not in _DECODERS:
        raise UnsupportedError(f"constants of type {type.id} are not supported")
    if "value" not in document:
        raise InvalidArgumentError(f"a {type.id} value of the filter is missing")
    return _DECODERS[type.id](document["value"], type), type


def _decode_boolean(value: Any, type: LogicalType) -> bool:
    if not isinstance(value, bool):
        raise _wrong(type)
    return value


def _decode_integer(value: Any, type: LogicalType) -> int:
    if type.id in _WIDE_IDS and isinstance(value, dict):
        value = _from_words(value, type)
    low, high = STORED_AS_INTEGER[type.id]
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise _wrong(type)
    return value


def _decode_float(value: Any, type: LogicalType) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong(type)
    try:
        number = float(value)
        return to_float32(number) if type.id == "FLOAT" else number
    except OverflowError as error:
        raise _wrong(type) from error


def _decode_decimal(value: Any, type: LogicalType) -> Decimal:
    scale, width = type.scale or 0, type.width or 38
    if isinstance(value, str | float):
        try:
            scaled = _EXACT.scaleb(Decimal(str(value)), scale)
        except decimal.InvalidOperation as error:
            raise _wrong(type) from error
        if not scaled.is_finite() or scaled != _EXACT.to_integral_value(scaled):
            raise _wrong(type)
        unscaled = int(scaled)
    elif isinstance(value, dict):
        unscaled = _from_words(value, type)
    elif isinstance(value, int) and not isinstance(value, bool):
        unscaled = value
    else:
        raise _wrong(type)
    if abs(unscaled) >= 10**width:
        raise _wrong(type)
    return _EXACT.scaleb(Decimal(unscaled), -scale)


def _decode_varchar(value: Any, type: LogicalType) -> str | bytes:
    if isinstance(value, str):
        return value
    raw = _raw_bytes(value, type)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _decode_blob(value: Any, type: LogicalType) -> bytes:
    if not isinstance(value, str):
        return _raw_bytes(value, type)
    if not value.isascii() or not _BLOB_TEXT.fullmatch(value):
        raise _wrong(type)
    return _BLOB_ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), value.encode())


def _decode_bit(value: Any, type: LogicalType) -> str:
    raw = _raw_bytes(value, type)
    if len(raw) < 2 or raw[0] > 7:
        raise _wrong(type)
    return "".join(f"{byte:08b}" for byte in raw[1:])[raw[0] :]


def _decode_bignum(value: Any, type: LogicalType) -> int:
    raw = _raw_bytes(value, type)
    if len(raw) < 4:
        raise _wrong(type)
    negative = not raw[0] & 0x80
    if negative:
        raw = bytes(byte ^ 0xFF for byte in raw)
    if int.from_bytes(raw[:3]) & 0x7FFFFF != len(raw) - 3:
        raise _wrong(type)
    magnitude = int.from_bytes(raw[3:])
    return -magnitude if negative else magnitude


def _decode_interval(value: Any, type: LogicalType) -> Interval:
    if not isinstance(value, dict):
        raise _wrong(type)
    months = _decode_integer(value.get("months"), LogicalType("INTEGER"))
    days = _decode_integer(value.get("days"), LogicalType("INTEGER"))
    return Interval(months, days, _decode_integer(value.get("micros"), LogicalType("BIGINT")))


def _decode_uuid(value: Any, type: LogicalType) -> uuid.UUID:
    if isinstance(value, str):
        try:
            return uuid.UUID(value)
        except ValueError as error:
            raise _wrong(type) from error
    # DuckDB flips the top bit so that signed order is the order of the text.
    return uuid.UUID(int=(_from_words(value, type) % (1 << 128)) ^ (1 << 127))


def _decode_enum(value: Any, type: LogicalType) -> str:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < len(type.values):
        raise _wrong(type)
    return type.values[value]


def _decode_sequence(value: Any, type: LogicalType) -> tuple[Any, ...]:
    children = _children(value, type)
    if type.id == "ARRAY" and len(children) != type.size:
        raise _wrong(type)
    return tuple(decode_value(child, type.child)[0] for child in children)


def _decode_struct(value: Any, type: LogicalType) -> tuple[Any, ...]:
    children = _children(value, type)
    if len(children) != len(type.fields):
        raise _wrong(type)
    return tuple(
        decode_value(child, field.type)[0]
        for child, field in zip(children, type.fields, strict=True)
    )


def _decode_map(value: Any, type: LogicalType) -> tuple[tuple[Any, Any], ...]:
    entries = _decode_sequence(value, type)
    if any(not isinstance(entry, tuple) or len(entry) != 2 for entry in entries):
        raise _wrong(type)
    return entries


def _decode_union(value: Any, type: LogicalType) -> tuple[int, Any]:
    children = _children(value, type)
    if len(children) != len(type.fields) + 1:
        raise _wrong(type)
    tag = decode_value(children[0], LogicalType("UTINYINT"))[0]
    if not isinstance(tag, int) or tag >= len(type.fields):
        raise _wrong(type)
    return tag, decode_value(children[tag + 1], type.fields[tag].type)[0]


def _children(value: Any, type: LogicalType) -> list[Any]:
    if not isinstance(value, dict) or not isinstance(value.get("children"), list):
        raise _wrong(type)
    children: list[Any] = value["children"]
    return children


def _raw_bytes(value: Any, type: LogicalType) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and isinstance(value.get("base64"), str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise _wrong(type) from error
    raise _wrong(type)


def _from_words(value: Any, type: LogicalType) -> int:
    if not isinstance(value, dict):
        raise _wrong(type)
    upper, lower = value.get("upper"), value.get("lower")
    if not isinstance(upper, int) or not isinstance(lower, int) or not 0 <= lower < _WORD:
        raise _wrong(type)
    if not -(_WORD >> 1) <= upper < _WORD:
        raise _wrong(type)
    return upper * _WORD + lower


def _wrong(type: LogicalType) -> InvalidArgumentError:
    return InvalidArgumentError(f"a {type.id} value of the filter is malformed")


_BLOB_TEXT: Final = re.compile(r"(?:[^\\]|\\x[0-9A-Fa-f]{2})*+")
_BLOB_ESCAPE: Final = re.compile(rb"\\x([0-9A-Fa-f]{2})")

_Decoder = Callable[[Any, LogicalType], Any]

_DECODERS: Final[dict[str, _Decoder]] = {
    "BOOLEAN": _decode_boolean,
    "FLOAT": _decode_float,
    "DOUBLE": _decode_float,
    "DECIMAL": _decode_decimal,
    "VARCHAR": _decode_varchar,
    "BLOB": _decode_blob,
    "BIT": _decode_bit,
    "BIGNUM": _decode_bignum,
    "INTERVAL": _decode_interval,
    "UUID": _decode_uuid,
    "ENUM": _decode_enum,
    "LIST": _decode_sequence,
    "ARRAY": _decode_sequence,
    "STRUCT": _decode_struct,
    "MAP": _decode_map,
    "UNION": _decode_union,
    **dict.fromkeys(STORED_AS_INTEGER, _decode_integer),
}
