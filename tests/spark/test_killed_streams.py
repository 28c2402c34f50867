"""A chain of streams whose process is killed at random, driver and Java: every row arrives once.

`LAKEPORT_STREAM_KILLS=20` kills it twenty times.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeport import Lake
from tests.fixtures_lakes import LakeMaker
from tests.wait import wait_until

PROGRAM = Path(__file__).parent / "worker_modules" / "stream_program.py"
KILLS = int(os.environ.get("LAKEPORT_STREAM_KILLS", "2"))
SNAPSHOTS = 6 * KILLS
TABLES = ("source", "copy", "end")


def test_a_chain_of_streams_that_is_killed_at_random_brings_every_row_to_its_end_once(
    spark: Any, make_lake: LakeMaker, tmp_path: Path
) -> None:
    real = make_lake("sqlite")
    with Lake.create(real.uri, data_path=real.data_path, engine="local") as lake:
        lake.create_schema("s")
        for name in TABLES:
            lake.create_table(name, {"id": "BIGINT"}, "s")
        for number in range(SNAPSHOTS):
            rows = pa.table({"id": range(number * 20, number * 20 + 20)})
            lake.table("source", "s").append(rows)

        chance = random.Random(22)
        for _ in range(KILLS):
            run_and_kill(real.uri, tmp_path, chance.uniform(0, 4))
        for source, target in zip(TABLES, TABLES[1:], strict=False):
            finish(spark, real.uri, source, target, tmp_path)

        for name in TABLES:
            found = lake.table(name, "s").scan(["id"]).to_arrow()["id"].to_pylist()
            assert sorted(found) == list(range(SNAPSHOTS * 20)), name
        # Files of killed tasks are in no snapshot, and the clean-up finds them.
        lake.remove_orphans(older_than=timedelta(0), force=True)
        known = {file.path for name in TABLES for file in lake.table(name, "s").files()}
        assert {str(path) for path in Path(real.data_path).rglob("*.parquet")} == known


def run_and_kill(uri: str, checkpoints: Path, seconds: float) -> None:
    """Run the streams; kill Python and Java some time after a batch began that is a new one."""

    def batches() -> int:
        return len(list(checkpoints.glob("*/offsets/[0-9]*")))

    before = batches()
    log = checkpoints / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(PROGRAM), uri, str(checkpoints)],
            env={**os.environ, "SPARK_LOCAL_DIRS": str(checkpoints / "spark")},
            start_new_session=True,
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(lambda: batches() > before or process.poll() is not None)
        time.sleep(seconds)
        assert process.poll() is None, log.read_text()[-4000:]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def finish(spark: Any, uri: str, source: str, target: str, checkpoints: Path) -> None:
    """Run one of the streams over all that is there, with its checkpoint."""
    reader = spark.readStream.format("ducklake").option("lake", uri)
    rows = reader.option("table", f"s.{source}").load()
    writer = rows.writeStream.format("ducklake").option("lake", uri).option("table", f"s.{target}")
    writer = writer.option("checkpointLocation", str(checkpoints / target))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(400)
