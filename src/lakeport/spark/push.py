"""What runs inside a Spark task: read the rows, send them to the driver, say how many there were.

This module is imported by executors: it knows pyarrow, not the rest of the pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import msgpack
import pyarrow as pa
from pyarrow import flight

__all__ = ["PushTasks", "ReadTask"]

_MAX_REASON = 2000


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

    def _push(self, number: int, task: ReadTask) -> int:
        request = {"scan": self.scan, "secret": self.secret, "task": number}
        descriptor = flight.FlightDescriptor.for_command(msgpack.packb(request))
        writer, _ = _client(self.location).do_put(descriptor, self.schema)
        sent = 0
        try:
            with writer:
                try:
                    for batch in task.read():
                        writer.write_with_metadata(batch, sent.to_bytes(8, "big"))
                        sent += 1
                except (flight.FlightError, OSError):
                    raise
                except Exception as error:
                    reason = f"{type(error).__name__}: {error}"[:_MAX_REASON]
                    writer.write_metadata(b"failed" + reason.encode())
                    raise
                writer.write_metadata(b"done" + sent.to_bytes(8, "big"))
        except (
            flight.FlightUnavailableError,
            flight.FlightCancelledError,
            flight.FlightUnauthenticatedError,
        ):
            # The consumer is slow or gone: give the core to somebody else. The driver knows what
            # is missing, and runs it later if anybody still wants it.
            return -1
        return sent


@cache
def _client(location: str) -> flight.FlightClient:
    return flight.connect(location)
