"""The endpoint that takes the batches of Spark tasks: one per driver process, by Flight DoPut.

Only a task that has a grant of a running scan can send, and only what the grant names. No rows can
be read here.
"""

from __future__ import annotations

import logging
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import flight

from lakeport._quiet import InvalidArgument, Unimplemented
from lakeport.errors import (
    CancelledError,
    InternalError,
    InvalidArgumentError,
    LakeportError,
    UnauthenticatedError,
    UnavailableError,
)
from lakeport.spark.certificates import DriverCertificate, make_certificate
from lakeport.spark.errors import LOST
from lakeport.spark.security import is_local
from lakeport.spark.session import check_running
from lakeport.spark.transport.batch_queue import BatchQueue, ConsumerTooSlowError, Progress
from lakeport.spark.transport.cores import Cores
from lakeport.spark.transport.grants import Claim
from lakeport.spark.transport.sender import (
    BATCH_IN_BUFFER,
    BATCH_POSITION,
    CONSUMER_TOO_SLOW,
    COUNTS,
    RELEASE_BUFFER,
    REQUEST_BUFFER,
    TASK_DONE,
    TASK_FAILED,
    TOTAL,
    SendTasks,
)
from lakeport.spark.transport.shared_memory import SharedBuffer, SharedBufferPool

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["PORT", "BatchReceiver", "get_receiver"]

PORT: Final = "spark.lakeport.port"
"""The setting for the port that executors send to; any free one without it."""

_MAX_SEGMENTS: Final = 32
_MAX_PORT: Final = 65535

# How many seconds streams that are still open have to end when the endpoint stops.
_PATIENCE: Final = 5.0

_log = logging.getLogger("lakeport.spark")

_lock = threading.Lock()
_current: tuple[SparkContext, BatchReceiver] | None = None


def get_receiver(context: SparkContext) -> BatchReceiver:
    """The endpoint of a driver, started when it is first needed, stopped with its context."""
    global _current  # noqa: PLW0603
    check_running(context)
    with _lock:
        # A process has one Spark context at a time.
        if _current is None or _current[0] is not context:
            receiver = _start(context)
            _current = context, receiver
            _patch_context_stop(context, receiver)
        return _current[1]


def _start(context: SparkContext) -> BatchReceiver:
    conf = context.getConf()
    # Spark fills in the host; on Kubernetes it is a service, and not an address here.
    host = conf.get("spark.driver.host") or "127.0.0.1"
    bind = conf.get("spark.driver.bindAddress") or host
    shared = SharedBufferPool(min(4 + 2 * context.defaultParallelism, _MAX_SEGMENTS))
    # In a queue, a core that is given up goes to the job that came first.
    is_fair = (conf.get("spark.scheduler.mode") or "").upper() == "FAIR"
    cores = context.defaultParallelism if is_fair else sys.maxsize
    # On this machine, only root can listen to what two processes exchange.
    certificate = None if is_local(context.master) else make_certificate(host)
    return BatchReceiver(
        bind, host, _port(conf.get(PORT)), shared=shared, cores=cores, certificate=certificate
    )


def _port(setting: str | None) -> int:
    if not setting:
        return 0
    if not setting.isdecimal() or int(setting) > _MAX_PORT:
        raise InvalidArgumentError(f"{PORT} is the number of a port, not {setting!r}")
    return int(setting)


def _patch_context_stop(context: SparkContext, receiver: BatchReceiver) -> None:
    """Stop the endpoint when its context was stopped: Spark tells nobody in Python."""
    stop = context.stop

    def stop_both() -> None:
        global _current  # noqa: PLW0603
        try:
            stop()
        finally:
            with _lock:
                if _current is not None and _current[0] is context:
                    _current = None
            receiver.stop()

    context.stop = stop_both


class BatchReceiver:
    """Routes what tasks send to the inlets of the scans that they belong to."""

    def __init__(
        self,
        bind: str,
        host: str,
        port: int = 0,
        *,
        shared: SharedBufferPool,
        cores: int = 1,
        certificate: DriverCertificate | None = None,
    ) -> None:
        self.cores = Cores(cores)
        self._certificate = certificate
        # Only single operations, which are atomic: the garbage collector may end a scan anywhere.
        self._inlets: dict[str, BatchQueue] = {}
        self.shared = shared
        try:
            self._service = _FlightService(self, self._location(bind, port), certificate)
        except (OSError, pa.ArrowException):
            raise UnavailableError(
                f"the driver cannot listen for its tasks on {bind}, port {port or 'any'}: is the "
                f"port of {PORT} taken, or spark.driver.bindAddress no address of this machine?"
            ) from None
        self.location = self._location(host, self._service.port)

    def push(self, schema: pa.Schema) -> SendTasks:
        """Return what sends batches here; it runs inside Spark tasks."""
        trusted = None if self._certificate is None else self._certificate.certificate
        return SendTasks(self.location, schema, trusted)

    def open(self, scan: str, inlet: BatchQueue) -> None:
        """Listen for a scan."""
        self._inlets[scan] = inlet

    def close(self, scan: str) -> None:
        """Forget a scan: what its tasks still send is refused."""
        self._inlets.pop(scan, None)

    def admit(self, claim: Claim) -> tuple[BatchQueue, list[Progress]]:
        """Return the inlet that a claim is for, and what it has of each task.

        Raises:
            UnauthenticatedError: There is no such scan, or the claim is not proven.
        """
        inlet = self._inlets.get(claim.scan)
        if inlet is None:
            raise UnauthenticatedError("no such scan")
        return inlet, inlet.open(claim)

    def _location(self, host: str, port: int) -> str:
        scheme = "grpc" if self._certificate is None else "grpc+tls"
        is_bare_ipv6 = ":" in host and not host.startswith("[")
        return f"{scheme}://[{host}]:{port}" if is_bare_ipv6 else f"{scheme}://{host}:{port}"

    def stop(self) -> None:
        """Stop listening, and free the memory; scans that still run are over."""
        for inlet in list(self._inlets.values()):
            inlet.fail(UnavailableError(LOST))
        self.shared.close()
        # Nothing is listened to from the first moment; a task that was lost may never hang up.
        ending = threading.Thread(target=self._service.shutdown, daemon=True)
        ending.start()
        ending.join(_PATIENCE)


