"""A scan as a stream of Arrow batches, fed by one Spark job while it runs.

The driver holds at most `max_bytes` of batches of a scan, plus one batch for each task that is
sending. A consumer that stops reading makes the tasks end, so that their cores are free for other
scans; they run again from where they were when it goes on.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport.errors import CancelledError, InternalError, LakeportError
from lakeport.spark.inlet import Inlet
from lakeport.spark.push import PushTasks, ReadTask
from lakeport.spark.receiver import Receiver

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["MAX_BYTES", "receiver_of", "stream"]

MAX_BYTES: Final = 64 * 1024 * 1024
PATIENCE: Final = 2.0

# Spark keeps a scheduler pool for every name it ever saw, so the names are few and reused.
_POOLS: Final = itertools.cycle([f"lakeport-{number}" for number in range(64)])

_receivers: dict[str, Receiver] = {}
_receivers_lock = threading.Lock()


def stream(
    spark: SparkSession,
    tasks: Sequence[ReadTask],
    schema: pa.Schema,
    *,
    max_bytes: int = MAX_BYTES,
    patience: float = PATIENCE,
) -> pa.RecordBatchReader:
    """Read tasks on Spark: one job, one Spark task each, batches as they come, in no order."""
    if not tasks:
        return pa.RecordBatchReader.from_batches(schema, [])
    inlet = Inlet(len(tasks), max_bytes=max_bytes, patience=patience)
    job = _Job(spark.sparkContext, tasks, schema, inlet)
    return pa.RecordBatchReader.from_batches(schema, job.batches())


class _Job:
    """The Spark job behind one scan."""

    def __init__(
        self, context: SparkContext, tasks: Sequence[ReadTask], schema: pa.Schema, inlet: Inlet
    ) -> None:
        self._context = context
        self._tasks = tasks
        self._inlet = inlet
        self._scan = f"lakeport-scan-{uuid.uuid4().hex}"
        self._receiver = receiver_of(context)
        self._push = PushTasks(self._receiver.location, self._scan, inlet.secret, schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Start the job, give its batches, and end it when the consumer is done or goes away."""
        from pyspark import InheritableThread

        self._receiver.open(self._scan, self._inlet)
        thread = InheritableThread(target=self._run, name=self._scan, daemon=True)
        thread.start()
        try:
            yield from self._inlet.take_all()
        finally:
            self._inlet.cancel()
            self._receiver.close(self._scan)
            if thread.is_alive():
                self._context.cancelJobsWithTag(self._scan)

    def _run(self) -> None:
        try:
            self._context.addJobTag(self._scan)
            self._context.setLocalProperty("spark.scheduler.pool", next(_POOLS))
            self._context.setLocalProperty("spark.job.description", "Lakeport scan")
            while remaining := self._inlet.incomplete():
                self._run_once(remaining)
                if self._inlet.incomplete() and not self._inlet.wait_for_room():
                    return
            self._inlet.finish()
        except Exception as error:  # noqa: BLE001
            self._inlet.finish(self._failure(error))

    def _run_once(self, numbers: list[int]) -> None:
        numbered = [(number, self._tasks[number]) for number in numbers]
        rdd = self._context.parallelize(numbered, len(numbered))
        rdd.mapPartitions(self._push).collect()

    def _failure(self, error: Exception) -> LakeportError:
        if self._inlet.cancelled:
            return CancelledError("the scan was cancelled")
        reason = self._inlet.reason() or str(error).strip().partition("\n")[0]
        return InternalError(f"the scan failed on Spark: {reason}")


def receiver_of(context: SparkContext) -> Receiver:
    """The endpoint of this driver, started when it is first needed."""
    host = context.getConf().get("spark.driver.host", "127.0.0.1") or "127.0.0.1"
    with _receivers_lock:
        if host not in _receivers:
            _receivers[host] = Receiver(host)
        return _receivers[host]
