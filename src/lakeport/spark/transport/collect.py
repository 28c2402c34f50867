"""The rows of a scan as results of Spark jobs, in chunks of Arrow bytes.

For sessions whose executors cannot connect to this process: Connect sessions, and clusters behind a
firewall. It is slower than sending batches straight to the driver, because every byte passes the
JVM. Spark keeps the results of a job until they are fetched, so a scan consists of many small jobs,
and a few of them run at a time.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from lakeport.errors import CancelledError, InternalError
from lakeport.spark.errors import task_error
from lakeport.spark.transport.batch_queue import BatchQueue
from lakeport.spark.transport.job import Job
from lakeport.spark.transport.sender import ReadTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CANCEL_INTERVAL_SECONDS", "CollectJob", "ConnectJob", "to_chunks"]

CHUNK_BYTES: Final = 1536 * 1024
GROUP_BYTES: Final = 64 * 1024 * 1024
GROUP_TASKS: Final = 32
PARALLEL_JOBS: Final = 4

CANCEL_INTERVAL_SECONDS: Final = 0.5
"""How many seconds a job has to end by itself before it is cancelled, or cancelled again."""

Numbered: TypeAlias = tuple[int, ReadTask]
Chunk: TypeAlias = tuple[int, int, bytes | None]
"""The number of a task, the number of a chunk of it, and its bytes. The chunk that ends a task has
no bytes, and its number is the count of the others.
"""


class CollectJob(Job):
    """Small Spark jobs whose results are chunks of Arrow."""

    def __init__(
        self,
        spark: SparkSession,
        tasks: Sequence[ReadTask],
        schema: pa.Schema,
        batch_queue: BatchQueue,
    ) -> None:
        super().__init__(spark, tasks, schema, batch_queue)
        self._threads: list[threading.Thread] = []
        self._rows: Counter[int] = Counter()
        """How many rows of each task were fetched; one thread fetches a task."""

    def start(self) -> None:
        """Fetch groups of tasks in a few threads."""
        self._groups: queue.SimpleQueue[list[Numbered]] = queue.SimpleQueue()
        for group in _groups(self.tasks):
            self._groups.put(group)
        for number in range(min(PARALLEL_JOBS, self._groups.qsize())):
            self._start_thread(f"{self.tag}-{number}")

    def cancel(self) -> None:
        """Cancel the jobs that are running or starting."""
        while running := [thread for thread in self._threads if thread.is_alive()]:
            self._interrupt()
            running[0].join(CANCEL_INTERVAL_SECONDS)

    def _start_thread(self, name: str) -> None:
        from pyspark import InheritableThread

        thread = InheritableThread(target=self._run, name=name, daemon=True, session=self.spark)
        self._threads.append(thread)
        thread.start()

    def _interrupt(self) -> None:
        self.spark.sparkContext.cancelJobsWithTag(self.tag)

    def _run(self) -> None:
        try:
            self._tag_thread()
            while not self.batch_queue.cancelled:
                self._run_group(self._groups.get_nowait())
        except (queue.Empty, CancelledError):
            return
        except Exception as error:  # noqa: BLE001
            self.batch_queue.fail(task_error(error))

    def _run_group(self, group: list[Numbered]) -> None:
        for task, number, data in self._fetch(group):
            self._take(task, number, data)
        missing = {number for number, _ in group}.intersection(self.batch_queue.unfinished_tasks())
        if missing:
            raise InternalError(f"scan task {min(missing)} ended before its last row")

    def _take(self, task: int, number: int, data: bytes | None) -> None:
        if data is None:
            rows = self._rows[task]
            self.batch_queue.finish_task(task, number, rows)
            self.batch_queue.confirm(task, number, rows)
            return
        batch = pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()
        self._rows[task] += batch.num_rows
        # While this waits, Spark holds the results and no core: no time-out is needed.
        self.batch_queue.put(task, number, batch, timeout=None)

    def _tag_thread(self) -> None:
        self.spark.sparkContext.addJobTag(self.tag)

    def _fetch(self, group: list[Numbered]) -> Iterator[Chunk]:
        rdd = self.spark.sparkContext.parallelize(group, len(group)).mapPartitions(_chunks)
        chunks: Iterator[Chunk] = rdd.toLocalIterator(prefetchPartitions=True)
        return chunks


class ConnectJob(CollectJob):
    """The same with a Connect session, which has DataFrames only."""

    def _interrupt(self) -> None:
        self.spark.interruptTag(self.tag)

    def _tag_thread(self) -> None:
        self.spark.addTag(self.tag)

    def _fetch(self, group: list[Numbered]) -> Iterator[Chunk]:
        # One row and one partition for each task; the tasks themselves are part of the function.
        numbers = self.spark.range(0, len(group), 1, len(group))
        chunks = numbers.mapInArrow(_ChunksInArrow(group), _ChunksInArrow.schema)
        rows: Iterator[Chunk] = chunks.toLocalIterator()
        return rows


@dataclass(frozen=True, slots=True)
class _ChunksInArrow:
    """Maps positions in a group to the chunks of their tasks, inside `mapInArrow`."""

    group: list[Numbered]

    schema = "task int, number int, data binary"

    def __call__(self, positions: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        types = pa.int32(), pa.int32(), pa.binary()
        for batch in positions:
            for position in batch.column(0).to_pylist():
                for chunk in _chunks([self.group[position]]):
                    arrays = [pa.array([v], t) for v, t in zip(chunk, types, strict=True)]
                    yield pa.RecordBatch.from_arrays(arrays, ["task", "number", "data"])


def _chunks(tasks: Iterable[Numbered]) -> Iterator[Chunk]:
    """Yield the rows of tasks as chunks."""
    for number, task in tasks:
        count = 0
        for batch in task.read():
            for chunk in to_chunks(batch):
                yield number, count, chunk
                count += 1
        yield number, count, None


def to_chunks(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Yield a batch as chunks for Spark: each is an IPC stream of one batch."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    rows = max(1, batch.num_rows * CHUNK_BYTES // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch.slice(start, rows))
        yield sink.getvalue().to_pybytes()


def _groups(tasks: Sequence[ReadTask]) -> Iterator[list[Numbered]]:
    """Yield groups of tasks whose results Spark can hold at once, if their sizes are known."""
    group: list[Numbered] = []
    size = 0
    for number, task in enumerate(tasks):
        estimate: Any = getattr(task, "estimated_bytes", 0)
        if group and (size + estimate > GROUP_BYTES or len(group) == GROUP_TASKS):
            yield group
            group, size = [], 0
        group.append((number, task))
        size += estimate
    yield group
