"""Several small queries as one statement: what keeps the number of round trips small."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

__all__ = ["PreparedUnionQuery", "UnionQuery", "portable"]


class UnionQuery:
    """Several small queries sent as one statement, so that a lookup costs one round trip.

    Every part becomes a branch of a UNION ALL, its columns laid out over shared columns.
    """

    def __init__(self) -> None:
        self._parts: dict[str, dict[str, ColumnElement[Any]]] = {}
        self._selects: dict[str, sa.Select[Any]] = {}

    def add(
        self,
        kind: str,
        source: sa.FromClause,
        columns: Sequence[str],
        *conditions: ColumnElement[bool],
        joined: sa.FromClause | None = None,
    ) -> None:
        """Ask for these columns of the rows of `source` that meet the conditions."""
        chosen = {name: source.c[name] for name in columns}
        self.add_select(kind, chosen, source if joined is None else joined, *conditions)

    def add_select(
        self,
        kind: str,
        columns: Mapping[str, ColumnElement[Any]],
        source: sa.FromClause,
        *conditions: ColumnElement[bool],
    ) -> None:
        """Ask for these expressions, by the names that the answer shall use."""
        self._parts[kind] = {name: portable(column) for name, column in columns.items()}
        self._selects[kind] = sa.select().select_from(source).where(*conditions)

    def prepare(self, dialect: sa.Dialect) -> PreparedUnionQuery:
        """The statement as text, to be sent again and again with other parameters."""
        layouts = {kind: _layout(columns.values()) for kind, columns in self._parts.items()}
        numbers = max(sum(letter == "n" for letter, _ in slots) for slots in layouts.values())
        texts = max(sum(letter == "t" for letter, _ in slots) for slots in layouts.values())
        slots = [("n", i) for i in range(numbers)] + [("t", i) for i in range(texts)]
        branches = []
        for kind, columns in self._parts.items():
            placed = dict(zip(layouts[kind], columns.values(), strict=True))
            tag = sa.cast(sa.literal_column(f"'{kind}'"), sa.String(30)).label("kind")
            cells = [_cell(placed.get(slot), slot) for slot in slots]
            branches.append(self._selects[kind].add_columns(tag, *cells))
        compiled: Any = sa.union_all(*branches).compile(dialect=dialect)
        index = {slot: position + 1 for position, slot in enumerate(slots)}
        return PreparedUnionQuery(
            sql=str(compiled),
            positions=tuple(compiled.positiontup) if compiled.positional else None,
            constants={name: value for name, value in compiled.params.items() if value is not None},
            shapes={
                kind: [
                    (name, index[slot]) for name, slot in zip(columns, layouts[kind], strict=True)
                ]
                for kind, columns in self._parts.items()
            },
        )


@dataclass(frozen=True, slots=True)
class PreparedUnionQuery:
    """A bundle as SQL text of one database."""

    sql: str
    positions: tuple[str, ...] | None
    constants: Mapping[str, Any]
    shapes: Mapping[str, list[tuple[str, int]]]

    def run(self, connection: sa.Connection, **parameters: Any) -> dict[str, list[dict[str, Any]]]:
        """Send the statement; the rows of each part by the names of its columns."""
        values = {**self.constants, **parameters}
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in self.shapes}
        bound = values if self.positions is None else tuple(values[n] for n in self.positions)
        for row in connection.exec_driver_sql(self.sql, bound or None).all():
            found[row[0]].append({name: row[position] for name, position in self.shapes[row[0]]})
        return found


def portable(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Numbers stay, truth values become 0 and 1, and everything else becomes text."""
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