class _FlightService(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(
        self, receiver: BatchReceiver, location: str, certificate: DriverCertificate | None
    ) -> None:
        self._receiver = receiver
        pairs = [] if certificate is None else [(certificate.certificate, certificate.key)]
        super().__init__(location, tls_certificates=pairs or None)

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:  # noqa: ARG002
        with _answering():
            claim = Claim.parse(descriptor.command)
            inlet, arrived = self._receiver.admit(claim)
            with self._receiver.cores.sending(claim.scan):
                writer.write(b"".join(COUNTS.pack(each.batches, each.rows) for each in arrived))
                _TaskStream(inlet, claim, self._receiver.shared, writer).receive(reader)

    def _refuse(self, *_: Any) -> Any:
        raise Unimplemented("tasks of a scan send batches by DoPut; there is nothing else")

    # pyarrow's own refusals of these verbs send a traceback.
    list_flights = get_flight_info = get_schema = do_get = _refuse
    do_exchange = list_actions = do_action = _refuse


@contextmanager
def _answering() -> Iterator[None]:
    """Turn whatever the block raises into a status that shows nothing of this process."""
    try:
        yield
    except flight.FlightError:
        raise
    except UnauthenticatedError as error:
        raise flight.FlightUnauthenticatedError(str(error)) from None
    except ConsumerTooSlowError as error:
        raise flight.FlightUnavailableError(str(error), CONSUMER_TOO_SLOW) from None
    except CancelledError as error:
        raise flight.FlightCancelledError(str(error)) from None
    except LakeportError as error:
        raise flight.FlightServerError(str(error)) from None
    except Exception as error:  # noqa: BLE001
        _log.warning("a scan task sent what cannot be used", exc_info=error)
        raise InvalidArgument("the message of a scan task cannot be used") from None


class _TaskStream:
    """What one Spark task sends: the batches of its scan tasks, one after the other.

    The messages and what they mean for the memory that is lent are described in `push`.
    """

    def __init__(
        self, inlet: BatchQueue, claim: Claim, shared: SharedBufferPool, writer: Any
    ) -> None:
        self._inlet = inlet
        self._claim = claim
        self._shared = shared
        self._writer = writer
        self._lent: SharedBuffer | None = None
        """A segment that the task may be writing to."""

    def receive(self, reader: Any) -> None:
        """Take everything."""
        try:
            while True:
                chunk = reader.read_chunk()
                metadata = b"" if chunk.app_metadata is None else chunk.app_metadata.to_pybytes()
                if chunk.data is not None:
                    self._offer(metadata, chunk.data)
                else:
                    self._hear(metadata)
        except StopIteration:
            return
        finally:
            # Also when the stream seems to have ended well: a task that died looks the same.
            lent, self._lent = self._lent, None
            if lent is not None:
                self._shared.discard(lent)

    def _hear(self, metadata: bytes) -> None:
        if metadata == REQUEST_BUFFER:
            self._lend()
        elif metadata.startswith(BATCH_IN_BUFFER):
            self._offer(metadata[len(BATCH_IN_BUFFER) : -8], self._unpack(metadata[-8:]))
            self._lend()
        elif metadata == RELEASE_BUFFER:
            self._take_back()
        elif metadata.startswith(TASK_DONE):
            task, batches, rows = _unpacked(TOTAL, metadata[len(TASK_DONE) :])
            self._check(task)
            self._inlet.complete(task, batches, rows, attempt=self._claim.attempt)
        elif metadata.startswith(TASK_FAILED):
            place, reason = (
                metadata[len(TASK_FAILED) :][: BATCH_POSITION.size],
                metadata[len(TASK_FAILED) :],
            )
            task, _ = _unpacked(BATCH_POSITION, place)
            self._check(task)
            self._inlet.explain(task, reason[BATCH_POSITION.size :].decode(errors="replace"))
        else:
            raise InternalError("a scan task sent a message that has no meaning")

    def _offer(self, place: bytes, batch: pa.RecordBatch) -> None:
        task, number = _unpacked(BATCH_POSITION, place)
        self._check(task)
        self._inlet.offer(
            task, number, batch, patience=self._inlet.patience, attempt=self._claim.attempt
        )

    def _check(self, task: int) -> None:
        if not self._inlet.covers(self._claim, task):
            raise UnauthenticatedError(f"this stream has no grant for scan task {task}")

    def _lend(self) -> None:
        if self._lent is not None:
            raise InternalError("a scan task asks for memory and was given some already")
        self._lent = self._shared.take()
        self._writer.write(b"" if self._lent is None else self._lent.name.encode())

    def _unpack(self, length: bytes) -> pa.RecordBatch:
        if self._lent is None:
            raise InternalError("a scan task speaks of memory that it was not given")
        lent, self._lent = self._lent, None
        return self._shared.batch(lent, int.from_bytes(length, "big"))

    def _take_back(self) -> None:
        """The task will not write to the segment that it was given."""
        if self._lent is not None:
            self._shared.give_back(self._lent)
            self._lent = None


def _unpacked(layout: struct.Struct, data: bytes) -> tuple[Any, ...]:
    try:
        return layout.unpack(data)
    except struct.error:
        raise InternalError("a scan task sent a message that is too short or too long") from None
