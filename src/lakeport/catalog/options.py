"""The options of the methods of catalogs, schemas and tables, as immutable values."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lakeport.errors import InvalidArgumentError
from lakeport.filters import Filter

__all__ = [
    "AddColumnOptions",
    "AddFieldOptions",
    "ChangeColumnTypeOptions",
    "CreateSchemaOptions",
    "CreateTableOptions",
    "DMLOptions",
    "DropNotNullOptions",
    "DropSchemaOptions",
    "DropTableOptions",
    "OnConflict",
    "RemoveColumnOptions",
    "RemoveFieldOptions",
    "RenameColumnOptions",
    "RenameFieldOptions",
    "RenameTableOptions",
    "ScanOptions",
    "SetDefaultOptions",
    "SetNotNullOptions",
    "TimePoint",
    "TimeUnit",
]


class TimeUnit(enum.Enum):
    """The unit of a `TimePoint`."""

    VERSION = "version"
    TIMESTAMP = "timestamp"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class TimePoint:
    """A point in the history of a table: `AT (VERSION => 3)`, `AT (TIMESTAMP => …)`."""

    unit: TimeUnit
    """Version, timestamp or snapshot."""
    value: str
    """The value of the user's expression as text: `3`, `2024-01-01 00:00:00+00`."""

    @classmethod
    def parse(cls, unit: str, value: str) -> TimePoint | None:
        """Return the time point of a request; None if both parts are empty."""
        if not unit and not value:
            return None
        try:
            return cls(TimeUnit(unit.lower()), value)
        except ValueError:
            units = ", ".join(unit.name for unit in TimeUnit)
            raise InvalidArgumentError(
                f"unknown time travel unit {unit[:40]!r}: use one of {units}"
            ) from None

    def __str__(self) -> str:
        return f"{self.unit.name} => {self.value}"


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """The rows and columns of a scan, and hints with which it may read less."""

    columns: tuple[str, ...] | None = None
    """The columns that the client will read; None means all."""
    filter: Filter = field(default_factory=Filter)
    """A predicate: the client drops rows that do not satisfy it. Applying it is optional."""
    limit: int | None = None
    """The maximum number of rows that pass the filter; None means all. DuckDB sends none."""
    batch_size: int | None = None
    """The number of rows that the server prefers in a batch."""
    time_point: TimePoint | None = None
    """The state to read; None means the current one."""
    partition: bytes | None = None
    """The token of the part to read, from the table's `endpoints`; None means all rows."""
    rows_only: bool = False
    """Whether the client reads no value, as for `count(*)`. Batches may then have no columns."""


def _ignore(rows: pa.RecordBatch) -> None:
    """Discard the rows: the statement has no RETURNING clause."""


@dataclass(frozen=True, slots=True)
class DMLOptions:
    """Options of INSERT, UPDATE and DELETE."""

    returning: bool = False
    """Whether the statement has a RETURNING clause."""
    returning_columns: tuple[str, ...] = ()
    """The columns to return: all of them, because the client does not send their names."""
    emit: Callable[[pa.RecordBatch], None] = _ignore
    """Takes affected rows for the RETURNING clause; does nothing without that clause."""


class OnConflict(enum.Enum):
    """The action of CREATE TABLE if the table exists."""

    ERROR = "error"
    IGNORE = "ignore"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class CreateSchemaOptions:
    """Options of CREATE SCHEMA."""

    comment: str = ""
    """A description."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Free labels."""
    if_not_exists: bool = False
    """Succeed without an effect if the schema exists."""


@dataclass(frozen=True, slots=True)
class DropSchemaOptions:
    """Options of DROP SCHEMA."""

    ignore_not_found: bool = False
    """Succeed without an effect if there is no such schema."""
    cascade: bool | None = False
    """Also drop the tables of the schema; None if the client did not send it, as DuckDB."""


@dataclass(frozen=True, slots=True)
class CreateTableOptions:
    """Options of CREATE TABLE."""

    on_conflict: OnConflict = OnConflict.ERROR
    """The action if the table exists."""
    comment: str = ""
    """A description."""
    not_null_columns: tuple[str, ...] = ()
    """Columns that reject nulls, including those of the primary key."""
    unique_constraints: tuple[tuple[str, ...], ...] = ()
    """Sets of columns whose values may not repeat."""
    check_constraints: tuple[str, ...] = ()
    """SQL expressions that every row must satisfy."""
    primary_key: tuple[str, ...] = ()
    """The columns of the primary key; for a composite key in no particular order."""


@dataclass(frozen=True, slots=True)
class DropTableOptions:
    """Options of DROP TABLE."""

    ignore_not_found: bool = False
    """Succeed without an effect if there is no such table."""


@dataclass(frozen=True, slots=True)
class RenameTableOptions:
    """Options of ALTER TABLE … RENAME TO."""

    ignore_not_found: bool = False
    """Succeed without an effect if there is no such table."""


@dataclass(frozen=True, slots=True)
class AddColumnOptions:
    """Options of ALTER TABLE … ADD COLUMN."""

    if_column_not_exists: bool = False
    """Succeed without an effect if the column exists."""
    ignore_not_found: bool = False
    """Succeed without an effect if there is no such table."""


@dataclass(frozen=True, slots=True)
class RemoveColumnOptions:
    """Options of ALTER TABLE … DROP COLUMN."""

    if_column_exists: bool = False
    """Succeed without an effect if there is no such column."""
    ignore_not_found: bool = False
    """Succeed without an effect if there is no such table."""
    cascade: bool = False
    """Also remove constraints that use the column."""


@dataclass(frozen=True, slots=True)
class RenameColumnOptions:
    """Options of ALTER TABLE … RENAME COLUMN."""

    ignore_not_found: bool = False
    """Succeed without an effect if there is no such table."""


@dataclass(frozen=True, slots=True)
class ChangeColumnTypeOptions:
    """Options of ALTER TABLE … ALTER COLUMN … TYPE."""

    ignore_not_found: bool = False
    """Succeed without an effect if there is no such table."""


@dataclass(frozen=True, slots=True)
class SetNotNullOptions:
    """Options of ALTER TABLE … SET NOT NULL."""

    ignore_not_found: bool = False
    """Succeed without an effect if there is no such table."""


@dataclass(frozen=True, slots=True)
class DropNotNullOptions:
    """Options of ALTER TABLE … DROP NOT NULL."""

    ignore_not_found: bool = False
    """Succeed without an effect if there is no such table."""


@dataclass(frozen=True, slots=True)
class SetDefaultOptions:
    """Options of ALTER TABLE … SET DEFAULT."""

    ignore_not_found: bool = False
    """Succeed without an effect if there is no such table."""


@dataclass(frozen=True, slots=True)
class AddFieldOptions:
    """Options of ALTER TABLE … ADD COLUMN struct.field."""

    if_field_not_exists: bool = False
    """Succeed without an effect if the field exists."""
    ignore_not_found: bool = False
    """Succeed without an effect if there is no such table."""


@dataclass(frozen=True, slots=True)
class RenameFieldOptions:
    """Options of ALTER TABLE … RENAME COLUMN struct.field."""

    ignore_not_found: bool = False
    """Succeed without an effect if there is no such table."""


@dataclass(frozen=True, slots=True)
class RemoveFieldOptions:
    """Options of ALTER TABLE … DROP COLUMN struct.field."""

    if_field_exists: bool = False
    """Succeed without an effect if there is no such field."""
    ignore_not_found: bool = False
    """Succeed without an effect if there is no such table."""
    cascade: bool = False
    """Also remove constraints that use the field."""
