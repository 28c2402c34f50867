"""Memory that tasks and the driver share: a buffer is written again only when it is released."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.spark.transport import sender
from lakeport.spark.transport.batch_queue import BatchQueue
from lakeport.spark.transport.receiver import BatchReceiver
from lakeport.spark.transport.sender import (
    BATCH_IN_BUFFER,
    BATCH_POSITION,
    RELEASE_BUFFER,
    REQUEST_BUFFER,
    TASK_DONE,
    TOTAL,
    SendTasks,
)
from lakeport.spark.transport.shared_memory import (
    BUFFER_BYTES,
    SharedBuffer,
    SharedBufferPool,
    write_batch,
)
from tests.wait import TIMEOUT_SECONDS

SCHEMA = pa.schema([("word", pa.string())])
LARGE, SMALL, HUGE = 100_000, 3, BUFFER_BYTES // 8


def batch(word: str, rows: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array([word.ljust(8)] * rows)], SCHEMA)


class Words:
    """A task of batches of so many rows; what `then` gives is read after them."""

    def __init__(self, word: str, *sizes: int, then: Callable[[], Any] = lambda: ()) -> None:
        self._word = word
        self._sizes = sizes
        self._then = then

    def read(self) -> Iterator[pa.RecordBatch]:
        for size in self._sizes:
            yield batch(self._word, size)
        yield from self._then()


class Recorded(SharedBufferPool):
    """Segments that keep the names of those that were used."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.used: list[str] = []

    def read_batch(self, segment: SharedBuffer, length: int) -> pa.RecordBatch:
        self.used.append(segment.name)
        return super().read_batch(segment, length)


class Driver:
    """A receiver with a few segments, and the scans of its clients."""

    def __init__(self) -> None:
        self.shared = Recorded(6)
        self.attempts = itertools.count()
        self.receiver = BatchReceiver("127.0.0.1", "127.0.0.1", shared=self.shared)

    def scan(self, name: str, *, tasks: int = 1) -> BatchQueue:
        batch_queue = BatchQueue(tasks, max_bytes=1 << 30, timeout=5)
        self.receiver.open(name, batch_queue)
        return batch_queue

    def push(self, name: str, batch_queue: BatchQueue, *tasks: Words) -> None:
        grant = batch_queue.grant(name, range(len(tasks)))
        send = SendTasks(self.receiver.location, SCHEMA).send
        sent = send(grant, list(enumerate(tasks)), attempt=next(self.attempts))
        assert len(sent) == len(tasks)
        for task in sent:
            batch_queue.confirm(*task)

    def open(self, name: str, batch_queue: BatchQueue) -> tuple[Any, Any]:
        """A stream of a task that the test plays itself."""
        request = batch_queue.grant(name, [0]).claim(next(self.attempts))
        client = flight.connect(self.receiver.location)
        descriptor = flight.FlightDescriptor.for_command(request)
        writer, answers = client.do_put(descriptor, SCHEMA)
        answers.read()
        return writer, lambda: answers.read().to_pybytes().decode()


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.receiver.stop()


def words(batch_queue: BatchQueue) -> list[tuple[str, int]]:
    """The batches of a scan that is complete: the one word of each, and its rows."""
    found = []
    for taken in batch_queue.batches():
        (word,) = taken["word"].unique().to_pylist()
        found.append((word.strip(), taken.num_rows))
    return found


@pytest.mark.parametrize(
    ("sizes", "shared"),
    [
        ([LARGE, SMALL, LARGE], 2),
        ([LARGE, SMALL, SMALL], 1),
        ([SMALL, LARGE, SMALL, SMALL, LARGE, LARGE], 3),
        ([HUGE, LARGE, HUGE, LARGE], 2),
    ],
    ids=["large small large", "small at the end", "mixed", "some do not fit"],
)
def test_batches_of_all_sizes_arrive(driver: Driver, sizes: list[int], shared: int) -> None:
    for name in ("first", "second"):
        batch_queue = driver.scan(name)

        driver.push(name, batch_queue, Words(name, *sizes))

        assert words(batch_queue) == [(name, size) for size in sizes]
    assert len(driver.shared.used) == 2 * shared


def test_tasks_that_share_a_stream_all_have_large_batches(driver: Driver) -> None:
    batch_queue = driver.scan("scan", tasks=4)
    sizes = [(LARGE,), (LARGE, LARGE), (SMALL,), (LARGE, SMALL)]

    driver.push("scan", batch_queue, *(Words(f"w{n}", *s) for n, s in enumerate(sizes)))

    assert words(batch_queue) == [(f"w{n}", size) for n, s in enumerate(sizes) for size in s]
    assert len(driver.shared.used) == 4


