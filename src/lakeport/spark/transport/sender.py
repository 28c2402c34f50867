"""The code that runs inside a Spark task: read rows, send them to the driver, return their number.

Batches are sent by Flight or, where driver and task are on one machine, through shared memory. In
both cases a Flight message announces each batch. This module is imported by executors: it needs
pyarrow, not the rest of the pipeline.

A stream begins with a claim (see `grants`). The driver replies with the batches and rows of each
task that have arrived. The stream sends the batches after those. The number of batches and rows is
also the result of the Spark task, returned when the driver has everything.

A stream has at most one shared buffer:

* Without a buffer, the reply to `REQUEST_BUFFER` is the name of one, or empty when all are in use.
* With a buffer, small batches, ends of tasks and batches that do not fit are sent by Flight. The
  stream keeps the buffer for its next batch.
* `BATCH_IN_BUFFER` passes the buffer to the driver with its batch. The reply is the same as to
  `REQUEST_BUFFER`.
* `RELEASE_BUFFER` returns an unused buffer, also if its name was not read yet. It is the last
  message of a stream that ends normally.

If a stream ends abnormally, a process may still be writing to its buffer. The driver does not reuse
that buffer.
"""

from __future__ import annotations

import gc
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa
from pyarrow import flight

from lakeport.errors import InternalError, UnavailableError
from lakeport.spark.transport.grants import Grant
from lakeport.spark.transport.shared_memory import close_buffers, write_batch

__all__ = [
    "BATCH_IN_BUFFER",
    "BATCH_POSITION",
    "CONSUMER_TOO_SLOW",
    "COUNTS",
    "RELEASE_BUFFER",
    "REQUEST_BUFFER",
    "TASK_DONE",
    "TASK_FAILED",
    "TOTAL",
    "Group",
    "ReadTask",
    "SendTasks",
    "Sent",
    "enable_tcp_quickack",
]

TASK_DONE: Final = b"done"
TASK_FAILED: Final = b"failed"
CONSUMER_TOO_SLOW: Final = b"paused"
REQUEST_BUFFER: Final = b"want"
BATCH_IN_BUFFER: Final = b"shared"
RELEASE_BUFFER: Final = b"back"

BATCH_POSITION: Final = struct.Struct(">QQ")
"""The number of a task, and the number of a batch in it."""

COUNTS: Final = struct.Struct(">QQ")
"""How many batches of a task there are, and how many rows."""

TOTAL: Final = struct.Struct(">QQQ")
"""The number of a task, its batches and its rows."""

_MIN_SHARED_BYTES: Final = 256 * 1024

_MAX_REASON: Final = 2000


class ReadTask(Protocol):
    """A small, picklable description of rows, readable anywhere and always in the same order."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        ...


Group: TypeAlias = tuple[Grant, Sequence[tuple[int, ReadTask]]]
"""The numbered scan tasks of one Spark task, and the grant to send them."""

Sent: TypeAlias = tuple[int, int, int]
"""The number of a task that was sent completely, its batches and its rows."""


@dataclass(frozen=True, slots=True)
class SendTasks:
    """Sends the batches of tasks to the driver; Spark calls it once per partition.

    Spark broadcasts it, so it must not contain a secret.
    """

    location: str
    """The address of the driver's endpoint."""
    schema: pa.Schema
    """The schema of every batch."""
    certificate: bytes | None = None
    """The certificate of the driver, if the connection is encrypted."""

    def __call__(self, groups: Iterable[Group]) -> Iterator[list[Sent]]:
        """Send the tasks of a partition; yield those that the driver has completely."""
        from pyspark import TaskContext

        enable_tcp_quickack()
        context: Any = TaskContext.get()
        for grant, tasks in groups:
            yield self.send(grant, tasks, attempt=context.taskAttemptId())

    def send(
        self, grant: Grant, tasks: Sequence[tuple[int, ReadTask]], *, attempt: int
    ) -> list[Sent]:
        """Send tasks as an attempt; return them if the driver has everything, else nothing."""
        try:
            return self._send(grant.claim(attempt), tasks)
        except (flight.FlightCancelledError, flight.FlightUnauthenticatedError):
            # The scan has ended: the rest is not needed.
            return []
        except flight.FlightUnavailableError as error:
            # The consumer is slow: release the core. The driver runs the unfinished tasks later.
            if error.extra_info == CONSUMER_TOO_SLOW:
                return []
            raise UnavailableError(
                f"an executor cannot reach the driver at {self.location}: set spark.driver.host "
                "to an address that it can reach, or spark.lakeport.route to 'collect'"
            ) from None
        finally:
            _freeze_garbage_collector()

    def _send(self, claim: bytes, tasks: Sequence[tuple[int, ReadTask]]) -> list[Sent]:
        descriptor = flight.FlightDescriptor.for_command(claim)
        writer, replies = _client(self.location, self.certificate).do_put(descriptor, self.schema)
        with writer:
            sender = _BatchSender(self.location, writer, replies)
            try:
                sent = [sender.run(number, task) for number, task in tasks]
                sender.release_buffer()
            except BaseException:
                # The driver does not reuse the buffer of this stream: free its memory here, too.
                close_buffers()
                raise
            return sent


