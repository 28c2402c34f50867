"""One task of a delete, update or merge: find the addresses of touched rows, or write new ones.

Both are one SQL query over some rows of the table. DuckDB evaluates it inside of the task, so that
expressions mean the same on every engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from lakeport.ducklake.writing.changes.expressions import open_workspace
from lakeport.ducklake.writing.changes.sources import AddressTask
from lakeport.ducklake.writing.files import FileTarget, write_files
from lakeport.ducklake.writing.tasks.appends import first_batches
from lakeport.ducklake.writing.tasks.messages import TaskReport
from lakeport.ducklake.writing.tasks.names import Attempt, AttemptNames
from lakeport.types import arrow_schema

__all__ = ["ChangeGroup", "ChangeQuery", "RowsOutput", "group_reads", "write_found"]

_GROUP_BYTES: Final = 64 << 20
_SMALL_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOutput:
    """Where the rows of a query go: into data files, or back to the caller if they are few."""

    target: FileTarget
    internal: tuple[str, ...]
    few_rows: int

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        internal = [pa.field(name, pa.int64()) for name in self.internal]
        return pa.schema([*arrow_schema(self.target.columns), *internal])


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """What one task reads: rows of the table, and what has been found out about them before."""

    reads: tuple[AddressTask, ...]
    matches: pa.Table | None = field(default=None, repr=False)
    source: pa.Table | None = field(default=None, repr=False)
    """The rows of a merge's source that only this task needs."""

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes the task reads."""
        return sum(read.bytes_to_read for read in self.reads)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeQuery:
    """What all tasks of a phase have in common."""

    sql: str
    """A query over the views `candidates`, `source_rows` and `matches`."""
    schema: pa.Schema
    """The columns of its result."""
    rows: pa.Schema
    """The columns of `candidates`."""
    source: pa.Table | None = field(default=None, repr=False)
    output: RowsOutput | None = None
    """None for a query whose result is returned."""

    def run(self, group: ChangeGroup, job: str, attempt: Attempt) -> TaskReport:
        """Run the query on the rows of a group."""
        with open_workspace() as workspace:
            source = self.source if group.source is None else group.source
            if source is not None:
                workspace.register("source_rows", source)
            if group.matches is not None:
                workspace.register("matches", group.matches)
            batches = (batch for read in group.reads for batch in read.read())
            reader = pa.RecordBatchReader.from_batches(self.rows, batches)
            workspace.register("candidates", reader)
            found = workspace.stream(self.sql, self.schema)
            if self.output is None:
                return TaskReport(attempt=attempt, rows=found.read_all())
            return write_found(self.output, found, AttemptNames(job, attempt))


def write_found(output: RowsOutput, found: pa.RecordBatchReader, names: AttemptNames) -> TaskReport:
    """Write rows as data files; rows that are too few for a file are part of the report."""

    def batches() -> Iterator[pa.RecordBatch]:
        return (batch for batch in found if batch.num_rows)

    rest = batches()
    first, is_all = first_batches(rest, output.few_rows)
    if is_all:
        rows = pa.Table.from_batches(first, found.schema) if first else None
        return TaskReport(attempt=names.attempt, rows=rows)

    def whole() -> Iterator[pa.RecordBatch]:
        yield from first
        yield from rest

    files = write_files(
        output.target,
        pa.RecordBatchReader.from_batches(found.schema, whole()),
        internal=output.internal,
        names=names,
        threads=1,
    )
    return TaskReport(attempt=names.attempt, files=tuple(files))


def group_reads(reads: Sequence[AddressTask], tasks: int) -> list[tuple[AddressTask, ...]]:
    """Divide reads among tasks, in their order: one for each core, or one for 64 MiB."""
    total = sum(read.bytes_to_read for read in reads)
    room = max(_SMALL_BYTES, min(_GROUP_BYTES, total // max(tasks, 1)))
    groups: list[list[AddressTask]] = []
    left = 0
    for read in reads:
        if not groups or left < read.bytes_to_read:
            groups.append([])
            left = room
        groups[-1].append(read)
        left -= read.bytes_to_read
    return [tuple(group) for group in groups]
