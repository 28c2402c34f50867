"""Dates, times and timestamps as ISO text, exact to the unit that DuckDB stores."""

from __future__ import annotations

import datetime as dt
from typing import Final

__all__ = ["TIMESTAMP_UNITS", "ZONED_TIMESTAMPS", "date_text", "time_text", "timestamp_text"]

TIMESTAMP_UNITS: Final = {
    "TIMESTAMP_S": 1,
    "TIMESTAMP_MS": 10**3,
    "TIMESTAMP": 10**6,
    "TIMESTAMP WITH TIME ZONE": 10**6,
    "TIMESTAMP_NS": 10**9,
    "TIMESTAMPTZ_NS": 10**9,
}
"""How many units of each timestamp type make a second."""

ZONED_TIMESTAMPS: Final = frozenset({"TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"})
"""Timestamps that are instants. DuckDB has TIMESTAMPTZ_NS since 2.0."""

_EPOCH: Final = dt.date(1970, 1, 1).toordinal()
_SECONDS_PER_DAY: Final = 86_400


def date_text(days: int) -> str | None:
    """``2024-01-02``; ``None`` outside the years 1 to 9999, which not every parser reads."""
    ordinal = _EPOCH + days
    if not 1 <= ordinal <= dt.date.max.toordinal():
        return None
    return dt.date.fromordinal(ordinal).isoformat()


def time_text(units: int, *, per_second: int) -> str:
    """``12:34:56.000789``, with as many decimals as the unit has."""
    seconds, fraction = divmod(units, per_second)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    digits = len(str(per_second)) - 1
    return f"{text}.{fraction:0{digits}d}" if digits else text


def timestamp_text(units: int, *, per_second: int) -> str | None:
    """``2024-01-02 03:04:05.000006``; ``None`` outside the years 1 to 9999."""
    days, rest = divmod(units, _SECONDS_PER_DAY * per_second)
    date = date_text(days)
    return None if date is None else f"{date} {time_text(rest, per_second=per_second)}"
