"""What runs inside a Spark task: read the rows, send them to the driver, say how many there were.

Batches go by Flight, or, where driver and task share a machine, through memory that they share;
the driver is told of each by Flight either way. This module is imported by executors: it knows
pyarrow, not the rest of the pipeline.
"""

from __future__ import annotations

import gc
import struct
from collections.abc import Iterable, Iterator, Sequence
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

PLACE: Final = struct.Struct(">QQ")
"""The number of a task, and the number of a batch in it."""

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

    def __call__(self, groups: Iterable[Sequence[tuple[int, ReadTask]]]) -> Iterator[int]:
        """Run the tasks of a partition, which are numbered; gives the number of batches."""
        for group in groups:
            yield self._push(group)
        _settle()

    def _push(self, group: Sequence[tuple[int, ReadTask]]) -> int:
        try:
            return self._send(group)
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

    def _send(self, group: Sequence[tuple[int, ReadTask]]) -> int:
        request = {"scan": self.scan, "secret": self.secret}
        descriptor = flight.FlightDescriptor.for_command(msgpack.packb(request))
        writer, answers = _client(self.location).do_put(descriptor, self.schema)
        with writer:
            courier = _Courier(self.location, writer, answers)
            return sum(courier.run(number, task) for number, task in group)


class _Courier:
    """Sends the batches of tasks over one stream, each the quickest way."""

    def __init__(self, location: str, writer: Any, answers: Any) -> None:
        self._location = location
        self._writer = writer
        self._answers = answers
        self._asked = False
        """Whether the driver owes the name of a segment; it gives one for each that was used."""

    def run(self, number: int, task: ReadTask) -> int:
        """Send the batches of a task; how many there were. If it fails, the driver hears why."""
        sent = 0
        try:
            for batch in task.read():
                self._send(PLACE.pack(number, sent), batch)
                sent += 1
        except flight.FlightError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"[:_MAX_REASON]
            self._writer.write_metadata(FAILED + PLACE.pack(number, sent) + reason.encode())
            raise
        self._writer.write_metadata(DONE + PLACE.pack(number, sent))
        return sent

    def _send(self, place: bytes, batch: pa.RecordBatch) -> None:
        length = self._share(batch)
        if length is None:
            self._writer.write_with_metadata(batch, place)
        else:
            self._writer.write_metadata(SHARED + place + length.to_bytes(8, "big"))
            self._asked = True

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


# Drivers whose memory cannot be reached from here.
_unshared: set[str] = set()


@cache
def _settle() -> None:
    """Spare the collector what a worker keeps for good: Spark has it run after every task."""
    gc.freeze()


@cache
def _client(location: str) -> flight.FlightClient:
    return flight.connect(location)
