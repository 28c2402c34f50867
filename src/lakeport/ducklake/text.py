"""Two small readings of catalog text: times in any database's form, and names without case."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from lakeport.errors import NotFoundError

__all__ = ["ascii_lower", "parse_time"]


def ascii_lower(name: str) -> str:
    """Lower case of A to Z only."""
    return re.sub("[A-Z]+", lambda match: match.group().lower(), name)


def parse_time(value: object) -> datetime:
    """A snapshot's time in UTC, from any of the four databases' text."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    match = re.fullmatch(
        r"(\d+-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d+)?\s*(Z|[+-]\d\d(?::?\d\d)?(?::?\d\d)?)?",
        str(value).strip(),
    )
    if match is None:
        raise NotFoundError(f"the snapshot time {value!r} cannot be understood")
    day, clock, fraction, offset = match.groups()
    moment = datetime.strptime(f"{day} {clock}", "%Y-%m-%d %H:%M:%S").replace(
        microsecond=int(((fraction or ".0")[1:] + "000000")[:6]), tzinfo=_zone(offset)
    )
    return moment.astimezone(UTC)


def _zone(offset: str | None) -> timezone:
    if not offset or offset == "Z":
        return UTC
    digits = offset[1:].replace(":", "").ljust(6, "0")
    span = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]), seconds=int(digits[4:6]))
    return timezone(-span if offset[0] == "-" else span)
