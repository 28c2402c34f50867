"""What runs inside a Spark task: read the rows, send them to the driver, say how many there were.

Batches go by Flight, or, where driver and task share a machine, through memory that they share;
the driver is told of each by Flight either way. This module is imported by executors: it knows
pyarrow, not the rest of the pipeline.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol

import msgpack
import pyarrow as pa
from pyarrow import flight

from lakeport.errors import UnavailableError
from lakeport.spark.segments import write_segment

__all__ = ["PushTasks", "ReadTask"]

DONE: Final = b"done"
FAILED: Final = b"failed"
PAUSED: Final = b"paused"
WANT: Final = b"want"
SHARED: Final = b"shared"

_SMALL: Final = 256 * 1024

_MAX_REASON: Final = 2000


class ReadTask(Protocol):
    """A small, picklable description of rows, readable anywhere and always in the same order."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """The rows."""
        ...


@dataclass(frozen=True, slots=True)
class PushTasks:
    """Sends the batches of tasks to the driver; Spark calls it once per partition."""

    location: str
    """Where the driver listens."""
    scan: str
    secret: str
    schema: pa.Schema
    """The schema of every batch."""

    def __call__(self, tasks: Iterable[tuple[int, ReadTask]]) -> Iterator[int]:
        """Run the tasks of a partition; gives the number of batches of each."""
        for number, task in tasks:
            yield self._push(number, task)
        _settle()

    def _push(self, number: int, task: ReadTask) -> int:
        try:
            return self._send(number, task)
        except (flight.FlightCancelledError, flight.FlightUnauthenticatedError):
            # The consumer is gone: nobody wants the rest.
            return -1
        except flight.FlightUnavailableError as error:
            # The consumer is slow: give the core to somebody else. The driver knows what is
            # missing, and runs it later if anybody still wants it.
            if error.extra_info == PAUSED:
                return -1
            raise UnavailableError(
                f"an executor cannot reach the driver at {self.location}: set spark.driver.host "
                "to an address that it can reach, or spark.lakeport.route to 'collect'"
            ) from None

    def _send(self, number: int, task: ReadTask) -> int:
        request = {"scan": self.scan, "secret": self.secret, "task": number}
        descriptor = flight.FlightDescriptor.for_command(msgpack.packb(request))
        writer, answers = _client(self.location).do_put(descriptor, self.schema)
        with writer:
            courier = _Courier(self.location, writer, answers)
            for batch in _read(task, writer):
                courier.send(batch)
            writer.write_metadata(DONE + courier.sent.to_bytes(8, "big"))
        return courier.sent


class _Courier:
    """Sends the batches of one attempt of a task, each the quickest way."""

    def __init__(self, location: str, writer: Any, answers: Any) -> None:
        self.sent = 0
        self._location = location
        self._writer = writer
        self._answers = answers
        self._asked = False
        """Whether the driver owes the name of a segment; it gives one for each that was used."""

    def send(self, batch: pa.RecordBatch) -> None:
        """Send the next batch."""
        number = self.sent.to_bytes(8, "big")
        length = self._share(batch)
        if length is None:
            self._writer.write_with_metadata(batch, number)
        else:
            self._writer.write_metadata(SHARED + number + length.to_bytes(8, "big"))
            self._asked = True
        self.sent += 1

    def _share(self, batch: pa.RecordBatch) -> int | None:
        """Write a large batch to a segment, if the driver has one; its length there."""
        if batch.nbytes < _SMALL or self._location in _unshared:
            return None
        if not self._asked:
            self._writer.write_metadata(WANT)
        self._asked = False
        name = self._answers.read()
        if not name:
            # All are in use, or the scan is over: then the next write says why.
            return None
        try:
            return write_segment(name.to_pybytes().decode(), batch)
        except OSError:
            _unshared.add(self._location)
            return None


def _read(task: ReadTask, writer: Any) -> Iterator[pa.RecordBatch]:
    """The batches of a task; if it fails, the driver hears why."""
    try:
        yield from task.read()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[:_MAX_REASON]
        writer.write_metadata(FAILED + reason.encode())
        raise


# Drivers whose memory cannot be reached from here.
_unshared: set[str] = set()


@cache
def _settle() -> None:
    """Spare the collector what a worker keeps for good: Spark has it run after every task."""
    gc.freeze()


@cache
def _client(location: str) -> flight.FlightClient:
    return flight.connect(location)
