"""Streams from and to lakes on Spark: every row arrives once, however often a query is stopped."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport import Lake
from lakeport.spark import each_batch
from tests.fixtures_lakes import LakeMaker, RealLake
from tests.wait import wait_until

PROGRAM = Path(__file__).parent / "worker_modules" / "stream_program.py"
ROWS = 200
# How often a query is stopped: `LAKEPORT_SOAK_SECONDS=120` stops it twenty times.
STOPS = 20 if "LAKEPORT_SOAK_SECONDS" in os.environ else 2
# How often the process of a chain of queries is killed: `LAKEPORT_STREAM_KILLS=20`.
KILLS = int(os.environ.get("LAKEPORT_STREAM_KILLS", "2"))
BUSY = "failed to connect back"  # Spark 4.3 waits ten seconds for a new Python process


@pytest.fixture
def real(make_lake: LakeMaker) -> RealLake:
    """A lake with a source of ten snapshots and empty tables of the same columns."""
    made = make_lake("sqlite")
    with Lake.create(made.uri, data_path=made.data_path) as lake:
        lake.create_schema("s")
        for name in ("source", "copy", "end"):
            lake.create_table(name, {"id": "BIGINT", "v": "VARCHAR"}, "s")
        fill(lake, 0, 10)
    return made


def fill(lake: Lake, first: int, count: int) -> None:
    for number in range(first, first + count):
        ids = list(range(number * 20, number * 20 + 20))
        rows = pa.table({"id": ids, "v": [f"v{i}" for i in ids]})
        lake.table("source", "s").append(rows)


def ids(real: RealLake, table: str) -> list[int]:
    with Lake.open(real.uri, engine="local") as lake:
        return sorted(lake.table(table, "s").scan(["id"]).to_arrow()["id"].to_pylist())


def read(spark: Any, real: RealLake, table: str = "s.source", **options: Any) -> Any:
    reader = spark.readStream.format("ducklake").option("lake", real.uri).option("table", table)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def write(frame: Any, real: RealLake, folder: Path, table: str = "s.copy", **options: Any) -> Any:
    writer = frame.writeStream.format("ducklake").option("lake", real.uri).option("table", table)
    for name, value in options.items():
        writer = writer.option(name, value)
    return writer.option("checkpointLocation", str(folder))


def finish(writer: Any) -> Any:
    """Run a query over all that is there; a busy machine may need several attempts to start it."""
    from pyspark.errors import StreamingQueryException

    for attempt in range(4):
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(400)
        except StreamingQueryException as error:
            if attempt == 3 or BUSY not in str(error):
                raise
        else:
            break
    return query


def has_begun(query: Any, checkpoint: Path, batch: int) -> Callable[[], bool]:
    """Return a condition: the query has written the offsets of a batch, or has ended."""
    return lambda: (checkpoint / "offsets" / str(batch)).exists() or not query.isActive


def forget_last_batch(checkpoint: Path) -> None:
    """Remove the end of the last batch from a checkpoint: Spark will run the batch again."""
    commits = (checkpoint / "commits").glob("[0-9]*")
    for last in sorted(commits, key=lambda path: int(path.name))[-1:]:
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink()


def test_a_chain_of_streams_brings_every_row_to_its_end(
    spark: Any, real: RealLake, tmp_path: Path
) -> None:
    first = write(read(spark, real, maxFilesPerTrigger=5), real, tmp_path / "first")
    second = write(read(spark, real, "s.copy"), real, tmp_path / "second", "s.end")

    finish(first)
    query = finish(second)
    with Lake.open(real.uri) as lake:
        fill(lake, 10, 1)
    finish(write(read(spark, real), real, tmp_path / "first"))
    finish(write(read(spark, real, "s.copy"), real, tmp_path / "second", "s.end"))

    assert ids(real, "copy") == ids(real, "end") == list(range(ROWS + 20))
    with Lake.open(real.uri) as lake:
        keys = {row.key: row.value for row in lake.option_rows() if row.scope == "table"}
        assert keys[f"lakeport_stream:{query.id}"] == "1"
        messages = [snapshot.commit_message for snapshot in lake.snapshots()]
    assert f"batch 0 of {query.id}" in messages


def test_a_query_that_is_stopped_at_random_writes_every_row_once(
    spark: Any, real: RealLake, tmp_path: Path
) -> None:
    chance = random.Random(20)
    more = max(0, STOPS - 5)
    with Lake.open(real.uri) as lake:
        fill(lake, 10, more)
    for number in range(STOPS):
        writer = write(read(spark, real, maxFilesPerTrigger=1), real, tmp_path / "checkpoint")
        query = writer.start()
        # A batch has begun that no earlier query has begun: its task, its commit or the next batch
        # is interrupted.
        wait_until(has_begun(query, tmp_path / "checkpoint", number))
        time.sleep(chance.uniform(0, 1.5))
        query.stop()
    forget_last_batch(tmp_path / "checkpoint")

    finish(write(read(spark, real, maxFilesPerTrigger=4), real, tmp_path / "checkpoint"))

    assert ids(real, "copy") == list(range(ROWS + 20 * more))


@pytest.mark.process
@pytest.mark.timeout(600 + 300 * KILLS)
def test_a_chain_whose_process_is_killed_at_random_brings_every_row_to_its_end_once(
    spark: Any, real: RealLake, tmp_path: Path
) -> None:
    chance = random.Random(22)
    more = max(0, 5 * KILLS - 10)
    with Lake.open(real.uri, engine="local") as lake:
        fill(lake, 10, more)
        for _ in range(KILLS):
            run_and_kill(real, tmp_path, chance.uniform(0, 6))

        finish(write(read(spark, real), real, tmp_path / "copy"))
        finish(write(read(spark, real, "s.copy"), real, tmp_path / "end", "s.end"))

        assert ids(real, "copy") == ids(real, "end") == list(range(ROWS + 20 * more))
        # Files of killed tasks are in no snapshot, and the clean-up finds them.
        lake.remove_orphans(older_than=timedelta(0), force=True)
        tables = [lake.table(name, "s") for name in ("source", "copy", "end")]
        known = {file.path for table in tables for file in table.files()}
        assert {str(path) for path in Path(real.data_path).rglob("*.parquet")} == known


def run_and_kill(real: RealLake, checkpoints: Path, seconds: float) -> None:
    """Run the chain; kill its Python and Java some time after a batch began that is a new one."""
    log = checkpoints / "log"
    for _ in range(4):
        if is_killed(real, checkpoints, seconds, log):
            return
        assert BUSY in log.read_text(), errors_in(log)
    raise AssertionError(errors_in(log))


def errors_in(log: Path) -> str:
    """Return the lines of a log that name errors, without the places in Spark's code."""
    lines = log.read_text().splitlines()
    return "\n".join(line for line in lines if re.search("Error|Exception|Caused by", line))[:4000]


