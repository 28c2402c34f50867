"""DataFrames: TPC-H through `to_spark()`, with deleted rows, against plain Parquet."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence

from benchmarks.measure import Figure, Goal, interleaved
from benchmarks.scans import paths_of
from benchmarks.sessions import shared_session
from benchmarks.tpch import TABLES, tpch_lake, tpch_queries
from lakeport import Lake
from lakeport.ducklake import LakeTable

__all__ = ["queries"]


def queries(*, scale: float, repeats: int, names: Sequence[str] | None = None) -> Iterator[Figure]:
    """Each query as a user would write it: the DataFrames are made anew every time."""
    spark = shared_session()
    ratios: list[tuple[float, ...]] = []
    with Lake.open(tpch_lake(scale)) as lake:
        tables = {name: lake.table(name) for name in TABLES}
        paths = {name: paths_of(table) for name, table in tables.items()}

        def ours(query: str) -> object:
            for name in _used(query, tables):
                tables[name].scan().to_spark(spark).createOrReplaceTempView(name)
            return spark.sql(query).collect()

        def plain(query: str) -> object:
            for name in _used(query, tables):
                spark.read.parquet(*paths[name]).createOrReplaceTempView(name)
            return spark.sql(query).collect()

        for name, query in tpch_queries().items():
            if names is not None and name not in names:
                continue
            samples = interleaved(
                {"lake": lambda: ours(query), "parquet": lambda: plain(query)},  # noqa: B023
                repeats=repeats,
                warmups=2,
            )
            figure = Figure.throughput(
                f"TPC-H {name} through to_spark(), 1 % deleted, scale factor {scale:g}",
                samples["lake"],
                samples["parquet"],
                "spark.read.parquet(…) of the same files, nothing deleted",
            )
            ratios.append(figure.ratios)
            yield figure
    rounds = [statistics.geometric_mean(each) for each in zip(*ratios, strict=True)]
    yield Figure(
        name=f"TPC-H, {len(ratios)} queries through to_spark(), geometric mean",
        value=statistics.geometric_mean([statistics.median(each) for each in ratios]),
        low=min(rounds),
        high=max(rounds),
        unit="ratio",
        baseline="spark.read.parquet(…) of the same files, nothing deleted",
        goal=Goal(0.9),
    )


def _used(query: str, tables: dict[str, LakeTable]) -> list[str]:
    """Return the tables that a query names."""
    words = set(re.findall(r"\w+", query))
    return [name for name in tables if name in words]
