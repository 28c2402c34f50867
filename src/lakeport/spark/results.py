"""The rows of a DataFrame as a stream of Arrow batches, in the DataFrame's order.

Spark runs the query as one job; the Python side of each of its tasks sends the partition to this
process by Flight, as scans do. Where executors cannot reach this process, and on Connect sessions,
the batches come as results of Spark itself, one partition after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakeport.catalog.layouts import LayoutCast
from lakeport.errors import CancelledError
from lakeport.spark.arrow_map import map_in_arrow
from lakeport.spark.collect import CollectJob, ConnectJob
from lakeport.spark.inlet import Inlet
from lakeport.spark.job import Job
from lakeport.spark.push import PushTasks
from lakeport.spark.query_errors import query_error
from lakeport.spark.reader import ScanReader
from lakeport.spark.spool import Spool, sender
from lakeport.spark.stream import MAX_BYTES, ROUTE, PushJob

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame

__all__ = ["stream_frame"]

MAX_DISK_BYTES: Final = 16 * 1024**3
PATIENCE: Final = 10.0
CHUNK_BYTES: Final = 1536 * 1024


def stream_frame(
    frame: DataFrame,
    schema: pa.Schema,
    *,
    max_bytes: int = MAX_BYTES,
    max_disk_bytes: int = MAX_DISK_BYTES,
    patience: float = PATIENCE,
) -> pa.RecordBatchReader:
    """The rows of a DataFrame while Spark computes them, in the order the DataFrame has.

    The job starts with the first batch that is asked for. Closing the reader, leaving its `with`
    block or dropping it cancels the job.

    Args:
        frame: A DataFrame of a session of any kind.
        schema: The Arrow schema of the batches: the columns of the frame in another layout.
        max_bytes: How many bytes of batches may wait in the memory of this process.
        max_disk_bytes: How many more may wait in temporary files.
        patience: How many seconds a task waits for room there before it leaves its core. It has to
            begin again later.
    """
    job: Job
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        job = _ConnectFrameJob(frame, schema, max_bytes)
    elif frame.sparkSession.conf.get(ROUTE, "push") == "collect":
        job = _CollectFrameJob(frame, schema, max_bytes)
    else:
        spool = Spool(max_bytes=max_bytes, max_disk_bytes=max_disk_bytes, patience=patience)
        job = _PushFrameJob(frame, schema, spool)
    return ScanReader(schema, job.batches(), job.end)


class _PushFrameJob(PushJob):
    """A job whose tasks send the partitions of a DataFrame to this process."""

    inlet: Spool

    def __init__(self, frame: DataFrame, schema: pa.Schema, spool: Spool) -> None:
        super().__init__(frame.sparkSession, (), schema, spool)
        self._frame = frame
        self._rdd: RDD[Any] | None = None

    def _run_once(self, numbers: list[int]) -> None:
        try:
            if self._rdd is None:
                self._rdd = self._planned()
                numbers = self.inlet.incomplete()
            if numbers:
                self.spark.sparkContext.runJob(self._rdd, _drained, numbers)
        except Exception as error:
            self.inlet.fail(query_error(error, self.inlet.reason()))
            raise

    def _planned(self) -> RDD[Any]:
        """The partitions that send themselves; all stages before the last one have run."""
        push = PushTasks(self._receiver.location, self.tag, self.inlet.secret, self.schema)
        rdd = map_in_arrow(self._frame, _PushPartition(push), _PushPartition.schema).rdd
        self.inlet.expect(rdd.getNumPartitions())
        return rdd


class _CollectFrameJob(CollectJob):
    """A job whose results are a DataFrame's partitions as chunks of Arrow, one after the other."""

    def __init__(self, frame: DataFrame, schema: pa.Schema, max_bytes: int) -> None:
        inlet = Inlet(1, max_bytes=max_bytes, patience=PATIENCE)
        super().__init__(frame.sparkSession, (), schema, inlet)
        self._frame = frame

    def start(self) -> None:
        """Fetch the chunks in a thread."""
        from pyspark import InheritableThread

        InheritableThread(target=self._run, name=self.tag, daemon=True, session=self.spark).start()

    def _run(self) -> None:
        number = -1
        try:
            self._tag_thread()
            chunks = map_in_arrow(self._frame, _Chunks(self.schema), _Chunks.columns)
            for number, row in enumerate(chunks.toLocalIterator()):
                for batch in pa.ipc.open_stream(pa.py_buffer(row[0])):
                    self.inlet.offer(0, number, batch, patience=None)
            self.inlet.complete(0, number + 1)
        except CancelledError:
            return
        except Exception as error:  # noqa: BLE001
            self.inlet.fail(query_error(error))


class _ConnectFrameJob(_CollectFrameJob, ConnectJob):
    """The same with a Connect session."""


@dataclass(frozen=True, slots=True)
class _PushPartition:
    """What `mapInArrow` runs on a partition: send it, say how many batches there were."""

    push: PushTasks

    schema = "sent bigint"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        number = sender(context.taskAttemptId(), context.partitionId())
        for sent in self.push([(number, _Rows(batches, self.push.schema))]):
            yield pa.RecordBatch.from_pydict({"sent": [sent]})


@dataclass(frozen=True, slots=True)
class _Chunks:
    """What `mapInArrow` runs on a partition: its batches as Arrow bytes."""

    schema: pa.Schema

    columns = "data binary"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        for batch in _Rows(batches, self.schema).read():
            rows = max(1, batch.num_rows * CHUNK_BYTES // max(1, batch.nbytes))
            for start in range(0, batch.num_rows, rows):
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
                    writer.write_batch(batch.slice(start, rows))
                yield pa.RecordBatch.from_pydict({"data": [sink.getvalue().to_pybytes()]})


@dataclass(frozen=True, slots=True)
class _Rows:
    """The batches that Spark hands to a task, in the layout of a schema."""

    batches: Iterable[pa.RecordBatch]
    schema: pa.Schema

    def read(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            if batch.num_rows:
                yield LayoutCast(batch.schema, self.schema, "the DataFrame")(batch)


def _drained(rows: Iterable[Any]) -> list[int]:
    return [row[0] for row in rows]
