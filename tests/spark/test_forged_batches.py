"""Frames that no Spark task of a scan sends: strangers are refused, a disturbed scan fails."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.errors import InternalError, UnavailableError
from lakeport.spark.certificates import make_certificate
from lakeport.spark.transport.batch_queue import BatchQueue
from lakeport.spark.transport.grants import Claim, Grant
from lakeport.spark.transport.receiver import BatchReceiver
from lakeport.spark.transport.sender import (
    BATCH_IN_BUFFER,
    BATCH_POSITION,
    TASK_DONE,
    TASK_FAILED,
    TOTAL,
    SendTasks,
)
from lakeport.spark.transport.shared_memory import SharedBufferPool
from lakeport.spark.transport.spill import PartitionBuffer, attempt_id

SCHEMA = pa.schema([("word", pa.string())])
SCAN = "lakeport-scan-1"
DISTURBED = "the batches of the scan were disturbed"


def batch(word: str, rows: int = 10) -> pa.RecordBatch:
    return pa.record_batch([pa.array([word] * rows)], SCHEMA)


@dataclass(frozen=True)
class Words:
    """A task of three batches."""

    word: str = "genuine"

    def read(self) -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            yield batch(self.word)


class Driver:
    """A receiver with one scan of two tasks."""

    def __init__(self, batch_queue: BatchQueue) -> None:
        self.receiver = BatchReceiver("127.0.0.1", "127.0.0.1", shared=SharedBufferPool(2))
        self.batch_queue = batch_queue
        self.receiver.open(SCAN, batch_queue)
        self.attempts = itertools.count(100)

    def grant(self, *tasks: int) -> Grant:
        return self.batch_queue.grant(SCAN, tasks)

    def finish(self, *tasks: int) -> None:
        """What Spark does: run the tasks, and confirm what they return."""
        numbered = [(task, Words()) for task in tasks]
        push = SendTasks(self.receiver.location, SCHEMA)
        for sent in push.send(self.grant(*tasks), numbered, attempt=next(self.attempts)):
            self.batch_queue.confirm(*sent)

    def send(self, claim: bytes, *messages: tuple[bytes, pa.RecordBatch | None]) -> None:
        """A stream with frames of the test's own."""
        descriptor = flight.FlightDescriptor.for_command(claim)
        with flight.connect(self.receiver.location) as client:
            writer, _ = client.do_put(descriptor, SCHEMA)
            with writer:
                for metadata, rows in messages:
                    if rows is None:
                        writer.write_metadata(metadata)
                    else:
                        writer.write_with_metadata(rows, metadata)

    def words(self) -> list[str]:
        return [word for taken in self.batch_queue.batches() for word in taken["word"].to_pylist()]


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver(BatchQueue(2, max_bytes=1 << 30, timeout=5))
    yield driver
    driver.receiver.stop()


def retargeted(grant: Grant) -> bytes:
    """The proof for one task with the numbers of two."""
    scan, _, attempt, proof = msgpack.unpackb(grant.claim(7))
    data: bytes = msgpack.packb([scan, [0, 1], attempt, proof])
    return data


def renumbered(grant: Grant) -> bytes:
    """The proof of one attempt with the number of another."""
    scan, tasks, attempt, proof = msgpack.unpackb(grant.claim(7))
    data: bytes = msgpack.packb([scan, tasks, attempt + 1, proof])
    return data


def of_another_scan(grant: Grant) -> bytes:
    return Grant("lakeport-scan-2", grant.tasks, grant.key).claim(7)


UNPROVEN: dict[str, Callable[[Grant], bytes]] = {
    "no message": lambda _: b"",
    "no msgpack": lambda _: b"\xc1\xff",
    "a number": lambda _: msgpack.packb(7),
    "a secret of the scan": lambda _: msgpack.packb({"scan": SCAN, "secret": "0" * 32}),
    "no numbers": lambda grant: msgpack.packb([SCAN, ["0"], 7, grant.key]),
    "a negative number": lambda grant: msgpack.packb([SCAN, [-1], 7, grant.key]),
    "true for a number": lambda grant: msgpack.packb([SCAN, [True], 7, grant.key]),
    "no proof": lambda _: msgpack.packb([SCAN, [0], 7, None]),
    "the key for a proof": lambda grant: msgpack.packb([SCAN, [0], 7, grant.key]),
    "more tasks": retargeted,
    "another attempt": renumbered,
    "another scan": of_another_scan,
}


@pytest.mark.parametrize("forge", UNPROVEN.values(), ids=UNPROVEN.keys())
def test_a_claim_that_is_not_proven_is_refused_and_changes_nothing(
    driver: Driver, forge: Callable[[Grant], bytes]
) -> None:
    with pytest.raises(flight.FlightUnauthenticatedError):
        driver.send(forge(driver.grant(0)), (BATCH_POSITION.pack(0, 0), batch("forged")))

    driver.finish(0, 1)
    assert driver.words() == ["genuine"] * 60


