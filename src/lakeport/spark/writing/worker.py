"""The functions of a write that run in a Spark worker. It has PySpark loaded already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakeport.ducklake.writing.tasks import AppendTask, Attempt, pack_report

__all__ = ["REPORTS", "WriteRows", "current_attempt"]

REPORTS: Final = "report binary"


@dataclass(frozen=True, slots=True)
class WriteRows:
    """Writes the rows of a partition of a DataFrame, and yields its report."""

    task: AppendTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of one partition."""
        report = pack_report(self.task.run(batches, current_attempt()))
        yield pa.record_batch([pa.array([report], pa.binary())], names=["report"])


def current_attempt() -> Attempt:
    """Return which attempt of which task this worker runs."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return Attempt(0)
    return Attempt(context.partitionId(), context.attemptNumber(), context.taskAttemptId())
