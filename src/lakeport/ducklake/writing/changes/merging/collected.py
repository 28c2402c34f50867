"""A merge whose source is in this process.

The source is materialised once in DuckDB, which spills to disk. The rows of the table stream
through one join, in the columns that the conditions read. Only the rows that a clause updates are
then read in all of their columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakeport.ducklake.engine import Engine
from lakeport.ducklake.reading.delete_files import Positions
from lakeport.ducklake.writing.changes.expressions import SqlExpression, Workspace, open_workspace
from lakeport.ducklake.writing.changes.key_ranges import key_range_filter
from lakeport.ducklake.writing.changes.merging.clauses import (
    CLAUSE,
    NUMBER,
    Clauses,
    check_unique,
    numbers_of,
)
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
    has_own_rows,
    read_columns,
    same_places,
    write_updated,
)
from lakeport.ducklake.writing.changes.table_rows import TableRows
from lakeport.ducklake.writing.distributed import (
    MAX_SENT_BYTES,
    MAX_SHARED_BYTES,
    Matches,
    engine_rows,
)
from lakeport.filters import Filter
from lakeport.types import arrow_schema, duckdb_identifier

__all__ = ["merge_collected"]

_MATCHES: Final = pa.schema([*ADDRESS, pa.field(NUMBER, pa.int64()), pa.field(CLAUSE, pa.int32())])


def merge_collected(
    rows: TableRows, source: pa.RecordBatchReader, clauses: Clauses, engine: Engine | None
) -> None:
    """Merge rows that this process reads; `engine` is that of a source that is a DataFrame."""
    with open_workspace() as workspace:
        workspace.register("source_stream", source)
        workspace.execute(
            f"CREATE TABLE source_rows AS SELECT *, row_number() OVER () AS {NUMBER} "
            "FROM source_stream"
        )
        _Merging(rows, workspace, clauses, source.schema, engine).run()


@dataclass(frozen=True, slots=True)
class _Merging:
    """One run of a merge."""

    rows: TableRows
    workspace: Workspace
    clauses: Clauses
    source: pa.Schema
    engine: Engine | None

    def run(self) -> None:
        columns = self.rows.writer.columns
        filter = self._filter()
        places = self.rows.places(read_columns(columns, self.clauses.conditions), filter)
        self._join(places)
        duplicates = self.workspace.execute(self.clauses.duplicates)[0][0]
        check_unique(duplicates, self.rows.writer.definition.name)
        updates = self._addresses(places, numbers_of(self.clauses.updates))
        deletes = self._addresses(places, numbers_of(self.clauses.deletes))
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
        if self.clauses.keeps_unmatched:
            return Filter.always()
        return key_range_filter(self.workspace, self.clauses.on, self.rows.writer.columns)

    def _join(self, places: Sequence[Place]) -> None:
        """Create the table `matches`: addresses, source rows and the clauses that apply."""
        address = f"{PLACE} BIGINT, {POSITION} BIGINT, {NUMBER} BIGINT, {CLAUSE} INTEGER"
        self.workspace.execute(f"CREATE TABLE matches ({address})")
        if not places:
            return
        query = self.clauses.matches()
        remote = engine_rows(self.rows, places, "merge into", self.engine)
        source = None
        if remote is not None:
            source = self._exported(self.clauses.conditions, MAX_SHARED_BYTES)
        if remote is None or source is None:
            self.workspace.register("candidates", self.rows.read(places))
        else:
            touched = f"FROM ({query}) WHERE {NUMBER} IS NOT NULL OR {CLAUSE} IS NOT NULL"
            found = remote.find(places, touched, _MATCHES, source=source)
            self.workspace.register("found_matches", found)
            query = "FROM found_matches"
        self.workspace.execute(f"INSERT INTO matches {query}")

    def _exported(
        self, expressions: Sequence[SqlExpression], most_bytes: int, where: str = "true"
    ) -> pa.Table | None:
        """Return the rows of the source for tasks of an engine; None if they are too many."""
        fields = [f for f in self.source if any(e.mentions(f.name) for e in expressions)]
        names = ", ".join([*(duckdb_identifier(field.name) for field in fields), NUMBER])
        schema = pa.schema([*fields, pa.field(NUMBER, pa.int64())])
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

    def _addresses(self, places: Sequence[Place], numbers: str) -> dict[PlaceKey, Positions]:
        sql = f"SELECT {PLACE}, {POSITION} FROM matches WHERE {CLAUSE} IN ({numbers})"
        return group_addresses(self.workspace.stream(sql, ADDRESS).read_all(), places)

    def _update(self, places: Sequence[Place], updates: Touched, filter: Filter) -> None:
        needed = self.rows.writer.columns if self.clauses.updates_need_table else ()
        wide = same_places(self.rows, places, [column.name for column in needed], filter)
        selected = self.clauses.updated()
        # A row may match more rows of the source, to which no clause applies.
        joined = (
            f"{{found}} AS target JOIN (FROM matches WHERE {CLAUSE} IS NOT NULL) "
            f"USING ({PLACE}, {POSITION}) LEFT JOIN source_rows AS source USING ({NUMBER})"
        )
        remote = engine_rows(self.rows, wide, "merge into", self.engine)
        if remote is not None and not has_own_rows(updates):
            used = [value for c in self.clauses.updates for value in (c.values or {}).values()]
            applied = f"SELECT {NUMBER} FROM matches WHERE {CLAUSE} IS NOT NULL"
            source = self._exported(used, MAX_SENT_BYTES, f"{NUMBER} IN ({applied})")
            if source is not None:
                sql = f"FROM matches WHERE {CLAUSE} IN ({numbers_of(self.clauses.updates)})"
                addresses = self.workspace.stream(sql, _MATCHES).read_all()
                matches = Matches(addresses, source, NUMBER)
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
        if not self.clauses.of("not_matched"):
            return None
        self.workspace.execute(f"CREATE TABLE inserts AS {self.clauses.inserts()}")
        return self.workspace.stream(
            f"SELECT {', '.join(self.clauses.inserted())} FROM inserts "
            f"JOIN source_rows AS source USING ({NUMBER}) WHERE {CLAUSE} IS NOT NULL",
            arrow_schema(self.rows.writer.columns),
        )
