"""The rows of a DataFrame between Spark and their consumer: whole partitions, in their order.

A scan task gives the same batches whenever it is read, a partition of a DataFrame need not: after a
shuffle its rows come in any order. And the Python side of a task cannot tell the end of its rows
from a failure before it. So each attempt of a Spark task is kept apart, until Spark itself says
that it succeeded. What does not fit in memory waits on disk.
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
    """The number that an attempt of a Spark task sends its batches under."""
    return attempt << _PARTITION_BITS | partition


class PartitionBuffer(BatchQueue):
    """Takes batches from attempts of tasks, gives them by partition.

    One partition is expected until `expect` says how many there are.
    """

    def __init__(self, *, max_bytes: int, max_disk_bytes: int) -> None:
        super().__init__(1, max_bytes=max_bytes, patience=0)
        self._max_disk_bytes = max_disk_bytes
        self._disk_bytes = 0
        self._files = SpillFiles()
        self._partitions: int | None = None
        self._begun: set[int] = set()
        self._attempts: dict[int, _Attempt] = {}
        self._whole: dict[int, _Attempt] = {}

    def expect(self, partitions: int) -> None:
        """So many partitions will come."""
        with self._changed:
            self._partitions = partitions
            self._incomplete = set(range(partitions))
            self._changed.notify_all()

    def open(self, claim: Claim) -> list[Progress]:
        """Let an attempt send a partition, from its beginning: each attempt is kept apart.

        Raises:
            UnauthenticatedError: It has no grant, or has begun before.
        """
        self._key.check(claim)
        with self._changed:
            self._check_open()
            if claim.attempt in self._begun:
                raise UnauthenticatedError("this attempt has begun already")
            self._begun.add(claim.attempt)
        return [Progress(attempt=claim.attempt)]

    def covers(self, claim: Claim, task: int) -> bool:
        """Return whether a stream with this claim may send under a number."""
        partition = _partition(task)
        return partition in claim.tasks and task == attempt_id(claim.attempt, partition)

    def offer(
        self,
        task: int,
        number: int,
        batch: pa.RecordBatch,
        *,
        patience: float | None,  # noqa: ARG002
        attempt: int = DIRECT,  # noqa: ARG002
    ) -> None:
        """Keep a batch of an attempt: in memory if there is room, else on disk."""
        size = max(1, batch.get_total_buffer_size())
        with self._changed:
            self._check_open()
            sent = self._attempts.setdefault(task, _Attempt())
            if sent.has_ended or number != sent.count:
                self._disturbed(f"batch {number} of a DataFrame came out of order")
            sent.count += 1
            sent.rows += batch.num_rows
            if not sent.disk_bytes and self._bytes + size <= self._max_bytes:
                self._bytes += size
                sent.batches.append((batch, size))
                return
            self._disk_bytes += size
            sent.disk_bytes += size
        # Only one task writes to an attempt, and nobody reads it before that is done.
        sent.spooled.append((self._files.write(batch), size))

    def complete(self, task: int, batches: int, rows: int, *, attempt: int = DIRECT) -> None:  # noqa: ARG002
        """Take the report of an attempt that it has sent all of its batches."""
        with self._changed:
            sent = self._attempts.setdefault(task, _Attempt())
            if (batches, rows) != (sent.count, sent.rows):
                self._disturbed(f"a partition has {batches} batches, {sent.count} arrived")
            sent.has_ended = True

    def confirm(self, task: int, batches: int, rows: int) -> None:
        """Take what Spark returns of an attempt that succeeded: it is the partition."""
        partition = _partition(task)
        with self._changed:
            self._check_open()
            attempt = self._attempts.pop(task, None)
            if attempt is None or not attempt.has_ended:
                self._disturbed(f"the rows of partition {partition} did not arrive")
            if (batches, rows) != (attempt.count, attempt.rows):
                self._disturbed(
                    f"Spark computed {rows} rows of partition {partition}, {attempt.rows} arrived"
                )
            for other in [key for key in self._attempts if _partition(key) == partition]:
                self._drop(self._attempts.pop(other))
            self._whole[partition] = attempt
            self._incomplete.discard(partition)
            self._finished = not self._incomplete
            self._changed.notify_all()

    def explain(self, task: int, reason: str) -> None:
        """Keep why an attempt failed, in its own words."""
        super().explain(_partition(task), reason)

    def wait_for_room(self) -> bool:
        """Wait until more partitions may come; False when the scan is over."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._cancelled or self._finished or self._disk_bytes < self._max_disk_bytes
            )
            return not self._cancelled and not self._finished

    def cancel(self) -> bool:
        """Nobody wants the rest; True if some of it is still to come. False when told again."""
        with self._changed:
            for attempt in (*self._attempts.values(), *self._whole.values()):
                self._drop(attempt)
            self._attempts.clear()
            self._whole.clear()
            self._files.close()
            return super().cancel()

    def take_all(self) -> Iterator[pa.RecordBatch]:
        """The batches of each partition as soon as it is whole, in the order of partitions."""
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
                while attempt.spooled:
                    yield self._read(attempt)
            finally:
                with self._changed:
                    self._drop(attempt)

    def _take(self, partition: int) -> _Attempt | None:
        """A partition once it is whole; None after the last one."""
        with self._changed:
            self._wait_until(
                lambda: (
                    partition in self._whole
                    or partition == self._partitions
                    or self._error is not None
                )
            )
            if partition not in self._whole and self._error is not None:
                raise self._error
            return self._whole.pop(partition, None)

    def _read(self, attempt: _Attempt) -> pa.RecordBatch:
        """The next batch that an attempt has on disk."""
        spooled, size = attempt.spooled.popleft()
        with self._changed:
            self._disk_bytes -= size
            attempt.disk_bytes -= size
            self._changed.notify_all()
        return spooled.read()

    def _drop(self, attempt: _Attempt) -> None:
        self._bytes -= sum(size for _, size in attempt.batches)
        self._disk_bytes -= attempt.disk_bytes
        attempt.batches.clear()
        attempt.spooled.clear()
        attempt.disk_bytes = 0
        self._changed.notify_all()


