"""Python values of constants: ranges and units of types, and ISO text of dates and times."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lakeport.types.logical import LogicalType
from lakeport.types.table import BY_ID

__all__ = [
    "INTEGER_RANGES",
    "STORED_AS_INTEGER",
    "TIMESTAMP_UNITS",
    "ZONED_TIMESTAMPS",
    "Interval",
    "date_text",
    "is_infinite",
    "time_text",
    "timestamp_text",
    "to_float32",
]

TIMESTAMP_UNITS: Final[Mapping[str, int]] = {
    id: row.per_second for id, row in BY_ID.items() if row.per_second is not None
}
"""How many units of each timestamp type make a second."""

ZONED_TIMESTAMPS: Final = frozenset(id for id, row in BY_ID.items() if row.family == "timestamptz")
"""Timestamps that are instants. DuckDB has TIMESTAMPTZ_NS since 2.0."""

_EPOCH: Final = dt.date(1970, 1, 1).toordinal()
_SECONDS_PER_DAY: Final = 86_400


def date_text(days: int) -> str | None:
    """Return ``2024-01-02``; ``None`` outside the years 1 to 9999, which not every parser reads."""
    ordinal = _EPOCH + days
    if not 1 <= ordinal <= dt.date.max.toordinal():
        return None
    return dt.date.fromordinal(ordinal).isoformat()


def time_text(units: int, *, per_second: int) -> str:
    """Return ``12:34:56.000789``, with as many decimals as the unit has."""
    seconds, fraction = divmod(units, per_second)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    digits = len(str(per_second)) - 1
    return f"{text}.{fraction:0{digits}d}" if digits else text


def timestamp_text(units: int, *, per_second: int) -> str | None:
    """Return ``2024-01-02 03:04:05.000006``; ``None`` outside the years 1 to 9999."""
    days, rest = divmod(units, _SECONDS_PER_DAY * per_second)
    date = date_text(days)
    return None if date is None else f"{date} {time_text(rest, per_second=per_second)}"


@dataclass(frozen=True, slots=True)
class Interval:
    """DuckDB's interval: three parts that do not convert into each other."""

    months: int = 0
    days: int = 0
    micros: int = 0


INTEGER_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    id: row.range for id, row in BY_ID.items() if row.range is not None
}

STORED_AS_INTEGER: Final[Mapping[str, tuple[int, int]]] = {
    **INTEGER_RANGES,
    "DATE": INTEGER_RANGES["INTEGER"],
    "TIME": (0, 86_400_000_000),
    "TIME_NS": (0, 86_400_000_000_000),
    "TIME WITH TIME ZONE": INTEGER_RANGES["UBIGINT"],
    **dict.fromkeys(TIMESTAMP_UNITS, INTEGER_RANGES["BIGINT"]),
}

_WIDE_IDS: Final = frozenset({"HUGEINT", "UHUGEINT"})


def is_infinite(value: Any, type: LogicalType) -> bool:
    """Return whether the value is one of DuckDB's infinite dates or timestamps."""
    if type.id == "DATE":
        return value in (2**31 - 1, -(2**31 - 1))
    return type.id.startswith("TIMESTAMP") and value in (2**63 - 1, -(2**63 - 1))


def to_float32(number: float) -> float:
    """Return the nearest FLOAT; raise ``OverflowError`` if there is none."""
    if math.isnan(number) or math.isinf(number):
        return number
    return float(struct.unpack("<f", struct.pack("<f", number))[0])
