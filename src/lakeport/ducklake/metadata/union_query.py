"""Several small queries as one statement, so that a lookup costs one round trip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from lakeport.ducklake.metadata.rows import QueryRow, column_types, from_values

__all__ = ["PreparedUnionQuery", "QueryResult", "Row", "UnionQuery", "portable"]

Row = dict[str, Any]
"""A row of a branch whose columns depend on the query, by the names of the columns."""

R = TypeVar("R", bound=QueryRow)


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of each branch: by row class, or by name for branches with other columns."""

    _rows: Mapping[str, list[Any]]

    @overload
    def __getitem__(self, branch: type[R]) -> list[R]: ...

    @overload
    def __getitem__(self, branch: str) -> list[Row]: ...

    def __getitem__(self, branch: type[QueryRow] | str) -> list[Any]:
        return self._rows[branch if isinstance(branch, str) else branch.branch]

    def replace(self, rows: Mapping[type[QueryRow] | str, Sequence[Any]]) -> QueryResult:
        """Return a result with other rows in some branches."""
        changed = {
            branch if isinstance(branch, str) else branch.branch: list(replaced)
            for branch, replaced in rows.items()
        }
        return QueryResult({**self._rows, **changed})


class UnionQuery:
    """Several small queries that are sent as one statement.

    Every query becomes a branch of a UNION ALL, its columns laid out over shared columns.
    """

    def __init__(self) -> None:
        self._branches: dict[str, dict[str, ColumnElement[Any]]] = {}
        self._selects: dict[str, sa.Select[Any]] = {}
        self._row_types: dict[str, type[QueryRow]] = {}

    def add(
        self,
        row: type[QueryRow],
        source: sa.FromClause,
        *conditions: ColumnElement[bool],
        joined: sa.FromClause | None = None,
    ) -> None:
        """Add a branch for the rows of `source` that meet the conditions."""
        columns = {name: source.c[name] for name in column_types(row)}
        self.add_select(row.branch, columns, source if joined is None else joined, *conditions)
        self._row_types[row.branch] = row

    def add_select(
        self,
        branch: str,
        columns: Mapping[str, ColumnElement[Any]],
        source: sa.FromClause,
        *conditions: ColumnElement[bool],
    ) -> None:
        """Add a branch for expressions, by their names in the result."""
        self._branches[branch] = {name: portable(column) for name, column in columns.items()}
        self._selects[branch] = sa.select().select_from(source).where(*conditions)

    def prepare(self, dialect: sa.Dialect) -> PreparedUnionQuery:
        """Compile the statement for a database, to be run with any parameters."""
        layouts = {branch: _layout(columns.values()) for branch, columns in self._branches.items()}
        numbers = max(sum(letter == "n" for letter, _ in slots) for slots in layouts.values())
        texts = max(sum(letter == "t" for letter, _ in slots) for slots in layouts.values())
        slots = [("n", i) for i in range(numbers)] + [("t", i) for i in range(texts)]
        selects = []
        for branch, columns in self._branches.items():
            placed = dict(zip(layouts[branch], columns.values(), strict=True))
            tag = sa.cast(sa.literal_column(f"'{branch}'"), sa.String(30)).label("kind")
            cells = [_cell(placed.get(slot), slot) for slot in slots]
            selects.append(self._selects[branch].add_columns(tag, *cells))
        compiled: Any = sa.union_all(*selects).compile(dialect=dialect)
        index = {slot: position + 1 for position, slot in enumerate(slots)}
        return PreparedUnionQuery(
            sql=str(compiled),
            positions=tuple(compiled.positiontup) if compiled.positional else None,
            constants={name: value for name, value in compiled.params.items() if value is not None},
            shapes={
                branch: [
                    (name, index[slot]) for name, slot in zip(columns, layouts[branch], strict=True)
                ]
                for branch, columns in self._branches.items()
            },
            row_types=self._row_types,
        )


@dataclass(frozen=True, slots=True)
class PreparedUnionQuery:
    """A union query as SQL text of one database."""

    sql: str
    positions: tuple[str, ...] | None
    constants: Mapping[str, Any]
    shapes: Mapping[str, list[tuple[str, int]]]
    row_types: Mapping[str, type[QueryRow]]

    def run(self, connection: sa.Connection, **parameters: Any) -> QueryResult:
        """Send the statement, and return the rows of each branch."""
        values = {**self.constants, **parameters}
        bound = values if self.positions is None else tuple(values[n] for n in self.positions)
        rows: dict[str, list[Any]] = {branch: [] for branch in self.shapes}
        for row in connection.exec_driver_sql(self.sql, bound or None).all():
            branch = row[0]
            shape, row_type = self.shapes[branch], self.row_types.get(branch)
            if row_type is None:
                rows[branch].append({name: row[position] for name, position in shape})
            else:
                rows[branch].append(from_values(row_type, [row[position] for _, position in shape]))
        return QueryResult(rows)


def portable(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return numbers as they are, truth values as 0 and 1, and everything else as text."""
    if isinstance(column.type, sa.Boolean):
        return sa.case((column.is_(None), None), (column, 1), else_=0)
    if isinstance(column.type, sa.BigInteger):
        return column
    return sa.cast(column, sa.String())


def _layout(columns: Iterable[ColumnElement[Any]]) -> list[tuple[str, int]]:
    counts = {"n": 0, "t": 0}
    slots = []
    for column in columns:
        letter = "t" if isinstance(column.type, sa.String) else "n"
        slots.append((letter, counts[letter]))
        counts[letter] += 1
    return slots


def _cell(column: ColumnElement[Any] | None, slot: tuple[str, int]) -> ColumnElement[Any]:
    label = f"{slot[0]}{slot[1]}"
    if column is not None:
        return (
            sa.cast(column, sa.BigInteger).label(label) if slot[0] == "n" else column.label(label)
        )
    return sa.null().cast(sa.BigInteger if slot[0] == "n" else sa.String()).label(label)
