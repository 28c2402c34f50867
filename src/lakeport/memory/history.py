"""Which version of a table a time point means."""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, datetime

from lakeport.catalog import TimePoint, TimeUnit
from lakeport.errors import InvalidArgumentError, NotFoundError
from lakeport.memory.state import TableState, TableVersion

__all__ = ["version_at", "version_numbered"]


def version_at(table: TableState, time_point: TimePoint) -> TableVersion:
    """The version that was current at a time point."""
    if time_point.unit is TimeUnit.TIMESTAMP:
        return _version_on(table, _parse_timestamp(time_point.value))
    try:
        number = int(time_point.value)
    except ValueError:
        raise InvalidArgumentError(
            f"{time_point.value[:80]!r} is not the number of a version"
        ) from None
    return version_numbered(table, number)


def version_numbered(table: TableState, number: int) -> TableVersion:
    """The version of that number."""
    versions = table.versions
    oldest = _number(versions[0]) if versions else 1
    if not oldest <= number < oldest + len(versions):
        raise NotFoundError(f"table {table} has no version {number}: {_known(table)}")
    return versions[number - oldest]


def _version_on(table: TableState, moment: datetime) -> TableVersion:
    position = bisect_right(table.versions, moment, key=_committed)
    if position == 0:
        raise NotFoundError(
            f"table {table} has no version of {moment.isoformat()}: {_known(table)}"
        )
    return table.versions[position - 1]


def _known(table: TableState) -> str:
    versions = table.versions
    if not versions:
        return "it is not committed yet"
    return (
        f"there are versions {_number(versions[0])} to {_number(versions[-1])}, from "
        f"{_committed(versions[0]).isoformat()} to {_committed(versions[-1]).isoformat()}"
    )


def _parse_timestamp(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidArgumentError(
            f"{text[:80]!r} is not a timestamp; write it like 2024-01-31 or 2024-01-31 12:30:00+00"
        ) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _number(version: TableVersion) -> int:
    return version.version or 0


def _committed(version: TableVersion) -> datetime:
    return version.committed or datetime.min.replace(tzinfo=UTC)