def test_a_claim_is_accepted_once(driver: Driver) -> None:
    claim = driver.grant(0).claim(7)
    driver.send(claim, (BATCH_POSITION.pack(0, 0), batch("genuine")))

    with pytest.raises(flight.FlightUnauthenticatedError):
        driver.send(claim, (BATCH_POSITION.pack(0, 1), batch("forged")))

    driver.finish(0, 1)
    assert driver.words() == ["genuine"] * 60


def test_an_earlier_attempt_cannot_send_after_a_later_one(driver: Driver) -> None:
    driver.send(driver.grant(0).claim(8), (BATCH_POSITION.pack(0, 0), batch("genuine")))

    with pytest.raises(flight.FlightUnauthenticatedError):
        driver.send(driver.grant(0).claim(7), (BATCH_POSITION.pack(0, 1), batch("forged")))

    driver.finish(0, 1)
    assert driver.words() == ["genuine"] * 60


@pytest.mark.parametrize(
    ("metadata", "rows"),
    [
        (BATCH_POSITION.pack(1, 0), batch("forged")),
        (BATCH_POSITION.pack(9, 0), batch("forged")),
        (TASK_DONE + TOTAL.pack(1, 0, 0), None),
        (TASK_FAILED + BATCH_POSITION.pack(1, 0) + b"a lie", None),
    ],
    ids=["a batch", "a task that is not there", "an end", "a reason"],
)
def test_a_grant_is_for_its_own_tasks_only(
    driver: Driver, metadata: bytes, rows: pa.RecordBatch | None
) -> None:
    with pytest.raises(flight.FlightUnauthenticatedError, match="no grant for scan task"):
        driver.send(driver.grant(0).claim(7), (metadata, rows))

    driver.finish(0, 1)
    assert driver.words() == ["genuine"] * 60
    assert driver.batch_queue.failure_reason() is None


DISTURBANCES: dict[str, list[tuple[bytes, pa.RecordBatch | None]]] = {
    "the same number with other rows": [
        (BATCH_POSITION.pack(0, 0), batch("genuine")),
        (BATCH_POSITION.pack(0, 0), batch("forged")),
    ],
    "a batch that is left out": [
        (BATCH_POSITION.pack(0, 0), batch("genuine")),
        (BATCH_POSITION.pack(0, 2), batch("genuine")),
    ],
    "batches in another order": [
        (BATCH_POSITION.pack(0, 1), batch("genuine")),
        (BATCH_POSITION.pack(0, 0), batch("genuine")),
    ],
    "an end that is too early": [
        (BATCH_POSITION.pack(0, 0), batch("genuine")),
        (TASK_DONE + TOTAL.pack(0, 3, 30), None),
    ],
    "an end with other rows": [
        (BATCH_POSITION.pack(0, 0), batch("genuine", 7)),
        (TASK_DONE + TOTAL.pack(0, 1, 10), None),
    ],
    "a batch after the end": [
        (BATCH_POSITION.pack(0, 0), batch("genuine")),
        (TASK_DONE + TOTAL.pack(0, 1, 10), None),
        (BATCH_POSITION.pack(0, 1), batch("forged")),
    ],
}


@pytest.mark.parametrize("messages", DISTURBANCES.values(), ids=DISTURBANCES.keys())
def test_a_disturbed_sequence_of_batches_fails_the_scan(
    driver: Driver, messages: list[tuple[bytes, pa.RecordBatch | None]]
) -> None:
    with pytest.raises(flight.FlightServerError, match=DISTURBED):
        driver.send(driver.grant(0).claim(7), *messages)

    with pytest.raises(InternalError, match=DISTURBED):
        driver.words()


@pytest.mark.parametrize(
    "metadata",
    [
        b"unknown",
        TASK_DONE,
        TASK_DONE + b"\0\0\0",
        TASK_FAILED + b"\0",
        BATCH_IN_BUFFER + b"\0",
        TASK_DONE + b"\0" * 99,
    ],
)
def test_a_frame_that_cannot_be_read_ends_its_stream_alone(driver: Driver, metadata: bytes) -> None:
    with pytest.raises(flight.FlightServerError, match=r"^(?!.*Traceback).*a scan task"):
        driver.send(driver.grant(0).claim(7), (metadata, None))

    driver.finish(0, 1)
    assert driver.words() == ["genuine"] * 60


