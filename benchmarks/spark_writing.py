"""Writing on Spark: appends against plain Parquet, merges, streams, a table of many partitions."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from benchmarks.lineitem import LINEITEM, lineitem_lake
from benchmarks.measure import Figure, interleaved
from benchmarks.reference_lakes import attached
from benchmarks.sessions import shared_session
from lakeport import Lake
from lakeport.spark import SparkEngine, each_batch

__all__ = ["append", "merge", "micro_batches", "partitions"]


def append(*, scale: float, repeats: int) -> Iterator[Figure]:
    """Append lineitem to a lake against `df.write.parquet` of the same frame."""
    spark = shared_session()
    with (
        tempfile.TemporaryDirectory(prefix="lakeport-bench-") as folder,
        Lake.open(lineitem_lake(scale)) as source,
    ):
        frame = source.table(LINEITEM).to_spark(spark)

        def ours() -> None:
            place = tempfile.mkdtemp(dir=folder)
            with _new_lake(place) as lake:
                lake.create_table_as("t", frame)
            shutil.rmtree(place)

        def plain() -> None:
            frame.write.mode("overwrite").parquet(f"{folder}/plain")

        samples = interleaved({"lake": ours, "parquet": plain}, repeats=repeats, warmups=2)
    yield Figure.throughput(
        f"append of lineitem on Spark, scale factor {scale:g}",
        samples["lake"],
        samples["parquet"],
        "df.write.parquet(…) of the same frame",
        0.8,
    )


def merge(*, scale: float, repeats: int) -> Iterator[Figure]:
    """Merge 1 % changed and 1 % new rows into lineitem, against DuckDB's own MERGE."""
    spark = shared_session()
    with tempfile.TemporaryDirectory(prefix="lakeport-bench-") as folder:
        for name in ("ours", "theirs"):
            with (
                attached(lineitem_lake(scale)) as connection,
                attached(f"ducklake:sqlite:{folder}/{name}.sqlite", _data(folder, name)) as lake,
            ):
                rows = connection.execute(f"FROM lake.{LINEITEM}").to_arrow_table()
                lake.register("rows", rows)
                lake.execute("CREATE TABLE lake.t AS FROM rows")
        engine = SparkEngine(spark, small_change_bytes=0)
        rounds = iter(range(1_000_000))

        def ours() -> None:
            with Lake.open(f"ducklake:sqlite:{folder}/ours.sqlite", engine=engine) as lake:
                source = _changes(lake.table("t").to_spark(spark), next(rounds))
                (
                    lake.table("t")
                    .merge(source, f"target.{_KEY[0]} = source.{_KEY[0]} AND {_SECOND}")
                    .when_matched(update="*")
                    .when_not_matched(insert="*")
                    .execute()
                )

        def theirs() -> None:
            uri = f"ducklake:sqlite:{folder}/theirs.sqlite"
            with attached(uri, _data(folder, "theirs")) as connection:
                connection.execute(_REFERENCE.format(next(rounds)))

        samples = interleaved({"lake": ours, "duckdb": theirs}, repeats=repeats)
    yield Figure.throughput(
        f"MERGE of 1 % changed and 1 % new rows of lineitem on Spark, scale factor {scale:g}",
        samples["lake"],
        samples["duckdb"],
        "MERGE of DuckDB into a lake",
    )


