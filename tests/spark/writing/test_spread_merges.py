"""Merges whose source stays on Spark: tasks join it with the table and write all files.

Each case is one of the published semantics of MERGE in Spark and Delta Lake, and leaves the rows
that the merge in one process leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport import Lake
from lakeport.ducklake import LocalEngine
from lakeport.ducklake.writing import Merge, WriteProgress, WriteResult
from lakeport.errors import InvalidInputError
from lakeport.spark import SparkEngine

Described = Callable[[Merge[WriteResult]], Merge[WriteResult]]

ROWS = 6000
FIND = "merge into main.t: find rows"
WRITE = "merge into main.t: write rows"
BOTH = "merge into main.t: find and write rows"


def new_lake(folder: Path, engine: Any, partition_by: str) -> Lake:
    """A lake with a table of two files, deleted rows, inlined rows, and a row without a key."""
    folder.mkdir()
    lake = Lake.create(
        f"ducklake:sqlite:{folder}/meta.sqlite", data_path=f"{folder}/data/", engine=engine
    )
    ids = range(ROWS)
    rows = pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "k": pa.array([i % 7 for i in ids], pa.int64()),
            "name": [f"n{i}" if i % 11 else None for i in ids],
            "n": pa.array([i % 200 for i in ids], pa.uint8()),
        }
    )
    table = lake.create_table_as(
        "t", rows.slice(0, 4000), partition_by=[partition_by] if partition_by else []
    )
    table.append(rows.slice(4000))
    lake.table("t").delete("id BETWEEN 100 AND 160")
    no_id = {"id": pa.array([None], pa.int64()), "k": [1], "name": ["no id"]}
    lake.table("t").append(pa.table(no_id))
    return lake


@pytest.fixture
def engine(spark: Any) -> SparkEngine:
    return SparkEngine(spark, small_change_bytes=0, small_source_bytes=0)


@pytest.fixture(scope="module")
def source(spark: Any) -> Iterator[Any]:
    """Changed rows, new rows, rows to delete, a key of the deleted rows, and NULL keys."""
    frame = (
        spark.range(0, 9000, 1, 3)
        .where("id % 3 = 0")
        .selectExpr(
            "CASE WHEN id % 1000 = 0 THEN NULL ELSE id END AS id",
            "id + 1 AS k",
            "concat('new ', id) AS name",
            "CAST(id % 100 AS SMALLINT) AS n",
            "id % 5 = 0 AS gone",
        )
        .persist()
    )
    yield frame
    frame.unpersist()


ON = "target.id = source.id"
MERGES: dict[str, tuple[str, Described, set[str]]] = {
    "upsert": (
        ON,
        lambda merge: merge.when_matched(update="*").when_not_matched(insert="*"),
        {BOTH},
    ),
    "several clauses": (
        f"{ON} AND target.k < 5",
        lambda merge: (
            merge.when_matched("source.gone AND target.k = 1", delete=True)
            .when_matched("target.n > source.n", update={"name": "source.name || target.k"})
            .when_matched("source.id % 2 = 0", update={"k": "target.k + source.k"})
            .when_not_matched("source.id IS NULL", insert={"name": "source.name"})
            .when_not_matched("source.gone", insert={"id": "source.id", "n": "source.n"})
        ),
        {FIND, WRITE},
    ),
    "not matched by source": (
        ON,
        lambda merge: (
            merge.when_matched("target.k = 3", update={"k": "100"})
            .when_not_matched_by_source("target.k = 2", delete=True)
            .when_not_matched_by_source("target.id IS NULL", update={"name": "NULL"})
        ),
        {FIND, WRITE},
    ),
    "deletes only": (ON, lambda merge: merge.when_matched("source.gone", delete=True), {BOTH}),
    "inserts only": (ON, lambda merge: merge.when_not_matched(insert="*"), {BOTH}),
}


CASES = [(name, "") for name in MERGES] + [("upsert", "k"), ("several clauses", "k")]


def merged(lake: Lake, rows: Any, name: str, seen: list[WriteProgress]) -> WriteResult:
    on, describe, _ = MERGES[name]
    return describe(lake.table("t").merge(rows, on, progress=seen.append)).execute()


def contents(lake: Lake) -> Any:
    """All rows with the ids of those that were there before, and the changes by their types."""
    table = lake.table("t")
    names = ["rowid", *(column.name for column in table.columns)]
    found = table.scan(names).to_arrow(engine="local").to_pylist()
    for row in found:
        row["rowid"] = row["rowid"] if row["rowid"] <= ROWS else None
    last = lake.snapshot().id
    feed = table.changes(last, last).to_arrow(engine="local").to_pylist()
    changes = [(row["change_type"], row["id"], row["name"]) for row in feed]
    return sorted(found, key=repr), sorted(changes, key=repr)


def data_files(lake: Lake) -> tuple[set[str], set[str]]:
    """The names of data files that the catalog has, and of those on the disk."""
    table = lake.table("t")
    on_disk = {path.name for path in Path(table.path).rglob("*.parquet")}
    deletes = {name for name in on_disk if name.endswith("-delete.parquet")}
    return {Path(file.path).name for file in table.files()}, on_disk - deletes


@pytest.mark.parametrize(("name", "partition_by"), CASES)
def test_a_merge_by_tasks_leaves_what_a_merge_in_one_process_leaves(
    engine: SparkEngine, source: Any, tmp_path: Path, name: str, partition_by: str
) -> None:
    seen: list[WriteProgress] = []
    with (
        new_lake(tmp_path / "spark", engine, partition_by) as on_spark,
        new_lake(tmp_path / "here", LocalEngine(), partition_by) as here,
    ):
        ours = merged(on_spark, source, name, seen)
        theirs = merged(here, source.toArrow(), name, [])

        assert contents(on_spark) == contents(here)
        counts = ("rows_inserted", "rows_updated", "rows_deleted")
        assert [getattr(ours, c) for c in counts] == [getattr(theirs, c) for c in counts]
        titles = {now.title for now in seen} - {"merge into main.t: read the source"}
        assert titles == ({FIND, WRITE} if partition_by else MERGES[name][2])
        in_catalog, on_disk = data_files(on_spark)
        assert in_catalog == on_disk


def test_a_row_that_matches_twice_is_an_error_and_leaves_no_file(
    engine: SparkEngine, source: Any, tmp_path: Path
) -> None:
    with new_lake(tmp_path / "lake", engine, "") as lake:
        before, (files, _) = lake.snapshot().id, data_files(lake)
        merge = lake.table("t").merge(source.union(source.limit(5)), ON)

        with pytest.raises(InvalidInputError, match="match more than one row of the source"):
            merge.when_matched(update="*").when_not_matched(insert="*").execute()

        assert lake.snapshot().id == before
        assert data_files(lake) == (files, files)


def test_a_source_that_is_not_deterministic_is_computed_once(
    engine: SparkEngine, spark: Any, tmp_path: Path
) -> None:
    rows = spark.range(0, 12_000, 1, 4).selectExpr("id", "rand() AS x").where("x < 0.5")
    before = kept_rdds(spark)
    with new_lake(tmp_path / "lake", engine, "") as lake:
        merge = lake.table("t").merge(rows, ON).when_matched(update={"k": "-1"})
        result = merge.when_not_matched(insert={"id": "source.id", "k": "-2"}).execute()

        ids = lake.table("t").scan(["id"], "id IS NOT NULL").to_arrow(engine="local").column("id")
        assert len(set(ids.to_pylist())) == len(ids)
        assert result.rows_updated == lake.table("t").scan(["id"], "k = -1").count() > 0
        assert result.rows_inserted == lake.table("t").scan(["id"], "k = -2").count() > 0
    assert kept_rdds(spark) == before


def test_new_columns_of_the_source_become_columns_of_the_table(
    engine: SparkEngine, source: Any, tmp_path: Path
) -> None:
    with new_lake(tmp_path / "lake", engine, "") as lake:
        merge = lake.table("t").merge(source, ON, merge_schema=True)
        merge.when_matched(update="*").when_not_matched(insert="*").execute()

        found = lake.table("t").scan(["id"], "gone").to_arrow(engine="local").column("id")
        assert sorted(i for i in found.to_pylist() if i is not None) == [
            i for i in range(0, 9000, 15) if i % 1000
        ]


def test_an_empty_source_changes_nothing_and_an_empty_table_takes_all_rows(
    engine: SparkEngine, source: Any, tmp_path: Path
) -> None:
    with new_lake(tmp_path / "lake", engine, "") as lake:
        none = lake.table("t").merge(source.where("false"), ON)
        assert none.when_matched(delete=True).when_not_matched().execute().snapshot is None

        lake.create_table("t2", {"id": "BIGINT", "k": "BIGINT"})
        rows = source.select("id", "k")
        merge = lake.table("t2").merge(rows, ON).when_matched(delete=True)
        assert merge.when_not_matched().execute().rows_inserted == 3000


def test_a_table_is_merged_with_itself(engine: SparkEngine, spark: Any, tmp_path: Path) -> None:
    with new_lake(tmp_path / "lake", engine, "") as lake:
        rows = lake.table("t").scan(filter="k < 2").to_spark(spark)
        merge = lake.table("t").merge(rows, ON).when_matched(update={"k": "source.k + 50"})
        updated = merge.when_not_matched(insert="*").execute()

        count = lake.table("t").scan(["k"], "k >= 50").count()
        assert updated.rows_updated == count > 0
        # The row without a key matches nothing, itself included.
        assert updated.rows_inserted == 1


def kept_rdds(spark: Any) -> int:
    """How many results Spark keeps for later jobs."""
    return int(spark.sparkContext._jsc.getPersistentRDDs().size())
