"""DataFrames: the rows of `to_table()`, read by Spark itself where that is exact, else by Arrow."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.errors import InvalidArgumentError
from tests.spark.dataframe_comparison import IN_FILES, MakeLake, check, physical_plan


def test_a_filter_on_columns_that_swapped_their_names_finds_their_rows(
    spark: Any, make_lake: MakeLake
) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute(
        "CREATE TABLE t AS SELECT i AS a, 1000 + i AS b FROM range(100) r(i)",
        "ALTER TABLE t RENAME COLUMN a TO c",
        "ALTER TABLE t RENAME COLUMN b TO a",
        "ALTER TABLE t RENAME COLUMN c TO b",
        "INSERT INTO t (a, b) SELECT i, 5000 + i FROM range(10) r(i)",
    )
    with lake.open() as ours:
        frame = check(ours.table("t").scan(), spark, native=True)
        check(ours.table("t").scan(filter="a > 1050 AND b < 80"), spark, native=True)

    assert frame.where("a >= 1000").count() == 100
    assert frame.where("b >= 5000").count() == 10


def test_a_column_that_was_dropped_and_added_again_has_none_of_its_old_values(
    spark: Any, make_lake: MakeLake
) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id, i AS v FROM range(100) r(i)",
        "ALTER TABLE t DROP COLUMN v",
        "ALTER TABLE t ADD COLUMN v INTEGER",
        "INSERT INTO t SELECT i, i FROM range(7) r(i)",
    )
    with lake.open() as ours:
        frame = check(ours.table("t").scan(), spark, native=True)

    assert frame.where("v IS NULL").count() == 100
    assert frame.where("v IS NOT NULL").count() == 7


@pytest.mark.parametrize(("filter", "count"), [("1 = 0", 0), ("NULL", 0), ("1 = 1", 95)])
def test_a_filter_without_columns_is_a_filter_on_every_route(
    spark: Any, make_lake: MakeLake, filter: str, count: int
) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id FROM range(100) r(i)",
        "INSERT INTO t VALUES (300), (301)",
        "DELETE FROM t WHERE id < 7",
    )
    with lake.open(spark=spark) as ours:
        table = ours.table("t")
        assert table.scan(filter=filter).count() == count
        assert table.scan([], filter).to_arrow().num_rows == count
        assert table.scan([], filter).to_spark(spark).count() == count


def test_a_column_that_has_the_name_of_sparks_own_metadata_keeps_its_values(
    spark: Any, make_lake: MakeLake
) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id, -i AS _metadata FROM range(50) r(i)",
        "DELETE FROM t WHERE id = 7",
    )
    with lake.open() as ours:
        check(ours.table("t").scan(), spark)


def test_spark_prunes_columns_and_pushes_filters_into_the_files(
    spark: Any, make_lake: MakeLake
) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id, 'v' || i AS v, {'x': i, 'y': i} AS s"
        " FROM range(100) r(i)",
        "DELETE FROM t WHERE id = 7",
        "ALTER TABLE t RENAME COLUMN id TO number",
    )
    other = spark.newSession()
    other.conf.set("spark.sql.maxMetadataStringLength", "1000")
    with lake.open() as ours:
        frame = ours.table("t").scan().to_spark(other)
        filtered = ours.table("t").scan(["v"], filter="number > 90").to_spark(other)

    chosen = physical_plan(frame.where("number < 50").select("s.x"))
    # The condition on the numbers of rows is beside it; no file has their column.
    assert re.search(r"PushedFilters: \[[^]]*IsNotNull\(id\)[^]]*LessThan\(id,50\)", chosen)
    assert "ReadSchema: struct<id:bigint,s:struct<x:bigint>" in chosen
    assert "Join" not in chosen
    assert "Exchange hashpartitioning" not in chosen
    assert "GreaterThan(id,90)" in physical_plan(filtered)
    assert frame.where("number < 50").count() == 49


def test_spark_filters_on_floats_lose_no_nan_and_no_negative_zero(
    spark: Any, make_lake: MakeLake
) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute(
        "CREATE TABLE t(f DOUBLE, s STRUCT(g FLOAT))",
        "INSERT INTO t SELECT '-0.0'::DOUBLE, {'g': '-0.0'::FLOAT} FROM range(100)",
        "INSERT INTO t SELECT f, {'g': f} FROM"
        " (SELECT if(i = 3, 'nan'::DOUBLE, i) AS f FROM range(100) r(i))",
    )
    with lake.open() as ours:
        frame = check(ours.table("t").scan(), spark, native=True)

    for name, kind in (("f", "DOUBLE"), ("s.g", "FLOAT")):
        assert frame.where(f"{name} = CAST(0 AS {kind})").count() == 101
        assert frame.where(f"{name} > CAST(1000 AS {kind})").count() == 1


def test_spark_compares_numbers_with_statistics_where_no_file_has_nan(
    spark: Any, make_lake: MakeLake
) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute(
        "CREATE TABLE t(f DOUBLE, g FLOAT)",
        # The literal -0.0 is a DECIMAL, which has no negative zero.
        "INSERT INTO t SELECT if(i = 0, '-0.0'::DOUBLE, i), if(i = 3, 'nan'::FLOAT, i)"
        " FROM range(100) r(i)",
        "INSERT INTO t SELECT '-0.0'::DOUBLE, 0.0 FROM range(100) r(i)",
    )
    with lake.open() as ours:
        frame = check(ours.table("t").scan(), spark, native=True)

    shown = physical_plan(frame.where("f > 90D"))
    hidden = physical_plan(frame.where("g > CAST(90 AS FLOAT)"))
    assert ("GreaterThan(f,90.0)" in shown, "GreaterThan(g" in hidden) == (True, False)
    for condition, count in (
        ("f > 97D", 2),
        ("f = 0D", 101),
        ("f >= 0D AND f < 1D", 101),
        ("f <= 0D", 101),
        ("f IN (0D, 7D)", 102),
        ("f = -0D", 101),
        ("NOT f > -0D", 101),
        ("g > CAST(97 AS FLOAT)", 3),
    ):
        assert frame.where(condition).count() == count


def test_a_filter_that_spark_has_no_words_for_is_still_exact(
    spark: Any, make_lake: MakeLake
) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute("CREATE TABLE t AS SELECT i AS id, 'v' || i AS v FROM range(100) r(i)")
    with lake.open() as ours:
        plan = ours.table("t").scan(["id"], filter="md5(v) < '8' AND id > 10")
        frame = check(plan, spark, native=False)

    assert 0 < frame.count() < 89


def test_types_that_spark_lacks_come_through_arrow(spark: Any, make_lake: MakeLake) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute(
        "CREATE TABLE t(id INTEGER, u UUID, l UUID[], t TIME, n TIMESTAMP_NS, i INTERVAL)",
        "INSERT INTO t SELECT i, uuid(), [uuid()], '24:00:00', '2024-01-01 00:00:00.000000001',"
        " INTERVAL '1 month 2 days 3 seconds' FROM range(50) r(i)",
    )
    with lake.open() as ours:
        frame = check(ours.table("t").scan(), spark, native=False)
        check(ours.table("t").scan(["id"]), spark, native=True)

    first = frame.first()
    assert first["t"] == "24:00:00"
    assert first["n"] == 1704067200000000001
    assert first["i"].asDict() == {"months": 1, "days": 2, "micros": 3_000_000}
    assert frame.where(f"u = '{first['u']}'").count() == 1


def test_moments_beyond_the_calendar_keep_their_numbers_on_both_routes(
    spark: Any, make_lake: MakeLake
) -> None:
    lake = make_lake()
    values = (
        "('infinity', 'infinity'), ('-infinity', '-infinity'), ('0044-03-15 (BC)', '290000-12-31')"
    )
    lake.execute(
        "CREATE TABLE t(d DATE, ts TIMESTAMP)",
        f"INSERT INTO t VALUES {values}",
        "CALL ducklake_flush_inlined_data('lake')",
        f"INSERT INTO t VALUES {values}",
    )
    with lake.open() as ours:
        plan = ours.table("t").scan()
        frame = plan.to_spark(spark)

    found = frame.selectExpr("unix_date(d) AS d", "CAST(ts AS STRING) AS ts").collect()
    assert Counter(row["d"] for row in found)[2**31 - 1] == 2
    assert set(Counter(row["ts"] for row in found).values()) == {2}


def test_an_integer_of_39_digits_is_an_error_that_says_so(spark: Any, make_lake: MakeLake) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE t(h HUGEINT)", f"INSERT INTO t VALUES ({2**127 - 1})")
    with lake.open() as ours, pytest.raises(InvalidArgumentError, match="39 digits"):
        ours.table("t").scan().to_spark(spark)


def test_an_empty_plan_has_the_schema_of_its_columns(spark: Any, make_lake: MakeLake) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE t(id INTEGER, u UUID, s STRUCT(x UBIGINT))")
    with lake.open() as ours:
        frame = check(ours.table("t").scan(["u", "s", "rowid"]), spark)

    assert frame.count() == 0
    assert frame.schema.simpleString() == "struct<u:string,s:struct<x:decimal(20,0)>,rowid:bigint>"


def test_a_plan_without_columns_still_has_its_rows(
    spark: Any, make_lake: MakeLake, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": [200, 201, 202]}), tmp_path / "_only_by_arrow.parquet")
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id FROM range(100) r(i)",
        "INSERT INTO t VALUES (300), (301)",
        "DELETE FROM t WHERE id < 10",
        f"CALL ducklake_add_data_files('lake', 't', '{tmp_path}/_only_by_arrow.parquet')",
    )
    with lake.open() as ours:
        frame = ours.table("t").scan([]).to_spark(spark)

    assert frame.columns == []
    assert frame.count() == 95


def test_the_settings_of_a_session_do_not_change_the_rows(spark: Any, make_lake: MakeLake) -> None:
    lake = make_lake()
    lake.execute(
        'CREATE TABLE t("Id" INTEGER, ts TIMESTAMP, tz TIMESTAMPTZ, d DATE)',
        "INSERT INTO t SELECT i, '2024-03-10 02:30:00', '2024-03-10 02:30:00+00', '0033-01-01'"
        " FROM range(50) r(i)",
        "INSERT INTO t VALUES (1, '2024-03-10 02:30:00', '2024-03-10 02:30:00+00', '0033-01-01')",
        'DELETE FROM t WHERE "Id" = 3',
    )
    other = spark.newSession()
    for name, value in {
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.caseSensitive": "true",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.parquet.fieldId.read.enabled": "false",
        "spark.sql.files.ignoreMissingFiles": "true",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    }.items():
        other.conf.set(name, value)
    with lake.open() as ours:
        check(ours.table("t").scan(), other, native=True)
        lost = ours.table("t").scan().to_spark(other)

    shutil.rmtree(lake.data_path)
    with pytest.raises(Exception, match=r"(?i)not exist|not found"):
        lost.collect()


def test_the_change_feed_is_a_dataframe_too(spark: Any, make_lake: MakeLake) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id, 'a' AS v FROM range(20) r(i)",
        "UPDATE t SET v = 'b' WHERE id < 3",
        "DELETE FROM t WHERE id = 9",
        "INSERT INTO t VALUES (50, 'c')",
        "CALL ducklake_merge_adjacent_files('lake')",
    )
    with lake.open() as ours:
        changes = ours.table("t").changes(2)
        check(changes.insertions, spark)
        check(changes.deletions, spark)


def test_names_that_only_spark_finds_equal_are_columns_of_their_own(
    spark: Any, make_lake: MakeLake
) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute('CREATE TABLE t("é" INTEGER, "É" INTEGER)', "INSERT INTO t VALUES (1, 2)")
    with lake.open() as ours:
        assert ours.table("t").scan().to_spark(spark).collect() == [(1, 2)]
