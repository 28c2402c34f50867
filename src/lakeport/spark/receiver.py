"""The endpoint that takes the batches of Spark tasks: one per driver process, by Flight DoPut.

Only a task that knows the secret of a running scan is heard. Nothing can be read here.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import msgpack
from pyarrow import flight

from lakeport.errors import CancelledError, LakeportError
from lakeport.spark.inlet import Inlet, PausedError

__all__ = ["Receiver"]

DONE: Final = b"done"
FAILED: Final = b"failed"


class Receiver:
    """Routes what tasks send to the inlets of the scans that they belong to."""

    def __init__(self, host: str) -> None:
        self._inlets: dict[str, Inlet] = {}
        self._lock = threading.Lock()
        self._service = _Service(self, f"grpc://{host}:0")
        self.location = f"grpc://{host}:{self._service.port}"

    def open(self, scan: str, inlet: Inlet) -> None:
        """Listen for a scan."""
        with self._lock:
            self._inlets[scan] = inlet

    def close(self, scan: str) -> None:
        """Forget a scan: what its tasks still send is refused."""
        with self._lock:
            self._inlets.pop(scan, None)

    def inlet(self, scan: str, secret: str) -> Inlet:
        """The inlet of a scan, for a task that knows its secret."""
        with self._lock:
            inlet = self._inlets.get(scan)
        if inlet is None or not inlet.accepts(secret):
            raise flight.FlightUnauthenticatedError("no such scan")
        return inlet

    def scans(self) -> int:
        """How many scans are running."""
        return len(self._inlets)

    def stop(self) -> None:
        """Stop listening."""
        self._service.shutdown()


class _Service(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(self, receiver: Receiver, location: str) -> None:
        self._receiver = receiver
        super().__init__(location)

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:  # noqa: ARG002
        try:
            request = msgpack.unpackb(descriptor.command)
            scan, secret, task = request["scan"], request["secret"], int(request["task"])
        except (ValueError, TypeError, KeyError):
            raise flight.FlightUnauthenticatedError("no such scan") from None
        inlet = self._receiver.inlet(scan, secret)
        try:
            _receive(inlet, task, reader)
        except PausedError as error:
            raise flight.FlightUnavailableError(str(error)) from None
        except CancelledError as error:
            raise flight.FlightCancelledError(str(error)) from None
        except LakeportError as error:
            raise flight.FlightServerError(str(error)) from None


def _receive(inlet: Inlet, task: int, reader: Any) -> None:
    while True:
        try:
            chunk = reader.read_chunk()
        except StopIteration:
            return
        metadata = b"" if chunk.app_metadata is None else chunk.app_metadata.to_pybytes()
        if chunk.data is not None:
            inlet.offer(task, int.from_bytes(metadata, "big"), chunk.data)
        elif metadata.startswith(DONE):
            inlet.complete(task, int.from_bytes(metadata[len(DONE) :], "big"))
        elif metadata.startswith(FAILED):
            inlet.explain(task, metadata[len(FAILED) :].decode(errors="replace"))
