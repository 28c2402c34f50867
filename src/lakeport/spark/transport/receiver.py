"""The endpoint that receives the batches of Spark tasks: one per driver process, by Flight DoPut.

It accepts batches only from tasks that have a grant of a running scan, and only of the scan tasks
that the grant names. It has no method that returns rows.
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
"""The setting for the port of the endpoint; without it, any free port."""

_MAX_BUFFERS: Final = 32
_MAX_PORT: Final = 65535

# How many seconds open streams have to end when the endpoint stops.
_STOP_TIMEOUT_SECONDS: Final = 5.0

_log = logging.getLogger("lakeport.spark")

_lock = threading.Lock()
_current: tuple[SparkContext, BatchReceiver] | None = None


def get_receiver(context: SparkContext) -> BatchReceiver:
    """Return the endpoint of a driver; it is started once, and stopped with its context."""
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
    # Spark sets the host; on Kubernetes it is a service, and no address of this machine.
    host = conf.get("spark.driver.host") or "127.0.0.1"
    bind = conf.get("spark.driver.bindAddress") or host
    shared = SharedBufferPool(min(4 + 2 * context.defaultParallelism, _MAX_BUFFERS))
    # With a FIFO scheduler, a core that is released goes to the job that came first.
    is_fair = (conf.get("spark.scheduler.mode") or "").upper() == "FAIR"
    cores = context.defaultParallelism if is_fair else sys.maxsize
    # On one machine, only root can read the traffic between two processes.
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
    """Replace `context.stop` to stop the endpoint, too: PySpark has no event for it."""
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
    """Passes the batches of Spark tasks to the queues of their scans."""

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
        # Used by single, atomic operations only: the garbage collector may end a scan at any point.
        self._queues: dict[str, BatchQueue] = {}
        self.shared = shared
        try:
            self._service = _FlightService(self, self._location(bind, port), certificate)
        except (OSError, pa.ArrowException):
            raise UnavailableError(
                f"the driver cannot listen for its tasks on {bind}, port {port or 'any'}: is the "
                f"port of {PORT} taken, or spark.driver.bindAddress no address of this machine?"
            ) from None
        self.location = self._location(host, self._service.port)

    def sender(self, schema: pa.Schema) -> SendTasks:
        """Return the function that sends batches here; it runs inside Spark tasks."""
        trusted = None if self._certificate is None else self._certificate.certificate
        return SendTasks(self.location, schema, trusted)

    def open(self, scan: str, batch_queue: BatchQueue) -> None:
        """Accept the batches of a scan."""
        self._queues[scan] = batch_queue

    def close(self, scan: str) -> None:
        """Refuse further batches of a scan."""
        self._queues.pop(scan, None)

    def admit(self, claim: Claim) -> tuple[BatchQueue, list[Progress]]:
        """Return the queue that a claim is for, and the progress of each task.

        Raises:
            UnauthenticatedError: There is no such scan, or the claim is not proven.
        """
        batch_queue = self._queues.get(claim.scan)
        if batch_queue is None:
            raise UnauthenticatedError("no such scan")
        return batch_queue, batch_queue.open(claim)

    def _location(self, host: str, port: int) -> str:
        scheme = "grpc" if self._certificate is None else "grpc+tls"
        is_bare_ipv6 = ":" in host and not host.startswith("[")
        return f"{scheme}://[{host}]:{port}" if is_bare_ipv6 else f"{scheme}://{host}:{port}"

    def stop(self) -> None:
        """Close the port and free the memory; scans that are running fail."""
        for batch_queue in list(self._queues.values()):
            batch_queue.fail(UnavailableError(LOST))
        self.shared.close()
        # The port is closed at once; the stream of a lost task may never end.
        ending = threading.Thread(target=self._service.shutdown, daemon=True)
        ending.start()
        ending.join(_STOP_TIMEOUT_SECONDS)


class _FlightService(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(
        self, receiver: BatchReceiver, location: str, certificate: DriverCertificate | None
    ) -> None:
        self._receiver = receiver
        pairs = [] if certificate is None else [(certificate.certificate, certificate.key)]
        super().__init__(location, tls_certificates=pairs or None)

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:  # noqa: ARG002
        with _translate_errors():
            claim = Claim.parse(descriptor.command)
            batch_queue, arrived = self._receiver.admit(claim)
            with self._receiver.cores.sending(claim.scan):
                writer.write(b"".join(COUNTS.pack(each.batches, each.rows) for each in arrived))
                _TaskStream(batch_queue, claim, self._receiver.shared, writer).receive(reader)

    def _refuse(self, *_: Any) -> Any:
        raise Unimplemented("tasks of a scan send batches by DoPut; there is nothing else")

    # pyarrow 24: the default implementations of these verbs send a traceback.
    list_flights = get_flight_info = get_schema = do_get = _refuse
    do_exchange = list_actions = do_action = _refuse


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn every error of the block into a status without details of this process."""
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
        _log.warning("a scan task sent an invalid message", exc_info=error)
        raise InvalidArgument("the message of the scan task is invalid") from None


