"""Small readings of text: times of catalogs and of users, and names without case."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from lakeport.ducklake import kernel
from lakeport.ducklake.model import Column
from lakeport.errors import CorruptLakeError, InvalidArgumentError

__all__ = ["ascii_lower", "parse_moment", "parse_time"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INSTANT = Column(id=0, name="timestamp", type="timestamptz")


def ascii_lower(name: str) -> str:
    """Lower case of A to Z only."""
    return re.sub("[A-Z]+", lambda match: match.group().lower(), name)


def parse_moment(value: datetime | str) -> datetime:
    """A user's time as DuckDB reads it, such as `2027-01-01`; without a zone it is in UTC."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    try:
        microseconds = kernel.literal(value[:200], _INSTANT)[0].value
    except CorruptLakeError:
        raise InvalidArgumentError(
            f"{value[:80]!r} is not a timestamp: write it like 2027-01-31 or 2027-01-31 12:30:00+00"
        ) from None
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if microseconds > 0 else _EPOCH


def parse_time(value: object) -> datetime:
    """A snapshot's time in UTC, from any of the four databases' text."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    match = re.fullmatch(
        r"(\d+-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d+)?\s*(Z|[+-]\d\d(?::?\d\d)?(?::?\d\d)?)?",
        str(value).strip(),
    )
    if match is None:
        raise _not_a_time(value)
    day, clock, fraction, offset = match.groups()
    try:
        moment = datetime.strptime(f"{day} {clock}", "%Y-%m-%d %H:%M:%S").replace(
            microsecond=int(((fraction or ".0")[1:] + "000000")[:6]), tzinfo=_zone(offset)
        )
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise _not_a_time(value) from None


def _not_a_time(value: object) -> CorruptLakeError:
    return CorruptLakeError(f"the snapshot time {str(value)[:80]!r} cannot be understood")


def _zone(offset: str | None) -> timezone:
    if not offset or offset == "Z":
        return UTC
    digits = offset[1:].replace(":", "").ljust(6, "0")
    span = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]), seconds=int(digits[4:6]))
    return timezone(-span if offset[0] == "-" else span)
