"""Writing on Spark: appends against plain Parquet, merges, streams, a table of many partitions."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from benchmarks.delta import has_delta
from benchmarks.lineitem import LINEITEM, lineitem_lake
from benchmarks.measure import Figure, Sample, Skipped, interleaved, metered
from benchmarks.memory import WorkerWatch
from benchmarks.reference_lakes import attached
from benchmarks.sessions import shared_session
from lakeport import Lake
from lakeport.spark import each_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["append", "merge", "micro_batches", "partitions"]


def append(*, scale: float, repeats: int) -> Iterator[Figure | Skipped]:
    """Append lineitem to a lake against `df.write.parquet` and Delta Lake, of the same frame."""
    spark = shared_session()
    name = f"append of lineitem on Spark, scale factor {scale:g}"
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

        def delta() -> None:
            place = tempfile.mkdtemp(dir=folder)
            frame.write.format("delta").mode("append").save(place)
            shutil.rmtree(place)

        runs = {"lake": ours, "parquet": plain, **({"delta": delta} if has_delta() else {})}
        times = _Times.of(runs, repeats=repeats, warmups=2)
    yield from times.against("parquet", name, "df.write.parquet(…) of the same frame", 0.8)
    yield from times.against("delta", name, "Delta Lake, append of the same frame", 1.0)


def merge(*, scale: float, repeats: int) -> Iterator[Figure | Skipped]:
    """Merge 1 % changed and 1 % new rows into lineitem, against Delta Lake and DuckDB."""
    spark = shared_session()
    name = f"MERGE of 1 % changed and 1 % new rows of lineitem on Spark, scale factor {scale:g}"
    with tempfile.TemporaryDirectory(prefix="lakeport-bench-") as folder:
        _prepare(folder, spark, scale)
        changed = spark.read.parquet(f"{folder}/changed")
        new = spark.read.parquet(f"{folder}/new")

        def source(number: int) -> Any:
            keys = new.l_orderkey - 10_000_000 * number
            return changed.unionByName(new.withColumn("l_orderkey", keys))

        rounds = iter(range(1_000_000))

        def ours() -> None:
            with Lake.open(f"ducklake:sqlite:{folder}/ours.sqlite", spark=spark) as lake:
                merging = lake.table("t").merge(source(next(rounds)), _ON)
                merging.when_matched(update="*").when_not_matched(insert="*").execute()

        def duck() -> None:
            uri = f"ducklake:sqlite:{folder}/theirs.sqlite"
            with attached(uri, _data(folder, "theirs")) as connection:
                connection.execute(_REFERENCE.format(folder=folder, number=next(rounds)))

        runs = {"lake": ours, "duckdb": duck}
        for kind in _DELTA if has_delta() else ():
            runs[kind] = partial(
                lambda kind: _merge_into_delta(f"{folder}/{kind}", source(next(rounds))), kind
            )
        times = _Times.of(runs, repeats=repeats)
        _check_counts(folder, spark)
    for kind, described in _DELTA.items():
        yield from times.against(kind, name, f"Delta Lake {described}, MERGE of the same", 1.0)
    yield from times.against("duckdb", name, "MERGE of DuckDB into a lake")


def partitions(*, rows: int, values: int, repeats: int) -> Iterator[Figure]:
    """Append to a table of many partitions, against Spark's `partitionBy`."""
    spark = shared_session()
    frame = spark.range(rows).selectExpr("id", f"id % {values} AS k", "id * 0.5D AS x").persist()
    frame.count()
    counts: list[int] = []
    peaks: list[int] = []
    with tempfile.TemporaryDirectory(prefix="lakeport-bench-") as folder:

        def ours() -> None:
            place = tempfile.mkdtemp(dir=folder)
            watch = WorkerWatch()
            with _new_lake(place) as lake:
                counts.append(len(lake.create_table_as("t", frame, partition_by=["k"]).files()))
            peaks.append(watch.stop())
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
    sizes = sorted(peak / 2**20 for peak in peaks[-repeats:])
    yield Figure(
        name=f"peak memory of Spark's Python workers, append to {values:,} partitions",
        value=sizes[len(sizes) // 2],
        low=sizes[0],
        high=sizes[-1],
        unit="MiB",
        baseline=f"the rows as Arrow: {rows * 24 / 2**20:,.0f} MiB",
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


_ON: Final = "target.l_orderkey = source.l_orderkey AND target.l_linenumber = source.l_linenumber"
_REFERENCE: Final = f"""
    MERGE INTO lake.t AS target USING (
        FROM '{{folder}}/changed/*.parquet'
        UNION ALL BY NAME
        SELECT * REPLACE (l_orderkey - 10000000 * {{number}} AS l_orderkey)
        FROM '{{folder}}/new/*.parquet'
    ) AS source ON {_ON}
    WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT
"""
_DELTA: Final = {"delta": "by default", "delta-vectors": "with deletion vectors"}


def _prepare(folder: str, spark: SparkSession, scale: float) -> None:
    """Write the table for each side, and the rows that are merged into it."""
    part = "pmod(hash(l_orderkey, l_linenumber), 100)"
    with (
        Lake.open(lineitem_lake(scale)) as source,
        Lake.create(f"ducklake:sqlite:{folder}/ours.sqlite", data_path=f"{folder}/ours/") as lake,
    ):
        rows = source.table(LINEITEM).to_spark(spark)
        rows.where(f"{part} = 0").coalesce(1).write.parquet(f"{folder}/changed")
        new = rows.where(f"{part} = 1").withColumn("l_orderkey", -rows.l_orderkey)
        new.coalesce(1).write.parquet(f"{folder}/new")
        lake.create_table_as("t", rows)
        for kind in _DELTA if has_delta() else ():
            vectors = "true" if kind == "delta-vectors" else "false"
            writer = rows.write.format("delta").option("delta.enableDeletionVectors", vectors)
            writer.save(f"{folder}/{kind}")
    with attached(f"ducklake:sqlite:{folder}/theirs.sqlite", _data(folder, "theirs")) as connection:
        connection.execute(f"ATTACH '{lineitem_lake(scale)}' AS made (READ_ONLY)")
        connection.execute(f"CREATE TABLE lake.t AS FROM made.{LINEITEM}")


def _merge_into_delta(place: str, source: DataFrame) -> None:
    from delta.tables import DeltaTable

    table = DeltaTable.forPath(source.sparkSession, place).alias("target")
    merging = table.merge(source.alias("source"), _ON)
    merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def _check_counts(folder: str, spark: SparkSession) -> None:
    """Raise an error if the tables do not have the same number of rows after as many merges."""
    with Lake.open(f"ducklake:sqlite:{folder}/ours.sqlite", spark=spark) as lake:
        counts = {"lake": lake.table("t").scan().count()}
    with attached(f"ducklake:sqlite:{folder}/theirs.sqlite") as connection:
        counts["duckdb"] = connection.execute("SELECT count(*) FROM lake.t").fetchall()[0][0]
    for kind in _DELTA if has_delta() else ():
        counts[kind] = spark.read.format("delta").load(f"{folder}/{kind}").count()
    if len(set(counts.values())) > 1:
        raise RuntimeError(f"the tables have different numbers of rows: {counts}")


@dataclass(frozen=True, slots=True)
class _Times:
    """The durations of each side, and its CPU time, which hardly depends on other programs."""

    samples: dict[str, Sample]
    cpu: dict[str, Sample]

    @classmethod
    def of(
        cls, runs: Mapping[str, Callable[[], object]], *, repeats: int, warmups: int = 1
    ) -> _Times:
        cpu: dict[str, list[float]] = {name: [] for name in runs}
        both = {name: metered(run, cpu[name]) for name, run in runs.items()}
        samples = interleaved(both, repeats=repeats, warmups=warmups)
        return cls(
            samples, {name: Sample(tuple(seconds[-repeats:])) for name, seconds in cpu.items()}
        )

    def against(
        self, kind: str, name: str, baseline: str, at_least: float | None = None
    ) -> Iterator[Figure | Skipped]:
        if kind not in self.samples:
            yield Skipped(f"{name}, against {baseline}", "run make bench-delta")
            return
        for prefix, found in (("", self.samples), ("CPU time of ", self.cpu)):
            yield Figure.throughput(prefix + name, found["lake"], found[kind], baseline, at_least)


def _new_lake(place: str) -> Lake:
    return Lake.create(f"ducklake:sqlite:{place}/meta.sqlite", data_path=f"{place}/data/")


def _data(folder: str, name: str) -> str:
    return f"DATA_PATH '{folder}/{name}/'"
