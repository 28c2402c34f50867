"""The values that a catalog gives back: row counts, statistics, versions, sizes."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

__all__ = ["CatalogVersion", "ColumnStats", "DMLResult", "TableSize", "TransactionState"]


@dataclass(frozen=True, slots=True)
class DMLResult:
    """What an INSERT, UPDATE or DELETE did."""

    affected_rows: int
    """How many rows were inserted, updated or deleted."""


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """What is known of a column. None means unknown; what is given is trusted by DuckDB.

    Bounds may be wider than the data, never narrower, at any moment a client may read.
    """

    has_not_null: bool | None = None
    """Whether any value is not null."""
    has_null: bool | None = None
    """Whether any value is null."""
    distinct_count: int | None = None
    """About how many different values there are."""
    min: Any = None
    """A value no greater than any in the column: a Python value or a `pa.Scalar`."""
    max: Any = None
    """A value no smaller than any in the column: a Python value or a `pa.Scalar`."""
    max_string_length: int | None = None
    """The length of the longest text or blob, in bytes."""
    contains_unicode: bool | None = None
    """Whether any text has characters beyond ASCII."""


@dataclass(frozen=True, slots=True)
class CatalogVersion:
    """The version of a catalog: a change of it makes DuckDB bind prepared statements again."""

    version: int
    """A number that grows with every change of the catalog."""
    is_fixed: bool = False
    """True promises that the catalog never changes, and spares the client asking again."""


@dataclass(frozen=True, slots=True)
class TableSize:
    """About how large a table is; None means unknown."""

    rows: int | None = None
    """Number of rows."""
    bytes: int | None = None
    """Size in bytes."""


class TransactionState(enum.Enum):
    """The state of a transaction."""

    ACTIVE = "active"
    COMMITTED = "committed"
    ABORTED = "aborted"
