"""The row changes of one statement, in a form that can be applied to any later state of the table.

A change is prepared against the state that its statement saw. When it is applied to a later state,
it adds its new rows to the rows of other statements. It fails if another statement has written a
row that it updates or deletes: the first statement to commit wins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakeport.errors import UnavailableError
from lakeport.memory.constraints import check_unique
from lakeport.memory.rows import Chunk, Rows, RowVersions
from lakeport.memory.state import CatalogState, Definition, TableState, TableVersion

__all__ = ["Change", "ColumnUpdate", "RowChange"]


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A function from one state of the catalog to the next. May be applied to several states."""

    apply: Callable[[CatalogState], CatalogState]
    alters: frozenset[int] = frozenset()
    """The ids of the tables whose columns or names it changes, or that it drops."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnUpdate:
    """New values for some columns of some rows."""

    touched: RowVersions
    """The rows, as the statement saw them."""
    values: dict[int, pa.Array]
    """The new values of each column that is set, in the order of the rows."""


@dataclass(slots=True, eq=False)
class RowChange:
    """The rows that a statement inserts, updates or deletes."""

    table_id: int
    definition: Definition
    statement_id: int
    """Unique in the catalog."""
    inserted: tuple[Chunk, ...] = ()
    updates: tuple[ColumnUpdate, ...] = ()
    """In the order of the statement: a later value replaces an earlier one."""
    deleted: RowVersions | None = None
    _last: tuple[TableVersion, TableVersion] | None = field(default=None, repr=False)
    """The last result, so that a commit right after the statement reuses it."""

    def as_change(self) -> Change:
        """Return this as a change of the whole catalog."""
        return Change(self.apply)

    def apply(self, state: CatalogState) -> CatalogState:
        """Return the catalog with the rows changed."""
        table = state.table(self.table_id)
        if table is None:
            raise UnavailableError("the table was dropped by another transaction; try again")
        last = self._last
        if last is None or last[0] is not table.current:
            before = table.current
            last = self._last = (before, TableVersion(before.definition, self._rows(table)))
        return state.with_table(replace(table, current=last[1]))

    def _rows(self, table: TableState) -> Rows:
        version = table.current
        if version.definition != self.definition:
            raise UnavailableError(
                f"the columns of table {table} were changed by another transaction; try again"
            )
        rows = version.rows
        for touched in self._touched():
            _check_unchanged(rows, touched, table)
        rows = self._apply_to(rows)
        self._check_unique(rows, str(table))
        return rows

    def _touched(self) -> list[RowVersions]:
        touched = [update.touched for update in self.updates]
        return touched if self.deleted is None else [*touched, self.deleted]

    def _apply_to(self, rows: Rows) -> Rows:
        for update in self.updates:
            rows = rows.updated(update.touched.rowids, update.values, self.statement_id)
        if self.deleted is not None:
            rows = rows.without(self.deleted.rowids)
        return rows.with_chunks(self.inserted) if self.inserted else rows

    def _check_unique(self, rows: Rows, table: str) -> None:
        if not self.definition.unique:
            return
        if self.inserted:
            check_unique(self.definition, rows, self.inserted, None, table)
        if self.updates:
            updated = [rows.find(update.touched.rowids) for update in self.updates]
            check_unique(
                self.definition,
                rows,
                [chunk for chunk in updated if chunk is not None],
                frozenset().union(*(update.values for update in self.updates)),
                table,
            )


def _check_unchanged(rows: Rows, touched: RowVersions, table: TableState) -> None:
    present = rows.row_versions(touched.rowids)
    has_all = len(present.rowids) == len(touched.rowids)
    if not has_all or not present.statement_ids.equals(touched.statement_ids):
        raise UnavailableError(
            f"rows of table {table} were changed by another transaction; try again"
        )