def test_a_stream_that_ends_well_leaves_its_segment_to_others(driver: Driver) -> None:
    for number in range(3):
        batch_queue = driver.scan(f"scan {number}")
        driver.push(f"scan {number}", batch_queue, Words("word", LARGE))
        assert words(batch_queue) == [("word", LARGE)]

    assert len(driver.shared.used) == 3
    assert len(set(driver.shared.used)) <= 2  # one with its batch, one lent to the next


def test_no_client_overwrites_the_rows_of_another(driver: Driver) -> None:
    ours, theirs = driver.scan("ours"), driver.scan("theirs")
    is_midway, go_on = threading.Event(), threading.Event()

    def rest() -> Iterator[pa.RecordBatch]:
        is_midway.set()
        assert go_on.wait(TIMEOUT_SECONDS)
        yield batch("second", LARGE)

    with ThreadPoolExecutor(1) as pool:
        task = Words("first", LARGE, SMALL, then=rest)
        sending = pool.submit(driver.push, "ours", ours, task)
        assert is_midway.wait(TIMEOUT_SECONDS)
        # The driver has heard of the small batch when that is taken.
        taken = ours.batches()
        next(taken), next(taken)
        driver.push("theirs", theirs, Words("others", LARGE, LARGE))
        held = list(theirs.batches())
        go_on.set()
        sending.result(TIMEOUT_SECONDS)

    assert {word for part in held for word in part["word"].to_pylist()} == {"others  "}


@pytest.mark.parametrize("ending", ["closes", "is refused"])
def test_a_task_that_left_its_stream_can_write_to_nobodys_memory(
    driver: Driver, ending: str
) -> None:
    ours, theirs = driver.scan("ours"), driver.scan("theirs")
    writer, answer = driver.open("ours", ours)
    writer.write_metadata(REQUEST_BUFFER)
    left = answer()
    write_batch(left, batch("begun", LARGE))
    if ending == "is refused":
        writer.write_metadata(TASK_DONE + TOTAL.pack(0, 7, 0))
        with pytest.raises(flight.FlightServerError, match="7 batches, 0 arrived"):
            writer.close()
    else:
        # As the driver sees a process that died, or that it can no longer hear.
        writer.close()

    driver.push("theirs", theirs, Words("others", LARGE, LARGE))
    held = list(theirs.batches())
    write_batch(left, batch("zombie", LARGE))

    assert left not in driver.shared.used
    assert {word for part in held for word in part["word"].to_pylist()} == {"others  "}


def test_a_task_that_is_tried_again_repeats_nothing(driver: Driver) -> None:
    batch_queue = driver.scan("scan")

    def fail() -> Iterator[pa.RecordBatch]:
        raise OSError("the disk is away")

    with pytest.raises(OSError, match="the disk is away"):
        driver.push("scan", batch_queue, Words("word", LARGE, SMALL, then=fail))
    driver.push("scan", batch_queue, Words("word", LARGE, SMALL, LARGE))

    assert words(batch_queue) == [("word", LARGE), ("word", SMALL), ("word", LARGE)]


def test_memory_that_a_task_gives_back_is_lent_again(driver: Driver) -> None:
    writer, answer = driver.open("scan", driver.scan("scan"))

    def asked() -> str:
        writer.write_metadata(REQUEST_BUFFER)
        name: str = answer()
        writer.write_metadata(RELEASE_BUFFER)
        return name

    with writer:
        assert asked() == asked()


def test_a_task_that_cannot_reach_the_memory_uses_flight(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(name: str, batch: pa.RecordBatch) -> int:
        raise FileNotFoundError(name)

    monkeypatch.setattr(sender, "write_batch", unreachable)
    batch_queue = driver.scan("scan")

    driver.push("scan", batch_queue, Words("word", LARGE, LARGE))

    assert words(batch_queue) == [("word", LARGE), ("word", LARGE)]
    assert driver.shared.used == []
    assert None not in [driver.shared.acquire() for _ in range(6)]


@pytest.mark.parametrize(
    "messages",
    [[BATCH_IN_BUFFER + BATCH_POSITION.pack(0, 0) + bytes(8)], [REQUEST_BUFFER, REQUEST_BUFFER]],
)
def test_what_no_task_says_is_refused(driver: Driver, messages: list[bytes]) -> None:
    writer, _ = driver.open("scan", driver.scan("scan"))

    def say() -> None:
        with writer:
            for message in messages:
                writer.write_metadata(message)

    with pytest.raises(
        flight.FlightServerError, match=r"a scan task (requested a second|used a) shared buffer"
    ):
        say()