class _TaskStream:
    """The messages of one Spark task: the batches of its scan tasks, one after the other.

    The messages, and how they use shared buffers, are described in `sender`.
    """

    def __init__(
        self, batch_queue: BatchQueue, claim: Claim, shared: SharedBufferPool, writer: Any
    ) -> None:
        self._queue = batch_queue
        self._claim = claim
        self._shared = shared
        self._writer = writer
        self._buffer: SharedBuffer | None = None
        """The buffer that the task may be writing to."""

    def receive(self, reader: Any) -> None:
        """Handle all messages of the stream."""
        try:
            while True:
                chunk = reader.read_chunk()
                metadata = b"" if chunk.app_metadata is None else chunk.app_metadata.to_pybytes()
                if chunk.data is not None:
                    self._enqueue(metadata, chunk.data)
                else:
                    self._handle_message(metadata)
        except StopIteration:
            return
        finally:
            # Also when the stream seems to end normally: the stream of a killed task does, too.
            buffer, self._buffer = self._buffer, None
            if buffer is not None:
                self._shared.retire(buffer)

    def _handle_message(self, metadata: bytes) -> None:
        if metadata == REQUEST_BUFFER:
            self._send_buffer_name()
        elif metadata.startswith(BATCH_IN_BUFFER):
            self._enqueue(metadata[len(BATCH_IN_BUFFER) : -8], self._read_shared(metadata[-8:]))
            self._send_buffer_name()
        elif metadata == RELEASE_BUFFER:
            self._release_buffer()
        elif metadata.startswith(TASK_DONE):
            task, batches, rows = _unpacked(TOTAL, metadata[len(TASK_DONE) :])
            self._check(task)
            self._queue.finish_task(task, batches, rows, attempt=self._claim.attempt)
        elif metadata.startswith(TASK_FAILED):
            position, reason = (
                metadata[len(TASK_FAILED) :][: BATCH_POSITION.size],
                metadata[len(TASK_FAILED) :],
            )
            task, _ = _unpacked(BATCH_POSITION, position)
            self._check(task)
            self._queue.record_failure(task, reason[BATCH_POSITION.size :].decode(errors="replace"))
        else:
            raise InternalError("a scan task sent an unknown message")

    def _enqueue(self, position: bytes, batch: pa.RecordBatch) -> None:
        task, number = _unpacked(BATCH_POSITION, position)
        self._check(task)
        self._queue.put(
            task, number, batch, timeout=self._queue.timeout, attempt=self._claim.attempt
        )

    def _check(self, task: int) -> None:
        if not self._queue.covers(self._claim, task):
            raise UnauthenticatedError(f"this stream has no grant for scan task {task}")

    def _send_buffer_name(self) -> None:
        if self._buffer is not None:
            raise InternalError("a scan task requested a second shared buffer")
        self._buffer = self._shared.acquire()
        self._writer.write(b"" if self._buffer is None else self._buffer.name.encode())

    def _read_shared(self, length: bytes) -> pa.RecordBatch:
        if self._buffer is None:
            raise InternalError("a scan task used a shared buffer that it does not have")
        buffer, self._buffer = self._buffer, None
        return self._shared.read_batch(buffer, int.from_bytes(length, "big"))

    def _release_buffer(self) -> None:
        """Reuse the buffer: the task will not write to it."""
        if self._buffer is not None:
            self._shared.release(self._buffer)
            self._buffer = None


def _unpacked(layout: struct.Struct, data: bytes) -> tuple[Any, ...]:
    try:
        return layout.unpack(data)
    except struct.error:
        raise InternalError("a scan task sent a message that is too short or too long") from None
