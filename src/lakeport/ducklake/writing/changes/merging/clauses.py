"""The clauses of a MERGE: how a caller describes them, and their SQL.

The SQL is DuckDB's, over the tables `candidates` (rows of the table with their addresses),
`source_rows` and `matches`. This process and the tasks of an engine run the same queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from lakeport._wording import counted
from lakeport.ducklake.writing.changes.expressions import SqlExpression, parse_expression
from lakeport.ducklake.writing.changes.sources import PLACE, POSITION
from lakeport.ducklake.writing.changes.statements import assignments_of, typed
from lakeport.ducklake.writing.ddl.defaults import check_default
from lakeport.errors import InvalidArgumentError, InvalidInputError
from lakeport.types import Column, duckdb_identifier, duckdb_string, fold_name

__all__ = [
    "CLAUSE",
    "NUMBER",
    "Clause",
    "Clauses",
    "Merge",
    "check_unique",
    "default_sql",
    "numbers_of",
    "parse_clauses",
]

R = TypeVar("R")
Assignments: TypeAlias = Mapping[str, str] | Literal["*"]
"""Expressions by column, or `*` for the columns of the source with the same names."""

NUMBER: Final = "_lakeport_source"
"""The column with the number of a row of the source."""
CLAUSE: Final = "_lakeport_clause"
"""The column with the number of the clause that applies; NULL if none does."""


@dataclass(frozen=True, slots=True)
class Clause:
    """What happens to some rows of a merge; the first clause whose condition holds applies."""

    rows: Literal["matched", "not_matched", "not_matched_by_source"]
    condition: str | None
    values: Assignments | None
    """The columns that are set; None for a delete."""


@dataclass(frozen=True, slots=True)
class Merge(Generic[R]):
    """A merge that is being described; `execute` runs it.

    Conditions and expressions are DuckDB SQL, with the tables `target` and `source`.
    """

    on: str
    run: Callable[[str, Sequence[Clause]], R]
    clauses: tuple[Clause, ...] = ()

    def when_matched(
        self,
        condition: str | None = None,
        *,
        update: Assignments | None = None,
        delete: bool = False,
    ) -> Merge[R]:
        """Update or delete rows of the table that match a row of the source."""
        return self._with(Clause("matched", condition, _change(update, delete=delete)))

    def when_not_matched(
        self, condition: str | None = None, *, insert: Assignments = "*"
    ) -> Merge[R]:
        """Insert rows of the source that match no row of the table."""
        return self._with(Clause("not_matched", condition, insert))

    def when_not_matched_by_source(
        self,
        condition: str | None = None,
        *,
        update: Mapping[str, str] | None = None,
        delete: bool = False,
    ) -> Merge[R]:
        """Update or delete rows of the table that match no row of the source."""
        return self._with(
            Clause("not_matched_by_source", condition, _change(update, delete=delete))
        )

    def execute(self) -> R:
        """Run the merge."""
        if not self.clauses:
            raise InvalidArgumentError("a merge needs at least one clause, such as when_matched")
        return self.run(self.on, self.clauses)

    def _with(self, clause: Clause) -> Merge[R]:
        return replace(self, clauses=(*self.clauses, clause))


def _change(update: Assignments | None, *, delete: bool) -> Assignments | None:
    if delete == (update is not None):
        raise InvalidArgumentError("a clause needs either update=... or delete=True")
    return update


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A clause with its number and its parsed expressions."""

    number: int
    rows: str
    condition: SqlExpression
    values: Mapping[int, SqlExpression] | None
    is_whole_source: bool = False
    """Whether the values are the columns of the source: `*`."""
    is_always: bool = False
    """Whether the clause has no condition."""


