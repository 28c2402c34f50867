"""A driver program for the tests of clusters: `python cluster_program.py master lake folder`.

A process can have one Spark session, so each kind of cluster gets a process. It writes one line of
JSON for each thing that it tried.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute
from cluster_writes import (
    SPECULATION,
    statements,
    streams,
    writing,
    writing_with_a_dead_executor,
    writing_with_a_twin,
)
from scan_tasks import SCHEMA, Breaks, Endless, FailsAtFirst, Rows

from lakeport import Lake
from lakeport.catalog import Arguments, ScanOptions
from lakeport.lakehouse import LakeCatalog
from lakeport.spark import SparkTable, session, spark_sql_function, stream
from lakeport.spark.transport.receiver import get_receiver

Try = Callable[[Any, str, Path], Any]


def pairs(reader: pa.RecordBatchReader) -> list[list[int]]:
    table = reader.read_all()
    return sorted([t, r] for t, r in zip(*(c.to_pylist() for c in table.columns), strict=True))


def every_row(spark: Any, lake: str, folder: Path) -> Any:
    return pairs(stream(spark, [Rows(n) for n in range(4)], SCHEMA))


def failing(victim: str) -> Try:
    def run(spark: Any, lake: str, folder: Path) -> Any:
        inside = folder / f"failing-{victim}"
        inside.mkdir()
        failures = {"executor": 1}.get(victim, 2)
        tasks = [
            FailsAtFirst(n, str(inside), failures=failures if n == 1 else 0, victim=victim)
            for n in range(4)
        ]
        rows = pairs(stream(spark, tasks, SCHEMA))
        return [rows, len(list(inside.glob("1-*")))]

    return run


def breaking(spark: Any, lake: str, folder: Path) -> Any:
    return error_of(lambda: stream(spark, [Rows(0), Breaks()], SCHEMA).read_all())


def reading_a_lake(spark: Any, lake: str, folder: Path) -> Any:
    with Lake.open(lake, spark=spark) as opened:
        table = opened.table("t")
        found = table.scan(["id", "kind"], filter="id >= 90").to_arrow()
        return [found.sort_by("id").to_pylist(), table.scan().count()]


def frames(spark: Any, lake: str, folder: Path) -> Any:
    with Lake.open(lake) as opened:
        native = opened.table("u").scan(["id", "rowid"], "id < 90").to_spark(spark)
        arrow = opened.table("u").scan().to_spark(spark)
        return {
            "native": [native.count(), native.agg({"rowid": "sum"}).first()[0]],
            "arrow": [arrow.count(), arrow.where("u IS NOT NULL").count(), sorted(arrow.columns)],
        }


def the_data_source(spark: Any, lake: str, folder: Path) -> Any:
    counts = {}
    for pushdown in ("true", "false"):
        spark.conf.set("spark.sql.python.filterPushdown.enabled", pushdown)
        frame = spark.read.format("ducklake").options(catalog=lake, table="t").load()
        low, high = frame.where("id < 10"), frame.where("id >= 90")
        counts[pushdown] = [low.count(), frame.count(), low.union(high).count()]
        counts[pushdown].append(low.join(frame, "id").count())
        low.cache().count()
        frame.createOrReplaceTempView("sourced")
        query = "SELECT count(*) FROM sourced WHERE id < 5 OR kind = 'k9'"
        counts[pushdown] += [spark.sql(query).first()[0], spark.table("sourced").count()]
        counts[pushdown].append(frame.count())
        low.unpersist()
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    options = {"catalog": lake, "table": "t", "filter": "id >= 90 AND kind = 'k0'"}
    chosen = spark.read.format("ducklake").options(**options).load()
    return [counts, sorted(row.id for row in chosen.collect())]


def a_served_query(spark: Any, lake: str, folder: Path) -> Any:
    query = "SELECT id, TIME '12:00:00' AS clock FROM range(5000) ORDER BY id DESC"
    rows = SparkTable(query, spark=spark).scan(ScanOptions()).read_all()
    return [rows["id"].to_pylist(), str(rows.schema.field("clock").type)]


def a_query_of_a_client(spark: Any, lake: str, folder: Path) -> Any:
    call = Arguments({"query": pa.scalar("SELECT 1 / (id - 2) AS x FROM range(5)")})
    trusted = spark_sql_function(spark, trusted=True)
    return [
        error_of(lambda: spark_sql_function(spark).schema_for(call)),
        error_of(lambda: trusted.execute_table(call, ScanOptions()).read_all()),
    ]


def the_first_batch_of_many(spark: Any, lake: str, folder: Path) -> Any:
    with SparkTable(spark.range(0, 10**8, 1, 10_000)).scan(ScanOptions()) as reader:
        return reader.read_next_batch().num_rows > 0


def closing(spark: Any, lake: str, folder: Path) -> Any:
    reader = stream(spark, [Rows(0), Endless(), Endless()], SCHEMA)
    reader.read_next_batch()
    reader.close()
    clock = threading.Event()
    while [t for t in threading.enumerate() if t.name.startswith("lakeport-scan")]:
        clock.wait(0.05)
    # The cores are free again for all of these.
    return pairs(stream(spark, [Rows(n) for n in range(4)], SCHEMA))


def another_session(spark: Any, lake: str, folder: Path) -> Any:
    old = get_receiver(spark.sparkContext).location
    held = list(stream(spark, [Rows(0, rows=100_000)], SCHEMA))
    segments_before = segments()
    del held[1:]
    master = spark.sparkContext.master
    spark.stop()
    left = {"listens": listens(old), "segments": segments()}
    total = pa.compute.sum(held[0]["row"]).as_py()
    del held
    left["segments of batches"] = segments()
    refused = error_of(lambda: stream(spark, [Rows(0)], SCHEMA))
    rows = every_row(session(master), lake, folder)
    return {
        "rows": rows,
        "stopped": refused,
        "segments before": segments_before > 1,
        "held": total,
        "left": left,
    }


def lost_java(spark: Any, lake: str, folder: Path) -> Any:
    catalog: Any = LakeCatalog(lake, engine="spark")
    table = catalog.schema("public").table("t")
    java = spark.sparkContext._gateway.proc
    before = table.scan(ScanOptions()).read_all().num_rows
    java.kill()
    java.wait()
    refused = error_of(lambda: stream(spark, [Rows(0)], SCHEMA))
    after = table.scan(ScanOptions()).read_all().num_rows
    return [before, refused, after, every_row(session(), lake, folder)]


def another_server(spark: Any, lake: str, folder: Path) -> Any:
    return [
        session(os.environ["SPARK_REMOTE"]) is spark,
        error_of(lambda: session("sc://127.0.0.1:1/;token=secret")),
        error_of(lambda: session(os.environ["SPARK_REMOTE"] + "/;user_id=another")),
        error_of(lambda: session("local[2]")),
    ]


def error_of(call: Callable[[], Any]) -> list[str]:
    try:
        call()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return []


def segments() -> int:
    gc.collect()
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    # Python keeps a descriptor of its own for what it maps.
    names = {str(link.readlink()) for link in links}
    return sum("memfd:lakeport-" in name for name in names)


def listens(location: str) -> bool:
    address = urlsplit(location)
    with socket.socket() as probe:
        return probe.connect_ex((address.hostname, address.port)) == 0


TRIES: dict[str, Try] = {
    "every row": every_row,
    "a failing task": failing(""),
    "a dead worker": failing("worker"),
    "a dead executor": failing("executor"),
    "a broken task": breaking,
    "a lake": reading_a_lake,
    "frames": frames,
    "the data source": the_data_source,
    "a served query": a_served_query,
    "a query of a client": a_query_of_a_client,
    "the first batch of many": the_first_batch_of_many,
    "closing": closing,
    "another session": another_session,
    "a lost Java": lost_java,
    "another server": another_server,
    "a write": writing,
    "statements": statements,
    "streams": streams,
    "a write and a twin": writing_with_a_twin,
    "a write and a dead executor": writing_with_a_dead_executor,
}


def main(master: str, lake: str, folder: str, *names: str) -> None:
    session(master or None, **(SPECULATION if "a write and a twin" in names else {}))
    for name in names:
        # Some of them stop the session that they get, and start another.
        answer = TRIES[name](session(), lake, Path(folder))
        sys.stdout.write(json.dumps([name, answer]) + "\n")
    session().stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
