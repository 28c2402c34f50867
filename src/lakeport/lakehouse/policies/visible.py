"""The columns of a table that a caller sees, and the SELECT that computes them.

A column is hidden or masked if a policy names it by any name that it ever had: renaming it shows it
to no caller.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from lakeport.auth import Operation, Restriction
from lakeport.ducklake import View
from lakeport.ducklake.metadata import TableSummary
from lakeport.ducklake.views import TableKey
from lakeport.errors import PermissionDeniedError
from lakeport.lakehouse.names import ROWID, has_rowid, published_schema
from lakeport.lakehouse.permissions import LakeObject, Permissions
from lakeport.types import Column, duckdb_identifier, duckdb_type, fold_name

__all__ = [
    "RawTable",
    "SeenTable",
    "VisibleTable",
    "failure_of",
    "over_table",
    "raw_path",
    "raw_table",
    "restricted_reads",
    "view_over",
    "visible_columns",
]

_RAW: Final = "\u241f"
"""Ends the names of unrestricted tables, which no SQL of views can contain."""

_ROWID_COLUMN: Final = Column(id=-1, name=ROWID, type="int64")


@dataclass(frozen=True, slots=True)
class RawTable:
    """A table without its restriction, by a name that only the restricting SELECT uses."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    source: TableSummary
    """The table of the lake."""


@dataclass(frozen=True, slots=True)
class SeenTable:
    """A table that a view reads, with the columns that the caller of the view sees."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    source: TableSummary
    """The table of the lake."""
    visible: VisibleTable | None = None
    """What its caller sees of it; None if all of it."""


@dataclass(frozen=True, slots=True)
class VisibleTable:
    """What a caller sees of a table of a lake at some snapshot."""

    columns: tuple[Column, ...]
    """The columns that are not hidden."""
    values: tuple[str, ...]
    """The SQL of each column's value."""
    shows_rowid: bool
    row_filter: str | None
    raw_columns: tuple[Column, ...]
    """All columns, with the row id if there is one."""

    @classmethod
    def of(
        cls,
        restriction: Restriction,
        table: LakeObject,
        columns: Sequence[Column],
        permissions: Permissions,
    ) -> VisibleTable:
        """Return what a restriction leaves; raise if its SQL does not fit the columns."""
        present = _present_columns(table, columns, permissions)
        _check_columns(restriction, columns, present, table, permissions)
        named = permissions.column_names(table.id)
        shown: list[Column] = []
        values: list[str] = []
        for column in columns:
            names = {column.name, *named.get(column.id, ())}
            if restriction.hides(names):
                continue
            value = restriction.value(column.name, names)
            if value != duckdb_identifier(column.name):
                # A mask may be NULL, and has the type of its column.
                shown.append(replace(column, nullable=True))
                value = f"CAST({value} AS {duckdb_type(column)})"
            else:
                shown.append(column)
            values.append(value)
        with_rowid = has_rowid(columns)
        return cls(
            tuple(shown),
            tuple(values),
            with_rowid and _shows_rowid(restriction, table, permissions),
            restriction.row_filter,
            (*columns, _ROWID_COLUMN) if with_rowid else tuple(columns),
        )

    @property
    def masked(self) -> frozenset[str]:
        """The names of the columns that have other values than the table."""
        return frozenset(
            column.name
            for column, value in zip(self.columns, self.values, strict=True)
            if value != duckdb_identifier(column.name)
        )

    def narrowed(self, names: Collection[str]) -> VisibleTable:
        """Return some of the columns."""
        kept = [
            (column, value)
            for column, value in zip(self.columns, self.values, strict=True)
            if column.name in names
        ]
        return replace(
            self,
            columns=tuple(column for column, _ in kept),
            values=tuple(value for _, value in kept),
            shows_rowid=self.shows_rowid and ROWID in names,
        )

    def schema(self) -> pa.Schema:
        """Return the columns as clients see them."""
        return published_schema(self.columns, with_rowid=self.shows_rowid)

    def select(
        self, relation: str, *, before: Sequence[str] = (), after: Sequence[str] = ()
    ) -> str:
        """Return the SELECT over the unrestricted relation, with more columns around."""
        names = [duckdb_identifier(column.name) for column in self.columns]
        values = [
            value if value == name else f"{value} AS {name}"
            for name, value in zip(names, self.values, strict=True)
        ]
        rowid = [ROWID] if self.shows_rowid and ROWID not in before else []
        chosen = ", ".join([*before, *values, *rowid, *after]) or "NULL"
        # The filter is inside, so that it reads columns and not masks of the same names.
        where = "" if self.row_filter is None else f" WHERE {self.row_filter}"
        return f"SELECT {chosen} FROM (SELECT * FROM {relation}{where})"  # noqa: S608


