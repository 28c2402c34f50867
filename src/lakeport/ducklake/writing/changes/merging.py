"""MERGE: rows of a source against rows of a table, with any number of clauses.

The source is materialised once in DuckDB, which spills to disk. The rows of the table stream
through one join, in the columns that the conditions read. Only the rows that a clause updates are
then read in all of their columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Literal, TypeAlias, TypeVar

import pyarrow as pa

from lakeport._wording import counted
from lakeport.arrow import RowSource
from lakeport.ducklake.engine import Engine
from lakeport.ducklake.reading.delete_files import Positions
from lakeport.ducklake.writing.changes.expressions import (
    SqlExpression,
    Workspace,
    open_workspace,
    parse_expression,
)
from lakeport.ducklake.writing.changes.key_ranges import key_range_filter
from lakeport.ducklake.writing.changes.sources import (
    ADDRESS,
    PLACE,
    POSITION,
    ROW_ID,
    Place,
    PlaceKey,
    Touched,
    group_addresses,
)
from lakeport.ducklake.writing.changes.statements import (
    assignments_of,
    check_exact,
    has_own_rows,
    read_columns,
    same_places,
    typed,
    write_updated,
)
from lakeport.ducklake.writing.changes.table_rows import TableRows
from lakeport.ducklake.writing.distributed import (
    MAX_SENT_BYTES,
    MAX_SHARED_BYTES,
    Matches,
    engine_rows,
    frame_engine,
    is_frame,
    merge_reader,
)
from lakeport.errors import InvalidArgumentError, InvalidInputError
from lakeport.filters import Filter
from lakeport.types import (
    Column,
    arrow_schema,
    duckdb_identifier,
    duckdb_string,
    fold_name,
)

__all__ = ["Clause", "Merge", "default_sql", "merge_rows"]

R = TypeVar("R")
Assignments: TypeAlias = Mapping[str, str] | Literal["*"]
"""Expressions by column, or `*` for the columns of the source with the same names."""

_NUMBER: Final = "_lakeport_source"
_CLAUSE: Final = "_lakeport_clause"
_MATCHES: Final = pa.schema(
    [*ADDRESS, pa.field(_NUMBER, pa.int64()), pa.field(_CLAUSE, pa.int32())]
)


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


def merge_rows(rows: TableRows, source: RowSource, on: str, clauses: Sequence[Clause]) -> None:
    """Merge rows of a source into a table."""
    columns = rows.writer.columns
    check_exact(columns)
    condition = parse_expression(on, "the condition of the merge")
    with open_workspace() as workspace:
        reader = merge_reader(rows.writer, source)
        names = reader.schema.names
        engine = None
        if is_frame(source):
            engine = frame_engine(rows.writer.transaction.lake.engine, source)
        workspace.register("source_stream", reader)
        workspace.execute(
            f"CREATE TABLE source_rows AS SELECT *, row_number() OVER () AS {_NUMBER} "
            "FROM source_stream"
        )
        parsed = [_parsed(number, clause, columns, names) for number, clause in enumerate(clauses)]
        _Merging(rows, workspace, condition, parsed, reader.schema, engine).run()


def _parsed(
    number: int, clause: Clause, columns: Sequence[Column], source: Sequence[str]
) -> _Parsed:
    condition = parse_expression(clause.condition or "true", "the condition of a clause")
    values = clause.values
    if values is None:
        return _Parsed(number, clause.rows, condition, None)
    if values == "*":
        values = _all_columns(columns, source)
    return _Parsed(number, clause.rows, condition, assignments_of(columns, values))


def _all_columns(columns: Sequence[Column], source: Sequence[str]) -> dict[str, str]:
    """Return an assignment for each column of the table, from the source."""
    known = {fold_name(name): name for name in source}
    missing = [column.name for column in columns if fold_name(column.name) not in known]
    if missing:
        raise InvalidInputError(
            f"the source of the merge has no column {missing[0]!r}, which '*' needs: name the "
            "columns with their expressions instead"
        )
    return {
        column.name: f"source.{duckdb_identifier(known[fold_name(column.name)])}"
        for column in columns
    }


@dataclass(frozen=True, slots=True)
class _Merging:
    """One run of a merge."""

    rows: TableRows
    workspace: Workspace
    on: SqlExpression
    clauses: Sequence[_Parsed]
    source: pa.Schema
    engine: Engine | None
    """The engine of a source that is a DataFrame."""

    def run(self) -> None:
        columns = self.rows.writer.columns
        filter = self._filter()
        expressions = [self.on, *(c.condition for c in self.clauses if c.rows != "not_matched")]
        places = self.rows.places(read_columns(columns, expressions), filter)
        self._join(places)
        self._check_unique()
        updates = self._addresses(places, is_update=True)
        deletes = self._addresses(places, is_update=False)
        inserted = self._inserts()
        if updates:
            self._update(places, updates, filter)
        if deletes:
            self.rows.delete(deletes, places)
        if inserted is not None:
            # As in DuckLake 1.5.5, which inlines what a merge updates and not what it inserts.
            self.rows.add(inserted, in_order=True, inline=False)

    def _filter(self) -> Filter:
        """Return a filter for the rows of the table that may match."""
        if any(clause.rows == "not_matched_by_source" for clause in self.clauses):
            return Filter.always()
        return key_range_filter(self.workspace, self.on, self.rows.writer.columns)

    def _join(self, places: Sequence[Place]) -> None:
        """Create the table `matches`: addresses, source rows and the clauses that apply."""
        address = f"{PLACE} BIGINT, {POSITION} BIGINT, {_NUMBER} BIGINT, {_CLAUSE} INTEGER"
        self.workspace.execute(f"CREATE TABLE matches ({address})")
        if not places:
            return
        by_source = [c for c in self.clauses if c.rows == "not_matched_by_source"]
        matched = [c for c in self.clauses if c.rows == "matched"]
        query = (
            f"SELECT {PLACE}, {POSITION}, {_NUMBER}, CASE WHEN {_NUMBER} IS NULL "
            f"THEN {_choice(by_source)} ELSE {_choice(matched)} END AS {_CLAUSE} "
            f"FROM candidates AS target {'LEFT' if by_source else 'INNER'} JOIN "
            f"source_rows AS source ON {self.on.sql}"
        )
        remote = engine_rows(self.rows, places, "merge into", self.engine)
        source = None
        if remote is not None:
            used = [self.on, *(clause.condition for clause in (*by_source, *matched))]
            source = self._exported(used, MAX_SHARED_BYTES)
        if remote is None or source is None:
            self.workspace.register("candidates", self.rows.read(places))
        else:
            touched = f"FROM ({query}) WHERE {_NUMBER} IS NOT NULL OR {_CLAUSE} IS NOT NULL"
            found = remote.find(places, touched, _MATCHES, source=source)
            self.workspace.register("found_matches", found)
            query = "FROM found_matches"
        self.workspace.execute(f"INSERT INTO matches {query}")

    def _exported(
        self, expressions: Sequence[SqlExpression], most_bytes: int, where: str = "true"
    ) -> pa.Table | None:
        """Return the rows of the source for tasks of an engine; None if they are too many."""
        fields = [f for f in self.source if any(e.mentions(f.name) for e in expressions)]
        names = ", ".join([*(duckdb_identifier(field.name) for field in fields), _NUMBER])
        schema = pa.schema([*fields, pa.field(_NUMBER, pa.int64())])
        batches: list[pa.RecordBatch] = []
        size = 0
        for batch in self.workspace.stream(
            f"SELECT {names} FROM source_rows WHERE {where}", schema
        ):
            batches.append(batch)
            size += batch.nbytes
            if size > most_bytes:
                return None
        return pa.Table.from_batches(batches, schema)

    def _check_unique(self) -> None:
        found = self.workspace.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM matches WHERE {_NUMBER} IS NOT NULL AND "
            f"{_CLAUSE} IS NOT NULL GROUP BY {PLACE}, {POSITION} HAVING count(*) > 1)"
        )
        if count := found[0][0]:
            raise InvalidInputError(
                f"{counted(count, 'row')} of table {self.rows.writer.definition.name} match more "
                "than one row of the source, so it is not clear what becomes of them: make the "
                "rows of the source unique, or make the conditions stricter"
            )

    def _addresses(self, places: Sequence[Place], *, is_update: bool) -> dict[PlaceKey, Positions]:
        numbers = [
            str(clause.number)
            for clause in self.clauses
            if clause.rows != "not_matched" and (clause.values is not None) == is_update
        ]
        if not numbers:
            return {}
        sql = f"SELECT {PLACE}, {POSITION} FROM matches WHERE {_CLAUSE} IN ({', '.join(numbers)})"
        return group_addresses(self.workspace.stream(sql, ADDRESS).read_all(), places)

    def _update(self, places: Sequence[Place], updates: Touched, filter: Filter) -> None:
        columns = self.rows.writer.columns
        wide = same_places(self.rows, places, [column.name for column in columns], filter)
        clauses = [c for c in self.clauses if c.rows != "not_matched" and c.values is not None]
        selected = []
        for column in columns:
            own = f"target.{duckdb_identifier(column.name)}"
            branches = "".join(
                f" WHEN {clause.number} THEN {typed(clause.values[column.id].sql, column)}"
                for clause in clauses
                if clause.values is not None and column.id in clause.values
            )
            value = f"CASE {_CLAUSE}{branches} ELSE {own} END" if branches else own
            selected.append(f"{value} AS {duckdb_identifier(column.name)}")
        # A row may match more rows of the source, to which no clause applies.
        joined = (
            f"{{found}} AS target JOIN (FROM matches WHERE {_CLAUSE} IS NOT NULL) "
            f"USING ({PLACE}, {POSITION}) LEFT JOIN source_rows AS source USING ({_NUMBER})"
        )
        remote = engine_rows(self.rows, wide, "merge into", self.engine)
        if remote is not None and not has_own_rows(updates):
            used = [value for c in clauses for value in (c.values or {}).values()]
            applied = f"SELECT {_NUMBER} FROM matches WHERE {_CLAUSE} IS NOT NULL"
            source = self._exported(used, MAX_SENT_BYTES, f"{_NUMBER} IN ({applied})")
            if source is not None:
                numbers = ", ".join(str(clause.number) for clause in clauses)
                sql = f"FROM matches WHERE {_CLAUSE} IN ({numbers})"
                addresses = self.workspace.stream(sql, _MATCHES).read_all()
                matches = Matches(addresses, source, _NUMBER)
                found = joined.format(found="candidates")
                remote.write(wide, updates, [*selected, ROW_ID], found, matches=matches)
                self.rows.delete(updates, places)
                return
        write_updated(
            self.rows,
            self.workspace,
            self.rows.read(wide, updates),
            selected,
            updates,
            places,
            source=joined,
        )

    def _inserts(self) -> pa.RecordBatchReader | None:
        """Return the new rows, which no clause has seen before."""
        clauses = [clause for clause in self.clauses if clause.rows == "not_matched"]
        if not clauses:
            return None
        self.workspace.execute(
            f"CREATE TABLE inserts AS SELECT {_NUMBER}, {_choice(clauses)} AS {_CLAUSE} "
            f"FROM source_rows AS source WHERE {_NUMBER} NOT IN "
            f"(SELECT {_NUMBER} FROM matches WHERE {_NUMBER} IS NOT NULL)"
        )
        selected = []
        for column in self.rows.writer.columns:
            branches = "".join(
                f" WHEN {clause.number} THEN {typed(clause.values[column.id].sql, column)}"
                for clause in clauses
                if clause.values is not None and column.id in clause.values
            )
            default = default_sql(column)
            value = f"CASE {_CLAUSE}{branches} ELSE {default} END" if branches else default
            selected.append(f"{value} AS {duckdb_identifier(column.name)}")
        return self.workspace.stream(
            f"SELECT {', '.join(selected)} FROM inserts JOIN source_rows AS source "
            f"USING ({_NUMBER}) WHERE {_CLAUSE} IS NOT NULL",
            arrow_schema(self.rows.writer.columns),
        )


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
        return typed(parse_expression(column.default, "the default of a column").sql, column)
    return typed(duckdb_string(column.default), column)
