"""A scan as a stream of Arrow batches, fed by Spark while it runs.

The driver holds at most `max_bytes` of batches of a scan, plus one batch for each task that is
sending. A consumer that stops reading makes the tasks end, so that their cores are free for other
scans; they run again from where they were when it goes on.
"""

from __future__ import annotations

import atexit
import itertools
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import pyarrow as pa

from lakeport.errors import InvalidArgumentError
from lakeport.spark.collect import GRACE, CollectJob, ConnectJob
from lakeport.spark.failures import scan_error
from lakeport.spark.inlet import Inlet
from lakeport.spark.job import Job
from lakeport.spark.packing import packed
from lakeport.spark.push import Group, PushTasks, ReadTask
from lakeport.spark.queries import is_connect
from lakeport.spark.reader import ScanReader
from lakeport.spark.receiver import receiver_of
from lakeport.spark.security import check_protected
from lakeport.spark.session import check_running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["MAX_BYTES", "PushJob", "route", "stream"]

MAX_BYTES: Final = 64 * 1024 * 1024
PATIENCE: Final = 2.0
AT_EXIT: Final = 5.0

ROUTE: Final = "spark.lakeport.route"
"""The setting that chooses how batches travel: `push` (the default) or `collect`."""

Route: TypeAlias = Literal["push", "collect", "connect"]

# Spark keeps a scheduler pool for every name it ever saw, so the names are few and reused.
_POOLS: Final = itertools.cycle([f"lakeport-{number}" for number in range(64)])


def stream(
    spark: SparkSession,
    tasks: Sequence[ReadTask],
    schema: pa.Schema,
    *,
    max_bytes: int = MAX_BYTES,
    patience: float = PATIENCE,
) -> pa.RecordBatchReader:
    """Read tasks on Spark as one job: batches as they come, in no order.

    Each task is a Spark task; those that say by `estimated_bytes` that they are small share one.

    The job starts with the first batch that is asked for. Closing the reader, leaving its `with`
    block or dropping it cancels the job.

    Args:
        spark: A session of any kind.
        tasks: What to read: picklable objects that give the same batches whenever they are read.
        schema: The schema of every batch.
        max_bytes: How many bytes of batches may wait in this process.
        patience: How many seconds a task waits for the consumer before it leaves its core.
    """
    if not tasks:
        return pa.RecordBatchReader.from_batches(schema, [])
    inlet = Inlet(len(tasks), max_bytes=max_bytes, patience=patience)
    job = _JOBS[route(spark)](spark, tasks, schema, inlet)
    return ScanReader(schema, job.batches(), job.end)


def route(spark: SparkSession) -> Route:
    """How the batches of a session travel."""
    # A remote session has no driver here that executors could send to.
    if is_connect(spark):
        return "connect"
    check_running(spark.sparkContext)
    check_protected(spark.sparkContext)
    match spark.conf.get(ROUTE, "push"):
        case "push":
            return "push"
        case "collect":
            return "collect"
        case other:
            raise InvalidArgumentError(f"{ROUTE} is 'push' or 'collect', not {other!r}")


class PushJob(Job):
    """One Spark job whose tasks send their batches to this process by Flight."""

    def __init__(
        self, spark: SparkSession, tasks: Sequence[ReadTask], schema: pa.Schema, inlet: Inlet
    ) -> None:
        super().__init__(spark, tasks, schema, inlet)
        self._receiver = receiver_of(spark.sparkContext)
        self._ended = threading.Event()

    def start(self) -> None:
        """Listen, and run the job."""
        from pyspark import InheritableThread

        self._receiver.open(self.tag, self.inlet)
        _unended.add(self)
        InheritableThread(target=self._run, name=self.tag, daemon=True, session=self.spark).start()

    def release(self) -> None:
        """Stop listening."""
        self._receiver.close(self.tag)

    def cancel(self) -> None:
        """Cancel the job, if its tasks do not end by themselves when nobody listens.

        A task that is cancelled costs its Python worker, and the next one a second. Told again
        until it has ended: a job that was about to start is not known to Spark yet.
        """
        while not self._ended.wait(GRACE):
            self.spark.sparkContext.cancelJobsWithTag(self.tag)

    def wait(self, seconds: float) -> None:
        """Wait until the job has ended."""
        self._ended.wait(max(seconds, 0))

    def _run(self) -> None:
        context = self.spark.sparkContext
        try:
            context.addJobTag(self.tag)
            context.setLocalProperty("spark.scheduler.pool", next(_POOLS))
            context.setLocalProperty("spark.job.description", "Lakeport scan")
            while remaining := self.inlet.incomplete():
                self._run_once(remaining)
                if self.inlet.incomplete() and not self.inlet.wait_for_room():
                    return
        except Exception as error:  # noqa: BLE001
            self.inlet.fail(scan_error(error, self.inlet.reason()))
        finally:
            self._ended.set()
            _unended.discard(self)

    def _run_once(self, numbers: list[int]) -> None:
        context = self.spark.sparkContext
        numbered = [(number, self.tasks[number]) for number in numbers]
        groups = [self._granted(group) for group in packed(numbered, context.defaultParallelism)]
        push = PushTasks(self._receiver.location, self.schema)
        sending = context.parallelize(groups, len(groups)).mapPartitions(push)
        # What Spark had not begun, it was not asked to cancel.
        if not self.inlet.cancelled:
            for sent in sending.collect():
                for task in sent:
                    self.inlet.confirm(*task)

    def _granted(self, tasks: Sequence[tuple[int, ReadTask]]) -> Group:
        """Return tasks with what lets one Spark task send them; that travels in the task itself."""
        return self.inlet.grant(self.tag, [number for number, _ in tasks]), tasks


# Jobs of this process, each added and discarded by one call that no other thread can divide.
_unended: Final[set[PushJob]] = set()


@atexit.register
def _settle() -> None:
    """A job ends a moment after its last batch, and Java complains if nobody is there by then."""
    jobs, deadline = tuple(_unended), time.monotonic() + AT_EXIT
    for job in jobs:
        job.end()
    for job in jobs:
        job.wait(deadline - time.monotonic())


_JOBS: Final[dict[Route, type[Job]]] = {
    "push": PushJob,
    "collect": CollectJob,
    "connect": ConnectJob,
}
