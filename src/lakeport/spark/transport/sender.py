"""What runs inside a Spark task: read the rows, send them to the driver, return how many it had.

Batches go by Flight, or, where driver and task share a machine, through memory that they share;
the driver is told of each by Flight either way. This module is imported by executors: it knows
pyarrow, not the rest of the pipeline.

A stream begins with a claim (see `grants`), which the driver answers with what it has of each task.
The stream sends what follows. What it had sent is returned to Spark as well, as the result of the
Spark task, once the driver has taken all of it.

Who may write to a segment, in each state of a stream:

* None is lent. `WANT` is answered by the name of one, or by nothing when all are in use.
* One is lent, its name on the way or here. Small batches, ends of tasks and batches that do not fit
  change nothing: the segment stays the stream's for its next batch.
* `SHARED` hands the segment over with its batch, and is answered like `WANT`.
* `BACK` gives a segment back that was not used, its name read or not. It ends every stream that
  ends well.

A stream that ends in any other way may leave somebody behind who still writes: the driver never
lends that segment again.
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
    "acknowledge",
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
        """The rows."""
        ...


Group: TypeAlias = tuple[Grant, Sequence[tuple[int, ReadTask]]]
"""The numbered tasks of one Spark task, and what lets it send them."""

Sent: TypeAlias = tuple[int, int, int]
"""The number of a task whose end the driver has seen, its batches and its rows."""


@dataclass(frozen=True, slots=True)
class SendTasks:
    """Sends the batches of tasks to the driver; Spark calls it once per partition.

    Spark broadcasts it, so there is nothing secret in it.
    """

    location: str
    """Where the driver listens."""
    schema: pa.Schema
    """The schema of every batch."""
    certificate: bytes | None = None
    """What the driver must show where the connection is encrypted."""

    def __call__(self, groups: Iterable[Group]) -> Iterator[list[Sent]]:
        """Send the tasks of a partition; gives those of which the driver has everything."""
        from pyspark import TaskContext

        acknowledge()
        context: Any = TaskContext.get()
        for grant, tasks in groups:
            yield self.send(grant, tasks, attempt=context.taskAttemptId())

    def send(
        self, grant: Grant, tasks: Sequence[tuple[int, ReadTask]], *, attempt: int
    ) -> list[Sent]:
        """Send tasks as an attempt; return them if the driver has everything, else none."""
        try:
            return self._send(grant.claim(attempt), tasks)
        except (flight.FlightCancelledError, flight.FlightUnauthenticatedError):
            # The scan has ended: the rest is not needed.
            return []
        except flight.FlightUnavailableError as error:
            # The consumer is slow: give the core to somebody else. The driver knows what is
            # missing, and runs it later if anybody still wants it.
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
        writer, answers = _client(self.location, self.certificate).do_put(descriptor, self.schema)
        with writer:
            courier = _BatchSender(self.location, writer, answers)
            try:
                sent = [courier.run(number, task) for number, task in tasks]
                courier.give_back()
            except BaseException:
                # The driver gives up what it had lent: nobody may keep that memory from here.
                close_buffers()
                raise
            return sent


class _BatchSender:
    """Sends the batches of tasks over one stream, each the quickest way."""

    def __init__(self, location: str, writer: Any, answers: Any) -> None:
        self._location = location
        self._writer = writer
        self._answers = answers
        self._is_owed = False
        """Whether the answer of the driver is still to be read: the name of a segment, or none."""
        self._name = ""
        """The segment that is lent to this stream, once its name is read."""
        self._arrived: Iterator[tuple[Any, ...]] | None = None
        """What the driver has of each task, in their order, once its answer is read."""

    def run(self, number: int, task: ReadTask) -> Sent:
        """Send what the driver lacks of a task. If that fails, the driver receives the reason."""
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
        """Read a task and send the batches after those that have arrived; count all of them."""
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
        """Return how many batches and rows of the next task the driver has."""
        if self._arrived is None:
            answer = self._answers.read()
            self._arrived = COUNTS.iter_unpack(answer.to_pybytes() if answer else b"")
        found = next(self._arrived, None)
        if found is None:
            # The stream is refused: closing it raises the reason.
            self._writer.close()
            raise InternalError("the driver has not answered")
        return found

    def _send(self, place: bytes, batch: pa.RecordBatch) -> None:
        length = self._share(batch)
        if length is None:
            self._writer.write_with_metadata(batch, place)
        else:
            self._writer.write_metadata(BATCH_IN_BUFFER + place + length.to_bytes(8, "big"))
            self._name, self._is_owed = "", True

    def _share(self, batch: pa.RecordBatch) -> int | None:
        """Write a large batch to a segment, if the driver has one; its length there."""
        if batch.nbytes < _MIN_SHARED_BYTES or self._location in _drivers_without_shared_memory:
            return None
        name = self._name or self._next_name()
        if not name:
            # All are in use, or the scan is over: then the next write says why.
            return None
        try:
            return write_batch(name, batch)
        except OSError:
            _drivers_without_shared_memory.add(self._location)
            self.give_back()
            return None

    def _next_name(self) -> str:
        if not self._is_owed:
            self._writer.write_metadata(REQUEST_BUFFER)
        self._is_owed = False
        answer = self._answers.read()
        self._name = answer.to_pybytes().decode() if answer else ""
        return self._name

    def give_back(self) -> None:
        """Leave the segment that is lent to this stream, if there is one, to others."""
        if self._name or self._is_owed:
            self._writer.write_metadata(RELEASE_BUFFER)
            self._name, self._is_owed = "", False


# Drivers whose memory cannot be reached from here.
_drivers_without_shared_memory: set[str] = set()


def acknowledge() -> None:
    """Acknowledge at once what Java has sent: the function that runs now.

    Java holds the tasks back until then, for which the system waits up to 40 ms.
    """
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    for entry in tuple(Path("/proc/self/fd").iterdir()):
        # Most are no connections by TCP; to others than Java it does no harm.
        with suppress(OSError):
            connection = socket.socket(fileno=int(entry.name))
            try:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            finally:
                connection.detach()


@cache
def _freeze_garbage_collector() -> None:
    """Spare the collector what a worker keeps for good: Spark has it run after every task."""
    gc.freeze()


@cache
def _client(location: str, certificate: bytes | None) -> flight.FlightClient:
    return flight.connect(location, tls_root_certs=certificate)
