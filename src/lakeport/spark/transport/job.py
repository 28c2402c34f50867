"""The Spark job behind one stream: from the first read until the last, or until nobody reads."""

from __future__ import annotations

import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

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
"""How the names of all threads of a scan begin."""

_running: dict[str, BatchQueue] = {}


@dataclass(frozen=True, slots=True)
class StreamMetrics:
    """What the streams of this process are doing, for metrics."""

    scans: int
    """Scans that are running."""
    queued_bytes: int
    """Batches that wait for their consumers."""


def stream_metrics() -> StreamMetrics:
    """What is going on now."""
    inlets = list(_running.values())
    return StreamMetrics(len(inlets), sum(inlet.queued_bytes for inlet in inlets))


class Job(ABC):
    """One scan on Spark; how its batches travel is for the classes of the two routes."""

    def __init__(
        self, spark: SparkSession, tasks: Sequence[ReadTask], schema: pa.Schema, inlet: BatchQueue
    ) -> None:
        self.tag = f"{THREAD_NAME_PREFIX}{uuid.uuid4().hex}"
        self.spark = spark
        self.tasks = tasks
        self.schema = schema
        self.inlet = inlet
        self._started = False

    def batches(self) -> Generator[pa.RecordBatch]:
        """Start the job and give its batches as they come."""
        self._started = True
        _running[self.tag] = self.inlet
        try:
            self.start()
            yield from self.inlet.take_all()
        finally:
            self.end()

    def end(self) -> None:
        """Nobody wants more: free everything, and cancel the job if it is not done.

        May be called again, from any thread, and by the garbage collector.
        """
        unfinished = self.inlet.cancel()
        _running.pop(self.tag, None)
        self.release()
        if unfinished and self._started:
            # In a thread of its own: the collector may run inside another call to Spark.
            with suppress(RuntimeError):
                threading.Thread(
                    target=self._cancel, name=f"{self.tag}-cancel", daemon=True
                ).start()

    def _cancel(self) -> None:
        # Spark may be gone already, and the job with it.
        with suppress(Exception):
            self.cancel()

    @abstractmethod
    def start(self) -> None:
        """Begin to fill the inlet, in threads of the job's own."""

    @abstractmethod
    def cancel(self) -> None:
        """Stop what runs on Spark."""

    def release(self) -> None:  # noqa: B027
        """Free what the job holds in this process; most hold nothing."""


_MAX_BYTES: Final = 8 * 1024 * 1024
_MIN_BYTES: Final = 1024 * 1024
# What opening a file costs, as the bytes that could be read meanwhile.
_FILE_OPEN_COST_BYTES: Final = 128 * 1024
_SPARK_TASKS_PER_CORE: Final = 4
_SMALL_SCAN: Final = 32 * 1024 * 1024

Numbered = tuple[int, ReadTask]


def group_tasks(tasks: Sequence[Numbered], cores: int) -> list[list[Numbered]]:
    """The tasks in groups, in their order; those that do not say their `estimated_bytes` alone."""
    weights = [
        getattr(task, "estimated_bytes", _MAX_BYTES) + _FILE_OPEN_COST_BYTES for _, task in tasks
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
    """Return whether tasks are one short Spark task; those of unknown size are not."""
    sizes = [
        getattr(task, "estimated_bytes", _SMALL_SCAN) + _FILE_OPEN_COST_BYTES for task in tasks
    ]
    if len(sizes) == 1:
        return sizes[0] < _SMALL_SCAN
    return 0 < sum(sizes) <= _MIN_BYTES
