"""The Spark job behind one stream, and how tasks are grouped for it."""

from __future__ import annotations

import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakeport._tracing import detached_span
from lakeport.catalog import current_request
from lakeport.ducklake import FILE_OPEN_COST_BYTES
from lakeport.spark.compat import is_connect
from lakeport.spark.transport.batch_queue import BatchQueue
from lakeport.spark.transport.sender import ReadTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "THREAD_NAME_PREFIX",
    "Job",
    "StreamMetrics",
    "group_tasks",
    "is_small",
    "stream_metrics",
]

THREAD_NAME_PREFIX: Final = "lakeport-scan-"
"""The prefix of the names of all threads of a scan."""

_MAX_JOBS_SHOWN: Final = 4

_running: dict[str, BatchQueue] = {}


@dataclass(frozen=True, slots=True)
class StreamMetrics:
    """Numbers of the running streams of this process, for metrics."""

    scans: int
    """How many scans are running."""
    queued_bytes: int
    """How many bytes of batches wait for their consumers."""


def stream_metrics() -> StreamMetrics:
    """Return the present numbers."""
    queues = list(_running.values())
    return StreamMetrics(len(queues), sum(batch_queue.queued_bytes for batch_queue in queues))


class Job(ABC):
    """One scan on Spark; subclasses implement the ways of its batches to this process."""

    def __init__(
        self,
        spark: SparkSession,
        tasks: Sequence[ReadTask],
        schema: pa.Schema,
        batch_queue: BatchQueue,
    ) -> None:
        self.tag = f"{THREAD_NAME_PREFIX}{uuid.uuid4().hex}"
        self.spark = spark
        self.tasks = tasks
        self.schema = schema
        self.batch_queue = batch_queue
        self._started = False

    def batches(self) -> Generator[pa.RecordBatch]:
        """Start the job, and yield its batches as they arrive."""
        self._started = True
        _running[self.tag] = self.batch_queue
        notes = current_request().notes
        try:
            notes.progress = self.progress
            with detached_span("spark job", tag=self.tag, tasks=len(self.tasks)):
                self.start()
                yield from self.batch_queue.batches()
        finally:
            notes.progress = None
            self.stop()

    def progress(self) -> str:
        """Return how far the job is: tasks of the scan, and the stages that run on Spark."""
        total = len(self.tasks)
        done = total - len(self.batch_queue.unfinished_tasks())
        if done == total:
            return ""
        return "; ".join([f"{done} of {total} tasks read on Spark", *self._stages()])

    def _stages(self) -> Iterator[str]:
        """Yield the jobs and stages of the scan that run now; none of a remote session."""
        if is_connect(self.spark):
            return
        # Spark may have ended.
        with suppress(Exception):
            context: Any = self.spark.sparkContext
            # PySpark 4.3 has no method for the jobs of a tag.
            jobs = context._jsc.sc().statusTracker().getJobIdsForTag(self.tag)  # noqa: SLF001
            tracker = context.statusTracker()
            for job in sorted(jobs)[-_MAX_JOBS_SHOWN:]:
                info = tracker.getJobInfo(job)
                for stage in () if info is None else info.stageIds:
                    found = tracker.getStageInfo(stage)
                    if found is not None and found.numActiveTasks:
                        yield (
                            f"job {job} stage {stage}: {found.numCompletedTasks} of "
                            f"{found.numTasks} done, {found.numActiveTasks} running"
                        )

    def stop(self) -> None:
        """Free everything, and cancel the job if it has not ended.

        May be called more than once, from any thread, and by the garbage collector.
        """
        unfinished = self.batch_queue.cancel()
        _running.pop(self.tag, None)
        self.close()
        if unfinished and self._started:
            # In another thread: the garbage collector may run inside a call to Spark.
            with suppress(RuntimeError):
                threading.Thread(
                    target=self._cancel, name=f"{self.tag}-cancel", daemon=True
                ).start()

    def _cancel(self) -> None:
        # Spark may have ended already, and the job with it.
        with suppress(Exception):
            self.cancel()

    @abstractmethod
    def start(self) -> None:
        """Start the threads that fill the queue."""

    @abstractmethod
    def cancel(self) -> None:
        """Cancel the jobs that are running on Spark."""

    def close(self) -> None:  # noqa: B027
        """Free resources of the job in this process; by default there are none."""


_MAX_BYTES: Final = 8 * 1024 * 1024
_MIN_BYTES: Final = 1024 * 1024
_SPARK_TASKS_PER_CORE: Final = 4
_SMALL_SCAN: Final = 32 * 1024 * 1024

Numbered = tuple[int, ReadTask]


def group_tasks(tasks: Sequence[Numbered], cores: int) -> list[list[Numbered]]:
    """Return the tasks in groups, in their order; a task without `estimated_bytes` is alone."""
    weights = [
        getattr(task, "estimated_bytes", _MAX_BYTES) + FILE_OPEN_COST_BYTES for _, task in tasks
    ]
    share = sum(weights) // (cores * _SPARK_TASKS_PER_CORE)
    room = max(_MIN_BYTES, min(_MAX_BYTES, share))
    groups: list[list[Numbered]] = []
    left = 0
    for task, weight in zip(tasks, weights, strict=True):
        if weight > left:
            groups.append([])
            left = room
        groups[-1].append(task)
        left -= weight
    return groups


def is_small(tasks: Sequence[ReadTask]) -> bool:
    """Return whether tasks fit in one short Spark task; a task of unknown size does not."""
    sizes = [getattr(task, "estimated_bytes", _SMALL_SCAN) + FILE_OPEN_COST_BYTES for task in tasks]
    if len(sizes) == 1:
        return sizes[0] < _SMALL_SCAN
    return 0 < sum(sizes) <= _MIN_BYTES
