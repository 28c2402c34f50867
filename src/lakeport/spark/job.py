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

from lakeport.spark.inlet import Inlet
from lakeport.spark.push import ReadTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["THREADS", "Activity", "Job", "activity"]

THREADS: Final = "lakeport-scan-"
"""How the names of all threads of a scan begin."""

_running: dict[str, Inlet] = {}


@dataclass(frozen=True, slots=True)
class Activity:
    """What the streams of this process are doing, for metrics."""

    scans: int
    """Scans that are running."""
    queued_bytes: int
    """Batches that wait for their consumers."""


def activity() -> Activity:
    """What is going on now."""
    inlets = list(_running.values())
    return Activity(len(inlets), sum(inlet.queued_bytes for inlet in inlets))


class Job(ABC):
    """One scan on Spark; how its batches travel is for the classes of the two routes."""

    def __init__(
        self, spark: SparkSession, tasks: Sequence[ReadTask], schema: pa.Schema, inlet: Inlet
    ) -> None:
        self.tag = f"{THREADS}{uuid.uuid4().hex}"
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
