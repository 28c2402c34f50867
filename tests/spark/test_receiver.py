"""The endpoint of a driver: where it listens, and what it says when it cannot."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.errors import InvalidArgumentError, UnavailableError
from lakeport.spark.transport.batch_queue import BatchQueue
from lakeport.spark.transport.receiver import BatchReceiver, get_receiver
from lakeport.spark.transport.sender import (
    BATCH_IN_BUFFER,
    BATCH_POSITION,
    REQUEST_BUFFER,
    TASK_DONE,
    TASK_FAILED,
)
from lakeport.spark.transport.shared_memory import SharedBufferPool


def context(port: str) -> Any:
    """A Spark context with a setting for the port."""
    settings = {"spark.lakeport.port": port}
    return SimpleNamespace(
        _jsc=object(),
        _gateway=None,
        defaultParallelism=2,
        master="local[2]",
        getConf=lambda: settings,
        stop=lambda: None,
    )


@pytest.fixture(autouse=True)
def _no_other_receiver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeport.spark.transport.receiver._current", None)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(UnavailableError, match=rf"port {port}: .* spark\.lakeport\.port taken"):
            get_receiver(context(str(port)))


@pytest.mark.parametrize("port", ["http", "-1", "65536"])
def test_a_port_that_is_no_number_is_refused(port: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"the number of a port, not '{port}'"):
        get_receiver(context(port))


def test_the_endpoint_stops_with_its_context() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    spark = context(str(port))
    first = get_receiver(spark)
    assert get_receiver(spark) is first
    assert listens(port)

    spark.stop()

    assert not listens(port)
    assert first.shared.acquire() is None


@pytest.fixture
def receiver() -> Iterator[BatchReceiver]:
    """An endpoint with a scan `scan` of two tasks."""
    receiver = BatchReceiver("127.0.0.1", "127.0.0.1", shared=SharedBufferPool(2))
    receiver.open("scan", BatchQueue(2, max_bytes=1 << 20, timeout=0.1))
    yield receiver
    receiver.stop()


def request(receiver: BatchReceiver, **changed: Any) -> bytes:
    """The message with which a task opens its stream, with some fields changed."""
    claim = receiver._queues["scan"].grant("scan", [0, 1]).claim(attempt=1)
    fields = dict(zip(("scan", "tasks", "attempt", "proof"), msgpack.unpackb(claim), strict=True))
    packed: bytes = msgpack.packb(list({**fields, **changed}.values()))
    return packed


def put(
    receiver: BatchReceiver,
    descriptor: flight.FlightDescriptor,
    send: Callable[[Any], None] = lambda writer: None,
) -> None:
    """Open a stream of a task, send something, and read how the endpoint ends it."""
    with flight.connect(receiver.location) as client:
        writer, reader = client.do_put(descriptor, pa.schema([("x", pa.int64())]))
        try:
            send(writer)
            writer.done_writing()
            while reader.read() is not None:
                pass
        finally:
            writer.close()


def assert_clean(told: BaseException) -> None:
    for shown in ("Traceback", ".py", "site-packages", "lakeport/"):
        assert shown not in str(told)


COMMANDS: dict[str, Callable[[BatchReceiver], flight.FlightDescriptor]] = {
    "a path": lambda _: flight.FlightDescriptor.for_path("scan"),
    "nothing": lambda _: flight.FlightDescriptor.for_command(b""),
    "no msgpack": lambda _: flight.FlightDescriptor.for_command(b"\xc1\xff"),
    "a number": lambda _: flight.FlightDescriptor.for_command(msgpack.packb(5)),
    "a deep list": lambda _: flight.FlightDescriptor.for_command(b"\x91" * 5000),
    "a scan that is a list": lambda receiver: flight.FlightDescriptor.for_command(
        request(receiver, scan=["scan"])
    ),
    "a proof that is a number": lambda receiver: flight.FlightDescriptor.for_command(
        request(receiver, proof=5)
    ),
    "a proof that is text": lambda receiver: flight.FlightDescriptor.for_command(
        request(receiver, proof="ж")
    ),
    "another proof": lambda receiver: flight.FlightDescriptor.for_command(
        request(receiver, proof=b"guess")
    ),
    "another scan": lambda receiver: flight.FlightDescriptor.for_command(
        request(receiver, scan="other")
    ),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_stranger_learns_only_that_there_is_no_such_scan(
    receiver: BatchReceiver, command: Callable[[BatchReceiver], flight.FlightDescriptor]
) -> None:
    with pytest.raises(flight.FlightUnauthenticatedError, match="no such scan") as told:
        put(receiver, command(receiver))

    assert_clean(told.value)


ROW = pa.record_batch({"x": pa.array([1], pa.int64())})

MESSAGES: dict[str, Callable[[Any], None]] = {
    "a batch without a place": lambda writer: writer.write_batch(ROW),
    "a batch with half a place": lambda writer: writer.write_with_metadata(ROW, b"\0\0"),
    "a batch of a task beyond the last": lambda writer: writer.write_with_metadata(
        ROW, BATCH_POSITION.pack(7, 0)
    ),
    "a batch of no task at all": lambda writer: writer.write_with_metadata(
        ROW, BATCH_POSITION.pack(2**64 - 1, 0)
    ),
    "a batch out of order": lambda writer: writer.write_with_metadata(
        ROW, BATCH_POSITION.pack(0, 5)
    ),
    "an end without a place": lambda writer: writer.write_metadata(TASK_DONE),
    "an end of a task beyond the last": lambda writer: writer.write_metadata(
        TASK_DONE + BATCH_POSITION.pack(7, 0)
    ),
    "an end too early": lambda writer: writer.write_metadata(TASK_DONE + BATCH_POSITION.pack(0, 3)),
    "a failure without a place": lambda writer: writer.write_metadata(TASK_FAILED + b"\0"),
    "memory that was not given": lambda writer: writer.write_metadata(
        BATCH_IN_BUFFER + BATCH_POSITION.pack(0, 0) + bytes(8)
    ),
    "memory without a length": lambda writer: writer.write_metadata(BATCH_IN_BUFFER),
}


@pytest.mark.parametrize("send", MESSAGES.values(), ids=MESSAGES)
def test_a_message_that_cannot_be_used_is_refused_in_a_sentence(
    receiver: BatchReceiver, send: Callable[[Any], None]
) -> None:
    descriptor = flight.FlightDescriptor.for_command(request(receiver))

    with pytest.raises((pa.ArrowException, OSError)) as told:
        put(receiver, descriptor, send)

    assert_clean(told.value)


def _bad_segment(length: int) -> Callable[[Any, Any], None]:
    def send(writer: Any, reader: Any) -> None:
        writer.write_metadata(REQUEST_BUFFER)
        reader.read()
        writer.write_metadata(
            BATCH_IN_BUFFER + BATCH_POSITION.pack(0, 0) + length.to_bytes(8, "big")
        )
        reader.read()

    return send


@pytest.mark.parametrize("length", [0, 5, 2**40, 2**64 - 1])
def test_memory_that_holds_no_batch_is_refused_in_a_sentence(
    receiver: BatchReceiver, length: int
) -> None:
    with flight.connect(receiver.location) as client:
        writer, reader = client.do_put(
            flight.FlightDescriptor.for_command(request(receiver)), pa.schema([])
        )
        with pytest.raises((pa.ArrowException, OSError)) as told:
            _bad_segment(length)(writer, reader)
            writer.close()

    assert_clean(told.value)


OTHER_VERBS: dict[str, Callable[[flight.FlightClient], Any]] = {
    "ListFlights": lambda client: list(client.list_flights()),
    "GetFlightInfo": lambda client: client.get_flight_info(
        flight.FlightDescriptor.for_path("scan")
    ),
    "GetSchema": lambda client: client.get_schema(flight.FlightDescriptor.for_path("scan")),
    "DoGet": lambda client: client.do_get(flight.Ticket(b"scan")).read_all(),
    "DoExchange": lambda client: client.do_exchange(flight.FlightDescriptor.for_path("scan"))[
        1
    ].read_all(),
    "DoAction": lambda client: list(client.do_action(flight.Action("a", b""))),
    "ListActions": lambda client: client.list_actions(),
}


@pytest.mark.parametrize("verb", OTHER_VERBS.values(), ids=OTHER_VERBS)
def test_every_other_verb_is_refused_in_a_sentence(
    receiver: BatchReceiver, verb: Callable[[flight.FlightClient], Any]
) -> None:
    with (
        flight.connect(receiver.location) as client,
        pytest.raises(NotImplementedError, match="send batches by DoPut") as told,
    ):
        verb(client)

    assert_clean(told.value)