@dataclass(frozen=True, slots=True)
class Clauses:
    """The clauses of one merge into a table of some columns."""

    on: SqlExpression
    all: tuple[_Parsed, ...]
    columns: tuple[Column, ...]

    def of(self, rows: str) -> list[_Parsed]:
        """Return the clauses for matched, not matched, or rows not matched by the source."""
        return [clause for clause in self.all if clause.rows == rows]

    @property
    def updates(self) -> list[_Parsed]:
        """The clauses that update rows of the table."""
        return [c for c in self.all if c.rows != "not_matched" and c.values is not None]

    @property
    def deletes(self) -> list[_Parsed]:
        """The clauses that delete rows of the table."""
        return [c for c in self.all if c.rows != "not_matched" and c.values is None]

    @property
    def keeps_unmatched(self) -> bool:
        """Whether rows of the table are changed that match no row of the source."""
        return bool(self.of("not_matched_by_source"))

    @property
    def updates_need_table(self) -> bool:
        """Whether the new form of a row depends on the old one, so that it has to be read."""
        return not all(clause.is_whole_source for clause in self.updates)

    @property
    def duplicates(self) -> str:
        """A query for the number of rows of the table of which it is not clear what they become.

        As in Spark and Delta Lake, a row may match several rows of the source if the only thing
        that happens to matched rows is a delete without a condition.
        """
        matched = self.of("matched")
        is_clear = len(matched) == 1 and matched[0].values is None and matched[0].is_always
        return "SELECT 0" if is_clear else _DUPLICATES

    @property
    def conditions(self) -> list[SqlExpression]:
        """The expressions that decide about rows of the table."""
        return [self.on, *(c.condition for c in self.all if c.rows != "not_matched")]

    def matches(self, *others: str) -> str:
        """Return a query for addresses, source rows and the clauses that apply."""
        by_source = self.of("not_matched_by_source")
        columns = ", ".join([PLACE, POSITION, *others, NUMBER])
        return (
            f"SELECT {columns}, CASE WHEN {NUMBER} IS NULL "
            f"THEN {_choice(by_source)} ELSE {_choice(self.of('matched'))} END AS {CLAUSE} "
            f"FROM candidates AS target {'LEFT' if by_source else 'INNER'} JOIN "
            f"source_rows AS source ON {self.on.sql}"
        )

    def updated(self) -> list[str]:
        """Return the columns of updated rows, over `target`, `source` and the clause.

        If the old form of rows is not needed, there is no `target`.
        """
        own = "target.{}" if self.updates_need_table else "NULL"
        return [
            self._value(column, self.updates, own.format(duckdb_identifier(column.name)))
            for column in self.columns
        ]

    def inserted(self) -> list[str]:
        """Return the columns of inserted rows, over `source` and the clause."""
        clauses = self.of("not_matched")
        return [self._value(column, clauses, default_sql(column)) for column in self.columns]

    def inserts(self) -> str:
        """Return a query for the rows of the source that match nothing, and their clauses."""
        return (
            f"SELECT {NUMBER}, {_choice(self.of('not_matched'))} AS {CLAUSE} "
            f"FROM source_rows AS source WHERE {NUMBER} NOT IN "
            f"(SELECT {NUMBER} FROM matches WHERE {NUMBER} IS NOT NULL)"
        )

    def _value(self, column: Column, clauses: Sequence[_Parsed], otherwise: str) -> str:
        branches = "".join(
            f" WHEN {clause.number} THEN {typed(clause.values[column.id].sql, column)}"
            for clause in clauses
            if clause.values is not None and column.id in clause.values
        )
        value = f"CASE {CLAUSE}{branches} ELSE {otherwise} END" if branches else otherwise
        return f"{value} AS {duckdb_identifier(column.name)}"


def numbers_of(clauses: Sequence[_Parsed]) -> str:
    """Return the numbers of clauses as a list of SQL; no number is -1."""
    return ", ".join(str(clause.number) for clause in clauses) or "-1"


_DUPLICATES: Final = (
    f"SELECT count(*) FROM (SELECT 1 FROM matches WHERE {NUMBER} IS NOT NULL AND "
    f"{CLAUSE} IS NOT NULL GROUP BY {PLACE}, {POSITION} HAVING count(*) > 1)"
)
"""A query for the number of rows of the table to which several rows of the source apply."""


def check_unique(duplicates: int, table: str) -> None:
    """Raise InvalidInputError if rows of the table match several rows of the source."""
    if duplicates:
        raise InvalidInputError(
            f"{counted(duplicates, 'row')} of table {table} match more than one row of the source, "
            "so it is not clear what becomes of them: make the rows of the source unique, or make "
            "the conditions stricter"
        )


def parse_clauses(
    on: str,
    clauses: Sequence[Clause],
    columns: Sequence[Column],
    source: Sequence[str],
    *,
    merge_schema: bool = False,
) -> Clauses:
    """Return the clauses of a merge from a source with some columns."""

    def parsed(number: int, clause: Clause) -> _Parsed:
        condition = parse_expression(clause.condition or "true", "the condition of a clause")
        values, is_always = clause.values, clause.condition is None
        if values is None:
            return _Parsed(number, clause.rows, condition, None, is_always=is_always)
        is_whole = False
        if values == "*":
            values = _all_columns(columns, source, merge_schema=merge_schema)
            is_whole = len(values) == len(columns)
        found = assignments_of(columns, values)
        return _Parsed(number, clause.rows, condition, found, is_whole, is_always)

    return Clauses(
        parse_expression(on, "the condition of the merge"),
        tuple(parsed(number, clause) for number, clause in enumerate(clauses)),
        tuple(columns),
    )


def _all_columns(
    columns: Sequence[Column], source: Sequence[str], *, merge_schema: bool
) -> dict[str, str]:
    """Return an assignment for each column of the table, from the source.

    With `merge_schema`, a column that the source lacks stays as it is, and is the default of new
    rows.
    """
    known = {fold_name(name): name for name in source}
    missing = [column.name for column in columns if fold_name(column.name) not in known]
    if missing and not merge_schema:
        raise InvalidInputError(
            f"the source of the merge has no column {missing[0]!r}, which '*' needs: name the "
            "columns with their expressions instead"
        )
    return {
        column.name: f"source.{duckdb_identifier(known[fold_name(column.name)])}"
        for column in columns
        if fold_name(column.name) in known
    }


def _choice(clauses: Sequence[_Parsed]) -> str:
    """Return SQL for the number of the first clause that applies; NULL if none does."""
    if not clauses:
        return "NULL"
    branches = "".join(f" WHEN {c.condition.sql} THEN {c.number}" for c in clauses)
    return f"CASE{branches} END"


def default_sql(column: Column) -> str:
    """Return the default of a column as SQL."""
    if column.default is None:
        return typed("NULL", column)
    if column.default_is_expression:
        check_default(column, column.default)
        return typed(parse_expression(column.default, "the default of a column").sql, column)
    return typed(duckdb_string(column.default), column)
