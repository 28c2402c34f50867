"""Arrow streams from Spark: exactly the right rows, whatever fails on the way."""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from scan_tasks import SCHEMA, Breaks, Endless, FailsAtFirst, Rows, Silent

from lakeport.errors import CancelledError, InternalError, InvalidArgumentError, UnavailableError
from lakeport.spark import session, stream
from lakeport.spark.transport.grants import ScanKey
from lakeport.spark.transport.job import stream_metrics
from lakeport.spark.transport.receiver import get_receiver
from lakeport.spark.transport.sender import acknowledge
from lakeport.spark.transport.shared_memory import (
    SEGMENT_BYTES,
    SharedBuffer,
    SharedBufferPool,
    write_batch,
)
from tests.wait import TIMEOUT_SECONDS, wait_until

MIB = 1024 * 1024


@pytest.fixture(params=["push", "collect"])
def route(request: pytest.FixtureRequest, spark: Any) -> Iterator[str]:
    """Each of the two ways that batches can take."""
    spark.conf.set("spark.lakeport.route", request.param)
    yield request.param
    spark.conf.unset("spark.lakeport.route")


def rows_of(reader: pa.RecordBatchReader) -> Counter[tuple[int, int]]:
    table = reader.read_all()
    return Counter(zip(table["task"].to_pylist(), table["row"].to_pylist(), strict=True))


def expected(tasks: int, *, rows: int = 30) -> Counter[tuple[int, int]]:
    return Counter((task, row) for task in range(tasks) for row in range(rows))


def is_quiet(spark: Any) -> bool:
    """Whether nothing is left of any scan: no job, no scan, no thread."""
    return (
        not spark.sparkContext.statusTracker().getActiveJobsIds()
        and stream_metrics().scans == 0
        and not [thread for thread in threading.enumerate() if "lakeport-scan" in thread.name]
    )


@pytest.mark.usefixtures("route")
def test_every_row_of_every_task_arrives_once(spark: Any) -> None:
    assert rows_of(stream(spark, [Rows(n) for n in range(9)], SCHEMA)) == expected(9)


def test_no_tasks_are_no_rows(spark: Any) -> None:
    reader = stream(spark, [], SCHEMA)

    assert reader.schema == SCHEMA
    assert reader.read_all().num_rows == 0


@pytest.mark.usefixtures("route")
def test_a_task_without_batches_is_complete(spark: Any) -> None:
    assert rows_of(stream(spark, [Rows(0, batches=0), Rows(1)], SCHEMA)).total() == 30


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("victim", ["", "worker"], ids=["error", "dead worker"])
@pytest.mark.parametrize("rows", [10, 50_000], ids=["small", "in shared memory"])
def test_a_task_that_fails_twice_in_the_middle_loses_and_repeats_nothing(
    spark: Any, tmp_path: Path, victim: str, rows: int
) -> None:
    tasks = [
        FailsAtFirst(n, str(tmp_path), 2 if n == 1 else 0, victim=victim, rows=rows)
        for n in range(4)
    ]

    assert rows_of(stream(spark, tasks, SCHEMA)) == expected(4, rows=3 * rows)
    assert len(list(tmp_path.glob("1-*"))) == 3


@pytest.mark.usefixtures("route")
def test_a_task_that_always_fails_is_an_error_in_its_own_words(spark: Any) -> None:
    with pytest.raises(InternalError, match=r"^the scan failed on Spark: .*row 17 is not a number"):
        stream(spark, [Rows(0), Breaks()], SCHEMA).read_all()
    assert wait_until(lambda: is_quiet(spark))


@pytest.mark.usefixtures("route")
def test_batches_larger_than_a_chunk_arrive_whole(spark: Any) -> None:
    table = stream(spark, [Rows(0, batches=2, rows=300_000)], SCHEMA).read_all()

    assert sorted(table["row"].to_pylist()) == list(range(600_000))


def test_batches_in_shared_memory_stay_as_they_are_while_they_are_held(spark: Any) -> None:
    """The memory of a batch is used again, but only when nobody has any part of the batch."""
    large = [Rows(n, batches=4, rows=100_000) for n in range(4)]
    reader = stream(spark, large, SCHEMA)
    first = reader.read_next_batch()
    column = first["row"].slice(10, 5)
    kept = column.to_pylist()
    task = first["task"][0].as_py()
    del first
    reader.read_all()

    for _ in range(6):
        assert sum(batch.num_rows for batch in stream(spark, large, SCHEMA)) == 1_600_000

    assert column.to_pylist() == kept
    assert task in range(4)


def test_the_memory_that_tasks_write_to_is_shared_and_bounded(spark: Any) -> None:
    shared = get_receiver(spark.sparkContext).shared
    large = [Rows(n, batches=4, rows=100_000) for n in range(4)]

    stream(spark, large, SCHEMA).read_all()
    gc.collect()
    segments = take_all(shared)

    assert 0 < len(segments) <= 4 + 2 * spark.sparkContext.defaultParallelism
    # All of it is in use: the batches come by Flight.
    assert sum(batch.num_rows for batch in stream(spark, large, SCHEMA)) == 1_600_000
    for segment in segments:
        shared.give_back(segment)


