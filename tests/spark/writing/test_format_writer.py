"""`df.write.format("ducklake")`: the same files and commits as `append`, in other processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakeport import Lake
from tests.fixtures_lakes import LakeMaker, RealLake


@pytest.fixture
def lake(make_lake: LakeMaker) -> RealLake:
    """A partitioned table in a DuckDB file."""
    real = make_lake("duckdb")
    real.execute(
        "CREATE TABLE t (id BIGINT, k BIGINT)",
        "ALTER TABLE t SET PARTITIONED BY (k)",
        "INSERT INTO t SELECT i, i % 3 FROM range(60) r(i)",
    )
    real.detach()
    return real


def save(frame: Any, lake: RealLake, mode: str, **options: Any) -> None:
    writer = frame.write.format("ducklake").options(lake=lake.uri, table="t", **options)
    writer.mode(mode).save()


def files_on_disk(lake: RealLake) -> set[str]:
    folder = Path(Lake.open(lake.uri).table("t").path)
    return {str(path) for path in folder.rglob("*.parquet")}


def test_rows_are_appended_and_replaced(spark: Any, lake: RealLake) -> None:
    frame = spark.range(100, 6100, 1, 3).selectExpr("id", "id % 3 AS k")

    save(frame, lake, "append")
    assert lake.query("SELECT count(*), sum(k) FROM t") == [(6060, 6060)]
    lake.detach()
    save(spark.sql("SELECT 7L AS id, 1 AS k"), lake, "append")
    assert len(Lake.open(lake.uri).table("t").files()) == 3 + 9  # the last row is inlined

    save(frame.where("id < 103"), lake, "overwrite", partitionOverwriteMode="dynamic")
    assert lake.query("SELECT id FROM t ORDER BY id") == [(100,), (101,), (102,)]
    lake.detach()
    save(
        spark.sql("SELECT 5L AS id, 0L AS k, 'x' AS more"),
        lake,
        "overwrite",
        where="k = 0",
        mergeSchema="true",
    )
    assert lake.query("FROM t ORDER BY id") == [(5, 0, "x"), (100, 1, None), (101, 2, None)]
    lake.detach()


@pytest.mark.parametrize(
    ("query", "mode", "options", "sentence"),
    [
        ("SELECT 1L AS id, 2 AS nothing", "append", {}, "the table has no column 'nothing'"),
        ("SELECT 1L AS id", "append", {"where": "id = 1"}, "need mode"),
        ("SELECT 1L AS id", "append", {"version": "1"}, "is for reading"),
        ("SELECT 1L AS id", "overwrite", {"where": "nothing = 1"}, "nothing"),
        ("SELECT 1L AS id", "ignore", {}, '"Ignore" mode. Please use either'),
        ("SELECT 1L AS id", "error", {}, '"ErrorIfExists" mode. Please use either'),
        ("SELECT CAST(raise_error('enough') AS BIGINT) AS id", "append", {}, "enough"),
    ],
)
def test_a_write_that_fails_leaves_nothing(
    spark: Any, lake: RealLake, query: str, mode: str, options: dict[str, str], sentence: str
) -> None:
    from pyspark.errors import PySparkException

    before = files_on_disk(lake)

    with pytest.raises(PySparkException, match=sentence):
        save(spark.sql(query), lake, mode, **options)

    assert files_on_disk(lake) == before
    assert lake.query("SELECT count(*) FROM t") == [(60,)]
    lake.detach()


def test_a_catalog_that_another_process_holds_is_an_error_and_no_file_stays(
    spark: Any, lake: RealLake
) -> None:
    from pyspark.errors import PySparkException

    before = files_on_disk(lake)
    frame = spark.range(0, 6000, 1, 2).selectExpr("id", "id % 3 AS k")

    with (
        duckdb.connect(lake.uri.removeprefix("ducklake:")),
        pytest.raises(PySparkException, match="lock"),
    ):
        save(frame, lake, "append", lock_timeout="0.5")

    assert files_on_disk(lake) == before
