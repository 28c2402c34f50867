"""The functions of a write that run in a Spark worker. It has PySpark loaded already."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakeport.ducklake.writing.tasks import AppendTask, Attempt, ChangeQuery, pack_report

__all__ = ["REPORTS", "RunChange", "WriteRows", "current_attempt"]

REPORTS: Final = "report binary"


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


def current_attempt() -> Attempt:
    """Return which attempt of which task this worker runs."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return Attempt(0)
    return Attempt(context.partitionId(), context.attemptNumber(), context.taskAttemptId())
