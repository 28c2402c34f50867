"""One task of an append: rows of a data frame become data files, or stay rows if they are few.

Tasks return a few rows instead of writing them, because only the caller has the rows of all tasks:
they are inlined, or become one file instead of one small file for each task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeAlias

import pyarrow as pa

from lakeport.arrow import relabel
from lakeport.ducklake.writing.files import FileTarget, RowFitter, write_files
from lakeport.ducklake.writing.files.encoding.layout import INTERNAL_FIELDS
from lakeport.ducklake.writing.tasks.messages import TaskReport
from lakeport.ducklake.writing.tasks.names import Attempt, AttemptNames
from lakeport.ducklake.writing.written import WrittenFile

__all__ = [
    "AppendTask",
    "FrameWrite",
    "Progress",
    "WriteProgress",
    "WrittenRows",
    "few_rows_of",
    "first_batches",
]

_FEW_ROWS: Final = 1000
_FEW_BYTES: Final = 64 << 10


def few_rows_of(inlining_limit: int) -> int:
    """Return the number of rows up to which a task returns rows instead of a file."""
    return max(inlining_limit, _FEW_ROWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteProgress:
    """How far a write has come."""

    title: str
    """What is written, as in Spark's pages."""
    tasks: int
    tasks_done: int
    rows: int = 0
    """Rows, files and bytes are known when all tasks have ended, and 0 before."""
    files: int = 0
    bytes: int = 0


Progress: TypeAlias = Callable[[WriteProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameWrite:
    """What an engine writes of a data frame: how the files are made, and how it is called."""

    target: FileTarget
    few_rows: int
    title: str
    """What the write does and to which table, for people who watch the engine."""
    progress: Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRows:
    """The rows of a data frame: in files, and a few that are in no file yet."""

    files: tuple[WrittenFile, ...]
    rows: pa.Table


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendTask:
    """How each task of an append treats its rows."""

    target: FileTarget
    source: pa.Schema
    """The columns of the rows, in the types that they stand for."""
    job: str
    few_rows: int
    internal: tuple[str, ...] = ()
    """Names of DuckLake's own columns that follow the table's columns in the rows."""

    def fitter(self, source: pa.Schema | None = None) -> RowFitter:
        """Return what fits the rows; raise an error if their columns cannot fit."""
        return RowFitter(
            self.source if source is None else source,
            self.target.columns,
            internal=[INTERNAL_FIELDS[name] for name in self.internal],
            accepts_stand_ins=True,
        )

    def run(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> TaskReport:
        """Write the rows of one task."""
        fitted = self._fitted(batches)
        first, is_all = first_batches(fitted, self.few_rows)
        if is_all:
            rows = pa.Table.from_batches(first) if first else None
            return TaskReport(attempt=attempt, rows=rows)
        files = write_files(
            self.target,
            pa.RecordBatchReader.from_batches(first[0].schema, chain(first, fitted)),
            internal=self.internal,
            names=AttemptNames(self.job, attempt),
            threads=1,
        )
        return TaskReport(attempt=attempt, files=tuple(files))

    def _fitted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fit: RowFitter | None = None
        for batch in batches:
            if batch.num_rows:
                labelled = self._labelled(batch)
                # Spark chooses the layout: the time zone of instants, the width of offsets.
                fit = fit or self.fitter(labelled.schema)
                yield fit(labelled)

    def _labelled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with extension types, which Spark does not have."""
        arrays = [
            relabel(array, field.type) if isinstance(field.type, pa.BaseExtensionType) else array
            for array, field in zip(batch.columns, self.source, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=self.source.names)


def first_batches(
    batches: Iterator[pa.RecordBatch], few_rows: int
) -> tuple[list[pa.RecordBatch], bool]:
    """Return the first batches, and whether these are all and few."""
    first: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        first.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows > few_rows or size > _FEW_BYTES:
            return first, False
    return first, True
