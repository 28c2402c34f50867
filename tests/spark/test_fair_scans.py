"""Many consumers at once: those that stop reading hold no core, small scans wait for no others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scan_tasks import SCHEMA, Endless, HangsAtFirst, RecordedRows, Rows, SmallRows

from lakeport.spark import stream
from lakeport.spark.transport.cores import Cores
from lakeport.spark.transport.job import is_small
from tests.wait import TIMEOUT_SECONDS, wait_until

MIB = 1024 * 1024
LARGE = {"batches": 20, "rows": 20_000}
ROWS = 20 * 20_000


def stalled(spark: Any, tasks: list[Any]) -> tuple[pa.RecordBatchReader, list[pa.RecordBatch]]:
    """A scan whose consumer has read one batch and does not go on."""
    reader = stream(spark, tasks, SCHEMA, max_bytes=MIB, timeout=0.2)
    return reader, [reader.read_next_batch()]


def read_on(reader: pa.RecordBatchReader, taken: list[pa.RecordBatch]) -> dict[int, int]:
    """Read the rest; gives how many rows of each task there are, and checks that none is twice."""
    rows: dict[int, list[np.ndarray]] = {}
    for batch in (*taken, *reader):
        (task,) = batch["task"].unique().to_pylist()
        rows.setdefault(task, []).append(batch["row"].to_numpy())
    counts = {task: np.bincount(np.concatenate(found)) for task, found in rows.items()}
    assert all(count.max() == 1 for count in counts.values())
    return {task: int(count.sum()) for task, count in counts.items()}


def active_jobs(spark: Any) -> list[int]:
    return list(spark.sparkContext.statusTracker().getActiveJobsIds())


@contextmanager
def greedy(spark: Any, count: int) -> Iterator[None]:
    """So many consumers that read as fast as they can, each a scan that has no end."""
    is_over = threading.Event()

    def read() -> None:
        with stream(spark, [Endless()] * 4, SCHEMA) as reader:
            for _ in reader:
                if is_over.is_set():
                    return

    with ThreadPoolExecutor(count) as pool:
        reading = [pool.submit(read) for _ in range(count)]
        try:
            yield
        finally:
            is_over.set()
        for each in reading:
            each.result(TIMEOUT_SECONDS)


def test_a_consumer_that_stops_reading_ends_its_jobs_and_gets_every_row_once_later(
    spark: Any,
) -> None:
    scans = [stalled(spark, [Rows(n, **LARGE) for n in range(6)]) for _ in range(4)]

    assert wait_until(lambda: active_jobs(spark) == [])
    small = stream(spark, [SmallRows(0)], SCHEMA).read_all()
    assert small.num_rows == 30
    assert active_jobs(spark) == []

    for scan in scans:
        assert read_on(*scan) == dict.fromkeys(range(6), ROWS)


def test_a_paused_scan_begins_no_more_tasks(spark: Any, tmp_path: Path) -> None:
    tasks = [RecordedRows(n, **LARGE, folder=str(tmp_path)) for n in range(40)]
    reader, taken = stalled(spark, tasks)

    assert wait_until(lambda: active_jobs(spark) == [])
    begun = len(list(tmp_path.iterdir()))

    assert begun <= 4 * spark.sparkContext.defaultParallelism
    assert read_on(reader, taken) == dict.fromkeys(range(40), ROWS)


def test_a_paused_scan_ends_tasks_that_have_not_come_to_a_row(spark: Any, tmp_path: Path) -> None:
    hanging = HangsAtFirst(1, folder=str(tmp_path))
    reader, taken = stalled(spark, [Rows(0, **LARGE), hanging])

    assert wait_until(lambda: active_jobs(spark) == [])

    assert read_on(reader, taken) == {0: ROWS, 1: 30}


def test_a_small_scan_gets_a_core_that_large_scans_never_leave(spark: Any) -> None:
    with greedy(spark, 2):
        for number in range(5):
            rows = stream(spark, [SmallRows(number)], SCHEMA).read_all()
            assert rows["task"].unique().to_pylist() == [number]


def test_a_small_scan_gets_through_beside_stalled_and_greedy_consumers(spark: Any) -> None:
    with ExitStack() as stack:
        scans = [stalled(spark, [Rows(n, **LARGE) for n in range(4)]) for _ in range(4)]
        stack.enter_context(greedy(spark, 2))
        assert stream(spark, [SmallRows(0)], SCHEMA).read_all().num_rows == 30
    for scan in scans:
        assert read_on(*scan) == dict.fromkeys(range(4), ROWS)


def test_a_large_scan_that_leaves_its_cores_to_small_ones_gets_every_row_once(spark: Any) -> None:
    is_over = threading.Event()

    def ask() -> int:
        count = 0
        while not is_over.is_set():
            assert stream(spark, [SmallRows(7)], SCHEMA).read_all().num_rows == 30
            count += 1
        return count

    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(ask) for _ in range(2)]
        reader = stream(spark, [Rows(n, **LARGE) for n in range(8)], SCHEMA)
        try:
            rows = read_on(reader, [])
        finally:
            is_over.set()
        assert all(each.result(TIMEOUT_SECONDS) for each in asking)

    assert rows == dict.fromkeys(range(8), ROWS)


def test_small_scans_have_a_pool_of_their_own(spark: Any) -> None:
    pools = Path(spark.sparkContext.getConf().get("spark.scheduler.allocation.file")[7:])

    assert spark.sparkContext.getConf().get("spark.scheduler.mode") == "FAIR"
    assert '<pool name="lakeport-small">' in pools.read_text()


@pytest.mark.parametrize(
    ("sizes", "small"),
    [
        ([100], True),
        ([20 * MIB], True),
        ([40 * MIB], False),
        ([100] * 5, True),
        ([100] * 50, False),
        ([5 * MIB] * 2, False),
        ([None], False),
        ([], False),
    ],
)
def test_a_scan_is_small_if_it_is_one_short_spark_task(
    sizes: list[int | None], small: bool
) -> None:
    tasks = [Rows(0) if size is None else SmallRows(0, estimated_bytes=size) for size in sizes]

    assert is_small(tasks) is small


def test_a_core_is_asked_for_only_when_all_are_taken_and_once_for_each_request() -> None:
    cores = Cores(2)

    with cores.sending("large"), cores.waiting("small"):
        time.sleep(0.02)
        assert not cores.is_wanted()
        with cores.sending("other"):
            assert cores.is_wanted()
            assert not cores.is_wanted()
            # The core went elsewhere: the request is repeated.
            assert wait_until(cores.is_wanted)
            with cores.sending("small"):
                time.sleep(0.2)
                assert not cores.is_wanted()
