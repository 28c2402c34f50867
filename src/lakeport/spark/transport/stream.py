"""Streams of Arrow batches that Spark tasks fill while they run.

The driver holds at most `max_bytes` of batches of a scan, plus one batch for each task that is
sending. If a consumer stops reading, the Spark jobs of its scan end and release their cores. When
it reads again, new jobs read the rest.
"""

from __future__ import annotations

import atexit
import itertools
import queue
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pyarrow as pa

from lakeport.arrow import CancellingReader
from lakeport.errors import InternalError, InvalidArgumentError, LakeportError
from lakeport.spark.compat import is_connect
from lakeport.spark.errors import task_error
from lakeport.spark.security import check_protected
from lakeport.spark.session import check_running
from lakeport.spark.transport.batch_queue import BatchQueue
from lakeport.spark.transport.collect import CANCEL_INTERVAL_SECONDS, CollectJob, ConnectJob
from lakeport.spark.transport.cores import LARGE_POOLS, SMALL_POOL
from lakeport.spark.transport.job import Job, group_tasks, is_small
from lakeport.spark.transport.receiver import get_receiver
from lakeport.spark.transport.sender import Group, ReadTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["MAX_BYTES", "PushJob", "route", "stream"]

MAX_BYTES: Final = 64 * 1024 * 1024
CONSUMER_TIMEOUT_SECONDS: Final = 0.5
EXIT_TIMEOUT_SECONDS: Final = 5.0

ROUTE: Final = "spark.lakeport.route"
"""The setting for how batches reach the driver: `push` (the default) or `collect`."""

Route: TypeAlias = Literal["push", "collect", "connect"]

PARALLEL_JOBS: Final = 2

_POOLS: Final = itertools.cycle(LARGE_POOLS)


def stream(
    spark: SparkSession,
    tasks: Sequence[ReadTask],
    schema: pa.Schema,
    *,
    max_bytes: int = MAX_BYTES,
    timeout: float = CONSUMER_TIMEOUT_SECONDS,
) -> pa.RecordBatchReader:
    """Read tasks on Spark; return their batches as they arrive, in no particular order.

    Each task is a Spark task; tasks whose `estimated_bytes` is small share one.

    The job starts when the first batch is read. Closing the reader, leaving its `with`
    block or dropping it cancels the job.

    Args:
        spark: A session of any kind.
        tasks: Picklable objects that return the same batches whenever they are read.
        schema: The schema of every batch.
        max_bytes: How many bytes of batches this process holds at most.
        timeout: How many seconds a task waits for the consumer before it releases its core.
    """
    if not tasks:
        return pa.RecordBatchReader.from_batches(schema, [])
    batch_queue = BatchQueue(len(tasks), max_bytes=max_bytes, timeout=timeout)
    job = _JOBS[route(spark)](spark, tasks, schema, batch_queue)
    return CancellingReader(schema, job.batches(), job.stop)


