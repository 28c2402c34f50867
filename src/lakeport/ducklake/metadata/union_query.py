"""Several small queries as one statement, so that a lookup costs one round trip.

The rows of a lookup are objects, or Arrow columns where there may be a row for each file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, TypeVar, overload

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from lakeport.ducklake.metadata.rows import QueryRow, column_types, from_values
from lakeport.errors import CorruptLakeError

__all__ = ["ColumnsResult", "PreparedUnionQuery", "QueryResult", "Row", "UnionQuery", "portable"]

Row = dict[str, Any]
"""A row of a branch whose columns depend on the query, by the names of the columns."""

R = TypeVar("R", bound=QueryRow)

_BLOCK_ROWS: Final = 4096


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of each branch: by row class, or by name for branches with other columns."""

    _rows: Mapping[str, list[Any]]
    _values: Mapping[str, list[tuple[Any, ...]]] = field(default_factory=dict, repr=False)
    """The same without objects, for branches that were requested so."""

    @overload
    def __getitem__(self, branch: type[R]) -> list[R]: ...

    @overload
    def __getitem__(self, branch: str) -> list[Row]: ...

    def __getitem__(self, branch: type[QueryRow] | str) -> list[Any]:
        return self._rows[branch if isinstance(branch, str) else branch.branch]

    def values(self, branch: type[QueryRow]) -> list[tuple[Any, ...]]:
        """Return the rows of a branch that was requested without objects, as tuples."""
        return self._values[branch.branch]

    def replace(self, rows: Mapping[type[QueryRow] | str, Sequence[Any]]) -> QueryResult:
        """Return a result with other rows in some branches."""
        changed = {
            branch if isinstance(branch, str) else branch.branch: list(replaced)
            for branch, replaced in rows.items()
        }
        return QueryResult({**self._rows, **changed}, self._values)


@dataclass(frozen=True, slots=True)
class ColumnsResult:
    """The rows of each branch as Arrow columns: numbers are int64, everything else is text."""

    _tables: Mapping[str, pa.Table]

    def __getitem__(self, branch: type[QueryRow] | str) -> pa.Table:
        return self._tables[branch if isinstance(branch, str) else branch.branch]


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
        types = [pa.int64() if letter == "n" else pa.string() for letter, _ in slots]
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
            types=(pa.string(), *types),
        )


@dataclass(frozen=True, slots=True)
class PreparedUnionQuery:
    """A union query as SQL text of one database."""

    sql: str
    positions: tuple[str, ...] | None
    constants: Mapping[str, Any]
    shapes: Mapping[str, list[tuple[str, int]]]
    row_types: Mapping[str, type[QueryRow]]
    types: tuple[pa.DataType, ...]
    """The Arrow types of the shared columns; the first is the name of the branch."""

    def run(
        self, connection: sa.Connection, plain: type[QueryRow] | None = None, /, **parameters: Any
    ) -> QueryResult:
        """Send the statement, and return the rows of each branch; those of `plain` as tuples."""
        result = self._send(connection, parameters)
        # Rows of the driver: SQLAlchemy would make an object for each.
        cursor: Any = result.cursor
        found: dict[str, list[Any]] = {branch: [] for branch in self.shapes}
        for row in cursor.fetchall():
            found[row[0]].append(row)
        result.close()
        tuples = {branch: self._tuples(branch, rows) for branch, rows in found.items()}
        return QueryResult(
            {
                branch: self._objects(branch, rows)
                for branch, rows in tuples.items()
                if plain is None or branch != plain.branch
            },
            {} if plain is None else {plain.branch: tuples[plain.branch]},
        )

    def _tuples(self, branch: str, rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """Return the values of the columns that a branch has among the shared ones."""
        positions = [position for _, position in self.shapes[branch]]
        if len(positions) == 1:
            return [(row[positions[0]],) for row in rows]
        return list(map(itemgetter(*positions), rows))

    def _objects(self, branch: str, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        row_type = self.row_types.get(branch)
        if row_type is not None:
            return [from_values(row_type, row) for row in rows]
        names = [name for name, _ in self.shapes[branch]]
        return [dict(zip(names, row, strict=True)) for row in rows]

    def run_columns(self, connection: sa.Connection, **parameters: Any) -> ColumnsResult:
        """Send the statement, and return the rows of each branch as Arrow columns."""
        if connection.dialect.name == "duckdb":
            columns = self._duckdb_columns(connection, parameters)
        else:
            # The cursor of the driver: SQLAlchemy would make an object for each row.
            columns = self._columns(self._send(connection, parameters).cursor)
        tags = columns[0]
        found = set(pc.unique(tags).to_pylist())
        tables = {}
        for branch, shape in self.shapes.items():
            names = [name for name, _ in shape]
            table = pa.Table.from_arrays([columns[position] for _, position in shape], names=names)
            if branch not in found:
                table = table.slice(0, 0)
            elif len(found) > 1:
                table = table.filter(pc.equal(tags, branch))
            fields = [pa.field(name, self.types[position]) for name, position in shape]
            tables[branch] = table.cast(pa.schema(fields))
        return ColumnsResult(tables)

    def _duckdb_columns(
        self, connection: sa.Connection, parameters: Mapping[str, Any]
    ) -> list[pa.ChunkedArray]:
        """Return the columns as DuckDB has them, in the way that makes no copy of the rows.

        That is `execute` in DuckDB 1.5 and `sql` in DuckDB 2.0, which warns about `execute`.
        """
        import duckdb

        if duckdb.__version__.startswith("1."):
            cursor: Any = self._send(connection, parameters).cursor
            return list(cursor.to_arrow_table().columns)
        raw: Any = connection.connection.dbapi_connection
        return list(raw.sql(self.sql, params=self._bound(parameters)).to_arrow_table().columns)

    def _columns(self, cursor: Any) -> list[pa.ChunkedArray]:
        """Convert rows a block at a time: the objects of a block reuse the memory of the last."""
        blocks: list[list[pa.Array]] = [[] for _ in self.types]
        try:
            while rows := cursor.fetchmany(_BLOCK_ROWS):
                values = zip(*rows, strict=True)
                for block, column, type in zip(blocks, values, self.types, strict=True):
                    block.append(pa.array(column, type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise CorruptLakeError(
                f"the catalog database has a value of another type than its column: {error}"
            ) from None
        return [
            pa.chunked_array(block, type) for block, type in zip(blocks, self.types, strict=True)
        ]

    def _send(self, connection: sa.Connection, parameters: Mapping[str, Any]) -> Any:
        return connection.exec_driver_sql(self.sql, self._bound(parameters) or None)

    def _bound(self, parameters: Mapping[str, Any]) -> Any:
        """Return the values of the parameters, in the form that the driver takes."""
        values = {**self.constants, **parameters}
        return values if self.positions is None else tuple(values[n] for n in self.positions)


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
