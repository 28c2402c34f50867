"""Deletes, updates and merges on Spark leave what the local writer leaves, row ids included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakeport import Lake
from lakeport.ducklake import LocalEngine
from lakeport.ducklake.writing import Merge, WriteProgress, WriteResult
from lakeport.errors import InvalidInputError
from lakeport.spark import SparkEngine
from tests.fixtures_lakes import LakeMaker, RealLake

Change = Callable[[Lake, Any], object]

TABLE = """
    SELECT i AS id, i % 7 AS k, CASE WHEN i % 11 > 0 THEN 'n' || i END AS name,
           DATE '2024-01-01' + CAST(i % 90 AS INTEGER) AS d
    FROM range({}, {}) r(i)
"""


@pytest.fixture(scope="module")
def rows(spark: Any) -> Any:
    """The source of merges: changed rows, new rows, a row to delete, and NULL keys."""
    return (
        spark.range(90, 110, 1, 3)
        .selectExpr(
            "CASE WHEN id = 91 THEN NULL ELSE id * 10 END AS id",
            "CAST(id AS BIGINT) AS k",
            "concat('new ', id) AS name",
            "DATE '2025-01-01' AS d",
            "id % 5 = 0 AS gone",
        )
        .persist()
    )


@pytest.fixture
def lakes(spark: Any, make_lake: LakeMaker) -> Iterator[tuple[RealLake, Lake, Lake]]:
    """The same table twice: files, a delete file, inlined deletes, and inlined rows.

    Changes of the first lake run on Spark, those of the second in this process.
    """
    engines = (SparkEngine(spark, small_change_bytes=0), LocalEngine())
    made = []
    for engine in engines:
        real = make_lake("sqlite")
        real.execute(
            "CREATE TABLE t (id BIGINT, k BIGINT, name VARCHAR, d DATE)",
            f"INSERT INTO t {TABLE.format(0, 600)}",
            "ALTER TABLE t SET PARTITIONED BY (month(d))",
            f"INSERT INTO t {TABLE.format(600, 1000)}",
            "DELETE FROM t WHERE id < 60 AND k < 3",
            "DELETE FROM t WHERE id IN (601, 602)",
            f"INSERT INTO t {TABLE.format(1000, 1005)}",
            "INSERT INTO t VALUES (NULL, 1, 'no id', NULL)",
        )
        real.detach()
        made.append((real, Lake.open(real.uri, engine=engine)))
    (real, on_spark), (_, here) = made
    yield real, on_spark, here
    on_spark.close()
    here.close()


def state(lake: Lake) -> Any:
    """All rows with their ids, and the changes of the last snapshot."""
    table = lake.table("t")
    names = ["rowid", *(column.name for column in table.columns)]
    found = table.scan(names).to_arrow(engine="local").sort_by("rowid").to_pylist()
    last = lake.snapshot().id
    feed = table.changes(last, last).to_arrow(engine="local").to_pylist()
    return found, sorted(feed, key=repr)


CHANGES: dict[str, Change] = {
    "delete few": lambda lake, _: lake.table("t").delete("id = 700 OR name IS NULL AND k = 2"),
    "delete many": lambda lake, _: lake.table("t").delete("k < 4 OR id >= 1003"),
    "update": lambda lake, _: lake.table("t").update(
        {"name": "name || '!' || rowid", "d": "d + 40"}, "k = 5 OR id > 995"
    ),
    "update all": lambda lake, _: lake.table("t").update({"k": "-k"}),
    "merge": lambda lake, rows: (
        lake.table("t")
        .merge(rows, "target.id = source.id")
        .when_matched("source.gone", delete=True)
        .when_matched(update={"name": "source.name || target.k", "d": "source.d"})
        .when_not_matched("source.id > 1000 OR source.id IS NULL", insert={"id": "source.id"})
        .when_not_matched(insert={"id": "source.id", "name": "'other'"})
        .execute()
    ),
    "merge all columns": lambda lake, rows: (
        lake.table("t")
        .merge(rows.drop("gone"), "target.id = source.id AND target.k < 4")
        .when_matched(update="*")
        .when_not_matched(insert="*")
        .execute()
    ),
    "merge by source": lambda lake, rows: (
        lake.table("t")
        .merge(rows, "target.id = source.id")
        .when_matched("target.k = 3", update={"k": "100"})
        .when_not_matched_by_source("target.k = 2", delete=True)
        .when_not_matched_by_source("target.k = 4", update={"name": "NULL"})
        .execute()
    ),
    "merge that only inserts": lambda lake, rows: (
        lake.table("t")
        .merge(rows.drop("gone"), "target.id = source.id")
        .when_not_matched()
        .execute()
    ),
    "merge without equal keys": lambda lake, rows: (
        lake.table("t")
        .merge(rows, "target.id BETWEEN source.id - 1 AND source.id + 1")
        .when_matched(update={"k": "source.k"})
        .execute()
    ),
    "merge of nothing": lambda lake, rows: (
        lake.table("t")
        .merge(rows.where("false"), "target.id = source.id")
        .when_matched(update={"k": "0"})
        .when_not_matched(insert={"id": "source.id"})
        .when_not_matched_by_source("target.id = 500", delete=True)
        .execute()
    ),
    "merge with itself": lambda lake, rows: (
        lake.table("t")
        .merge(lake.table("t").to_spark(rows.sparkSession), "target.id = source.id")
        .when_matched("target.k = 6", update={"k": "source.k + target.k"})
        .when_not_matched(insert="*")
        .execute()
    ),
    "merge with more columns": lambda lake, rows: (
        lake.table("t")
        .merge(rows, "target.id = source.id", merge_schema=True)
        .when_matched(update="*")
        .when_not_matched(insert="*")
        .execute()
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_on_spark_leaves_what_the_local_writer_leaves(
    lakes: tuple[RealLake, Lake, Lake], rows: Any, name: str
) -> None:
    real, on_spark, here = lakes

    CHANGES[name](on_spark, rows)
    CHANGES[name](here, rows)

    ours, theirs = state(on_spark), state(here)
    assert ours[0] == theirs[0]
    assert ours[1] == theirs[1]
    columns = "rowid, *"
    read = real.query(f"SELECT {columns} FROM t ORDER BY rowid")
    real.detach()
    assert read == [tuple(row.values()) for row in ours[0]]
    folder = Path(on_spark.table("t").path)
    files = on_spark.table("t", version=on_spark.snapshot().id).files()
    known = {f.path for f in files} | {d.path for f in files for d in f.deletes}
    assert known <= {str(path) for path in folder.rglob("*.parquet")}


def test_a_row_that_matches_twice_is_an_error_and_changes_nothing(
    lakes: tuple[RealLake, Lake, Lake], rows: Any
) -> None:
    _, on_spark, _ = lakes
    before = on_spark.snapshot().id
    merge: Merge[WriteResult] = on_spark.table("t").merge(rows.union(rows), "target.id = source.id")

    with pytest.raises(InvalidInputError, match="match more than one row of the source"):
        merge.when_matched(update={"k": "0"}).execute()

    assert on_spark.snapshot().id == before
    assert merge.when_matched("source.k > 1000", update={"k": "0"}).execute().snapshot is None


def test_a_source_that_differs_whenever_it_is_computed_is_computed_once(
    lakes: tuple[RealLake, Lake, Lake], spark: Any
) -> None:
    _, on_spark, _ = lakes
    source = spark.range(0, 3000, 1, 4).selectExpr("id", "rand() AS x").where("x < 0.5")

    result = (
        on_spark.table("t")
        .merge(source, "target.id = source.id")
        .when_matched(update={"k": "-1"})
        .when_not_matched(insert={"id": "source.id", "k": "-2"})
        .execute()
    )

    ids = on_spark.table("t").scan(["id"]).to_arrow(engine="local").column("id").to_pylist()
    assert len(set(ids)) == len(ids)
    assert result.rows_updated == on_spark.table("t").scan(["id"], "k = -1").count()
    assert result.rows_inserted == on_spark.table("t").scan(["id"], "k = -2").count()


def test_jobs_on_spark_have_the_names_of_table_and_operation(
    lakes: tuple[RealLake, Lake, Lake], spark: Any, rows: Any
) -> None:
    _, on_spark, _ = lakes
    seen: list[WriteProgress] = []

    on_spark.table("t").append(spark.range(3000), progress=seen.append)
    on_spark.table("t").delete("id = 2999")
    merge = on_spark.table("t").merge(rows, "target.id = source.id")
    merge.when_matched(update={"k": "-1"}).execute()

    store = spark.sparkContext._jsc.sc().statusStore()
    jobs = spark.sparkContext._jvm.scala.jdk.javaapi.CollectionConverters.asJava(
        store.jobsList(None)
    )
    titles = {job.description().get() for job in jobs if job.description().isDefined()}
    assert {
        "append to main.t",
        "delete from main.t: find rows",
        "merge into main.t: find rows",
        "merge into main.t: write rows",
    } <= titles
    assert seen[-1].title == "append to main.t"
    assert (seen[-1].tasks_done, seen[-1].rows) == (seen[-1].tasks, 3000)
