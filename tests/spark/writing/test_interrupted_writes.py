"""Writes on Spark whose driver, disk or catalog database fails: nothing is lost, nothing twice."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport import Lake
from lakeport.ducklake.writing import WriteProgress
from lakeport.errors import LakeportError
from lakeport.spark import SparkEngine
from tests.fixtures_databases import PostgreSQL, unavailable
from tests.wait import TIMEOUT_SECONDS

PROGRAM = Path(__file__).parents[1] / "worker_modules" / "killed_driver.py"


def on_disk(lake: Lake) -> set[str]:
    return {path.name for path in Path(lake.table("t").path).rglob("*.parquet")}


def in_catalog(lake: Lake) -> set[str]:
    return {Path(file.path).name for file in lake.table("t").files()}


def ids(lake: Lake) -> list[int]:
    found = lake.table("t").scan(["id"]).to_arrow(engine="local").column("id")
    return sorted(found.to_pylist())


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A lake with an empty table, whose row groups are small."""
    uri = f"ducklake:sqlite:{tmp_path}/meta.sqlite"
    with Lake.create(uri, data_path=f"{tmp_path}/data/") as made:
        made.create_table("t", {"id": "BIGINT"})
        made.set_option("parquet_row_group_size", 500)
        yield made


@pytest.mark.parametrize(("step", "rows"), [("before", 0), ("after", 20_000)])
def test_a_driver_that_is_killed_at_its_commit_has_written_all_or_nothing(
    lake: Lake, tmp_path: Path, step: str, rows: int
) -> None:
    uri = f"ducklake:sqlite:{tmp_path}/meta.sqlite"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROGRAM), uri, step],
        env={**os.environ, "SPARK_LOCAL_DIRS": str(tmp_path / "spark")},
        check=False,
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
    )

    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    assert ids(lake) == list(range(rows))
    orphans = on_disk(lake) - in_catalog(lake)
    assert bool(orphans) == (step == "before")
    removed = lake.remove_orphans(older_than=timedelta(0), force=True)
    assert removed.files_replaced == len(orphans)
    assert on_disk(lake) == in_catalog(lake)


def filling_disk(attempts: int) -> Any:
    """Pass batches on; in the first attempts of a task, no worker can write more than 2 KiB.

    The worker that writes files is another one than that of this function.
    """

    def pass_on(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        is_full = context.attemptNumber() < attempts
        if context.partitionId() == 1:
            for pid in siblings():
                _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                soft = 2048 if is_full else hard
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
        yield from batches

    def siblings() -> list[int]:
        """Return the other processes that the daemon of this worker has forked."""
        found = []
        for path in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                text = (path / "stat").read_text()
                if int(text.rpartition(")")[2].split()[1]) == os.getppid():
                    found.append(int(path.name))
        return [pid for pid in found if pid != os.getpid()]

    return pass_on


def test_a_disk_that_is_full_for_a_while_delays_a_write(spark: Any, lake: Lake) -> None:
    frame = spark.range(0, 40_000, 1, 2).mapInArrow(filling_disk(1), "id bigint")

    lake.table("t").append(frame)

    assert ids(lake) == list(range(40_000))
    assert on_disk(lake) == in_catalog(lake)


def test_a_disk_that_stays_full_ends_a_write_with_an_error_and_no_file(
    spark: Any, lake: Lake
) -> None:
    frame = spark.range(0, 40_000, 1, 2).mapInArrow(filling_disk(9), "id bigint")

    with pytest.raises(LakeportError, match="File too large"):
        lake.table("t").append(frame)

    assert ids(lake) == []
    assert on_disk(lake) == set()
    # Workers are used again: this removes the limit.
    lake.table("t").append(spark.range(0, 4000, 1, 2).mapInArrow(filling_disk(0), "id bigint"))
    assert ids(lake) == list(range(4000))


def test_a_catalog_database_that_restarts_during_a_write_gets_it_once(
    spark: Any, tmp_path: Path
) -> None:
    initdb = PostgreSQL.initdb()
    if initdb is None:
        unavailable("PostgreSQL is not installed (Debian: postgresql)")
        return
    restarts = []
    with closing(PostgreSQL(initdb)) as server:
        uri = server.create_database()

        def restart(now: WriteProgress) -> None:
            # The last report comes after the tasks, before the commit.
            if now.rows:
                server.restart()
                restarts.append(now)

        with Lake.create(uri, data_path=f"{tmp_path}/data/") as lake:
            lake.create_table("t", {"id": "BIGINT"})
            result = lake.table("t").append(spark.range(0, 6000, 1, 2), progress=restart)

            assert len(restarts) == 1
            assert result.rows_inserted == 6000
            assert ids(lake) == list(range(6000))
            assert on_disk(lake) == in_catalog(lake)


def test_twenty_concurrent_merges_of_one_table_lose_no_update(spark: Any, tmp_path: Path) -> None:
    uri = f"ducklake:sqlite:{tmp_path}/meta.sqlite"
    with Lake.create(uri, data_path=f"{tmp_path}/data/", engine=SparkEngine(spark)) as lake:
        lake.create_table_as("t", pa.table({"id": list(range(300)), "n": [0] * 300}))
        source = spark.range(0, 300, 10, 1).persist()

        def add_one(_: int) -> None:
            merge = lake.table("t").merge(source, "target.id = source.id")
            merge.when_matched(update={"n": "target.n + 1"}).execute()

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(add_one, range(20)))

        source.unpersist()
        counts = lake.table("t").scan(["n"], "n > 0").to_arrow(engine="local").column("n")
        assert counts.to_pylist() == [20] * 30
        assert lake.table("t").scan().count() == 300
