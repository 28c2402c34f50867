"""The values of constants: Python to the JSON that the client writes."""

from __future__ import annotations

import base64
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Final

from lakeport.errors import UnsupportedError
from lakeport.filters.types import LogicalType
from lakeport.filters.values import STORED_AS_INTEGER

__all__ = ["encode_value"]

_EXACT: Final = Context(prec=60)


def encode_value(value: Any, type: LogicalType) -> dict[str, Any]:
    """The inverse of ``decode_value``; ``UnsupportedError`` if the value does not fit the type."""
    if value is None:
        return {"type": type.to_json(), "is_null": True}
    if type.id not in _ENCODERS:
        raise UnsupportedError(f"Constants of type {type.id} cannot be written.")
    try:
        encoded = _ENCODERS[type.id](value, type)
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UnsupportedError(f"{value!r} is not a value of type {type.id}.") from error
    return {"type": type.to_json(), "is_null": False, "value": encoded}


def _encode_boolean(value: Any, _type: LogicalType) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def _encode_float(value: Any, _type: LogicalType) -> float:
    return float(value)


def _encode_integer(value: Any, type: LogicalType) -> Any:
    low, high = STORED_AS_INTEGER[type.id]
    if not isinstance(value, int) or not low <= value <= high:
        raise ValueError(value)
    return _to_words(value) if type.id in ("HUGEINT", "UHUGEINT") else value


def _encode_decimal(value: Any, type: LogicalType) -> Any:
    scaled = _EXACT.scaleb(Decimal(value), type.scale or 0)
    unscaled = int(scaled)
    if unscaled != scaled or abs(unscaled) >= 10 ** (type.width or 38):
        raise ValueError(value)
    return _to_words(unscaled) if (type.width or 38) > 18 else unscaled


def _encode_varchar(value: Any, _type: LogicalType) -> Any:
    return value if isinstance(value, str) else _base64(value)


def _encode_blob(value: Any, _type: LogicalType) -> str:
    return "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b"\\'\"" else f"\\x{byte:02X}"
        for byte in bytes(value)
    )


def _encode_bit(value: Any, _type: LogicalType) -> Any:
    padding = -len(value) % 8
    bits = "1" * padding + value
    raw = bytes(int(bits[start : start + 8], 2) for start in range(0, len(bits), 8))
    return _base64(bytes([padding]) + raw)


def _encode_bignum(value: Any, _type: LogicalType) -> Any:
    magnitude = abs(value).to_bytes(max(1, (abs(value).bit_length() + 7) // 8))
    raw = (0x800000 | len(magnitude)).to_bytes(3) + magnitude
    return _base64(raw if value >= 0 else bytes(byte ^ 0xFF for byte in raw))


def _encode_interval(value: Any, _type: LogicalType) -> Any:
    return {"months": value.months, "days": value.days, "micros": value.micros}


def _encode_uuid(value: Any, _type: LogicalType) -> Any:
    return _to_words(_signed(value.int ^ (1 << 127)))


def _encode_enum(value: Any, type: LogicalType) -> int:
    return type.values.index(value)


def _encode_sequence(value: Any, type: LogicalType) -> Any:
    if type.child is None or (type.id == "ARRAY" and len(value) != type.size):
        raise ValueError(value)
    return {"children": [encode_value(item, type.child) for item in value]}


def _encode_struct(value: Any, type: LogicalType) -> Any:
    pairs = zip(value, type.fields, strict=True)
    return {"children": [encode_value(item, field.type) for item, field in pairs]}


def _encode_union(value: Any, type: LogicalType) -> Any:
    tag, member = value
    if not 0 <= tag < len(type.fields):
        raise ValueError(value)
    members = (
        encode_value(member if index == tag else None, field.type)
        for index, field in enumerate(type.fields)
    )
    return {"children": [encode_value(tag, LogicalType("UTINYINT")), *members]}


def _to_words(number: int) -> dict[str, int]:
    return {"upper": number >> 64, "lower": number % (1 << 64)}


def _signed(number: int) -> int:
    return number - (1 << 128) if number >> 127 else number


def _base64(raw: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(raw).decode()}


_Encoder = Callable[[Any, LogicalType], Any]

_ENCODERS: Final[dict[str, _Encoder]] = {
    "BOOLEAN": _encode_boolean,
    "FLOAT": _encode_float,
    "DOUBLE": _encode_float,
    "DECIMAL": _encode_decimal,
    "VARCHAR": _encode_varchar,
    "BLOB": _encode_blob,
    "BIT": _encode_bit,
    "BIGNUM": _encode_bignum,
    "INTERVAL": _encode_interval,
    "UUID": _encode_uuid,
    "ENUM": _encode_enum,
    "LIST": _encode_sequence,
    "ARRAY": _encode_sequence,
    "STRUCT": _encode_struct,
    "MAP": _encode_sequence,
    "UNION": _encode_union,
    **dict.fromkeys(STORED_AS_INTEGER, _encode_integer),
}
