"""Engines: where tasks run, how far they run ahead, and what ends them."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from lakeport import Lake
from lakeport.ducklake import AutoEngine, ChangeFeed, LocalEngine, Scan, engine_named
from lakeport.ducklake.turns import Turns
from lakeport.errors import InvalidArgumentError, MissingFileError
from tests.wait import wait_until

SCHEMA = pa.schema([("task", pa.int64()), ("batch", pa.int64())])
ROWS = 1000
BATCH_BYTES = ROWS * 16


@dataclass
class Batches:
    """A task that reads batches, and counts those that it has read."""

    number: int
    batches: int
    estimated_bytes: int = 1000
    bytes_to_read: int = 1000
    fails_at: int | None = None
    read_so_far: int = 0
    threads: set[str] = field(default_factory=set)

    def read(self) -> Iterator[pa.RecordBatch]:
        for batch in range(self.batches):
            if batch == self.fails_at:
                raise MissingFileError(f"file {self.number} is missing")
            self.read_so_far += 1
            self.threads.add(threading.current_thread().name)
            yield pa.record_batch([[self.number] * ROWS, [batch] * ROWS], schema=SCHEMA)

    def run(self) -> int:
        return sum(batch.num_rows for batch in self.read())


class RecordingEngine(LocalEngine):
    """A local engine that is called Spark, and records the tasks that it is given."""

    name = "spark"  # type: ignore[misc]

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[int] = []

    def stream(self, tasks: Any, *arguments: Any, **options: Any) -> pa.RecordBatchReader:
        self.tasks.append(len(tasks))
        return super().stream(tasks, *arguments, **options)

    def run(self, tasks: Any) -> Iterator[Any]:
        self.tasks.append(len(tasks))
        return super().run(tasks)


def local_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("lakeport-local")]


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_come_in_the_order_of_the_tasks(threads: int) -> None:
    tasks = [Batches(number, 4) for number in range(7)]

    rows = LocalEngine(threads).stream(tasks, SCHEMA).read_all()

    assert rows["task"].to_pylist()[::ROWS] == [n for n in range(7) for _ in range(4)]
    assert rows["batch"].to_pylist()[::ROWS] == [*range(4)] * 7
    assert len(set().union(*(task.threads for task in tasks))) <= threads


def test_results_come_in_the_order_of_the_tasks() -> None:
    tasks = [Batches(number, number) for number in range(6)]

    assert list(LocalEngine(3).run(tasks)) == [number * ROWS for number in range(6)]


def test_threads_do_not_read_further_ahead_than_the_limit() -> None:
    tasks = [Batches(number, 100) for number in range(3)]
    limit = 5

    with LocalEngine(3).stream(tasks, SCHEMA, max_bytes=limit * BATCH_BYTES) as reader:
        reader.read_next_batch()
        assert wait_until(lambda: sum(task.read_so_far for task in tasks) > limit)
        threading.Event().wait(0.3)
        ahead = sum(task.read_so_far for task in tasks) - 1

    # One that is waited for, and one more in each thread, which waits for room.
    assert ahead <= limit + 1 + 3


def test_a_task_that_is_waited_for_gets_room_before_those_after_it() -> None:
    tasks = [Batches(number, 50) for number in range(3)]

    rows = LocalEngine(3).stream(tasks, SCHEMA, max_bytes=1).read_all()

    assert rows.num_rows == 3 * 50 * ROWS


@pytest.mark.parametrize("leave", ["close", "drop", "leave"])
def test_threads_end_when_their_reader_is_left(leave: str) -> None:
    tasks = [Batches(number, 10_000) for number in range(2)]
    reader = LocalEngine(2).stream(tasks, SCHEMA, max_bytes=BATCH_BYTES)
    reader.read_next_batch()
    assert local_threads()

    if leave == "close":
        reader.close()
    elif leave == "drop":
        del reader
        gc.collect()
    else:
        with reader:
            reader.read_next_batch()

    assert wait_until(lambda: not local_threads())
    assert max(task.read_so_far for task in tasks) < 100


def test_no_thread_starts_before_the_first_batch_is_read() -> None:
    # Scans of other tests end when they are collected.
    gc.collect()
    assert wait_until(lambda: not local_threads())
    with LocalEngine(2).stream([Batches(0, 1), Batches(1, 1)], SCHEMA):
        assert not local_threads()


@pytest.mark.parametrize("threads", [1, 3])
def test_the_error_of_a_task_is_raised_as_it_is_and_ends_the_others(threads: int) -> None:
    tasks = [Batches(0, 3), Batches(1, 10_000), Batches(2, 3, fails_at=1)]
    tasks[1].batches = 3 if threads == 1 else 10_000

    with pytest.raises(MissingFileError, match=r"^file 2 is missing$"):
        LocalEngine(threads).stream(tasks, SCHEMA, max_bytes=1 << 40).read_all()

    assert wait_until(lambda: not local_threads())


def test_rows_that_tasks_carry_are_read_without_threads() -> None:
    tasks = [Batches(number, 1, bytes_to_read=0) for number in range(4)]

    LocalEngine(4).stream(tasks, SCHEMA).read_all()

    assert set().union(*(task.threads for task in tasks)) == {threading.current_thread().name}


def test_small_plans_stay_in_this_process_and_large_ones_go_to_spark() -> None:
    spark = RecordingEngine()
    engine = AutoEngine(LocalEngine(), spark, small_scan_bytes=1 << 20)

    assert engine.choose([Batches(0, 1)]).name == "local"
    assert engine.choose([Batches(0, 1, bytes_to_read=1 << 20)]) is spark
    # Opening a file costs as much as reading 32 KiB.
    assert engine.choose([Batches(n, 1) for n in range(31)]).name == "local"
    assert engine.choose([Batches(n, 1) for n in range(32)]) is spark
    assert engine.choose([Batches(n, 1, bytes_to_read=0) for n in range(100)]).name == "local"
    assert AutoEngine(spark=spark, small_scan_bytes=0).choose([Batches(0, 1)]) is spark


def test_inlined_rows_never_leave_the_process(make_lake: Callable[..., Any]) -> None:
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE t(id INTEGER)", "INSERT INTO t VALUES (1), (2)")
    lake.execute("UPDATE t SET id = 3 WHERE id = 2")
    spark = RecordingEngine()

    with lake.open(engine=spark) as ours:
        table = ours.table("t")
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 3]
        assert table.scan().count() == 2
        assert table.changes(1).to_arrow().num_rows == 4

    assert spark.tasks == []


def test_a_call_may_name_another_engine(
    make_lake: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE t AS SELECT 1 AS id")
    spark = RecordingEngine()

    with lake.open(engine=AutoEngine(spark=spark)) as ours:
        scan = ours.table("t").scan()
        assert ours.engine.name == "auto"
        assert scan.explain().endswith("engine: local")
        with caplog.at_level(logging.DEBUG, "lakeport.ducklake"):
            for engine in (None, "spark", "local", spark):
                assert scan.to_arrow(engine=engine).num_rows == 1
                assert ours.table("t").scan(filter="id = 1").count(engine=engine) == 1

    assert len(spark.tasks) == 4
    assert "the engine local reads 1 task" in caplog.text
    assert "the engine spark counts the rows of 1 task" in caplog.text


def test_parts_of_a_scan_run_where_the_whole_would_run(make_lake: Callable[..., Any]) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE t AS SELECT 1 AS id", *["INSERT INTO t FROM t"] * 3)
    spark = RecordingEngine()

    with lake.open(engine=AutoEngine(spark=spark, small_scan_bytes=100_000)) as ours:
        scan = ours.table("t").scan()
        part = scan.with_tasks(scan.plan.tasks[:1])

        assert scan.runs_on is part.runs_on is spark
        assert Scan(part.plan, ours.engine).runs_on.name == "local"
        assert part.to_arrow().num_rows == 1


def test_a_feed_has_the_types_of_changes_without_spark(make_lake: Callable[..., Any]) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE t AS SELECT i AS id, 'a' AS v FROM range(4) r(i)")
    lake.execute("UPDATE t SET v = 'b' WHERE id = 2", "DELETE FROM t WHERE id = 3")

    with lake.open(engine="local") as ours:
        feed: ChangeFeed = ours.table("t").changes(2)
        rows = feed.to_arrow().select(["snapshot_id", "change_type", "id", "v"]).to_pylist()
        assert feed.count() == 3

    assert sorted(tuple(row.values()) for row in rows) == [
        (2, "update_postimage", 2, "b"),
        (2, "update_preimage", 2, "a"),
        (3, "delete", 3, "a"),
    ]


def test_an_engine_is_found_by_its_name() -> None:
    assert engine_named("local").name == "local"
    assert engine_named("auto").name == "auto"
    assert engine_named("spark").name == "spark"
    with pytest.raises(InvalidArgumentError, match="no engine 'ray': use 'auto'"):
        engine_named("ray")


def test_wrong_engines_are_refused_before_the_database_is_opened() -> None:
    for options, reason in (
        ({"engine": "ray"}, "no engine 'ray'"),
        ({"engine": "local", "spark": object()}, "takes no Spark session"),
        ({"engine": LocalEngine(), "spark": object()}, "not both"),
        ({"small_scan_bytes": -1}, "must not be negative"),
    ):
        with pytest.raises(InvalidArgumentError, match=reason):
            Lake.open("ducklake:nothing.ducklake", **options)
    with pytest.raises(InvalidArgumentError, match="at least one thread"):
        LocalEngine(0)


def test_batches_of_many_small_tasks_are_joined_in_their_order() -> None:
    tasks = [Batches(number, 1) for number in range(100)]

    batches = list(LocalEngine(2).stream(tasks, SCHEMA))

    assert len(batches) < 50
    assert max(batch.num_rows for batch in batches) <= 65_536
    rows = pa.Table.from_batches(batches)
    assert rows["task"].to_pylist() == [n for n in range(100) for _ in range(ROWS)]


def test_large_tasks_between_small_ones_keep_their_batches() -> None:
    tasks = [Batches(n, 1, bytes_to_read=1 << 20 if n % 10 == 0 else 1000) for n in range(100)]

    batches = list(LocalEngine(2).stream(tasks, SCHEMA))

    assert sum(batch.num_rows == ROWS for batch in batches) >= 10
    rows = pa.Table.from_batches(batches)
    assert rows["task"].to_pylist() == [n for n in range(100) for _ in range(ROWS)]


def test_all_scans_together_decode_in_a_bounded_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lakeport.ducklake.engine.LOCAL_TURNS", Turns(2))
    running, most, lock = 0, 0, threading.Lock()

    @dataclass
    class Slow(Batches):
        def read(self) -> Iterator[pa.RecordBatch]:
            nonlocal running, most
            for batch in super().read():
                with lock:
                    running += 1
                    most = max(most, running)
                time.sleep(0.001)
                with lock:
                    running -= 1
                yield batch

    scans = [LocalEngine(4).stream([Slow(n, 5) for n in range(4)], SCHEMA) for _ in range(3)]
    with ThreadPoolExecutor(3) as clients:
        rows = list(clients.map(lambda scan: scan.read_all().num_rows, scans))

    assert rows == [4 * 5 * ROWS] * 3
    assert most == 2


def test_a_consumer_that_stops_after_a_batch_has_few_read_ahead() -> None:
    tasks = [Batches(number, 10_000) for number in range(4)]

    with LocalEngine(4).stream(tasks, SCHEMA, max_bytes=1 << 40) as reader:
        reader.read_next_batch()
    assert wait_until(lambda: not local_threads())

    # Two megabytes, and what each thread was reading at the end.
    assert sum(task.read_so_far for task in tasks) * BATCH_BYTES < 3 << 20