def test_forged_rows_that_end_a_task_fail_the_scan_when_spark_returns_its_own_count(
    driver: Driver,
) -> None:
    """Even with the grant of a task: 35 rows in the place of all others must not look complete."""
    stolen = driver.grant(0).claim(1 << 40)
    driver.send(
        stolen,
        (BATCH_POSITION.pack(0, 0), batch("forged", 35)),
        (TASK_DONE + TOTAL.pack(0, 1, 35), None),
    )

    with pytest.raises(InternalError, match=r"Spark read 30 rows of scan task 0, 35 arrived"):
        driver.batch_queue.confirm(0, 3, 30)

    with pytest.raises(InternalError, match=DISTURBED):
        driver.words()


def test_a_task_that_is_tried_again_after_forged_rows_fails(driver: Driver) -> None:
    driver.send(driver.grant(0).claim(7), (BATCH_POSITION.pack(0, 0), batch("forged", 35)))

    with pytest.raises(InternalError, match="scan task 0 has other rows than before"):
        driver.finish(0)


def test_a_task_that_gave_fewer_rows_the_second_time_fails(driver: Driver) -> None:
    frames = [(BATCH_POSITION.pack(0, number), batch("genuine")) for number in range(4)]
    driver.send(driver.grant(0).claim(7), *frames)

    with pytest.raises(InternalError, match="scan task 0 has fewer rows than before"):
        driver.finish(0)


def test_rows_are_not_complete_before_spark_confirms_them(driver: Driver) -> None:
    frames = [
        (BATCH_POSITION.pack(0, 0), batch("forged")),
        (TASK_DONE + TOTAL.pack(0, 1, 10), None),
    ]
    driver.send(driver.grant(0).claim(7), *frames)

    assert driver.batch_queue.unfinished_tasks() == [0, 1]


def test_the_function_that_spark_broadcasts_holds_no_grant(driver: Driver) -> None:
    function = pickle.dumps(SendTasks(driver.receiver.location, SCHEMA))

    assert driver.grant(0).key not in function
    assert SCAN.encode() not in function


@pytest.mark.parametrize(
    "number",
    [attempt_id(8, 0), attempt_id(7, 1), attempt_id(7, 9)],
    ids=["attempt", "partition", "unknown"],
)
def test_a_partition_is_sent_under_its_own_number_only(number: int) -> None:
    spool = PartitionBuffer(max_bytes=1 << 20, max_disk_bytes=1 << 20)
    spool.set_partition_count(2)
    driver = Driver(spool)
    try:
        with pytest.raises(flight.FlightUnauthenticatedError, match="no grant"):
            driver.send(driver.grant(0).claim(7), (BATCH_POSITION.pack(number, 0), batch("forged")))
    finally:
        driver.receiver.stop()


def test_a_partition_with_other_rows_than_spark_computed_fails_the_scan() -> None:
    spool = PartitionBuffer(max_bytes=1 << 20, max_disk_bytes=1 << 20)
    spool.set_partition_count(1)
    spool.put(attempt_id(7, 0), 0, batch("forged", 35), timeout=0)
    spool.finish_task(attempt_id(7, 0), 1, 35)

    with pytest.raises(InternalError, match="computed 30 rows of partition 0, 35 arrived"):
        spool.confirm(attempt_id(7, 0), 3, 30)

    with pytest.raises(InternalError, match=DISTURBED):
        list(spool.batches())


def test_claims_are_decoded_or_refused(driver: Driver) -> None:
    """Every message that differs from a true claim in one byte is refused without harm."""
    claim = driver.grant(0, 1).claim(300)
    for position in range(len(claim)):
        forged = bytearray(claim)
        forged[position] ^= 0x41
        with pytest.raises(Exception, match=r"no such scan|another attempt") as refused:
            driver.receiver.admit(Claim.parse(bytes(forged)))
        assert type(refused.value).__name__ == "UnauthenticatedError"
    driver.finish(0, 1)
    assert driver.words() == ["genuine"] * 60


def test_on_a_cluster_batches_are_encrypted_and_the_driver_shows_its_certificate() -> None:
    batch_queue = BatchQueue(1, max_bytes=1 << 30, timeout=5)
    receiver, other = (
        BatchReceiver(
            "127.0.0.1",
            "127.0.0.1",
            shared=SharedBufferPool(2),
            certificate=make_certificate("127.0.0.1"),
        )
        for _ in range(2)
    )
    try:
        receiver.open(SCAN, batch_queue)
        grant = batch_queue.grant(SCAN, [0])
        wrong = SendTasks(receiver.location, SCHEMA, other.sender(SCHEMA).certificate)
        with pytest.raises(UnavailableError, match="cannot reach the driver"):
            wrong.send(grant, [(0, Words())], attempt=1)

        (sent,) = receiver.sender(SCHEMA).send(grant, [(0, Words())], attempt=2)
        batch_queue.confirm(*sent)

        assert receiver.location.startswith("grpc+tls://")
        assert sum(taken.num_rows for taken in batch_queue.batches()) == 30
    finally:
        receiver.stop()
        other.stop()
