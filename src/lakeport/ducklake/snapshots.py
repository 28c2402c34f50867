"""Small readings of text: times of catalogs and of users, and names without case."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone

from lakeport.ducklake.metadata.rows import SnapshotChangesRow, SnapshotRow
from lakeport.ducklake.model import Snapshot
from lakeport.errors import CorruptLakeError, InvalidArgumentError, SnapshotNotFoundError
from lakeport.types import Column, parse_value

__all__ = ["parse_catalog_timestamp", "parse_user_timestamp"]

_CATALOG_TIME = re.compile(
    r"(\d+)-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d+))?"
    r"\s*(Z|[+-]\d\d(?::?\d\d)?(?::?\d\d)?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INSTANT = Column(id=0, name="timestamp", type="timestamptz")


def parse_user_timestamp(value: datetime | str) -> datetime:
    """Parse a user's time as DuckDB does, such as `2027-01-01`; without a zone it is in UTC."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    try:
        microseconds = parse_value(value[:200], _INSTANT)[0].value
    except CorruptLakeError:
        raise InvalidArgumentError(
            f"{value[:80]!r} is not a timestamp: write it like 2027-01-31 or 2027-01-31 12:30:00+00"
        ) from None
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if microseconds > 0 else _EPOCH


def parse_catalog_timestamp(value: object) -> datetime:
    """Return a snapshot's time in UTC, from the text of any of the four databases."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    match = _CATALOG_TIME.fullmatch(str(value).strip())
    if match is None:
        raise _not_a_time(value)
    *numbers, fraction, offset = match.groups()
    microsecond = int((fraction + "000000")[:6]) if fraction else 0
    try:
        # A lake may have a hundred thousand snapshots; strptime takes ten times as long.
        year, month, day, hour, minute, second = map(int, numbers)
        moment = datetime(year, month, day, hour, minute, second, microsecond, tzinfo=_zone(offset))
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise _not_a_time(value) from None


def _not_a_time(value: object) -> CorruptLakeError:
    return CorruptLakeError(f"the snapshot time {str(value)[:80]!r} cannot be understood")


def _zone(offset: str | None) -> timezone:
    if not offset or offset in ("Z", "+00"):
        return UTC
    digits = offset[1:].replace(":", "").ljust(6, "0")
    span = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]), seconds=int(digits[4:6]))
    return timezone(-span if offset[0] == "-" else span)


def _snapshot(row: SnapshotRow, changes: SnapshotChangesRow | None = None) -> Snapshot:
    return Snapshot(
        id=row.snapshot_id,
        time=parse_catalog_timestamp(row.snapshot_time),
        schema_version=row.schema_version,
        changes=(changes.changes_made or "") if changes else "",
        author=changes.author if changes else None,
        commit_message=changes.commit_message if changes else None,
        commit_extra_info=changes.commit_extra_info if changes else None,
    )


def _no_snapshot(wanted: int | None) -> SnapshotNotFoundError:
    if wanted is None:
        return SnapshotNotFoundError("the lake has no snapshots")
    return SnapshotNotFoundError(
        f"there is no snapshot {wanted}: it was never made, or has been expired"
    )


def _last_before(rows: Sequence[SnapshotRow], moment: datetime) -> int:
    """Return the id of the last snapshot at or before a time."""
    known = [(parse_catalog_timestamp(row.snapshot_time), row.snapshot_id) for row in rows]
    past = [(time, id) for time, id in known if time <= moment]
    if not past:
        raise SnapshotNotFoundError(f"there is no snapshot at or before {moment.astimezone(UTC)}")
    return int(max(past)[1])


def _lower(known: Sequence[Snapshot], bound: int | datetime) -> Snapshot:
    if isinstance(bound, int):
        return _exactly(known, bound)
    later = [snapshot for snapshot in known if snapshot.time >= parse_catalog_timestamp(bound)]
    if not later:
        raise SnapshotNotFoundError(f"there is no snapshot at or after {bound}")
    return min(later, key=lambda snapshot: (snapshot.time, snapshot.id))


def _upper(known: Sequence[Snapshot], bound: int | datetime) -> Snapshot:
    if isinstance(bound, int):
        return _exactly(known, bound)
    earlier = [snapshot for snapshot in known if snapshot.time <= parse_catalog_timestamp(bound)]
    if not earlier:
        raise SnapshotNotFoundError(f"there is no snapshot at or before {bound}")
    return max(earlier, key=lambda snapshot: (snapshot.time, snapshot.id))


def _exactly(known: Sequence[Snapshot], id: int) -> Snapshot:
    for snapshot in known:
        if snapshot.id == id:
            return snapshot
    raise SnapshotNotFoundError(
        f"there is no snapshot {id}: it was never made, or has been expired"
    )