def take_all(shared: SharedBufferPool) -> list[SharedBuffer]:
    return list(iter(shared.take, None))


def test_a_batch_that_is_larger_than_a_segment_comes_by_flight(spark: Any) -> None:
    rows = SEGMENT_BYTES // 8
    batches = list(stream(spark, [Rows(0, batches=2, rows=rows)], SCHEMA))

    assert [batch.num_rows for batch in batches] == [rows, rows]
    assert batches[1]["row"][-1].as_py() == 2 * rows - 1


def test_memory_that_a_lost_task_may_still_write_to_is_not_used_again() -> None:
    shared = SharedBufferPool(1)
    segment = shared.take()
    assert segment is not None
    assert shared.take() is None

    shared.discard(segment)

    other = shared.take()
    assert other is not None
    assert other.name != segment.name


def test_a_segment_of_another_machine_cannot_be_reached() -> None:
    segment = SharedBufferPool(1).take()
    assert segment is not None
    path = segment.name.split(" ")[0]

    with pytest.raises(FileNotFoundError, match="is not lakeport-other"):
        write_batch(f"{path} lakeport-other", pa.record_batch([[1]], names=["a"]))


def test_a_consumer_that_stops_reading_leaves_the_cores_to_others(spark: Any) -> None:
    large = [Rows(n, batches=40, rows=50_000) for n in range(4)]
    stalled = stream(spark, large, SCHEMA, max_bytes=MIB, patience=0.2)
    first = stalled.read_next_batch()

    for _ in range(3):
        assert rows_of(stream(spark, [Rows(n) for n in range(4)], SCHEMA)) == expected(4)

    rest = stalled.read_all()
    assert first.num_rows + rest.num_rows == 4 * 40 * 50_000


def close(readers: list[Any]) -> None:
    readers[0].close()


def leave(readers: list[Any]) -> None:
    with readers[0]:
        pass


def drop(readers: list[Any]) -> None:
    readers.clear()
    gc.collect()


@pytest.mark.parametrize("end", [close, leave, drop])
def test_a_consumer_that_goes_away_ends_the_job(
    spark: Any, end: Callable[[list[Any]], None]
) -> None:
    readers = [stream(spark, [Endless()] * 4, SCHEMA)]
    readers[0].read_next_batch()

    end(readers)

    assert wait_until(lambda: is_quiet(spark))


@pytest.mark.usefixtures("route")
def test_a_reader_that_waits_can_be_closed_from_another_thread(spark: Any, tmp_path: Path) -> None:
    slow = FailsAtFirst(0, str(tmp_path), failures=0)
    reader = stream(spark, [slow, Endless()], SCHEMA, max_bytes=1)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: [None for _ in reader])
        assert wait_until(lambda: any(tmp_path.iterdir()))

        reader.close()

        assert isinstance(
            waiting.exception(timeout=TIMEOUT_SECONDS), CancelledError | InvalidArgumentError
        )
    assert wait_until(lambda: is_quiet(spark))


class HeldUp:
    """A task that is sent to Spark only when it is told to, and never ends there."""

    def __init__(self) -> None:
        self.is_on_the_way = threading.Event()
        self.go_on = threading.Event()

    def read(self) -> Iterator[pa.RecordBatch]:
        return iter(())

    def __reduce__(self) -> Any:
        self.is_on_the_way.set()
        self.go_on.wait(TIMEOUT_SECONDS)
        return Silent, ()


@pytest.mark.usefixtures("route")
def test_a_reader_that_is_closed_before_its_job_begins_leaves_no_job(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, was_cancelled = spark.sparkContext, threading.Event()
    cancel = context.cancelJobsWithTag

    def cancelled(tag: str) -> None:
        cancel(tag)
        was_cancelled.set()

    monkeypatch.setattr(context, "cancelJobsWithTag", cancelled)
    task = HeldUp()
    reader = stream(spark, [task], SCHEMA)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: [None for _ in reader])
        assert task.is_on_the_way.wait(TIMEOUT_SECONDS)

        reader.close()
        assert was_cancelled.wait(TIMEOUT_SECONDS)
        task.go_on.set()

        assert isinstance(
            waiting.exception(timeout=TIMEOUT_SECONDS), CancelledError | InvalidArgumentError
        )
    assert wait_until(lambda: is_quiet(spark))


def test_a_reader_that_was_never_read_starts_nothing(spark: Any) -> None:
    assert wait_until(lambda: is_quiet(spark))

    with stream(spark, [Rows(0)], SCHEMA) as reader:
        assert is_quiet(spark)

    with pytest.raises(InvalidArgumentError, match="closed"):
        reader.read_next_batch()


