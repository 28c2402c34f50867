"""The functions of a write that run in a Spark worker. It has PySpark loaded already."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakeport.ducklake.writing.tasks import (
    AppendTask,
    Attempt,
    ChangeQuery,
    Divide,
    FindCandidates,
    JoinTask,
    SourceTask,
    WriteTask,
    pack_report,
)

__all__ = [
    "ITEMS",
    "REPORTS",
    "DivideSource",
    "JoinRows",
    "ReadRows",
    "RunChange",
    "StageRows",
    "WriteRows",
    "current_attempt",
]

REPORTS: Final = "report binary"
ITEMS: Final = "part int, side int, data binary"
"""The columns of rows that pass between tasks as bytes."""

_ITEMS: Final = pa.schema([("part", pa.int32()), ("side", pa.int32()), ("data", pa.binary())])


@dataclass(frozen=True, slots=True)
class WriteRows:
    """Writes the rows of a partition of a DataFrame, and yields its report."""

    task: AppendTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of one partition."""
        report = pack_report(self.task.run(batches, current_attempt()))
        yield pa.record_batch([pa.array([report], pa.binary())], names=["report"])


@dataclass(frozen=True, slots=True)
class RunChange:
    """Runs a query of a row-level change on the group of each partition, and yields its report."""

    query: ChangeQuery
    job: str

    def __call__(self, groups: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the query on the groups of one partition."""
        for batch in groups:
            for pickled in batch.column(0).to_pylist():
                group = pickle.loads(pickled)  # noqa: S301
                report = pack_report(self.query.run(group, self.job, current_attempt()))
                yield pa.record_batch([pa.array([report], pa.binary())], names=["report"])


@dataclass(frozen=True, slots=True)
class StageRows:
    """Yields the rows of a partition of a merge's source as bytes, and its report."""

    task: SourceTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stage the rows of one partition."""
        return _batches(self.task.run(batches, current_attempt()))


@dataclass(frozen=True, slots=True)
class DivideSource:
    """Divides staged rows of a merge's source among the tasks of a join."""

    task: Divide

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Divide the rows of one partition."""
        return _batches(self.task.run(_values(batches)))


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Reads rows of the table and divides them among the tasks of a join."""

    task: FindCandidates

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the rows of the groups of one partition."""
        for pickled in _values(batches):
            yield from _batches(self.task.run(pickle.loads(pickled)))  # noqa: S301


@dataclass(frozen=True, slots=True)
class JoinRows:
    """Joins or writes the rows that other tasks have sent to this one."""

    task: JoinTask | WriteTask
    job: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task on the items of one partition."""
        items = (
            (side, data)
            for batch in batches
            for side, data in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        )
        return _batches(self.task.run(items, self.job, current_attempt()))


def _values(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _batches(items: Iterable[tuple[int, int, bytes]]) -> Iterator[pa.RecordBatch]:
    for part, side, data in items:
        arrays = [pa.array([part], pa.int32()), pa.array([side], pa.int32())]
        yield pa.RecordBatch.from_arrays([*arrays, pa.array([data], pa.binary())], schema=_ITEMS)


def current_attempt() -> Attempt:
    """Return which attempt of which task this worker runs."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return Attempt(0)
    return Attempt(context.partitionId(), context.attemptNumber(), context.taskAttemptId())
