"""Arrow streams from Spark: exactly the right rows, whatever fails on the way."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from scan_tasks import SCHEMA, Breaks, FailsAtFirst, Rows

from lakeport.errors import InternalError
from lakeport.spark import stream
from lakeport.spark.stream import receiver_of

MIB = 1024 * 1024


def rows_of(reader: pa.RecordBatchReader) -> Counter[tuple[int, int]]:
    table = reader.read_all()
    return Counter(zip(table["task"].to_pylist(), table["row"].to_pylist(), strict=True))


def expected(tasks: int, *, rows: int = 30) -> Counter[tuple[int, int]]:
    return Counter((task, row) for task in range(tasks) for row in range(rows))


def wait_until(condition: Callable[[], bool], *, seconds: float = 30.0) -> bool:
    """Ask until the condition holds; an event nobody sets serves as the clock."""
    clock = threading.Event()
    for _ in range(int(seconds * 20)):
        if condition():
            return True
        clock.wait(0.05)
    return condition()


def test_every_row_of_every_task_arrives_once(spark: Any) -> None:
    assert rows_of(stream(spark, [Rows(n) for n in range(9)], SCHEMA)) == expected(9)


def test_no_tasks_are_no_rows(spark: Any) -> None:
    reader = stream(spark, [], SCHEMA)

    assert reader.schema == SCHEMA
    assert reader.read_all().num_rows == 0


def test_a_task_without_batches_is_complete(spark: Any) -> None:
    assert rows_of(stream(spark, [Rows(0, batches=0), Rows(1)], SCHEMA)).total() == 30


@pytest.mark.parametrize("kill", [False, True], ids=["error", "dead worker"])
def test_a_task_that_fails_twice_in_the_middle_loses_and_repeats_nothing(
    spark: Any, tmp_path: Path, kill: bool
) -> None:
    tasks = [
        FailsAtFirst(n, str(tmp_path), failures=2 if n == 1 else 0, kill=kill) for n in range(4)
    ]

    assert rows_of(stream(spark, tasks, SCHEMA)) == expected(4)
    assert len(list(tmp_path.glob("1-*"))) == 3


def test_a_task_that_always_fails_is_an_error_in_its_own_words(spark: Any) -> None:
    with pytest.raises(InternalError, match="row 17 is not a number"):
        stream(spark, [Rows(0), Breaks()], SCHEMA).read_all()


def test_a_consumer_that_stops_reading_leaves_the_cores_to_others(spark: Any) -> None:
    large = [Rows(n, batches=40, rows=50_000) for n in range(4)]
    stalled = stream(spark, large, SCHEMA, max_bytes=MIB, patience=0.2)
    first = stalled.read_next_batch()

    for _ in range(3):
        assert rows_of(stream(spark, [Rows(n) for n in range(4)], SCHEMA)) == expected(4)

    rest = stalled.read_all()
    assert first.num_rows + rest.num_rows == 4 * 40 * 50_000


def test_a_consumer_that_vanishes_ends_the_job(spark: Any) -> None:
    receiver = receiver_of(spark.sparkContext)
    reader = stream(spark, [Rows(n, batches=400, rows=50_000) for n in range(4)], SCHEMA)
    reader.read_next_batch()

    del reader
    gc.collect()

    assert wait_until(lambda: not spark.sparkContext.statusTracker().getActiveJobsIds())
    assert receiver.scans() == 0
    assert wait_until(lambda: not [t for t in threading.enumerate() if "lakeport-scan" in t.name])


def test_eight_scans_at_once_are_all_complete(spark: Any) -> None:
    def scan(number: int) -> Counter[tuple[int, int]]:
        return rows_of(stream(spark, [Rows(n) for n in range(6)], SCHEMA))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(scan, range(8))) == [expected(6)] * 8


def test_a_stranger_cannot_send_rows_into_a_scan(spark: Any) -> None:
    import msgpack
    from pyarrow import flight

    receiver = receiver_of(spark.sparkContext)
    request = msgpack.packb({"scan": "lakeport-scan-x", "secret": "guess", "task": 0})
    client = flight.connect(receiver.location)

    def send() -> None:
        # Whichever message meets the refusal first raises it.
        writer, _ = client.do_put(flight.FlightDescriptor.for_command(request), SCHEMA)
        with writer:
            writer.write_batch(next(Rows(0).read()))

    with pytest.raises(flight.FlightUnauthenticatedError):
        send()
