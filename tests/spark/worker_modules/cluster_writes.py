"""What the program of the clusters writes: tables of a new lake, also while an executor dies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from scan_tasks import _parent

from lakeport import Lake
from lakeport.spark import SparkEngine, each_batch


def writing(spark: Any, lake: str, folder: Path) -> Any:
    """Append, merge and delete rows of a partitioned table, all of it on Spark."""
    frame = spark.range(0, 6000, 1, 4).selectExpr("id", "id % 3 AS k")
    with _new_lake(spark, folder / "written") as made:
        made.create_table_as("w", frame, partition_by=["k"])
        merge = made.table("w").merge(frame.where("id % 100 = 0"), "target.id = source.id")
        merge.when_matched(update={"k": "source.k + 10"}).execute()
        made.table("w").delete("id >= 5000")
        made.table("w").append(spark.range(2))
        return _found(made)


def statements(spark: Any, lake: str, folder: Path) -> Any:
    """Merge and insert rows by statements, whose queries run on the cluster."""
    with _new_lake(spark, folder / "statements") as made:
        made.create_table_as("w", spark.range(0, 3000, 1, 2).selectExpr("id", "id % 3 AS k"))
        made.create_table(
            "copy", {"id": "BIGINT", "k": "BIGINT", "l": "STRUCT(a BIGINT, b BIGINT)[]"}
        )
        source = "(SELECT id + 2990 AS id, 7L AS k FROM range(20)) AS s"
        clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        made.sql(f"MERGE INTO w USING {source} ON w.id = s.id {clauses}", spark=spark)
        pairs = "array(named_struct('b', k, 'a', id))"
        made.sql(f"INSERT INTO copy SELECT id + 0.4, k, {pairs} FROM w WHERE id < 5", spark=spark)
        counts = [("w", "true"), ("w", "k = 7"), ("copy", "l[1].a = id AND l[1].b = k")]
        return [made.table(t).scan(["id"], f).to_arrow(engine="local").num_rows for t, f in counts]


def writing_with_a_dead_executor(spark: Any, lake: str, folder: Path) -> Any:
    """Append rows while the executor of a task is killed, in the middle of its file."""
    marker = folder / "executor"

    def once(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number == 15 and batch.column(0)[0].as_py() < 20_000 and not marker.exists():
                marker.touch()
                os.kill(_parent(os.getppid()), signal.SIGKILL)
            yield batch

    with _new_lake(spark, folder / "killed") as made:
        made.create_table("w", {"id": "BIGINT", "k": "BIGINT"})
        made.set_option("parquet_row_group_size", 500)
        frame = _small_batches(spark).range(0, 80_000, 1, 4).selectExpr("id", "id % 3 AS k")
        made.table("w").append(frame.mapInArrow(once, "id bigint, k bigint"))
        return [marker.exists(), *_found(made)]


SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
}


def writing_with_a_twin(spark: Any, lake: str, folder: Path) -> Any:
    """Append rows while Spark starts a second attempt of a slow task, whose file is open."""
    marker = folder / "twin"

    def slow(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if context.partitionId() == 3 and context.attemptNumber():
                marker.touch()
            elif context.partitionId() == 3 and number == 15:
                deadline = time.monotonic() + 120
                while not marker.exists() and time.monotonic() < deadline:
                    time.sleep(0.1)
            yield batch

    with _new_lake(spark, folder / "twins") as made:
        made.create_table("w", {"id": "BIGINT", "k": "BIGINT"})
        made.set_option("parquet_row_group_size", 500)
        frame = _small_batches(spark).range(0, 80_000, 1, 4).selectExpr("id", "id % 3 AS k")
        made.table("w").append(frame.mapInArrow(slow, "id bigint, k bigint"))
        return [marker.exists(), *_found(made)]


def streams(spark: Any, lake: str, folder: Path) -> Any:
    """Copy a table by the sink and by a function, and use the function wrongly."""
    with _new_lake(spark, folder / "streams") as made:
        uri = str(made.catalog.database.location)
        made.create_table_as("w", spark.range(0, 3000, 1, 2).toDF("id"))
        for name in ("copy", "merged"):
            made.create_table(name, {"id": "BIGINT"})
        rows = spark.readStream.format("ducklake").option("lake", uri).option("table", "w").load()

        def run(writer: Any, name: str, write: Any = None) -> str:
            writer = writer.option("checkpointLocation", str(folder / name))
            try:
                writer = writer.foreachBatch(write) if write is not None else writer
                writer.trigger(availableNow=True).start().awaitTermination(400)
            except Exception as error:
                return str(error)
            return ""

        sink = rows.writeStream.format("ducklake").option("lake", uri).option("table", "copy")
        by_function = each_batch(uri, "merged", application="loader")
        failed = [
            run(sink, "sink"),
            run(rows.writeStream, "function", by_function),
        ]
        unnamed = run(rows.writeStream, "unnamed", each_batch(uri, "merged"))
        opened = run(rows.writeStream, "opened", each_batch(made, "merged"))
        found = [
            made.table(name).scan(["id"]).to_arrow(engine="local").num_rows
            for name in ("copy", "merged")
        ]
        return [found, failed, "the name of an application" in unnamed, bool(opened)]


def _small_batches(spark: Any) -> Any:
    small = spark.newSession()
    small.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
    return small


def _new_lake(spark: Any, folder: Path) -> Lake:
    folder.mkdir()
    return Lake.create(
        f"ducklake:sqlite:{folder}/meta.sqlite",
        data_path=f"{folder}/data/",
        engine=SparkEngine(spark, small_change_bytes=0, small_source_bytes=0),
    )


def _found(lake: Lake) -> list[Any]:
    """The number of rows, the sums of their columns, and how many data files no snapshot has."""
    table = lake.table("w")
    rows = table.scan().to_arrow(engine="local")
    known = {file.path for file in table.files()}
    # A delete file that another one has replaced stays until the clean-up.
    on_disk = {str(path) for path in Path(table.path).rglob("*[0-9].parquet")}
    sums = [sum(value or 0 for value in column.to_pylist()) for column in rows.columns]
    return [rows.num_rows, *sums, len(on_disk - known)]
