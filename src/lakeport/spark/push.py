"""What runs inside a Spark task: read the rows, send them to the driver, say how many there were.

This module is imported by executors: it knows pyarrow, not the rest of the pipeline.
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

__all__ = ["PushTasks", "ReadTask"]

DONE: Final = b"done"
FAILED: Final = b"failed"
PAUSED: Final = b"paused"

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
        writer, _ = _client(self.location).do_put(descriptor, self.schema)
        sent = 0
        with writer:
            for batch in _read(task, writer):
                writer.write_with_metadata(batch, sent.to_bytes(8, "big"))
                sent += 1
            writer.write_metadata(DONE + sent.to_bytes(8, "big"))
        return sent


def _read(task: ReadTask, writer: Any) -> Iterator[pa.RecordBatch]:
    """The batches of a task; if it fails, the driver hears why."""
    try:
        yield from task.read()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[:_MAX_REASON]
        writer.write_metadata(FAILED + reason.encode())
        raise


@cache
def _settle() -> None:
    """Spare the collector what a worker keeps for good: Spark has it run after every task."""
    gc.freeze()


@cache
def _client(location: str) -> flight.FlightClient:
    return flight.connect(location)