def visible_columns(
    table: TableSummary, permissions: Permissions
) -> tuple[tuple[Column, ...], frozenset[str]]:
    """Return the columns of a table that the caller sees, and the names of the masked ones."""
    restriction = permissions.restriction(table)
    if restriction is None:
        return table.columns, frozenset()
    visible = VisibleTable.of(restriction, table, table.columns, permissions)
    return visible.columns, visible.masked


def restricted_reads(
    reads: Mapping[TableKey, TableSummary | View], permissions: Permissions
) -> list[SeenTable | View] | None:
    """Return what a view reads as its caller sees it; None if nothing is restricted."""
    found = {key: permissions.restriction(read) for key, read in reads.items()}
    if not any(found.values()):
        return None
    seen: list[SeenTable | View] = []
    for key, read in reads.items():
        restriction = found[key]
        if isinstance(read, View):
            seen.append(read)
        elif restriction is None:
            seen.append(SeenTable(read.schema, read.name, read.columns, read))
        else:
            visible = VisibleTable.of(restriction, read, read.columns, permissions)
            # A view has no row ids of its tables.
            visible = replace(visible, shows_rowid=False)
            seen.append(SeenTable(read.schema, read.name, visible.columns, read, visible))
    return seen


def over_table(table: TableSummary, visible: VisibleTable) -> list[RawTable | View]:
    """Return the unrestricted table, and the view over it that has the table's name."""
    raw = raw_table(table, visible.raw_columns)
    return [raw, view_over(table, visible.select(raw_path(raw)))]


def raw_table(table: TableSummary, columns: tuple[Column, ...]) -> RawTable:
    """Return a table without its restriction."""
    return RawTable(table.schema, table.name + _RAW, columns, table)


def failure_of(shown: str) -> str:
    """Return the error for SQL of a policy that fails; its own message may contain values."""
    return f"the policies of {shown} cannot be applied: a row filter or a mask has failed"


def view_over(table: TableSummary, sql: str) -> View:
    """Return a view that has the name of a table."""
    return View(
        id=table.id, schema=table.schema, name=table.name, uuid="", dialect="duckdb", sql=sql
    )


def raw_path(table: RawTable) -> str:
    """Return the path of an unrestricted table in the SQL of a view."""
    parts = (duckdb_identifier(part) for part in (table.schema, table.name))
    return ".".join(["{DUCKLAKE_CATALOG}", *parts])


def _present_columns(
    table: LakeObject, columns: Sequence[Column], permissions: Permissions
) -> Sequence[Column]:
    present = permissions.present.get(table.id)
    return present.columns if isinstance(present, TableSummary) else columns


def _check_columns(
    restriction: Restriction,
    columns: Sequence[Column],
    present: Sequence[Column],
    table: LakeObject,
    permissions: Permissions,
) -> None:
    """Raise if filters and masks would read other columns than they do now."""
    then = {fold_name(column.name): column.id for column in columns}
    now = {fold_name(column.name): column.id for column in present}
    if any(then.get(name) != now[name] for name in restriction.columns if name in now):
        shown = f"{permissions.names.published(table.schema)}.{table.name}"
        raise PermissionDeniedError(
            f"you may not read {shown} of this snapshot: it has other columns now, which policies "
            "are written for"
        )


def _shows_rowid(restriction: Restriction, table: LakeObject, permissions: Permissions) -> bool:
    """Return whether the caller sees row ids: gaps in them show how many rows are left out."""
    if not restriction.restricts_rows:
        return True
    verbs = (Operation.UPDATE, Operation.DELETE)
    return any(permissions.may_write(table, verb) for verb in verbs)
