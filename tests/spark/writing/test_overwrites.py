"""DataFrames that replace rows of a lake, or bring columns that the table does not have yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport import Lake
from lakeport.errors import InvalidArgumentError
from tests.fixtures_lakes import LakeMaker

Rows = list[tuple[Any, ...]]


def new_lake(folder: Path) -> Lake:
    return Lake.create(f"ducklake:sqlite:{folder / 'meta.sqlite'}", data_path=f"{folder}/data/")


def contents(lake: Lake, table: str) -> Rows:
    return sorted(tuple(row.values()) for row in lake.table(table).scan().to_arrow().to_pylist())


def test_an_overwrite_replaces_the_rows_that_pass_the_condition(spark: Any, tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    lake.create_table_as("t", spark.range(0, 6000, 1, 2).selectExpr("id", "id % 3 AS k"))

    result = lake.table("t").overwrite(spark.sql("SELECT -1L AS id, 1L AS k"), where="k = 1")

    assert (result.rows_deleted, result.rows_inserted) == (2000, 1)
    assert contents(lake, "t")[:3] == [(-1, 1), (0, 0), (2, 2)]
    lake.table("t").overwrite(lake.table("t").to_spark(spark).where("id < 5"))
    assert contents(lake, "t") == [(-1, 1), (0, 0), (2, 2), (3, 0)]


@pytest.mark.parametrize("key", ["k", "bucket(7, k)", "month(d)"])
def test_a_dynamic_overwrite_replaces_the_partitions_of_the_new_rows(
    spark: Any, make_lake: LakeMaker, key: str
) -> None:
    real = make_lake("sqlite")
    rows = """
        SELECT i AS id, CASE WHEN i % 5 > 0 THEN i % 5 END AS k,
               DATE '2024-01-01' + CAST(i AS INTEGER) * 10 AS d FROM range({}) r(i)
    """
    real.execute(
        f"CREATE TABLE t AS {rows.format(30)}",  # files without partitions, and inlined rows
        f"ALTER TABLE t SET PARTITIONED BY ({key})",
        f"INSERT INTO t {rows.format(25)}",
        f"INSERT INTO t {rows.format(3)}",
    )
    real.detach()
    lake = Lake.open(real.uri)
    frame = spark.sql("SELECT 1000L AS id, 3L AS k, DATE '2024-05-20' AS d UNION ALL "
                      "SELECT 1001L, NULL, DATE '2024-03-01'")  # fmt: skip

    lake.table("t").overwrite(frame, dynamic=True)

    kept = {
        "k": "k IS NOT NULL AND k <> 3",
        # Buckets of the extension itself decide which values share one with 3.
        "bucket(7, k)": None,
        "month(d)": "month(d) NOT IN (3, 5)",
    }[key]
    if kept is None:
        buckets = {
            value: file.partition_values
            for file in lake.table("t", version=3).files()
            for (value,) in real.query(f"SELECT DISTINCT k FROM '{file.path}'")
        }
        gone = [v for v in buckets if buckets[v] in (buckets[3], buckets[None])]
        kept = f"k NOT IN ({', '.join(str(v) for v in gone if v is not None)})"
    old = real.query(f"SELECT id FROM t AT (VERSION => 4) WHERE {kept} ORDER BY id")
    now = real.query("SELECT id FROM t ORDER BY id")
    real.detach()
    assert now == [*old, (1000,), (1001,)]


def test_a_dynamic_overwrite_needs_partitions(spark: Any, tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    lake.create_table("t", {"id": "BIGINT"})

    with pytest.raises(InvalidArgumentError, match="is not partitioned"):
        lake.table("t").overwrite(spark.range(3), dynamic=True)
    with pytest.raises(InvalidArgumentError, match="not both"):
        lake.table("t").overwrite(spark.range(3), where="id = 1", dynamic=True)


def test_merge_schema_adds_columns_and_widens_types_in_the_same_snapshot(
    spark: Any, make_lake: LakeMaker
) -> None:
    real = make_lake("sqlite")
    real.execute(
        "CREATE TABLE t (id INTEGER, small UTINYINT, st STRUCT(a INTEGER), l STRUCT(a INTEGER)[])",
        "INSERT INTO t VALUES (1, 1, {'a': 1}, [{'a': 1}])",
    )
    real.detach()
    lake = Lake.open(real.uri)

    result = lake.table("t").append(
        spark.sql(
            "SELECT 5000000000L AS id, CAST(2 AS SMALLINT) AS small, "
            "named_struct('a', 2, 'b', 'x') AS st, array(named_struct('a', 2L, 'b', 'x')) AS l, "
            "'new' AS extra"
        ),
        merge_schema=True,
    )

    assert result.snapshot == lake.snapshot().id == 3
    assert [(c.name, c.type) for c in lake.table("t").columns] == [
        ("id", "int64"),
        ("small", "uint8"),
        ("st", "struct"),
        ("l", "list"),
        ("extra", "varchar"),
    ]
    assert real.query("FROM t ORDER BY id") == [
        (1, 1, {"a": 1, "b": None}, [{"a": 1, "b": None}], None),
        (5_000_000_000, 2, {"a": 2, "b": "x"}, [{"a": 2, "b": "x"}], "new"),
    ]
    real.detach()


def test_merge_schema_works_for_arrow_rows_too(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    lake.create_table("t", {"id": "INTEGER"})

    lake.table("t").append(pa.table({"id": [1], "x": ["a"]}), merge_schema=True)

    assert contents(lake, "t") == [(1, "a")]
