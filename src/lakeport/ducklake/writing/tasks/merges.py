"""The tasks of a merge on an engine: find candidates, join them with the source, write rows.

Rows of the table and of the source meet in the task that the hash of their keys selects. If the new
form of rows depends on the old one, or if the table is partitioned, other tasks write them: those
that read the files of the rows, or those of their partitions.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from lakeport.ducklake.writing.changes.expressions import Workspace, open_workspace
from lakeport.ducklake.writing.changes.sources import PLACE, POSITION, AddressTask
from lakeport.ducklake.writing.files import FileTarget, Partitioner
from lakeport.ducklake.writing.tasks.changes import RowsOutput, write_found
from lakeport.ducklake.writing.tasks.merge_sources import Item, Side, divided, key_list
from lakeport.ducklake.writing.tasks.messages import (
    TaskReport,
    pack_report,
    pack_rows,
    unpack_rows,
)
from lakeport.ducklake.writing.tasks.names import Attempt, AttemptNames

__all__ = ["Divide", "FindCandidates", "JoinTask", "MergeQueries", "Routes", "WriteTask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Divide:
    """Divides rows of the source by the hashes of their keys."""

    schema: pa.Schema
    keys: tuple[str, ...]
    parts: int

    def run(self, packed: Iterable[bytes]) -> Iterator[Item]:
        """Yield the rows for each part."""
        with open_workspace() as workspace:
            for data in packed:
                workspace.register("rows", unpack_rows(data))
                sql = f"SELECT *, {part_of(self.keys, self.parts)} FROM rows"
                yield from divided(workspace.stream(sql, with_part(self.schema)), Side.SOURCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCandidates:
    """Reads the keys of rows of the table, and divides the rows that may match by their hashes."""

    schema: pa.Schema
    """The columns of the rows, after their addresses."""
    keys: tuple[str, ...]
    parts: int
    hashes: pa.Table | None = field(default=None, repr=False)
    """The hashes of the source's keys; without them all rows are candidates."""

    def run(self, reads: Sequence[AddressTask]) -> Iterator[Item]:
        """Yield the candidates for each part."""
        batches = (batch for read in reads for batch in read.read())
        where = ""
        with open_workspace() as workspace:
            workspace.register(
                "candidates", pa.RecordBatchReader.from_batches(self.schema, batches)
            )
            if self.hashes is not None:
                workspace.register("hashes", self.hashes)
                where = f" WHERE hash({key_list(self.keys)}) IN (SELECT hash FROM hashes)"
            sql = f"SELECT *, {part_of(self.keys, self.parts)} FROM candidates{where}"
            yield from divided(workspace.stream(sql, with_part(self.schema)), Side.TARGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeQueries:
    """The SQL of a merge, over `candidates`, `source_rows`, `matches` and `found`."""

    matches: str
    duplicates: str
    touched: str
    """Place, position, and whether the row is updated."""
    inserts: str | None
    updates: str | None
    """The new form of rows with their row ids, which depends on the source only."""
    sent_matches: str | None
    """What a task needs that reads the old form of rows."""
    rewrites: str | None
    """The new form of rows with their row ids, from `candidates` and `found`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """Which task writes which rows, if those that have found them do not."""

    parts: int
    groups: tuple[int, ...]
    """The task that reads each place."""
    target: FileTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTask:
    """Joins candidates with rows of the source, and writes or sends on what they become."""

    source: pa.Schema
    candidates: pa.Schema
    touched: pa.Schema
    matches: pa.Schema
    """The columns of `sent_matches`."""
    queries: MergeQueries
    inserted: RowsOutput
    updated: RowsOutput
    routes: Routes | None = None

    def run(self, items: Iterable[tuple[int, bytes]], job: str, attempt: Attempt) -> Iterator[Item]:
        """Join the rows of one part; yield rows for other tasks, and a report."""
        sides: dict[int, list[pa.Table]] = {Side.SOURCE: [], Side.TARGET: []}
        for side, data in items:
            sides[side].append(unpack_rows(data))
        with open_workspace() as workspace:
            workspace.register("source_rows", _joined(sides[Side.SOURCE], self.source))
            workspace.register("candidates", _joined(sides[Side.TARGET], self.candidates))
            workspace.execute(f"CREATE TABLE matches AS {self.queries.matches}")
            duplicates = workspace.execute(self.queries.duplicates)[0][0]
            if duplicates:
                report = TaskReport(attempt=attempt, result={"duplicates": duplicates})
            elif self.routes is None:
                report = self._written(workspace, AttemptNames(job, attempt))
            else:
                yield from self._sent(workspace, self.routes, attempt)
                report = TaskReport(attempt=attempt, result=self._found(workspace))
        yield 0, Side.REPORT, pack_report(report)

    def _found(self, workspace: Workspace) -> dict[str, object]:
        touched = workspace.stream(self.queries.touched, self.touched).read_all()
        return {"duplicates": 0, "touched": pack_rows(touched)}

    def _written(self, workspace: Workspace, names: AttemptNames) -> TaskReport:
        result = self._found(workspace)
        inserts = self._inserts(workspace)
        updates = self._updates(workspace)
        written = _Written(names)
        if inserts is not None:
            written.write("inserts", self.inserted, inserts)
        if updates is not None:
            written.write("updates", self.updated, updates)
        return replace(written.report(), result={**result, **written.few})

    def _sent(self, workspace: Workspace, routes: Routes, attempt: Attempt) -> Iterator[Item]:
        divide = _Router(routes, attempt.task % routes.parts)
        inserts = self._inserts(workspace)
        if inserts is not None:
            yield from divided(divide(inserts), Side.INSERTS)
        updates = self._updates(workspace)
        if updates is not None:
            yield from divided(divide(updates), Side.UPDATES)
        if self.queries.sent_matches is not None:
            found = workspace.stream(self.queries.sent_matches, self.matches)
            yield from divided(_by_place(found, routes), Side.MATCHES)

    def _inserts(self, workspace: Workspace) -> pa.RecordBatchReader | None:
        sql = self.queries.inserts
        return None if sql is None else workspace.stream(sql, self.inserted.schema)

    def _updates(self, workspace: Workspace) -> pa.RecordBatchReader | None:
        sql = self.queries.updates
        return None if sql is None else workspace.stream(sql, self.updated.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """Writes the inserted and updated rows that other tasks have found."""

    rewrites: str | None
    """A query for the new form of rows, over `candidates` and `found`."""
    candidates: pa.Schema
    matches: pa.Schema
    inserted: RowsOutput
    updated: RowsOutput

    def run(self, items: Iterable[tuple[int, bytes]], job: str, attempt: Attempt) -> Iterator[Item]:
        """Write the rows of one task, and yield a report."""
        sides: dict[int, list[pa.Table]] = {
            side: [] for side in (Side.MATCHES, Side.INSERTS, Side.UPDATES)
        }
        reads: list[AddressTask] = []
        for side, data in items:
            if side == Side.READS:
                reads += pickle.loads(data)  # noqa: S301
            else:
                sides[side].append(unpack_rows(data))
        written = _Written(AttemptNames(job, attempt))
        if inserts := sides[Side.INSERTS]:
            written.write("inserts", self.inserted, pa.concat_tables(inserts).to_reader())
        if updates := sides[Side.UPDATES]:
            written.write("updates", self.updated, pa.concat_tables(updates).to_reader())
        if (matches := sides[Side.MATCHES]) and self.rewrites is not None:
            found = pa.concat_tables(matches)
            touched = _touched_reads(reads, found)
            batches = (batch for read in touched for batch in read.read())
            with open_workspace() as workspace:
                workspace.register("found", found)
                workspace.register(
                    "candidates", pa.RecordBatchReader.from_batches(self.candidates, batches)
                )
                rows = workspace.stream(self.rewrites, self.updated.schema)
                written.write("updates", self.updated, rows)
        report = written.report()
        yield 0, Side.REPORT, pack_report(replace(report, result=written.few))


@dataclass(slots=True)
class _Written:
    """What one attempt has written: files, and rows that are too few for one."""

    names: AttemptNames
    few: dict[str, object] = field(default_factory=dict)
    _reports: list[TaskReport] = field(default_factory=list)

    def write(self, kind: str, output: RowsOutput, rows: pa.RecordBatchReader) -> None:
        found = write_found(output, rows, self.names)
        if found.rows is not None:
            self.few[kind] = pack_rows(found.rows)
        self._reports.append(found)

    def report(self) -> TaskReport:
        files = tuple(file for report in self._reports for file in report.files)
        return TaskReport(attempt=self.names.attempt, files=files)


class _Router:
    """Adds the task that writes each row: that of its partition, or one for all."""

    def __init__(self, routes: Routes, otherwise: int) -> None:
        spec = routes.target.partition_spec
        self._partitioner = None if spec is None else Partitioner(spec, routes.target.columns)
        self._parts = routes.parts
        self._otherwise = otherwise

    def __call__(self, rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            if not batch.num_rows:
                continue
            if self._partitioner is None:
                yield _with_value(batch, self._otherwise)
                continue
            for values, part in self._partitioner(batch):
                yield _with_value(part, zlib.crc32(repr(values).encode()) % self._parts)


def _by_place(rows: pa.RecordBatchReader, routes: Routes) -> Iterator[pa.RecordBatch]:
    groups = np.array(routes.groups, np.int32)
    for batch in rows:
        if batch.num_rows:
            parts = groups[batch.column(batch.schema.get_field_index(PLACE)).to_numpy()]
            yield batch.append_column("part", pa.array(parts))


def _with_value(batch: pa.RecordBatch, part: int) -> pa.RecordBatch:
    return batch.append_column("part", pa.array(np.full(batch.num_rows, part, np.int32)))


def _touched_reads(reads: Sequence[AddressTask], found: pa.Table) -> Iterator[AddressTask]:
    """Yield the reads of the places that have matches, of their positions only."""
    places = found.column(PLACE).to_numpy()
    positions = found.column(POSITION).to_numpy()
    for read in reads:
        own = np.unique(positions[places == read.place])
        if len(own):
            yield replace(read, positions=own)


def _joined(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables(tables) if tables else schema.empty_table()


def part_of(keys: Sequence[str], parts: int) -> str:
    """Return SQL for the part of a row."""
    return f"CAST(hash({key_list(keys)}) % {parts} AS INTEGER) AS part"


def with_part(schema: pa.Schema) -> pa.Schema:
    """Return columns with that of the part, which is the last one."""
    return pa.schema([*schema, pa.field("part", pa.int32())])