@dataclass(slots=True)
class _Attempt:
    """What one attempt of a task has sent: batches in memory, then those on disk."""

    count: int = 0
    rows: int = 0
    has_ended: bool = False
    batches: deque[tuple[pa.RecordBatch, int]] = field(default_factory=deque)
    spooled: deque[tuple[SpilledBatch, int]] = field(default_factory=deque)
    disk_bytes: int = 0


def _partition(task: int) -> int:
    return task & ((1 << _PARTITION_BITS) - 1)


# Its space is free when the last batch in it is read: the smaller, the sooner.
FILE_BYTES: Final = 256 * 1024 * 1024


class SpillFiles:
    """Where any number of tasks write batches. A file is gone when all of its batches are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file: _File | None = None
        self._is_closed = False

    def write(self, batch: pa.RecordBatch) -> SpilledBatch:
        """Keep a batch on disk."""
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
        """Nothing more is written."""
        with self._lock:
            self._is_closed = True
            self._file = None


@dataclass(frozen=True, slots=True)
class SpilledBatch:
    """A batch on disk: its place there is free when nobody holds this any more."""

    _file: _File
    _offset: int
    _length: int

    def read(self) -> pa.RecordBatch:
        """The batch."""
        data = self._file.read(self._offset, self._length)
        return pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()


class _File:
    """A file that is closed when nobody uses it: another thread may be writing to it."""

    def __init__(self) -> None:
        self.size = 0
        self._lock = threading.Lock()
        self._file = tempfile.TemporaryFile(prefix="lakeport-", buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._file.close).atexit = False

    def append(self, data: pa.Buffer) -> int:
        """Write at the end; where that was."""
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