def route(spark: SparkSession) -> Route:
    """Return how the batches of a session reach this process."""
    # The driver of a remote session is another process.
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
    """Spark jobs whose tasks send their batches to this process by Flight.

    A small scan is one job. A large one is a series of jobs, two at a time, each with a task for
    every core: then few tasks are in Spark's queue when the scan is paused.
    """

    def __init__(
        self,
        spark: SparkSession,
        tasks: Sequence[ReadTask],
        schema: pa.Schema,
        batch_queue: BatchQueue,
    ) -> None:
        super().__init__(spark, tasks, schema, batch_queue)
        self._receiver = get_receiver(spark.sparkContext)
        self._ended = threading.Event()
        self._run_ended = threading.Event()
        self._runs = 0
        self._is_small = is_small(tasks)
        batch_queue.on_pause = self._end_run
        if not self._is_small:
            batch_queue.is_core_wanted = self._receiver.cores.is_wanted

    def start(self) -> None:
        """Accept batches, and run the jobs."""
        from pyspark import InheritableThread

        self._receiver.open(self.tag, self.batch_queue)
        _running_jobs.add(self)
        InheritableThread(target=self._run, name=self.tag, daemon=True, session=self.spark).start()

    def close(self) -> None:
        """Refuse further batches."""
        self._receiver.close(self.tag)

    def cancel(self) -> None:
        """Cancel the jobs if their tasks do not end by themselves.

        Spark kills the Python worker of a cancelled task, and starting another takes a second. The
        call is repeated until the jobs have ended, because Spark ignores jobs that are not started.
        """
        while not self._ended.wait(CANCEL_INTERVAL_SECONDS):
            self.spark.sparkContext.cancelJobsWithTag(self.tag)

    def wait(self, seconds: float) -> None:
        """Wait until the jobs have ended."""
        self._ended.wait(max(seconds, 0))

    def _run(self) -> None:
        context = self.spark.sparkContext
        try:
            context.addJobTag(self.tag)
            context.setLocalProperty("spark.scheduler.pool", self._pool())
            context.setLocalProperty("spark.job.description", "Lakeport scan")
            while remaining := self.batch_queue.unfinished_tasks():
                self._run_tagged(remaining)
                if not self.batch_queue.unfinished_tasks() or not self.batch_queue.wait_for_space():
                    return
                self._check_interrupted()
        except Exception as error:  # noqa: BLE001
            self.batch_queue.fail(task_error(error, self.batch_queue.failure_reason()))
        finally:
            self._ended.set()
            _running_jobs.discard(self)

    def _pool(self) -> str:
        return SMALL_POOL if self._is_small else next(_POOLS)

    def _run_tagged(self, numbers: list[int]) -> None:
        """Run tasks once, under a tag of this run by which it can be cancelled."""
        context = self.spark.sparkContext
        self._runs += 1
        self._run_ended.clear()
        context.addJobTag(self._run_tag())
        self.batch_queue.begin()
        try:
            self._run_once(numbers)
        finally:
            self._run_ended.set()
            context.removeJobTag(self._run_tag())

    def _run_tag(self) -> str:
        return f"{self.tag}-run-{self._runs}"

    def _check_interrupted(self) -> None:
        if not self.batch_queue.was_interrupted:
            missing = len(self.batch_queue.unfinished_tasks())
            raise InternalError(f"{missing} scan tasks ended on Spark without sending their rows")

    def _end_run(self) -> None:
        """End this run: tasks that are sending end by themselves, the others are cancelled."""
        tag, ended = self._run_tag(), self._run_ended

        def end() -> None:
            while not ended.wait(CANCEL_INTERVAL_SECONDS) and tag == self._run_tag():
                # Spark may have ended already, and the job with it.
                with suppress(Exception):
                    self.spark.sparkContext.cancelJobsWithTag(tag)

        threading.Thread(target=end, name=f"{self.tag}-pause", daemon=True).start()

    def _run_once(self, numbers: list[int]) -> None:
        """Run tasks in as many jobs as keep all cores busy."""
        cores = max(2, self.spark.sparkContext.defaultParallelism)
        groups = group_tasks([(number, self.tasks[number]) for number in numbers], cores)
        self._run_windows([groups[i : i + cores] for i in range(0, len(groups), cores)])

    def _run_windows(self, windows: Sequence[Any]) -> None:
        """Run windows in their order, two at a time: no core waits for the end of a window."""
        from pyspark import InheritableThread

        waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for window in windows:
            waiting.put(window)
        if len(windows) == 1:
            self._run_jobs(waiting)
            return
        threads = [
            InheritableThread(target=self._run_jobs, args=(waiting,), session=self.spark)
            for _ in range(min(PARALLEL_JOBS, len(windows)))
        ]
        for number, thread in enumerate(threads):
            thread.name, thread.daemon = f"{self.tag}-{number}", True
            thread.start()
        for thread in threads:
            thread.join()

    def _run_jobs(self, windows: queue.SimpleQueue[Any]) -> None:
        try:
            while self._may_run():
                self._run_window(windows.get_nowait())
        except queue.Empty:
            return
        except Exception as error:  # noqa: BLE001
            # The jobs of a paused run fail.
            if not self.batch_queue.paused:
                self.batch_queue.fail(self._failure(error))

    def _may_run(self) -> bool:
        """Return whether to start another job."""
        return (
            not self.batch_queue.cancelled
            and not self.batch_queue.paused
            and not self.batch_queue.finished
        )

    def _failure(self, error: Exception) -> LakeportError:
        return task_error(error, self.batch_queue.failure_reason())

    def _run_window(self, groups: Sequence[Sequence[tuple[int, ReadTask]]]) -> None:
        granted = [self._granted(group) for group in groups]
        send = self._receiver.sender(self.schema)
        context = self.spark.sparkContext
        sending = context.parallelize(granted, len(granted)).mapPartitions(send)
        # A job that had not started was not cancelled.
        if not self._may_run():
            return
        with self._receiver.cores.waiting(self.tag) if self._is_small else nullcontext():
            results = sending.collect()
        for sent in results:
            for task in sent:
                self.batch_queue.confirm(*task)

    def _granted(self, tasks: Sequence[tuple[int, ReadTask]]) -> Group:
        """Return tasks with the grant to send them, which is part of the Spark task itself."""
        return self.batch_queue.grant(self.tag, [number for number, _ in tasks]), tasks


# Jobs of this process; added and removed by atomic operations.
_running_jobs: Final[set[PushJob]] = set()


@atexit.register
def _wait_for_jobs_at_exit() -> None:
    """Wait for jobs that are finishing; otherwise the JVM prints a stack trace."""
    jobs, deadline = tuple(_running_jobs), time.monotonic() + EXIT_TIMEOUT_SECONDS
    for job in jobs:
        job.stop()
    for job in jobs:
        job.wait(deadline - time.monotonic())


_JOBS: Final[dict[Route, type[Job]]] = {
    "push": PushJob,
    "collect": CollectJob,
    "connect": ConnectJob,
}
