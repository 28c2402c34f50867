"""Scans on Spark: `to_batches()` against pyarrow and `toArrow()`, first batch, latency, memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.dataset as ds

from benchmarks.lineitem import LINEITEM, lineitem_lake
from benchmarks.measure import Figure, Sample, interleaved, metered
from benchmarks.reference_lakes import temporary_lake
from benchmarks.sessions import shared_session
from lakeport import Lake
from lakeport.ducklake import LakeTable

__all__ = [
    "drained",
    "first_and_rest",
    "latency",
    "memory",
    "parquet_scan",
    "to_arrow",
    "to_batches",
]


def to_batches(*, scale: float, repeats: int) -> Iterator[Figure]:
    """Read all of lineitem in this process and on Spark, against pyarrow with the same files."""
    spark = shared_session()
    with Lake.open(lineitem_lake(scale), spark=spark) as lake:
        table = lake.table(LINEITEM)
        paths = paths_of(table)
        firsts: list[float] = []
        cpu: dict[str, list[float]] = {"spark": [], "local": [], "pyarrow": []}
        samples = interleaved(
            {
                "spark": metered(
                    lambda: first_and_rest(table.scan().to_batches(), firsts), cpu["spark"]
                ),
                "local": metered(
                    lambda: drained(table.scan().to_batches(engine="local")), cpu["local"]
                ),
                "pyarrow": metered(lambda: parquet_scan(paths), cpu["pyarrow"]),
            },
            repeats=repeats,
            warmups=2,
            same=True,
        )
    ours = samples["spark"]
    for engine, goal in (("local", 0.9), ("spark", 0.7)):
        yield Figure.throughput(
            f"to_batches() of lineitem, engine {engine}, scale factor {scale:g}",
            samples[engine],
            samples["pyarrow"],
            "pyarrow dataset scan of the same files, one process, all cores",
            goal,
        )
    yield Figure.share(
        "first batch of to_batches()",
        Sample(tuple(firsts[-repeats:])),
        ours,
        "the whole scan",
        0.3,
    )
    # Unlike a time, it hardly depends on what else the machine does.
    for engine in ("local", "spark"):
        yield Figure.throughput(
            f"rows for each second of CPU, to_batches() of lineitem, engine {engine}",
            Sample(tuple(cpu[engine][-repeats:])),
            Sample(tuple(cpu["pyarrow"][-repeats:])),
            "the same pyarrow scan",
        )


def to_arrow(*, scale: float, repeats: int) -> Iterator[Figure]:
    """Read the same, against Spark's own way to Arrow."""
    spark = shared_session()
    with Lake.open(lineitem_lake(scale), spark=spark) as lake:
        table = lake.table(LINEITEM)
        paths = paths_of(table)
        samples = interleaved(
            {
                "lakeport": lambda: drained(table.scan().to_batches()),
                "spark": lambda: spark.read.parquet(*paths).toArrow().num_rows,
            },
            repeats=repeats,
            same=True,
        )
    yield Figure.throughput(
        f"to_batches() of lineitem, scale factor {scale:g}",
        samples["lakeport"],
        samples["spark"],
        "spark.read.parquet(…).toArrow() of the same files",
        3,
    )


def latency(*, repeats: int) -> Iterator[Figure]:
    """Read a table of ten rows, warm: the cost of a scan before its first row."""
    spark = shared_session()
    with (
        temporary_lake(
            lambda duck: duck.execute("CREATE TABLE lake.few AS SELECT i AS id FROM range(10) t(i)")
        ) as uri,
        Lake.open(uri, spark=spark) as lake,
    ):
        table = lake.table("few")
        samples = interleaved(
            {
                "scan": lambda: drained(table.scan().to_batches()),
                "job": lambda: spark.sparkContext.parallelize([0], 1).map(int).collect(),
            },
            repeats=repeats,
            warmups=10,
        )
    empty = samples["job"]
    for name, percent in (("median", 50), ("99th percentile", 99)):
        yield Figure.latency(
            f"to_batches() of 10 rows, {name}",
            samples["scan"],
            f"a Spark job of one empty task: {empty.percentile(percent) * 1000:.1f} ms",
            percent=percent,
        )


def memory(*, scale: float, repeats: int) -> Iterator[Figure]:
    """Measure the driver's memory during a scan of lineitem, in its own process."""
    command = [sys.executable, "-m", "benchmarks.memory", lineitem_lake(scale), str(repeats)]
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    measured = json.loads(finished.stdout.splitlines()[-1])
    for name, key in (("Python process", "python"), ("JVM", "java")):
        peaks = sorted(peak / 2**20 for peak in measured[key])
        yield Figure(
            name=f"peak memory of the driver's {name} above idle, to_batches() of lineitem",
            value=peaks[len(peaks) // 2],
            low=peaks[0],
            high=peaks[-1],
            unit="MiB",
            baseline=f"the rows as Arrow: {measured['bytes'] / 2**20:,.0f} MiB",
        )


def paths_of(table: LakeTable) -> list[str]:
    """Where the files of a table are."""
    return [file.path for file in table.files()]


def parquet_scan(paths: list[str]) -> int:
    """Read files as fast as pyarrow can: all cores, large batches, no copies of local files."""
    options = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=False)
    dataset = ds.dataset(paths, format="parquet")
    scanner = dataset.scanner(
        batch_size=1_000_000, use_threads=True, fragment_scan_options=options, cache_metadata=False
    )
    return sum(batch.num_rows for batch in scanner.to_batches())


def drained(reader: pa.RecordBatchReader) -> int:
    """Read everything; how many rows there were."""
    return sum(batch.num_rows for batch in reader)


def first_and_rest(reader: pa.RecordBatchReader, firsts: list[float]) -> int:
    """Read everything, and note after how many seconds the first batch came."""
    started = time.perf_counter()
    rows: int = next(reader).num_rows
    firsts.append(time.perf_counter() - started)
    return rows + drained(reader)
