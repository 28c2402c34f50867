"""A merge whose source stays on its engine: tasks join it with the table and write the files.

This process gets the ranges and hashes of the keys, the addresses of touched rows, and the
descriptions of written files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakeport.ducklake.reading.data_files import INTERNAL_ROW_ID, VIRTUAL_COLUMNS
from lakeport.ducklake.writing.change_set import DataChanges
from lakeport.ducklake.writing.changes.expressions import open_workspace
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
    address_schema,
    group_addresses,
)
from lakeport.ducklake.writing.changes.statements import read_columns, same_places
from lakeport.ducklake.writing.changes.table_rows import TableRows
from lakeport.ducklake.writing.changes.target import file_target
from lakeport.ducklake.writing.distributed import StagedFrame
from lakeport.ducklake.writing.tasks import (
    ChangeGroup,
    FindCandidates,
    JoinTask,
    MergeQueries,
    Routes,
    RowsOutput,
    TaskReport,
    WriteTask,
    few_rows_of,
    group_reads,
    unpack_rows,
)
from lakeport.filters import Filter
from lakeport.types import arrow_schema, duckdb_identifier

__all__ = ["merge_spread"]

_PART_BYTES: Final = 32 << 20
_SMALL_PART_BYTES: Final = 4 << 20
_UPDATED: Final = "is_updated"
_TOUCHED: Final = pa.schema([*ADDRESS, pa.field(_UPDATED, pa.bool_())])


def merge_spread(rows: TableRows, staged: StagedFrame, clauses: Clauses) -> bool:
    """Merge rows of a staged source; return False if this process should do it.

    That is so if the source is small, or the part of the table that may match, or if the
    transaction has added rows of its own, which have no row ids yet.
    """
    merging = _Spread(rows, staged, clauses)
    filter = merging.filter()
    names = read_columns(rows.writer.columns, clauses.conditions)
    places = rows.places(names, filter)
    if any(place.key[0] in ("written", "added") for place in places):
        return False
    if staged.is_small or sum(_bytes(place) for place in places) < staged.engine.small_change_bytes:
        return False
    merging.run(places, filter)
    return True


@dataclass(frozen=True, slots=True)
class _Spread:
    """One run of a merge."""

    rows: TableRows
    staged: StagedFrame
    clauses: Clauses

    def filter(self) -> Filter:
        """Return a filter for the rows of the table that may match."""
        if self.clauses.keeps_unmatched:
            return Filter.always()
        with open_workspace() as workspace:
            workspace.register("source_rows", self.staged.found.bounds)
            return key_range_filter(workspace, self.clauses.on, self.rows.writer.columns)

    def run(self, places: Sequence[Place], filter: Filter) -> None:
        """Find and write rows, and take what the tasks have written."""
        reads = self.rows.reads(places)
        wide: Sequence[Place] = ()
        if self.clauses.updates_need_table:
            names = [column.name for column in self.rows.writer.columns]
            wide = same_places(self.rows, places, names, filter)
        routes, sent = self._routes(wide)
        join, write = self._tasks(places, wide, routes)
        reports = self.staged.stage.merge(
            self._find(places),
            [ChangeGroup(part) for part in group_reads(reads, self.staged.engine.parallelism)],
            join,
            write,
            sent,
            title=self._title,
        )
        self._take(reports, places)

    @property
    def _title(self) -> str:
        definition = self.rows.writer.definition
        return f"merge into {definition.schema.name}.{definition.name}"

    def _find(self, places: Sequence[Place]) -> FindCandidates:
        found = self.staged.found
        hashes = None if self.clauses.keeps_unmatched else found.hashes
        size = found.bytes + (0 if hashes is not None else sum(_bytes(p) for p in places))
        parallel = min(self.staged.engine.parallelism, size // _SMALL_PART_BYTES)
        return FindCandidates(
            schema=self._candidates(places),
            keys=self.staged.table_keys,
            parts=max(1, parallel, size // _PART_BYTES),
            hashes=hashes,
        )

    def _routes(self, wide: Sequence[Place]) -> tuple[Routes | None, list[ChangeGroup]]:
        """Return which tasks write rows and what they read; None if those that join do."""
        target = file_target(self.rows.writer)
        parallel = self.staged.engine.parallelism
        if not self.clauses.updates_need_table:
            if not target.is_partitioned:
                return None, []
            return Routes(parts=parallel, groups=(), target=target), []
        groups = _grouped(wide, parallel)
        reads = self.rows.reads(wide)
        sent = [
            ChangeGroup(tuple(read for read in reads if groups[read.place] == number))
            for number in range(max(groups, default=-1) + 1)
        ]
        return Routes(parts=max(parallel, len(sent)), groups=groups, target=target), sent

    def _tasks(
        self, places: Sequence[Place], wide: Sequence[Place], routes: Routes | None
    ) -> tuple[JoinTask, WriteTask | None]:
        writer = self.rows.writer
        target = file_target(writer, in_order=True)
        few = few_rows_of(writer.inlining_limit)
        inserted = RowsOutput(target=target, internal=(), few_rows=few)
        updated = RowsOutput(target=target, internal=(INTERNAL_ROW_ID,), few_rows=few)
        source = self.staged.task.schema
        used = [value for c in self.clauses.updates for value in (c.values or {}).values()]
        fields = [f for f in source if any(value.mentions(f.name) for value in used)]
        matches = pa.schema([*ADDRESS, pa.field(CLAUSE, pa.int32()), *fields])
        queries = self._queries([field.name for field in fields])
        join = JoinTask(
            source=source,
            candidates=self._candidates(places),
            touched=_TOUCHED,
            matches=matches,
            queries=queries,
            inserted=inserted,
            updated=updated,
            routes=routes,
        )
        if routes is None:
            return join, None
        return join, WriteTask(
            rewrites=queries.rewrites,
            candidates=self._candidates(wide),
            matches=matches,
            inserted=inserted,
            updated=updated,
        )

    def _queries(self, used: Sequence[str]) -> MergeQueries:
        clauses = self.clauses
        updates = numbers_of(clauses.updates)
        new = ", ".join([*clauses.updated(), ROW_ID])
        by_table = clauses.updates_need_table
        sent = ", ".join(
            [PLACE, POSITION, CLAUSE, *(f"source.{duckdb_identifier(name)}" for name in used)]
        )
        return MergeQueries(
            matches=clauses.matches(ROW_ID),
            duplicates=clauses.duplicates,
            touched=f"SELECT {PLACE}, {POSITION}, {CLAUSE} IN ({updates}) FROM matches "
            f"WHERE {CLAUSE} IS NOT NULL",
            inserts=f"SELECT {', '.join(clauses.inserted())} FROM ({clauses.inserts()}) "
            f"JOIN source_rows AS source USING ({NUMBER}) WHERE {CLAUSE} IS NOT NULL "
            f"ORDER BY {NUMBER}"
            if clauses.of("not_matched")
            else None,
            updates=f"SELECT {new} FROM matches JOIN source_rows AS source USING ({NUMBER}) "
            f"WHERE {CLAUSE} IN ({updates}) ORDER BY {ROW_ID}"
            if clauses.updates and not by_table
            else None,
            sent_matches=f"SELECT {sent} FROM matches LEFT JOIN source_rows AS source "
            f"USING ({NUMBER}) WHERE {CLAUSE} IN ({updates})"
            if by_table
            else None,
            rewrites=f"SELECT {new} FROM candidates AS target JOIN found AS source "
            f"USING ({PLACE}, {POSITION})"
            if by_table
            else None,
        )

    def _candidates(self, places: Sequence[Place]) -> pa.Schema:
        if places:
            return address_schema(places[0].tasks[0].schema)
        virtual = [pa.field(name, type) for name, type in VIRTUAL_COLUMNS.items()]
        own = arrow_schema(self.rows.writer.columns)
        new = [field for field in virtual if field.name not in own.names]
        return pa.schema([*ADDRESS, pa.field(ROW_ID, pa.int64()), *own, *new])

    def _take(self, reports: Sequence[TaskReport], places: Sequence[Place]) -> None:
        """Take the files and the few rows of all tasks, and delete the old form of rows."""
        files = tuple(file for report in reports for file in report.files)
        self.rows.take(DataChanges(files=files))
        results = [report.result for report in reports]
        check_unique(
            sum(result.get("duplicates", 0) for result in results),
            self.rows.writer.definition.name,
        )
        for kind, has_row_ids in (("updates", True), ("inserts", False)):
            few = [unpack_rows(result[kind]) for result in results if kind in result]
            if few:
                together = pa.concat_tables(few).to_reader()
                # Inserted rows of a merge are not inlined, as in DuckLake 1.5.5.
                self.rows.add(together, has_row_ids=has_row_ids, in_order=True, inline=has_row_ids)
        touched = [unpack_rows(result["touched"]) for result in results if "touched" in result]
        addresses = group_addresses(pa.concat_tables(touched), places) if touched else {}
        if addresses:
            self.rows.delete(addresses, places)


def _grouped(places: Sequence[Place], tasks: int) -> tuple[int, ...]:
    """Return the number of the task that reads each place: one for each core, or for 64 MiB."""
    total = sum(_bytes(place) for place in places)
    room = max(_SMALL_PART_BYTES, min(2 * _PART_BYTES, total // max(tasks, 1)))
    numbers = []
    number = -1
    left = 0
    for place in places:
        if number < 0 or left < _bytes(place):
            number += 1
            left = room
        left -= _bytes(place)
        numbers.append(number)
    return tuple(numbers)


def _bytes(place: Place) -> int:
    return sum(task.bytes_to_read for task in place.tasks)
