"""The rows of a DataFrame as a stream of Arrow batches, in the DataFrame's order.

Spark computes a few partitions at a time. The Python worker of each task sends its partition to
this process by Flight, as scans do. Where executors cannot connect to this process, and on Connect
sessions, the batches are results of Spark jobs, one partition after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakeport.arrow import CancellingReader, SchemaAdapter
from lakeport.errors import CancelledError, LakeportError
from lakeport.spark.compat import map_in_arrow
from lakeport.spark.errors import query_error
from lakeport.spark.transport.batch_queue import BatchQueue
from lakeport.spark.transport.collect import CollectJob, ConnectJob, to_chunks
from lakeport.spark.transport.grants import Grant
from lakeport.spark.transport.job import Job
from lakeport.spark.transport.sender import SendTasks, enable_tcp_quickack
from lakeport.spark.transport.spill import PartitionBuffer, attempt_id
from lakeport.spark.transport.stream import MAX_BYTES, PushJob, route

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["stream_dataframe"]

MAX_DISK_BYTES: Final = 16 * 1024**3

# Spark redacts the values of settings with "secret" in their names in event logs.
_GRANT: Final = "lakeport.grant.secret"


def stream_dataframe(
    frame: DataFrame,
    schema: pa.Schema,
    *,
    max_bytes: int = MAX_BYTES,
    max_disk_bytes: int = MAX_DISK_BYTES,
) -> pa.RecordBatchReader:
    """Return the rows of a DataFrame while Spark computes them, in the DataFrame's order.

    The job starts when the first batch is read. Closing the reader, leaving its `with`
    block or dropping it cancels the job.

    Args:
        frame: A DataFrame of a session of any kind.
        schema: The Arrow schema of the batches: the columns of the frame in another layout.
        max_bytes: How many bytes of batches this process holds in memory at most.
        max_disk_bytes: No partition is started while temporary files are larger than this.
    """
    job: Job
    match route(frame.sparkSession):
        case "push":
            buffer = PartitionBuffer(max_bytes=max_bytes, max_disk_bytes=max_disk_bytes)
            job = _PushFrameJob(frame, schema, buffer)
        case "collect":
            job = _CollectFrameJob(frame, schema, max_bytes)
        case "connect":
            job = _ConnectFrameJob(frame, schema, max_bytes)
    return CancellingReader(schema, job.batches(), job.stop)


class _PushFrameJob(PushJob):
    """Jobs whose tasks send the partitions of a DataFrame to this process, a few at a time."""

    batch_queue: PartitionBuffer

    def __init__(self, frame: DataFrame, schema: pa.Schema, buffer: PartitionBuffer) -> None:
        super().__init__(frame.sparkSession, (), schema, buffer)
        self._frame = frame

    def _run_once(self, numbers: list[int]) -> None:  # noqa: ARG002
        try:
            self._partitions = self._planned()
            self.batch_queue.set_partition_count(self._partitions.getNumPartitions())
        except Exception as error:
            self.batch_queue.fail(query_error(error))
            raise
        self._run_windows(self._windows())

    def _may_run(self) -> bool:
        return self.batch_queue.wait_for_space()

    def _failure(self, error: Exception) -> LakeportError:
        return query_error(error, self.batch_queue.failure_reason())

    def _run_window(self, numbers: Sequence[Any]) -> None:
        # A property of the job is part of each task; the function itself is broadcast.
        grant = self.batch_queue.grant(self.tag, numbers).to_text()
        self.spark.sparkContext.setLocalProperty(_GRANT, grant)
        for rows in self._partitions.collectPartitions(self._java_array(numbers)):
            for row in rows:
                self.batch_queue.confirm(row.getLong(0), row.getLong(1), row.getLong(2))

    def _planned(self) -> Any:
        """Return the RDD whose partitions send themselves; run the stages before it."""
        send = self._receiver.sender(self.schema)
        sending: Any = map_in_arrow(self._frame, _PushPartition(send), _PushPartition.schema)
        # A PySpark RDD would need one more Python process for each task.
        return sending._jdf.toJavaRDD()  # noqa: SLF001

    def _windows(self) -> list[list[int]]:
        """Return the partitions in groups that keep all cores busy, in their order."""
        numbers = self.batch_queue.unfinished_tasks()
        size = max(2, self.spark.sparkContext.defaultParallelism)
        return [numbers[start : start + size] for start in range(0, len(numbers), size)]

    def _java_array(self, numbers: Sequence[int]) -> Any:
        gateway: Any = self.spark.sparkContext._gateway  # noqa: SLF001
        array = gateway.new_array(gateway.jvm.int, len(numbers))
        for position, number in enumerate(numbers):
            array[position] = number
        return array


class _CollectFrameJob(CollectJob):
    """A job whose results are a DataFrame's partitions as chunks of Arrow, one after the other."""

    def __init__(self, frame: DataFrame, schema: pa.Schema, max_bytes: int) -> None:
        batch_queue = BatchQueue(1, max_bytes=max_bytes, timeout=0)
        super().__init__(frame.sparkSession, (), schema, batch_queue)
        self._frame = frame

    def start(self) -> None:
        """Fetch the chunks in a thread."""
        self._start_thread(self.tag)

    def _run(self) -> None:
        number, rows = -1, 0
        try:
            self._tag_thread()
            chunks = map_in_arrow(self._frame, _Chunks(self.schema), _Chunks.columns)
            for number, row in enumerate(chunks.toLocalIterator()):
                for batch in pa.ipc.open_stream(pa.py_buffer(row[0])):
                    self.batch_queue.put(0, number, batch, timeout=None)
                    rows += batch.num_rows
            self.batch_queue.finish_task(0, number + 1, rows)
            self.batch_queue.confirm(0, number + 1, rows)
        except CancelledError:
            return
        except Exception as error:  # noqa: BLE001
            self.batch_queue.fail(query_error(error))


class _ConnectFrameJob(_CollectFrameJob, ConnectJob):
    """The same with a Connect session."""


@dataclass(frozen=True, slots=True)
class _PushPartition:
    """Sends a partition inside `mapInArrow`, and returns the number that it was sent under."""

    send: SendTasks

    schema = "sender bigint, batches bigint, rows bigint"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        enable_tcp_quickack()
        context: Any = TaskContext.get()
        attempt = context.taskAttemptId()
        number = attempt_id(attempt, context.partitionId())
        grant = Grant.from_text(context.getLocalProperty(_GRANT))
        tasks = [(number, _Rows(batches, self.send.schema))]
        for each in self.send.send(grant, tasks, attempt=attempt):
            values = zip(("sender", "batches", "rows"), each, strict=True)
            yield pa.RecordBatch.from_pydict({name: [value] for name, value in values})


@dataclass(frozen=True, slots=True)
class _Chunks:
    """Returns the batches of a partition as Arrow bytes, inside `mapInArrow`."""

    schema: pa.Schema

    columns = "data binary"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in _Rows(batches, self.schema).read():
            for chunk in to_chunks(batch):
                yield pa.RecordBatch.from_pydict({"data": [chunk]})


@dataclass(frozen=True, slots=True)
class _Rows:
    """The batches that Spark passes to a task, in the layout of a schema."""

    batches: Iterable[pa.RecordBatch]
    schema: pa.Schema

    def read(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            if batch.num_rows:
                yield SchemaAdapter(batch.schema, self.schema, "the DataFrame")(batch)
