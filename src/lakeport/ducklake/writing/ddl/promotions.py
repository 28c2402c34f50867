"""Which types a column can be changed to: every old value must still be a value of the column."""

from __future__ import annotations

import re
from typing import Final

from lakeport.types import find_type

__all__ = ["can_promote", "keeps_partitions"]

_SIGNED: Final = ("int8", "int16", "int32", "int64", "int128")
_UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64", "uint128")
_FLOATS: Final = ("float32", "float64")
_TIMES: Final = {
    "date": ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz"),
    "timestamp_s": ("timestamp", "timestamp_ms", "timestamp_ns"),
    "timestamp_ms": ("timestamp", "timestamp_ns"),
    "timestamp": ("timestamp_ns", "timestamptz"),
}
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


def can_promote(old: str, new: str) -> bool:
    """Return whether a column of one type can become one of another.

    These are the rules of the reference, without its conversion to a decimal with fewer digits
    before or after the point, which changes or refuses values that are already there.
    """
    if old == new or new in ("json", "variant"):
        return True
    if old == "boolean":
        return new in (*_SIGNED, *_UNSIGNED)
    if old in _SIGNED or old in _UNSIGNED:
        return _can_widen_integer(old, new)
    if old == "float32":
        return new == "float64"
    decimal = _DECIMAL.fullmatch(old)
    if decimal:
        return new in _FLOATS or _has_room(
            int(decimal.group(1)) - int(decimal.group(2)), int(decimal.group(2)), new
        )
    return new in _TIMES.get(old, ())


def keeps_partitions(transform: str, old: str, new: str) -> bool:
    """Return whether the recorded partition values of a column are those of its new type, too.

    Buckets are computed from the bytes of a type, and a few texts are no value of the new type or
    another one: `true` of an integer, the shortest text of a float.
    """
    if old == new:
        return True
    integers = (*_SIGNED[:4], *_UNSIGNED[:4])
    if old in integers and new in integers:
        return True
    if transform.startswith("bucket"):
        return False
    if transform != "identity":
        return new in _TIMES.get(old, ())
    if _DECIMAL.fullmatch(old):
        return _DECIMAL.fullmatch(new) is not None
    return new in _TIMES.get(old, ()) and new != "timestamptz"


def _can_widen_integer(old: str, new: str) -> bool:
    if new in _FLOATS:
        return old not in ("int128", "uint128")
    if new in (*_SIGNED, *_UNSIGNED):
        if old in _SIGNED:
            return new in _SIGNED and _SIGNED.index(old) < _SIGNED.index(new)
        same = _UNSIGNED if new in _UNSIGNED else _SIGNED
        return _UNSIGNED.index(old) < same.index(new)
    type = find_type(old)
    return type is not None and _has_room(type.digits or 0, 0, new)


def _has_room(whole: int, scale: int, new: str) -> bool:
    """Return whether a decimal type has these digits before and after the point."""
    decimal = _DECIMAL.fullmatch(new)
    if decimal is None:
        return False
    digits, new_scale = int(decimal.group(1)), int(decimal.group(2))
    return new_scale >= scale and digits - new_scale >= whole