def partitions(*, rows: int, values: int, repeats: int) -> Iterator[Figure]:
    """Append to a table of many partitions, against Spark's `partitionBy`."""
    spark = shared_session()
    frame = spark.range(rows).selectExpr("id", f"id % {values} AS k", "id * 0.5D AS x").persist()
    frame.count()
    counts: list[int] = []
    with tempfile.TemporaryDirectory(prefix="lakeport-bench-") as folder:

        def ours() -> None:
            place = tempfile.mkdtemp(dir=folder)
            with _new_lake(place) as lake:
                counts.append(len(lake.create_table_as("t", frame, partition_by=["k"]).files()))
            shutil.rmtree(place)

        def plain() -> None:
            parted = frame.repartition("k").write.mode("overwrite").partitionBy("k")
            parted.parquet(f"{folder}/plain")

        samples = interleaved({"lake": ours, "parquet": plain}, repeats=repeats)
    frame.unpersist()
    yield Figure.throughput(
        f"append of {rows:,} rows to {values:,} partitions on Spark, {max(counts):,} files",
        samples["lake"],
        samples["parquet"],
        "repartition and df.write.partitionBy(…).parquet(…)",
    )


def micro_batches(*, batches: int, rows: int, repeats: int) -> Iterator[Figure]:
    """Write a stream of small batches with `each_batch`, against plain Parquet."""
    spark = shared_session()
    counts: list[int] = []
    with tempfile.TemporaryDirectory(prefix="lakeport-bench-") as folder:
        for number in range(batches):
            part = spark.range(number * rows, (number + 1) * rows, 1, 1)
            part.selectExpr("id", "id * 0.5D AS x").write.mode("append").parquet(f"{folder}/in")

        def stream(place: str, write: Any) -> None:
            reader = spark.readStream.schema("id bigint, x double").option("maxFilesPerTrigger", 1)
            writer = reader.parquet(f"{folder}/in").writeStream.foreachBatch(write)
            writer = writer.option("checkpointLocation", f"{place}/checkpoint")
            writer.trigger(availableNow=True).start().awaitTermination()

        def ours() -> None:
            place = tempfile.mkdtemp(dir=folder)
            with _new_lake(place) as lake:
                lake.create_table("t", {"id": "BIGINT", "x": "DOUBLE"})
                stream(place, each_batch(lake, "t"))
                counts.append(len(lake.table("t").files()))
                if lake.table("t").scan().count() != batches * rows:
                    raise RuntimeError("rows of the stream are missing or doubled")
            shutil.rmtree(place)

        def plain() -> None:
            place = tempfile.mkdtemp(dir=folder)
            stream(place, lambda frame, _: frame.write.mode("append").parquet(f"{place}/out"))
            shutil.rmtree(place)

        samples = interleaved({"lake": ours, "parquet": plain}, repeats=repeats)
    yield Figure.throughput(
        f"stream of {batches:,} batches of {rows:,} rows on Spark, {max(counts):,} files",
        samples["lake"],
        samples["parquet"],
        "df.write.parquet(…) of each batch",
    )


_KEY = ("l_orderkey", "l_linenumber")
_SECOND = f"target.{_KEY[1]} = source.{_KEY[1]}"
_REFERENCE = f"""
    MERGE INTO lake.t AS target USING (
        FROM (FROM lake.t WHERE hash(l_orderkey, l_linenumber) % 100 = 0)
        UNION ALL
        SELECT * REPLACE (-l_orderkey - 10000000 * {{0}} AS l_orderkey) FROM lake.t
        WHERE hash(l_orderkey, l_linenumber) % 100 = 1 AND l_orderkey > 0
    ) AS source ON target.{_KEY[0]} = source.{_KEY[0]} AND {_SECOND}
    WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT
"""


def _changes(rows: Any, number: int) -> Any:
    """Return rows of the table as they are, and others under keys that it does not have."""
    part = "pmod(hash(l_orderkey, l_linenumber), 100)"
    new = rows.where(f"{part} = 1 AND l_orderkey > 0").withColumn(
        "l_orderkey", -rows.l_orderkey - 10_000_000 * number
    )
    return rows.where(f"{part} = 0").unionByName(new)


def _new_lake(place: str) -> Lake:
    return Lake.create(f"ducklake:sqlite:{place}/meta.sqlite", data_path=f"{place}/data/")


def _data(folder: str, name: str) -> str:
    return f"DATA_PATH '{folder}/{name}/'"
