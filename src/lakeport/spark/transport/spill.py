"""The rows of a DataFrame between Spark and the consumer: complete partitions, in their order.

A scan task returns the same batches whenever it is read. A partition of a DataFrame may not: after
a shuffle its rows have any order. A Python worker cannot know whether its Spark task succeeded. So
the batches of each attempt are kept apart until Spark reports that the attempt succeeded. Batches
that do not fit in memory are written to disk.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from lakeport.errors import CancelledError, UnauthenticatedError
from lakeport.spark.transport.batch_queue import DIRECT, BatchQueue, Progress
from lakeport.spark.transport.grants import Claim

__all__ = ["PartitionBuffer", "SpillFiles", "SpilledBatch", "attempt_id"]

_PARTITION_BITS: Final = 32


def attempt_id(attempt: int, partition: int) -> int:
    """Return the number under which an attempt of a Spark task sends its batches."""
    return attempt << _PARTITION_BITS | partition


class PartitionBuffer(BatchQueue):
    """Collects the batches of attempts, and returns them by partition.

    One partition is expected until `set_partition_count` is called.
    """

    def __init__(self, *, max_bytes: int, max_disk_bytes: int) -> None:
        super().__init__(1, max_bytes=max_bytes, timeout=0)
        self._max_disk_bytes = max_disk_bytes
        self._disk_bytes = 0
        self._files = SpillFiles()
        self._partitions: int | None = None
        self._begun: set[int] = set()
        self._attempts: dict[int, _Attempt] = {}
        self._complete_partitions: dict[int, _Attempt] = {}

    def set_partition_count(self, partitions: int) -> None:
        """Set how many partitions there are."""
        with self._changed:
            self._partitions = partitions
            self._unfinished = set(range(partitions))
            self._changed.notify_all()

    def open(self, claim: Claim) -> list[Progress]:
        """Accept the batches of an attempt, from the first one: each attempt is kept apart.

        Raises:
            UnauthenticatedError: It has no grant, or has begun before.
        """
        self._key.check(claim)
        with self._changed:
            self._raise_if_cancelled()
            if claim.attempt in self._begun:
                raise UnauthenticatedError("this attempt has begun already")
            self._begun.add(claim.attempt)
        return [Progress(attempt=claim.attempt)]

    def covers(self, claim: Claim, task: int) -> bool:
        """Return whether a stream with this claim may send as this attempt."""
        partition = _partition(task)
        return partition in claim.task_set and task == attempt_id(claim.attempt, partition)

    def put(
        self,
        task: int,
        number: int,
        batch: pa.RecordBatch,
        *,
        timeout: float | None,  # noqa: ARG002
        attempt: int = DIRECT,  # noqa: ARG002
    ) -> None:
        """Keep a batch of an attempt: in memory if it fits, else on disk."""
        size = max(1, batch.get_total_buffer_size())
        with self._changed:
            self._raise_if_cancelled()
            sent = self._attempts.setdefault(task, _Attempt())
            if sent.is_finished or number != sent.count:
                self._fail_scan(f"batch {number} of a DataFrame came out of order")
            sent.count += 1
            sent.rows += batch.num_rows
            if not sent.disk_bytes and self._bytes + size <= self._max_bytes:
                self._bytes += size
                sent.batches.append((batch, size))
                return
            self._disk_bytes += size
            sent.disk_bytes += size
        # Only one task adds to an attempt, and it is read only after that task has ended.
        sent.spilled.append((self._files.write(batch), size))

    def finish_task(self, task: int, batches: int, rows: int, *, attempt: int = DIRECT) -> None:  # noqa: ARG002
        """Record that an attempt has sent all of its batches, and check their number."""
        with self._changed:
            sent = self._attempts.setdefault(task, _Attempt())
            if (batches, rows) != (sent.count, sent.rows):
                self._fail_scan(f"a partition has {batches} batches, {sent.count} arrived")
            sent.is_finished = True

    def confirm(self, task: int, batches: int, rows: int) -> None:
        """Accept an attempt that Spark reports as successful: its batches are the partition."""
        partition = _partition(task)
        with self._changed:
            self._raise_if_cancelled()
            attempt = self._attempts.pop(task, None)
            if attempt is None or not attempt.is_finished:
                self._fail_scan(f"the rows of partition {partition} did not arrive")
            if (batches, rows) != (attempt.count, attempt.rows):
                self._fail_scan(
                    f"Spark computed {rows} rows of partition {partition}, {attempt.rows} arrived"
                )
            for other in [key for key in self._attempts if _partition(key) == partition]:
                self._drop(self._attempts.pop(other))
            self._complete_partitions[partition] = attempt
            self._unfinished.discard(partition)
            self._finished = not self._unfinished
            self._changed.notify_all()

    def record_failure(self, task: int, reason: str) -> None:
        """Record the error message of a failed attempt."""
        super().record_failure(_partition(task), reason)

    def wait_for_space(self) -> bool:
        """Wait until there is disk space for more; return False when the scan is over."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._cancelled or self._finished or self._disk_bytes < self._max_disk_bytes
            )
            return not self._cancelled and not self._finished

    def cancel(self) -> bool:
        """Cancel the scan, and delete the spilled batches.

        Return whether unfinished partitions remained; False if it was already cancelled.
        """
        with self._changed:
            for attempt in (*self._attempts.values(), *self._complete_partitions.values()):
                self._drop(attempt)
            self._attempts.clear()
            self._complete_partitions.clear()
            self._files.close()
            return super().cancel()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of each partition when it is complete, in the order of partitions."""
        for partition in itertools.count():
            attempt = self._take(partition)
            if attempt is None:
                return
            try:
                while attempt.batches:
                    batch, size = attempt.batches.popleft()
                    with self._changed:
                        self._bytes -= size
                    yield batch
                while attempt.spilled:
                    yield self._read(attempt)
            finally:
                with self._changed:
                    self._drop(attempt)

    def _take(self, partition: int) -> _Attempt | None:
        """Wait for a partition to be complete, and return it; None after the last one."""
        with self._changed:
            self._wait_for(
                lambda: (
                    partition in self._complete_partitions
                    or partition == self._partitions
                    or self._error is not None
                )
            )
            if partition not in self._complete_partitions and self._error is not None:
                raise self._error
            return self._complete_partitions.pop(partition, None)

    def _read(self, attempt: _Attempt) -> pa.RecordBatch:
        """Return the next batch of an attempt that is on disk."""
        spilled, size = attempt.spilled.popleft()
        with self._changed:
            self._disk_bytes -= size
            attempt.disk_bytes -= size
            self._changed.notify_all()
        return spilled.read()

    def _drop(self, attempt: _Attempt) -> None:
        self._bytes -= sum(size for _, size in attempt.batches)
        self._disk_bytes -= attempt.disk_bytes
        attempt.batches.clear()
        attempt.spilled.clear()
        attempt.disk_bytes = 0
        self._changed.notify_all()


@dataclass(slots=True)
class _Attempt:
    """The batches of one attempt of a task: those in memory, then those on disk."""

    count: int = 0
    rows: int = 0
    is_finished: bool = False
    batches: deque[tuple[pa.RecordBatch, int]] = field(default_factory=deque)
    spilled: deque[tuple[SpilledBatch, int]] = field(default_factory=deque)
    disk_bytes: int = 0


def _partition(task: int) -> int:
    return task & ((1 << _PARTITION_BITS) - 1)


# The disk space is freed when the last batch of a file was read: smaller files free it sooner.
FILE_BYTES: Final = 256 * 1024 * 1024


class SpillFiles:
    """Temporary files for batches of any number of tasks; deleted when their batches are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file: _File | None = None
        self._is_closed = False

    def write(self, batch: pa.RecordBatch) -> SpilledBatch:
        """Write a batch to disk."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        data = sink.getvalue()
        with self._lock:
            if self._is_closed:
                raise CancelledError("the scan was cancelled")
            if self._file is None or self._file.size >= FILE_BYTES:
                self._file = _File()
            file = self._file
        return SpilledBatch(file, file.append(data), data.size)

    def close(self) -> None:
        """Refuse further batches."""
        with self._lock:
            self._is_closed = True
            self._file = None


@dataclass(frozen=True, slots=True)
class SpilledBatch:
    """A batch on disk; its file is deleted when all of its batches are."""

    _file: _File
    _offset: int
    _length: int

    def read(self) -> pa.RecordBatch:
        """Read the batch."""
        data = self._file.read(self._offset, self._length)
        return pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()


class _File:
    """A temporary file, closed with its last user: another thread may be writing to it."""

    def __init__(self) -> None:
        self.size = 0
        self._lock = threading.Lock()
        self._file = tempfile.TemporaryFile(prefix="lakeport-", buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._file.close).atexit = False

    def append(self, data: pa.Buffer) -> int:
        """Write at the end of the file; return the offset."""
        with self._lock:
            offset = self._file.seek(0, os.SEEK_END)
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
            self.size = offset + data.size
            return offset

    def read(self, offset: int, length: int) -> bytes:
        with self._lock:
            self._file.seek(offset)
            return self._file.read(length)