def is_killed(real: RealLake, checkpoints: Path, seconds: float, log: Path) -> bool:
    """Return whether the process was killed; False if it has ended by itself."""

    def batches() -> int:
        return len(list(checkpoints.glob("*/offsets/[0-9]*")))

    before = batches()
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(PROGRAM), real.uri, str(checkpoints)],
            env={**os.environ, "SPARK_LOCAL_DIRS": str(checkpoints / "spark")},
            start_new_session=True,
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(lambda: batches() > before or process.poll() is not None)
        time.sleep(seconds)
        return process.poll() is None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_batch_that_runs_again_is_skipped(spark: Any, real: RealLake, tmp_path: Path) -> None:
    finish(write(read(spark, real), real, tmp_path / "checkpoint", application="loader"))
    forget_last_batch(tmp_path / "checkpoint")
    files = set(Path(real.data_path).rglob("*.parquet"))

    finish(write(read(spark, real), real, tmp_path / "checkpoint", application="loader"))

    assert ids(real, "copy") == list(range(ROWS))
    assert set(Path(real.data_path).rglob("*.parquet")) == files


def test_a_batch_is_merged_once(spark: Any, real: RealLake, tmp_path: Path) -> None:
    def upsert(table: Any, rows: Any) -> None:
        merge = table.merge(rows, "target.id = source.id")
        merge.when_matched(update={"v": "target.v || '!'"}).when_not_matched().execute()

    with Lake.open(real.uri) as lake:
        lake.table("copy", "s").append(pa.table({"id": [5], "v": ["old"]}))

    def run() -> None:
        frame = read(spark, real).writeStream.option("checkpointLocation", str(tmp_path / "merge"))
        finish(frame.foreachBatch(each_batch(real.uri, "copy", upsert, schema="s")))

    run()
    forget_last_batch(tmp_path / "merge")
    run()

    assert ids(real, "copy") == list(range(ROWS))
    with Lake.open(real.uri, engine="local") as lake:
        found = lake.table("copy", "s").scan(filter="id = 5").to_arrow()
    assert found["v"].to_pylist() == ["old!"]


def test_complete_mode_replaces_all_rows(spark: Any, real: RealLake, tmp_path: Path) -> None:
    counts = (
        read(spark, real, maxFilesPerTrigger=5).selectExpr("id % 3 AS id").groupBy("id").count()
    )
    frame = counts.selectExpr("id", "CAST(count AS STRING) AS v")

    finish(write(frame, real, tmp_path / "checkpoint").outputMode("complete"))

    assert ids(real, "copy") == [0, 1, 2]


def test_a_start_that_has_been_expired_is_an_error_in_one_sentence(
    spark: Any, real: RealLake, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    real.execute("CALL ducklake_expire_snapshots('lake', versions => [2, 3, 4, 5])")
    real.detach()
    expired = write(read(spark, real, startingVersion=4), real, tmp_path / "expired")

    with pytest.raises(StreamingQueryException, match="4, which has been expired") as failure:
        finish(expired)

    assert "Traceback" not in str(failure.value)
    assert ids(real, "copy") == []


@pytest.fixture(autouse=True)
def _no_query_is_left(spark: Any) -> Iterator[None]:
    yield
    for query in spark.streams.active:
        query.stop()
