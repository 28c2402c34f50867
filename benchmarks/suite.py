"""What is measured, and how much of it, at each size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from benchmarks import (
    catalogs,
    commits,
    console,
    crowd,
    fairness,
    frames,
    growth,
    lake_writes,
    lakes,
    maintenance,
    pruning,
    reading,
    scans,
    serving,
    spark_writing,
    statements,
    writing,
)
from benchmarks.growth_fit import Curve
from benchmarks.measure import Figure, Skipped

__all__ = ["SIZES", "Benchmark", "Result"]

Result = Figure | Curve | Skipped
Benchmark = Callable[[], Iterator[Result]]

SIZES: Final[dict[str, dict[str, Benchmark]]] = {
    "small": {
        "doget": partial(reading.doget, rows=2_000_000, repeats=31),
        "listing": partial(reading.listing, tables=5_000, repeats=3),
        "discovery": partial(reading.discovery, tables=5_000, repeats=200),
        "insert": partial(writing.insert, rows=1_000_000, repeats=9),
        "append": partial(writing.append, rows=1_000_000, repeats=5),
        "insert-lake": partial(lake_writes.insert_into_lake, rows=1_000_000, repeats=5),
        "single-rows": partial(lake_writes.single_rows, count=100, repeats=5),
        "merge": partial(maintenance.merge, files=200, rows=10_000, repeats=3),
        "rewrite": partial(maintenance.rewrite, rows=2_000_000, repeats=3),
        "expire": partial(maintenance.expire, snapshots=2_000, repeats=3),
        "doctor": partial(maintenance.doctor, counts=(100, 1_000, 10_000), repeats=3),
        "appends": partial(commits.appends, count=100, rows=1_000),
        "writers": partial(commits.writers, commits=160, counts=(1, 4, 16)),
        "delete": partial(commits.delete, rows=2_000_000, repeats=5),
        "commit-large": partial(commits.large_catalog, tables=10_000, files=100_000, repeats=9),
        "spark-append": partial(spark_writing.append, scale=0.1, repeats=3),
        "spark-merge": partial(spark_writing.merge, scale=0.1, repeats=3),
        "spark-partitions": partial(
            spark_writing.partitions, rows=1_000_000, values=100, repeats=3
        ),
        "spark-batches": partial(spark_writing.micro_batches, batches=10, rows=1_000, repeats=2),
        "plan": partial(lakes.planning, files=(10, 1_000, 100_000), repeats=5),
        "plan-postgresql": partial(lakes.planning_postgresql, files=100_000, repeats=5),
        "read": partial(lakes.reading, rows=1_000_000, repeats=5),
        "batches": partial(scans.to_batches, scale=0.1, repeats=9),
        "toarrow": partial(scans.to_arrow, scale=0.1, repeats=3),
        "latency": partial(scans.latency, repeats=50),
        "memory": partial(scans.memory, scale=0.1, repeats=3),
        "queries": partial(frames.queries, scale=0.1, repeats=5),
        "prune-files": partial(pruning.one_file, files=1_000, repeats=9),
        "prune-groups": partial(pruning.one_row_group, groups=100, repeats=9),
        "views": partial(pruning.views, rows=1_000_000, repeats=9),
        "server": partial(serving.serving, scale=0.1, repeats=5, small_repeats=20),
        "statements": partial(statements.statements, rows=1_000, repeats=20),
        "crowd": partial(crowd.small_query, scale=1, stalled=8, greedy=4, repeats=30),
        "fairness": partial(fairness.fairness, scale=0.1, scans=64, repeats=30),
        "console": partial(console.pages, tables=30, repeats=3),
        "grow-rows": partial(growth.rows, sizes=(100_000, 1_000_000, 4_000_000), repeats=3),
        "grow-recorded-rows": partial(
            growth.recorded_rows, sizes=(1_000_000, 10_000_000, 100_000_000), repeats=3
        ),
        "grow-files": partial(growth.files, sizes=(10, 100, 1_000), repeats=3),
        "grow-deletes": partial(
            growth.deletes, rows=1_000_000, percents=(0, 1, 5, 10, 25, 50), repeats=3
        ),
        "grow-clients": partial(growth.clients, scale=0.1, counts=(1, 4, 16, 64), repeats=2),
        "grow-tables": partial(growth.tables, counts=(10, 100, 1_000), repeats=3),
        "grow-catalog-files": partial(catalogs.files, counts=(1_000, 10_000, 100_000), repeats=3),
        "grow-snapshots": partial(catalogs.snapshots, counts=(100, 1_000, 10_000), repeats=3),
        "grow-catalog-tables": partial(catalogs.tables, counts=(100, 1_000, 10_000), repeats=3),
        "grow-columns": partial(catalogs.columns, counts=(10, 100, 1_000), repeats=3),
    },
    "full": {
        "doget": partial(reading.doget, rows=10_000_000, repeats=101),
        "listing": partial(reading.listing, tables=5_000, repeats=5),
        "discovery": partial(reading.discovery, tables=5_000, repeats=1_000),
        "insert": partial(writing.insert, rows=10_000_000, repeats=15),
        "append": partial(writing.append, rows=10_000_000, repeats=7),
        "insert-lake": partial(lake_writes.insert_into_lake, rows=10_000_000, repeats=7),
        "single-rows": partial(lake_writes.single_rows, count=1_000, repeats=7),
        "merge": partial(maintenance.merge, files=1_000, rows=50_000, repeats=3, spark=True),
        "rewrite": partial(maintenance.rewrite, rows=20_000_000, repeats=5),
        "expire": partial(maintenance.expire, snapshots=10_000, repeats=3),
        "doctor": partial(maintenance.doctor, counts=(1_000, 10_000, 100_000), repeats=3),
        "appends": partial(commits.appends, count=1_000, rows=1_000),
        "writers": partial(commits.writers, commits=1_600, counts=(1, 4, 16)),
        "delete": partial(commits.delete, rows=10_000_000, repeats=7),
        "commit-large": partial(commits.large_catalog, tables=10_000, files=100_000, repeats=51),
        "spark-append": partial(spark_writing.append, scale=1, repeats=5),
        "spark-merge": partial(spark_writing.merge, scale=1, repeats=3),
        "spark-partitions": partial(
            spark_writing.partitions, rows=10_000_000, values=1_000, repeats=3
        ),
        "spark-batches": partial(spark_writing.micro_batches, batches=100, rows=1_000, repeats=3),
        "plan": partial(lakes.planning, files=(10, 1_000, 100_000), repeats=20),
        "plan-postgresql": partial(lakes.planning_postgresql, files=100_000, repeats=20),
        "read": partial(lakes.reading, rows=10_000_000, repeats=7),
        "batches": partial(scans.to_batches, scale=1, repeats=15),
        "toarrow": partial(scans.to_arrow, scale=1, repeats=3),
        "latency": partial(scans.latency, repeats=300),
        "memory": partial(scans.memory, scale=1, repeats=5),
        "queries": partial(frames.queries, scale=1, repeats=3),
        "prune-files": partial(pruning.one_file, files=1_000, repeats=31),
        "prune-groups": partial(pruning.one_row_group, groups=100, repeats=31),
        "views": partial(pruning.views, rows=10_000_000, repeats=15),
        "server": partial(serving.serving, scale=1, repeats=11, small_repeats=100),
        "statements": partial(statements.statements, rows=1_000, repeats=100),
        "statements-large": partial(statements.statements, rows=5_000_000, repeats=30),
        "crowd": partial(crowd.small_query, scale=1, stalled=8, greedy=4, repeats=100),
        "fairness": partial(fairness.fairness, scale=1, scans=64, repeats=100),
        "console": partial(console.pages, tables=1_000, repeats=9),
        "grow-rows": partial(growth.rows, sizes=(1_000_000, 10_000_000, 100_000_000), repeats=3),
        "grow-recorded-rows": partial(
            growth.recorded_rows,
            sizes=(1_000_000, 10_000_000, 100_000_000, 1_000_000_000),
            repeats=1,
        ),
        "grow-files": partial(growth.files, sizes=(10, 100, 1_000, 10_000), repeats=3),
        "grow-deletes": partial(
            growth.deletes, rows=4_000_000, percents=(0, 1, 5, 10, 25, 50), repeats=5
        ),
        "grow-clients": partial(growth.clients, scale=0.1, counts=(1, 4, 16, 64, 256), repeats=3),
        "grow-tables": partial(growth.tables, counts=(10, 100, 1_000, 5_000), repeats=5),
        "grow-catalog-files": partial(
            catalogs.files, counts=(1_000, 10_000, 100_000, 1_000_000), repeats=5
        ),
        "grow-snapshots": partial(
            catalogs.snapshots, counts=(100, 1_000, 10_000, 100_000), repeats=5
        ),
        "grow-catalog-tables": partial(
            catalogs.tables, counts=(100, 1_000, 10_000, 100_000), repeats=5
        ),
        "grow-columns": partial(catalogs.columns, counts=(10, 100, 1_000, 5_000), repeats=5),
    },
}
