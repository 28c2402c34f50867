"""What one statement does to the rows of a table, in a form that fits any later state of it.

A change is prepared against the state that its statement saw. Applied to a later state it puts
new rows beside those of others, and refuses when a row that it touches was written by someone
else in between: the first one to commit wins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakeport.errors import UnavailableError
from lakeport.memory.constraints import check_unique
from lakeport.memory.rows import Chunk, Rows, Stamps
from lakeport.memory.state import CatalogState, Definition, TableState, TableVersion

__all__ = ["Change", "Patch", "RowChange"]


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A step from one state of the catalog to the next; may be taken from several states."""

    apply: Callable[[CatalogState], CatalogState]
    alters: frozenset[int] = frozenset()
    """The tables whose columns or names it changes, or that it drops."""


@dataclass(frozen=True, slots=True, eq=False)
class Patch:
    """New values for some rows."""

    touched: Stamps
    """The rows, as the statement saw them."""
    values: dict[int, pa.Array]
    """The new values of each column that is set, in the order of the rows."""


@dataclass(slots=True, eq=False)
class RowChange:
    """The rows that a statement inserts, updates or deletes."""

    table_id: int
    definition: Definition
    write: int
    """The number of the statement."""
    inserted: tuple[Chunk, ...] = ()
    patches: tuple[Patch, ...] = ()
    """In the order of the statement: later values win."""
    deleted: Stamps | None = None
    _known: tuple[TableVersion, TableVersion] | None = field(default=None, repr=False)
    """The last result: a commit right after the statement need not compute it again."""

    def as_change(self) -> Change:
        """The change as a step of the whole catalog."""
        return Change(self.apply)

    def apply(self, state: CatalogState) -> CatalogState:
        """The catalog with the rows changed."""
        table = state.table(self.table_id)
        if table is None:
            raise UnavailableError("the table was dropped by another transaction; try again")
        known = self._known
        if known is None or known[0] is not table.current:
            before = table.current
            known = self._known = (before, TableVersion(before.definition, self._rows(table)))
        return state.with_table(replace(table, current=known[1]))

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

    def _touched(self) -> list[Stamps]:
        touched = [patch.touched for patch in self.patches]
        return touched if self.deleted is None else [*touched, self.deleted]

    def _apply_to(self, rows: Rows) -> Rows:
        for patch in self.patches:
            rows = rows.patched(patch.touched.rowids, patch.values, self.write)
        if self.deleted is not None:
            rows = rows.without(self.deleted.rowids)
        return rows.with_chunks(self.inserted) if self.inserted else rows

    def _check_unique(self, rows: Rows, table: str) -> None:
        if not self.definition.unique:
            return
        if self.inserted:
            check_unique(self.definition, rows, self.inserted, None, table)
        if self.patches:
            updated = [rows.find(patch.touched.rowids) for patch in self.patches]
            check_unique(
                self.definition,
                rows,
                [chunk for chunk in updated if chunk is not None],
                frozenset().union(*(patch.values for patch in self.patches)),
                table,
            )


def _check_unchanged(rows: Rows, touched: Stamps, table: TableState) -> None:
    present = rows.stamps(touched.rowids)
    if len(present.rowids) != len(touched.rowids) or not present.writes.equals(touched.writes):
        raise UnavailableError(
            f"rows of table {table} were changed by another transaction; try again"
        )
