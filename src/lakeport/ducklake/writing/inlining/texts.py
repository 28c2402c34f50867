"""The texts of a few plain values, as DuckDB writes them, without a query.

A query of DuckDB takes longer than all other work on a single row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, Final

import pyarrow as pa

__all__ = ["INTEGERS", "plain_values", "text_of"]

INTEGERS: Final = frozenset(
    {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
)
_MAX_ROWS: Final = 16


def plain_values(type: str, values: pa.Array | pa.ChunkedArray) -> list[Any] | None:
    """Return a few values whose texts `text_of` returns; None if DuckDB must write them."""
    if type not in _TEXTS or len(values) > _MAX_ROWS:
        return None
    try:
        found: list[Any] = values.to_pylist()
    except (ValueError, OverflowError):  # before the year 1, or after 9999
        return None
    if type == "float64" and not all(value is None or _is_short(value) for value in found):
        return None
    return found


def text_of(type: str, value: Any) -> str | None:
    """Return the text of a value of `plain_values`."""
    return None if value is None else _TEXTS[type](value)


def _is_short(value: float) -> bool:
    """Return whether Python and DuckDB write a number alike: all digits, without an exponent."""
    return 1e-4 <= abs(value) < 1e15 or repr(value) == "0.0"


def _date(value: date) -> str:
    return value.isoformat()


def _timestamp(value: datetime) -> str:
    text = value.isoformat(" ")
    return text.rstrip("0") if "." in text else text


_TEXTS: Final[Mapping[str, Callable[[Any], str]]] = {
    **dict.fromkeys(INTEGERS, str),
    "varchar": str,
    "float64": repr,
    "date": _date,
    "timestamp": _timestamp,
}
