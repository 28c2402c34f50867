"""What a row of a catalog table is: a frozen dataclass is a table, a field is a column.

Fields have the names and the order of the columns in DuckLake 1.0. Their types are the columns'
types, with `| None` where a valid catalog has NULL or an older format lacks the column. Times and
UUIDs are text. `from_values` makes an instance from a row of the database, and `to_values` returns
the values of an instance in the order of the columns.

The databases do not enforce these types. `soundness` and `table_state` check the values that a
damaged catalog may lack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, TypeVar, get_args, get_type_hints

__all__ = [
    "CatalogRow",
    "QueryRow",
    "VersionedRow",
    "column_types",
    "from_values",
    "table_name",
    "to_values",
]


class QueryRow:
    """A row of one branch of a query. Subclasses are frozen dataclasses."""

    __slots__ = ()
    branch: ClassVar[str]


class CatalogRow(QueryRow):
    """A row of a catalog table; `branch` is the table's name without `ducklake_`."""

    __slots__ = ()


R = TypeVar("R", bound=QueryRow)


class VersionedRow(Protocol):
    """A row that is valid from a snapshot until another, or until now."""

    @property
    def begin_snapshot(self) -> int:
        """The first snapshot at which the row is valid."""

    @property
    def end_snapshot(self) -> int | None:
        """The first snapshot at which the row is no longer valid; None while it is valid."""


def table_name(row: type[CatalogRow]) -> str:
    """Return the name of a catalog table in the database."""
    return f"ducklake_{row.branch}"


def column_types(row: type[QueryRow]) -> Mapping[str, type]:
    """Return the columns of a table in their order, with their types: int, bool or str."""
    return _description(row)[0]


def from_values(row: type[R], values: Sequence[Any]) -> R:
    """Make an instance from the values of a database row; truth values may be 0 and 1."""
    _, flags = _description(row)
    if not flags:
        return row(*values)
    converted = list(values)
    for position in flags:
        if converted[position] is not None:
            converted[position] = bool(converted[position])
    return row(*converted)


def to_values(row: QueryRow) -> tuple[Any, ...]:
    """Return the values of an instance in the order of the columns."""
    return tuple(getattr(row, name) for name in column_types(type(row)))


_DESCRIPTIONS: dict[type, tuple[Mapping[str, type], tuple[int, ...]]] = {}


def _description(row: type[Any]) -> tuple[Mapping[str, type], tuple[int, ...]]:
    """Return the types of the columns, and the positions of the truth values."""
    description = _DESCRIPTIONS.get(row)
    if description is None:
        hints = get_type_hints(row)
        types = {field.name: _without_none(hints[field.name]) for field in fields(row)}
        flags = tuple(i for i, type in enumerate(types.values()) if type is bool)
        description = _DESCRIPTIONS[row] = (MappingProxyType(types), flags)
    return description


def _without_none(hint: Any) -> type:
    types: list[type] = [type for type in get_args(hint) if type is not None.__class__] or [hint]
    return types[0]
