"""Pruning loses no row, and leaves out the files that cannot match."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from lakeport.ducklake import Lake, LakeTable
from lakeport.ducklake.planning.partitioning import bucket_of, murmur3
from lakeport.ducklake.reading.tasks import FileTask
from lakeport.errors import InvalidArgumentError, NotFoundError
from lakeport.filters import Constant, DuckDBEncoder, Expression, Filter, LogicalType, col, lit
from lakeport.types.columns import Column
from tests.ducklake.typed_table import COLUMNS, filters, rows

SPECS = (
    None,
    "i",
    "s",
    "year(ts), month(ts)",
    "day(dt), hour(ts)",
    "bucket(5, i)",
    "bucket(3, s)",
    "bucket(4, u4), t",
    "year(tz)",
    "bucket(3, d), bucket(3, dt)",
    "dt",
    "d",
)


@pytest.fixture(scope="module")
def table(
    reference: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LakeTable]:
    """One table whose files were written with many partition specs."""
    folder = tmp_path_factory.mktemp("pruning")
    uri = f"ducklake:sqlite:{folder}/lake.sqlite"
    reference.execute(f"ATTACH '{uri}' AS pruned (DATA_PATH '{folder}/data/')")
    reference.execute("CALL ducklake_set_option('pruned', 'hive_file_pattern', false)")
    reference.execute(f"CREATE TABLE pruned.t({COLUMNS})")
    for number, spec in enumerate(SPECS):
        if spec is not None:
            reference.execute(f"ALTER TABLE pruned.t SET PARTITIONED BY ({spec})")
        reference.execute(f"INSERT INTO pruned.t {rows(number * 30, number * 30 + 40)}")
    reference.execute("INSERT INTO pruned.t (i, s) VALUES (7, 'inlined'), (NULL, NULL)")
    reference.execute("ALTER TABLE pruned.t ALTER COLUMN r TYPE DOUBLE")
    reference.execute("ALTER TABLE pruned.t ADD COLUMN later INTEGER DEFAULT 9")
    reference.execute("DELETE FROM pruned.t WHERE i = 11")
    reference.execute("DETACH pruned")
    with Lake.open(uri) as lake:
        yield lake.table("t")


@pytest.mark.exhaustive
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(predicate=filters())
def test_no_file_with_a_matching_row_is_pruned(
    predicate: Expression,
    table: LakeTable,
    everything: pa.Table,
    duckdb_connection: duckdb.DuckDBPyConnection,
) -> None:
    plan = table.scan(["rowid"], predicate)
    planned = {task.file.path for task in plan.tasks if isinstance(task, FileTask)}
    sql = DuckDBEncoder().encode(plan.filter) or "TRUE"
    matching = (
        duckdb_connection.from_arrow(everything)
        .filter(sql)
        .project("filename")
        .distinct()
        .fetchall()
    )
    in_files = {row[0] for row in matching if not row[0].startswith("ducklake_inlined")}
    assert in_files <= planned
    assert len(planned) == plan.pruning.kept <= plan.pruning.files


@pytest.fixture(scope="module")
def duckdb_connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@pytest.mark.parametrize(
    "predicate",
    [
        col("i") == 31,
        (col("i") > 395) | col("i").is_null(),
        col("dt").between(dt.date(2023, 11, 4), dt.date(2023, 11, 6)),
        col("f").is_in([1.0, float("nan")]) & (col("i") < 60),
    ],
)
def test_a_pruned_scan_gives_at_least_the_rows_that_match(
    predicate: Expression,
    table: LakeTable,
    everything: pa.Table,
    duckdb_connection: duckdb.DuckDBPyConnection,
) -> None:
    plan = table.scan(["rowid"], predicate)
    sql = DuckDBEncoder().encode(plan.filter)
    matching = duckdb_connection.from_arrow(everything).filter(sql).project("rowid").fetchall()
    assert {row[0] for row in matching} <= set(plan.to_table()["rowid"].to_pylist())
    assert matching


@pytest.fixture(scope="module")
def everything(table: LakeTable) -> pa.Table:
    return table.scan([*table.schema.names, "rowid", "filename"]).to_table()


@pytest.mark.parametrize(
    ("predicate", "at_most"),
    [
        (col("i") == 3, 2),
        (col("b") > 369 * 1000003, 25),
        (col("s") == "k7", 60),
        (col("ts") < dt.datetime(2023, 12, 31, 22), 2),
        (col("later") == 9, 1000),
        (col("i").is_in([1, 2]), 2),
        ((col("i") < 0) & (col("s") == "k1"), 0),
    ],
)
def test_files_that_cannot_match_are_left_out(
    predicate: Expression, at_most: int, table: LakeTable
) -> None:
    plan = table.scan(filter=predicate)
    assert plan.pruning.kept <= at_most
    assert len(plan.tasks) <= at_most + 1
    assert f"files: {plan.pruning.kept} of {plan.pruning.files} read" in plan.explain()


@pytest.mark.parametrize(
    ("sql", "at_most"),
    [
        ("i = 3 AND s <> 'x'", 2),
        ("main.i BETWEEN 2 + 1 AND 3", 2),
        ("dt = DATE '2023-11-03'", 3),
        ("st.x < 5", 12),
        ("i IN (1, 2) OR i = -1", 2),
        ("NOT (i >= 1) AND s IS NOT NULL", 1),
        ("CAST(i AS BIGINT) = 3", 2),
        ("upper(s) = 'K1'", 1000),
    ],
)
def test_a_filter_may_be_sql(sql: str, at_most: int, table: LakeTable) -> None:
    plan = table.scan(["rowid"], sql)
    assert plan.pruning.kept <= at_most
    assert plan.tasks


def test_wrong_sql_is_refused(table: LakeTable) -> None:
    for sql in (
        "i >",
        "i = 1; DROP TABLE t",
        "i = 1 ORDER BY i",
        "i > 1 HAVING count(*) > 1",
        "i > 1 USING SAMPLE 10%",
        "i = 'x'::INTEGER",
    ):
        with pytest.raises(InvalidArgumentError):
            table.scan(filter=sql)
    with pytest.raises(NotFoundError, match="nope"):
        table.scan(filter="nope = 1")


def test_partition_values_prune_before_statistics(table: LakeTable) -> None:
    assert table.scan(filter=col("i") == 155).pruning.by_partition > 0


def test_a_field_of_a_struct_is_pruned_by_its_own_statistics(table: LakeTable) -> None:
    from lakeport.filters import ColumnRef, Comparison, ComparisonOp, FunctionCall

    field = FunctionCall("struct_extract", (ColumnRef("st"), lit("x")), LogicalType("INTEGER"))
    plan = table.scan(["rowid"], Filter.of(Comparison(ComparisonOp.LESS, field, lit(5))))
    assert 0 < plan.pruning.kept < plan.pruning.files / 4


@pytest.mark.parametrize(
    ("type", "literal", "hashed"),
    [
        ("int32", "34", 2017239379),
        ("boolean", "true", 1392991556),
        ("date", "DATE '2017-11-16'", -653330422),
        ("timestamp", "TIMESTAMP '2017-11-16 22:31:08'", -2047944441),
        ("time", "TIME '22:31:08'", -662762989),
        ("float64", "1.0", -142385009),
        ("decimal(9,2)", "14.20", -622427183),
        ("uint32", "34", -427558391),
        ("uuid", "'f79c3e09-677c-4bbd-a479-3f349cb785e7'", 980414783),
        ("varchar", "'iceberg'", 1210000089),
    ],
)
def test_buckets_hash_like_the_real_implementation(type: str, literal: str, hashed: int) -> None:
    expected = (hashed & 0x7FFFFFFF) % 1000
    assert bucket_of(literal, Column(id=1, name="c", type=type), 1000) == expected
    assert murmur3(b"") == 0


def test_a_constant_of_another_kind_prunes_nothing(table: LakeTable) -> None:
    files = table.scan().pruning.files
    for constant in (Constant("x", LogicalType("VARCHAR")), Constant(b"x", LogicalType("BLOB"))):
        assert table.scan(["i"], col("i") == constant, exact=False).pruning.kept == files


def test_statistics_of_intervals_and_zoned_times_are_ignored(table: LakeTable) -> None:
    for name in ("iv", "zz"):
        plan = table.scan(["rowid"], col(name).is_not_null())
        assert plan.pruning.kept == plan.pruning.files


@pytest.mark.database_server
def test_of_twenty_thousand_files_a_selective_filter_keeps_one(
    make_lake: Callable[..., Any], tmp_path: Path
) -> None:

    import psycopg

    lake = make_lake("postgresql")
    lake.execute(
        "CREATE TABLE t(id BIGINT, v VARCHAR)", "INSERT INTO t SELECT i, 'x' FROM range(20) r(i)"
    )
    lake.detach()
    with psycopg.connect(lake.uri.removeprefix("ducklake:postgres:")) as database:
        database.execute(
            "INSERT INTO ducklake_data_file SELECT 1000 + i, table_id, begin_snapshot, NULL, NULL, 'f' || i || '.parquet',"
            " true, 'parquet', 1000, 100000, 500, 1000 * i, NULL, NULL, NULL, NULL"
            " FROM ducklake_data_file, generate_series(1, 20000) g(i)"
        )
        database.execute(
            "INSERT INTO ducklake_file_column_stats SELECT 1000 + i, 1, c, 100, 1000, 0, (1000 * i)::text,"
            " (1000 * i + 999)::text, NULL, NULL FROM generate_series(1, 20000) g(i), generate_series(1, 2) h(c)"
        )
        database.execute("ANALYZE")
    with lake.open() as ours:
        ours.table("t").scan(filter=col("id") == 5)
        for key in (5_000_123, 7_000_001, 123_456):
            plan = ours.table("t").scan(filter=col("id") == key)
            assert plan.pruning.kept == 1
            assert plan.pruning.files == 20_001