class _BatchSender:
    """Sends the batches of tasks over one stream, by shared memory or by Flight."""

    def __init__(self, location: str, writer: Any, replies: Any) -> None:
        self._location = location
        self._writer = writer
        self._replies = replies
        self._reply_pending = False
        """Whether the driver's reply, which names a buffer or none, was not read yet."""
        self._name = ""
        """The buffer of this stream, once its name was read."""
        self._arrived: Iterator[tuple[Any, ...]] | None = None
        """The batches and rows of each task that have arrived, once the reply was read."""

    def run(self, number: int, task: ReadTask) -> Sent:
        """Send the missing batches of a task; on an error, send its message and raise it."""
        try:
            batches, rows = self._send_missing(number, task)
        except flight.FlightError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"[:_MAX_REASON]
            self._writer.write_metadata(
                TASK_FAILED + BATCH_POSITION.pack(number, 0) + reason.encode()
            )
            raise
        self._writer.write_metadata(TASK_DONE + TOTAL.pack(number, batches, rows))
        return number, batches, rows

    def _send_missing(self, number: int, task: ReadTask) -> tuple[int, int]:
        """Read a task and send the batches that have not arrived; return the counts of all."""
        batches = rows = 0
        arrived: tuple[Any, ...] | None = None
        for batch in task.read():
            if arrived is None:
                arrived = self._next_arrived()
            if batches >= arrived[0]:
                self._send(BATCH_POSITION.pack(number, batches), batch)
            batches += 1
            rows += batch.num_rows
            if batches == arrived[0] and rows != arrived[1]:
                raise InternalError(f"scan task {number} has other rows than before")
        if batches < (arrived or self._next_arrived())[0]:
            raise InternalError(f"scan task {number} has fewer rows than before")
        return batches, rows

    def _next_arrived(self) -> tuple[Any, ...]:
        """Return how many batches and rows of the next task have arrived."""
        if self._arrived is None:
            reply = self._replies.read()
            self._arrived = COUNTS.iter_unpack(reply.to_pybytes() if reply else b"")
        counts = next(self._arrived, None)
        if counts is None:
            # The driver refuses the stream: closing it raises the reason.
            self._writer.close()
            raise InternalError("the driver has not replied")
        return counts

    def _send(self, position: bytes, batch: pa.RecordBatch) -> None:
        length = self._write_shared(batch)
        if length is None:
            self._writer.write_with_metadata(batch, position)
        else:
            self._writer.write_metadata(BATCH_IN_BUFFER + position + length.to_bytes(8, "big"))
            self._name, self._reply_pending = "", True

    def _write_shared(self, batch: pa.RecordBatch) -> int | None:
        """Write a large batch to a shared buffer; return its length, or None to use Flight."""
        if batch.nbytes < _MIN_SHARED_BYTES or self._location in _drivers_without_shared_memory:
            return None
        name = self._name or self._request_buffer()
        if not name:
            # All are in use, or the scan is over: then the next write raises the reason.
            return None
        try:
            return write_batch(name, batch)
        except OSError:
            _drivers_without_shared_memory.add(self._location)
            self.release_buffer()
            return None

    def _request_buffer(self) -> str:
        if not self._reply_pending:
            self._writer.write_metadata(REQUEST_BUFFER)
        self._reply_pending = False
        reply = self._replies.read()
        self._name = reply.to_pybytes().decode() if reply else ""
        return self._name

    def release_buffer(self) -> None:
        """Return the unused buffer of this stream, if it has one."""
        if self._name or self._reply_pending:
            self._writer.write_metadata(RELEASE_BUFFER)
            self._name, self._reply_pending = "", False


# Drivers whose shared memory cannot be opened in this process.
_drivers_without_shared_memory: set[str] = set()


def enable_tcp_quickack() -> None:
    """Enable TCP_QUICKACK on the sockets to the JVM.

    Without it, delayed ACKs hold back every task by up to 40 ms.
    """
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    for entry in tuple(Path("/proc/self/fd").iterdir()):
        # Most descriptors are no TCP sockets; on other sockets the option is harmless.
        with suppress(OSError):
            connection = socket.socket(fileno=int(entry.name))
            try:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            finally:
                connection.detach()


@cache
def _freeze_garbage_collector() -> None:
    """Exclude long-lived objects from garbage collection: PySpark runs it after every task."""
    gc.freeze()


@cache
def _client(location: str, certificate: bytes | None) -> flight.FlightClient:
    return flight.connect(location, tls_root_certs=certificate)