def test_many_scans_leave_nothing_behind(spark: Any) -> None:
    process = psutil.Process()

    def scan(*, is_read: bool) -> None:
        with stream(spark, [Rows(n) for n in range(2)], SCHEMA) as reader:
            if is_read:
                assert reader.read_all().num_rows == 60
            else:
                reader.read_next_batch()

    def held() -> dict[str, int]:
        gc.collect()
        return {"files": process.num_fds(), "threads": threading.active_count()}

    def is_as_before() -> bool:
        # Connections of Spark's workers come and go; a leak would be one for each scan.
        return is_quiet(spark) and all(count < before[name] + 12 for name, count in held().items())

    for number in range(4):
        scan(is_read=bool(number % 2))
    assert wait_until(lambda: is_quiet(spark))
    before = held()

    for number in range(12):
        scan(is_read=bool(number % 2))

    assert wait_until(is_as_before), (before, held())
    assert not list(spark.sparkContext.getJobTags())


def test_eight_scans_at_once_are_all_complete(spark: Any) -> None:
    def scan(number: int) -> Counter[tuple[int, int]]:
        return rows_of(stream(spark, [Rows(n) for n in range(6)], SCHEMA))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(scan, range(8))) == [expected(6)] * 8


def test_other_libraries_read_a_stream_as_any_arrow_reader(spark: Any, tmp_path: Path) -> None:
    def reader() -> pa.RecordBatchReader:
        return stream(spark, [Rows(n) for n in range(2)], SCHEMA)

    in_duckdb = reader()
    ds.write_dataset(reader(), tmp_path, format="parquet")

    assert isinstance(in_duckdb, pa.RecordBatchReader)
    assert duckdb.sql("SELECT count(*), sum(row) FROM in_duckdb").fetchall() == [(60, 870)]
    assert ds.dataset(tmp_path).count_rows() == 60
    assert ds.Scanner.from_batches(reader()).to_table().num_rows == 60
    assert pa.RecordBatchReader.from_stream(reader()).read_all().num_rows == 60
    assert pa.table(reader()).num_rows == 60


def test_an_executor_that_cannot_reach_the_driver_is_told_what_to_set(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(get_receiver(spark.sparkContext), "location", "grpc://127.0.0.1:9")

    with pytest.raises(UnavailableError, match=r"cannot reach the driver .*spark\.driver\.host"):
        stream(spark, [Rows(0)], SCHEMA).read_all()


def test_a_stranger_cannot_send_rows_into_a_scan(spark: Any) -> None:
    from pyarrow import flight

    receiver = get_receiver(spark.sparkContext)
    request = ScanKey().grant("lakeport-scan-x", [0]).claim(1)
    client = flight.connect(receiver.location)

    def send() -> None:
        # Whichever message meets the refusal first raises it.
        writer, _ = client.do_put(flight.FlightDescriptor.for_command(request), SCHEMA)
        with writer:
            writer.write_batch(next(Rows(0).read()))

    with pytest.raises(flight.FlightUnauthenticatedError):
        send()


def test_a_route_that_does_not_exist_is_refused(spark: Any) -> None:
    spark.conf.set("spark.lakeport.route", "pigeon")
    try:
        with pytest.raises(InvalidArgumentError, match="'push' or 'collect', not 'pigeon'"):
            stream(spark, [Rows(0)], SCHEMA)
    finally:
        spark.conf.unset("spark.lakeport.route")


def test_the_active_session_is_reused_with_further_settings(spark: Any) -> None:
    spark.createDataFrame([], "a INT")  # makes it the active one, after tests with others
    again = session(spark.sparkContext.master, spark_lakeport_test="7")

    assert again is spark
    assert spark.conf.get("spark.lakeport.test") == "7"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_what_a_running_session_cannot_become_is_refused(spark: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"on local\[2,4\] is running"):
        session("local[7]")
    with pytest.raises(InvalidArgumentError, match=r"spark\.executor\.memory cannot be changed"):
        session(spark_executor_memory="7g")


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="an option of Linux")
def test_a_connection_is_acknowledged_at_once_and_stays_open() -> None:
    option = (socket.IPPROTO_TCP, socket.TCP_QUICKACK)
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as java, server.accept()[0] as worker:
            worker.setsockopt(*option, 0)
            acknowledge()
            assert worker.getsockopt(*option) == 1
            java.sendall(b"tasks")
            assert worker.recv(5) == b"tasks"


@pytest.mark.process
@pytest.mark.spark
def test_a_program_that_ends_with_its_scan_ends_in_silence(
    make_lake: Callable[..., Any], tmp_path: Path
) -> None:
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE t AS SELECT i FROM range(100) r(i)")
    lake.detach()
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "from lakeport import Lake\n"
        "print(Lake.open(sys.argv[1]).table('t').scan().to_arrow().num_rows)\n"
    )

    command = [sys.executable, str(program), lake.uri]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )

    assert done.stdout == "100\n"
    assert "ERROR" not in done.stderr
    assert "Exception" not in done.stderr
