"""Changes of the catalog that make no snapshot: one transaction, repeated after a collision."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pyarrow as pa

from lakeport.ducklake.lake import Lake
from lakeport.ducklake.snapshots import parse_user_timestamp
from lakeport.ducklake.writing import RetryPolicy
from lakeport.ducklake.writing.database import CatalogWriter
from lakeport.ducklake.writing.database.versions import check_writable
from lakeport.errors import CorruptLakeError, InvalidArgumentError
from lakeport.types import Column, parse_value

__all__ = ["Age", "change_catalog", "interval", "moment_of"]

T = TypeVar("T")

Age = datetime | timedelta | str
"""A time, how long ago it was, or the text of either: `2027-01-31`, `7 days`."""

_INTERVAL = Column(id=0, name="interval", type="interval")
_MONTH_DAYS = 31


def change_catalog(lake: Lake, work: Callable[[CatalogWriter], T]) -> T:
    """Run a change of the catalog in a transaction that holds the lock of all writers.

    The work commits. It runs again, on the newest state, if the transaction collides.
    """
    check_writable(lake.version, lake.catalog.database.location)
    database = lake.write_database
    policy = RetryPolicy()
    attempt = 0
    while True:
        try:
            with database.transaction() as writer:
                return work(writer)
        except database.database.errors as error:
            attempt += 1
            is_collision = database.dialect.is_collision(error) or database.dialect.is_lost(error)
            if not is_collision or attempt >= policy.attempts:
                message = str(getattr(error, "orig", None) or error)
                raise database.database.error(message, locked=is_collision) from None
            time.sleep(policy.pause(attempt))


def moment_of(age: Age) -> datetime:
    """Return the time that an age stands for."""
    if isinstance(age, timedelta):
        return datetime.now(UTC) - age
    if isinstance(age, str):
        try:
            return datetime.now(UTC) - interval(age)
        except InvalidArgumentError:
            return parse_user_timestamp(age)
    return parse_user_timestamp(age)


def interval(text: str) -> timedelta:
    """Return the length of an interval such as `7 days`; a month has 31 days, to be safe."""
    try:
        value = parse_value(text, _INTERVAL)[0].as_py()
    except (CorruptLakeError, pa.ArrowException):
        raise InvalidArgumentError(
            f"{text[:80]!r} is not an interval: write it like 7 days or 12 hours"
        ) from None
    days = value.months * _MONTH_DAYS + value.days
    return timedelta(days=days, microseconds=value.nanoseconds // 1000)
