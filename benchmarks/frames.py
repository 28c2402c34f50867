"""DataFrames: TPC-H's Q1 and Q6 through `to_spark()`, with deleted rows, against plain Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.lineitem import LINEITEM_DELETED, Q1, Q6, lineitem_lake
from benchmarks.measure import Figure, interleaved
from benchmarks.scans import paths_of
from benchmarks.sessions import shared_session
from lakeport import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["queries"]


def queries(*, scale: float, repeats: int) -> Iterator[Figure]:
    """Each query as a user would write it: the DataFrame is made anew every time."""
    spark = shared_session()
    with Lake.open(lineitem_lake(scale)) as lake:
        table = lake.table(LINEITEM_DELETED)
        paths = paths_of(table)
        for name, query in (("Q1", Q1), ("Q6", Q6)):
            samples = interleaved(
                {
                    "lake": lambda: _answer(table.scan().to_spark(spark), query),  # noqa: B023
                    "parquet": lambda: _answer(spark.read.parquet(*paths), query),  # noqa: B023
                },
                repeats=repeats,
                warmups=2,
            )
            yield Figure.throughput(
                f"TPC-H {name} through to_spark(), 1 % deleted, scale factor {scale:g}",
                samples["lake"],
                samples["parquet"],
                "spark.read.parquet(…) of the same files, nothing deleted",
                0.7,
            )


def _answer(frame: DataFrame, query: str) -> object:
    return frame.sparkSession.sql(query, table=frame).collect()
