"""Workers, executors and tasks that end during a write: no row twice, none lost, no file left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport import Lake
from lakeport.ducklake import LocalEngine
from lakeport.errors import LakeportError


def new_lake(folder: Path) -> Lake:
    return Lake.create(
        f"ducklake:sqlite:{folder / 'meta.sqlite'}",
        data_path=f"{folder}/data/",
        engine=LocalEngine(),
    )


def on_disk(lake: Lake) -> set[str]:
    return {path.name for path in Path(lake.table("t").path).rglob("*.parquet")}


def in_catalog(lake: Lake) -> set[str]:
    files = lake.table("t").files()
    paths = {f.path for f in files} | {d.path for f in files for d in f.deletes}
    return {Path(path).name for path in paths}


def dying(marker: str, folder: str, attempts: int) -> Any:
    """Pass batches on; in the first attempts of a task, kill all Python workers of the executor.

    The worker that writes files is another one, and has no chance to remove them.
    """

    def pass_on(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        is_doomed = context.partitionId() == 1 and context.attemptNumber() < attempts
        for number, batch in enumerate(batches):
            if is_doomed and number == 15:
                # Spark passes batches on in blocks: wait until some are in a file.
                deadline = time.monotonic() + 300
                while not (files := list(Path(folder).rglob("*-00001-*.parquet"))):
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
                Path(marker).write_text(str(len(files)))
                for pid in siblings():
                    os.kill(pid, signal.SIGKILL)
            yield batch

    def siblings() -> list[int]:
        """Return the processes that the daemon of this worker has forked; this one is the last."""
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        parents = {}
        for pid in pids:
            with suppress(OSError):
                text = Path(f"/proc/{pid}/stat").read_text()
                parents[pid] = int(text.rpartition(")")[2].split()[1])
        others = [p for p in parents if parents[p] == os.getppid() and p != os.getpid()]
        return [*others, os.getpid()]

    return pass_on


@pytest.fixture
def small_batches(spark: Any) -> Any:
    """A session whose tasks get many small batches, so that files are open when a worker dies."""
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
    return session


def test_workers_that_are_killed_once_leave_neither_files_nor_rows(
    small_batches: Any, tmp_path: Path
) -> None:
    lake = new_lake(tmp_path)
    lake.create_table("t", {"id": "BIGINT", "k": "BIGINT"})
    lake.set_option("parquet_row_group_size", 500)
    marker = tmp_path / "marker"
    rows = small_batches.range(0, 40_000, 1, 2).selectExpr("id", "id % 3 AS k")

    killer = dying(str(marker), lake.table("t").path, 1)
    lake.table("t").append(rows.mapInArrow(killer, "id bigint, k bigint"))

    assert int(marker.read_text()) > 0
    ids = lake.table("t").scan(["id"]).to_arrow().column("id").to_pylist()
    assert sorted(ids) == list(range(40_000))
    assert on_disk(lake) == in_catalog(lake)


def test_a_write_whose_task_never_succeeds_leaves_nothing(
    small_batches: Any, tmp_path: Path
) -> None:
    lake = new_lake(tmp_path)
    lake.create_table("t", {"id": "BIGINT", "k": "BIGINT"})
    lake.set_option("parquet_row_group_size", 500)
    marker = tmp_path / "marker"
    frame = small_batches.range(0, 40_000, 1, 2).selectExpr("id", "id % 3 AS k")

    with pytest.raises(LakeportError, match="the write failed on Spark"):
        killer = dying(str(marker), lake.table("t").path, 9)
        lake.table("t").append(frame.mapInArrow(killer, "id bigint, k bigint"))

    assert int(marker.read_text()) > 0
    assert on_disk(lake) == set()
    assert lake.snapshot().id == 1
