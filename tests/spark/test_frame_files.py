"""DataFrames of files of every kind: deleted rows, odd paths, added files, pieces and many."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.spark.frames import lake_files, parquet_frames
from tests.spark.dataframe_comparison import (
    IN_FILES,
    VIRTUAL,
    MakeLake,
    check,
    physical_plan,
)


@pytest.mark.parametrize("folder", ["with space", "a%20b%", "h#sh", "pl+us", "ünï🦆", "[x]{y}*?"])
def test_deleted_rows_stay_deleted_whatever_the_path_looks_like(
    spark: Any, make_lake: MakeLake, tmp_path: Path, folder: str
) -> None:
    lake = make_lake(options=IN_FILES, data_path=f"{tmp_path / folder}/")
    lake.execute(
        "CREATE TABLE t(id INTEGER, p VARCHAR)",
        "ALTER TABLE t SET PARTITIONED BY (p)",
        "INSERT INTO t SELECT i, ['a b', 'c/d', 'ü%'][1 + i % 3] FROM range(300) r(i)",
        "DELETE FROM t WHERE id % 5 = 0",
    )
    with lake.open() as ours:
        frame = check(ours.table("t").scan(["id", *VIRTUAL]), spark, native=True)

    assert frame.count() == 240


# What stands in the way of the route before.
DELETE_ROUTES: dict[str, list[tuple[ModuleType, str, int]]] = {
    "reader": [],
    "join of bitmaps": [(lake_files, "MAX_BYTES", -1)],
    "anti join": [(lake_files, "MAX_BYTES", -1), (parquet_frames, "MAX_BITMAP_BYTES", -1)],
}


@pytest.mark.parametrize("limits", DELETE_ROUTES.values(), ids=DELETE_ROUTES)
def test_files_of_one_size_keep_their_own_deletes(
    spark: Any, make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch, limits: Any
) -> None:
    for module, name, limit in limits:
        monkeypatch.setattr(module, name, limit)
    lake = make_lake(options=IN_FILES)
    lake.execute("CREATE TABLE t(id INTEGER)")
    for start in (100, 200, 300):
        lake.execute(f"INSERT INTO t SELECT i FROM range({start}, {start + 50}) r(i)")
    lake.execute("DELETE FROM t WHERE id IN (100, 201, 302, 303)")
    with lake.open() as ours:
        table = ours.table("t")
        assert len({file.file_size_bytes for file in table.files()}) == 1
        check(table.scan(["id", *VIRTUAL]), spark, native=True)


@pytest.mark.parametrize("limits", DELETE_ROUTES.values(), ids=DELETE_ROUTES)
def test_many_files_keep_their_own_deletes(
    spark: Any, make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch, limits: Any
) -> None:
    for module, name, limit in limits:
        monkeypatch.setattr(module, name, limit)
    lake = make_lake(options=IN_FILES)
    lake.execute("CREATE TABLE t(id INTEGER, name VARCHAR)")
    for count in (1, 64, 65, 700, 1000):
        lake.execute(f"INSERT INTO t SELECT i, 'n' || (i * {count}) FROM range({count}) r(i)")
    lake.execute("DELETE FROM t WHERE (id * 7919) % 3 = 0")
    with lake.open() as ours:
        check(ours.table("t").scan(), spark, native=True)
        check(ours.table("t").scan(["id", *VIRTUAL]), spark, native=True)


def test_only_files_with_deletes_number_their_rows(spark: Any, make_lake: MakeLake) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id FROM range(100) r(i)",
        "INSERT INTO t SELECT i FROM range(100, 300) r(i)",
        "DELETE FROM t WHERE id = 5",
    )
    with lake.open() as ours:
        frame = check(ours.table("t").scan(), spark, native=True)

    plan = frame._jdf.queryExecution().executedPlan().toString()
    scans = [line for line in plan.splitlines() if "FileScan parquet" in line]
    assert sorted("row_index" in line for line in scans) == [False, True]


def test_rows_that_spark_reads_one_by_one_keep_their_deletes(
    spark: Any, make_lake: MakeLake
) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id, {'x': i, 'l': [i, i]} AS s FROM range(5000) r(i)",
        "DELETE FROM t WHERE id % 7 = 3",
    )
    with lake.open() as ours:
        for setting in ("codegen.maxFields", "parquet.enableNestedColumnVectorizedReader"):
            other = spark.newSession()
            name = "codegen" if setting.startswith("codegen") else "parquet"
            value = "1" if name == "codegen" else "false"
            other.conf.set(f"spark.sql.{setting}", value)
            check(ours.table("t").scan(["id", "s", *VIRTUAL]), other, native=True)


def test_a_spark_without_our_reader_removes_deleted_rows_by_a_join(
    spark: Any, make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(lake_files._formats, spark._jvm, None)
    lake = make_lake(options=IN_FILES)
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id FROM range(1000) r(i)",
        "DELETE FROM t WHERE id % 7 = 3",
    )
    with lake.open() as ours:
        check(ours.table("t").scan(["id", *VIRTUAL]), spark, native=True)


def test_the_numbers_of_sparks_own_reader_are_marked_where_it_cannot_be_reached(
    spark: Any, make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lake_files.lake_files(spark) is not None
    source = lake_files._source().replace("package lakeport;", "package lakeport.other;")
    source = source.replace('"rowIndexGenerator"', '"noSuchField"')
    monkeypatch.setattr(lake_files, "_source", lambda: source)
    monkeypatch.setattr(lake_files, "_CLASS", "lakeport.other.LakeFiles")
    monkeypatch.delitem(lake_files._formats, spark._jvm, raising=False)
    lake = make_lake(options=IN_FILES)
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id FROM range(10000) r(i)",
        "DELETE FROM t WHERE id % 7 = 3",
    )
    by_rows = spark.newSession()
    by_rows.conf.set("spark.sql.codegen.maxFields", "1")
    with lake.open() as ours:
        for each in (spark, by_rows):
            check(ours.table("t").scan(["id", *VIRTUAL]), each, native=True)
    assert lake_files._formats[spark._jvm].getClass().getName() == "lakeport.other.LakeFiles"


def test_rows_of_skipped_pages_keep_their_deletes(
    spark: Any, make_lake: MakeLake, tmp_path: Path
) -> None:
    rows = pa.table({"id": list(range(100_000)), "v": list(range(100_000))})
    pq.write_table(
        rows,
        tmp_path / "paged.parquet",
        write_page_index=True,
        data_page_size=2000,
        use_dictionary=False,
    )
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t(id BIGINT, v BIGINT)",
        f"CALL ducklake_add_data_files('lake', 't', '{tmp_path}/paged.parquet')",
        "DELETE FROM t WHERE id % 10 = 3",
    )
    with lake.open() as ours:
        frame = ours.table("t").scan(["id", "v", "file_row_number"]).to_spark(spark)
        found = frame.where("id BETWEEN 50000 AND 50099").collect()

    assert sorted(row.id for row in found) == [i for i in range(50_000, 50_100) if i % 10 != 3]
    assert all(row.v == row.id == row.file_row_number for row in found)


def test_the_same_files_with_other_deletes_are_not_taken_from_the_cache(
    spark: Any, make_lake: MakeLake
) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id FROM range(100) r(i)",
        "DELETE FROM t WHERE id < 10",
    )
    with lake.open() as ours:
        before = ours.table("t").scan().to_spark(spark).cache()
        assert before.count() == 90
    lake.execute("DELETE FROM t WHERE id > 95")
    with lake.open() as ours:
        after = ours.table("t").scan().to_spark(spark)
        same = ours.table("t").scan().to_spark(spark)

        assert after.count() == 86
        assert after.unionAll(before).count() == 176
        assert after.sameSemantics(same)
        assert not after.sameSemantics(before)
    before.unpersist()


def test_the_deletes_of_a_small_table_do_not_make_spark_shuffle_a_join_with_it(
    spark: Any, make_lake: MakeLake
) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id FROM range(1000) r(i)",
        "DELETE FROM t WHERE id % 10 = 3",
    )
    with lake.open() as ours:
        frame = ours.table("t").scan().to_spark(spark)
        joined = spark.range(1000).join(frame, "id")

        assert joined.count() == 900
        assert "BroadcastHashJoin" in joined._jdf.queryExecution().executedPlan().toString()


def test_deleted_rows_stay_deleted_whatever_the_catalog_counts(
    spark: Any, make_lake: MakeLake
) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id FROM range(100) r(i)",
        "DELETE FROM t WHERE id < 10",
        "UPDATE meta.ducklake_delete_file SET delete_count = 0",
    )
    with lake.open() as ours:
        assert check(ours.table("t").scan(), spark, native=True).count() == 90


def test_a_path_that_is_used_again_is_another_file(
    spark: Any, make_lake: MakeLake, tmp_path: Path
) -> None:
    path = tmp_path / "again.parquet"
    lake = make_lake()
    for table, count in (("a", 10), ("b", 1000)):
        pq.write_table(pa.table({"id": list(range(count))}), path)
        lake.execute(
            f"CREATE TABLE {table}(id BIGINT)",
            f"CALL ducklake_add_data_files('lake', '{table}', '{path}')",
        )
        with lake.open() as ours:
            plan = ours.table(table).scan(["id", "rowid"])
            assert check(plan, spark, native=True).count() == count

    # The catalog records what the file was like when it was added.
    with lake.open() as ours:
        frame = ours.table("a").scan(["id", "rowid"]).to_spark(spark)
        with pytest.raises(Exception, match=r"again\.parquet.* but the catalog records"):
            frame.count()


def test_files_of_a_relative_folder_are_found(
    spark: Any, make_lake: MakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lake = make_lake(options=IN_FILES, data_path="near/")
    lake.execute("CREATE TABLE t AS SELECT i AS id FROM range(100) r(i)")
    with lake.open(data_path="near/") as ours:
        assert not Path(ours.table("t").files()[0].path).is_absolute()
        assert check(ours.table("t").scan(), spark, native=True).count() == 100


def test_a_file_that_was_added_twice_is_read_twice(
    spark: Any, make_lake: MakeLake, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": list(range(10))}), tmp_path / "a.parquet")
    lake = make_lake()
    add = f"CALL ducklake_add_data_files('lake', 't', '{tmp_path}/a.parquet')"
    lake.execute("CREATE TABLE t(id BIGINT)", add, add)
    with lake.open() as ours:
        assert check(ours.table("t").scan(), spark, native=True).count() == 20


def test_added_files_are_read_by_name_with_values_from_their_folders(
    spark: Any, make_lake: MakeLake, tmp_path: Path
) -> None:
    for day in (1, 2):
        folder = tmp_path / "ext" / f"day=2024-01-0{day}" / "region=a%20b"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"ID": [day], "v": [f"v{day}"]}), folder / "f.parquet")
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t(id BIGINT, v VARCHAR, day DATE, region VARCHAR)",
        f"CALL ducklake_add_data_files('lake', 't', '{tmp_path}/ext/**/*.parquet',"
        " hive_partitioning => true)",
        "ALTER TABLE t RENAME COLUMN v TO w",
    )
    with lake.open() as ours:
        frame = check(ours.table("t").scan(), spark, native=True)

    assert frame.where("day = DATE '2024-01-02'").collect()[0]["region"] == "a b"


def test_a_file_whose_name_spark_thinks_is_hidden_is_read_all_the_same(
    spark: Any, make_lake: MakeLake, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "_hidden.parquet")
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t(id BIGINT)",
        f"CALL ducklake_add_data_files('lake', 't', '{tmp_path}/_hidden.parquet')",
    )
    with lake.open() as ours:
        assert check(ours.table("t").scan(), spark, native=False).count() == 2


def test_many_small_files_that_arrow_reads_are_few_partitions(
    spark: Any, make_lake: MakeLake, tmp_path: Path
) -> None:
    for number in range(12):
        pq.write_table(pa.table({"id": [number]}), tmp_path / f"_{number}.parquet")
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t(id BIGINT)",
        f"CALL ducklake_add_data_files('lake', 't', '{tmp_path}/_*.parquet')",
    )
    with lake.open() as ours:
        frame = check(ours.table("t").scan(), spark, native=False)

    assert frame.rdd.getNumPartitions() < 4


def test_pieces_of_a_large_file_are_read_once(spark: Any, make_lake: MakeLake) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute(
        "CALL ducklake_set_option('lake', 'parquet_row_group_size', 2048)",
        "CREATE TABLE t AS SELECT i AS id FROM range(20000) r(i)",
        "DELETE FROM t WHERE id BETWEEN 3000 AND 9000",
    )
    with lake.open() as ours:
        scan = ours.table("t").scan(task_bytes=1000)
        assert len(scan.plan.tasks) > 5
        frame = check(scan, spark, native=True)

    # Row groups are skipped, and positions still count from the beginning of the file.
    assert frame.where("id >= 2999 AND id < 9005").count() == 5


def test_many_shapes_of_files_are_few_scans(spark: Any, make_lake: MakeLake) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute("CREATE TABLE t(id INTEGER, c0 INTEGER)")
    for number in range(20):
        lake.execute(
            f"INSERT INTO t (id, c{number}) VALUES ({number}, {number})",
            f"ALTER TABLE t RENAME COLUMN c{number} TO c{number + 1}",
        )
    with lake.open() as ours:
        frame = check(ours.table("t").scan(), spark)

    # A frame that ran shows its plan twice, as it was and as it became.
    assert physical_plan(frame.select("*")).count("FileScan parquet") == 16


@pytest.mark.parametrize("kept", [600, 1001])
def test_a_file_that_is_not_the_recorded_one_is_an_error(
    spark: Any, make_lake: MakeLake, kept: int
) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute("CREATE TABLE t AS SELECT i AS id FROM range(1000) r(i)")
    with lake.open() as ours:
        plan = ours.table("t").scan()
        assert check(plan, spark, native=True).count() == 1000
        (file,) = ours.table("t").files()
        schema = pq.read_schema(file.path)
        pq.write_table(pa.Table.from_arrays([pa.array(range(kept))], schema=schema), file.path)
        with pytest.raises(Exception, match=Path(file.path).name):
            plan.to_spark(spark).count()


def test_other_row_counts_of_the_catalog_are_an_error(spark: Any, make_lake: MakeLake) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id FROM range(1000) r(i)",
        "UPDATE meta.ducklake_data_file SET record_count = 999",
    )
    with lake.open() as ours:
        frame = ours.table("t").scan().to_spark(spark)
        with pytest.raises(Exception, match="has 1000 rows, but the catalog records 999"):
            frame.count()


def test_wide_deltas_of_integers_are_read_alike(spark: Any, make_lake: MakeLake) -> None:
    lake = make_lake(options=IN_FILES)
    lake.execute(
        "CALL ducklake_set_option('lake', 'parquet_version', '2')",
        "CREATE TABLE t(id INTEGER, v BIGINT)",
        "INSERT INTO t VALUES (-2000000000, 1), (2000000000, -9000000000000000000)",
        "INSERT INTO t SELECT (-1) ** i * (2000000000 - i), i FROM range(5000) r(i)",
        "DELETE FROM t WHERE v = 5",
    )
    expected = lake.query("SELECT id, v FROM t ORDER BY ALL")
    with lake.open(spark=spark) as ours:
        plan = ours.table("t").scan(["id", "v"])
        frame = check(plan, spark)
        assert sorted(tuple(row) for row in frame.collect()) == expected
        assert sorted(zip(*plan.to_arrow().to_pydict().values(), strict=True)) == expected


def test_executors_need_no_class_of_ours_for_files_without_deletes(
    spark: Any, make_lake: MakeLake
) -> None:
    """They would have it only after a query of a table with deletes."""
    lake = make_lake(options=IN_FILES)
    lake.execute("CREATE TABLE kept(id INTEGER)", "CREATE TABLE deleted(id INTEGER)")
    for table in ("kept", "deleted"):
        lake.execute(f"INSERT INTO {table} FROM range(100)")
    lake.execute("DELETE FROM deleted WHERE id = 7")

    with lake.open() as ours:
        sent = {}
        for name in ("kept", "deleted"):
            rows = ours.table(name).to_spark(spark)._jdf.queryExecution().toRdd()
            utils = spark._jvm.org.apache.commons.lang3.SerializationUtils
            sent[name] = (
                b"lakeport.ReadFile" in utils.serialize(rows),
                (b"lakeport.LakeFiles" in utils.serialize(rows)),
            )

    assert sent == {"kept": (False, False), "deleted": (True, False)}
