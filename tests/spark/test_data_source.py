"""The `ducklake` data source: a table of a lake for `spark.read` and for SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from lakeport.ducklake import S3Secret
from lakeport.errors import InvalidArgumentError
from lakeport.spark import register_data_source
from lakeport.spark.source_filters import pushed_filter
from lakeport.spark.source_options import SourceOptions
from tests.real_lakes import RealLake

# Starting Spark and making the lake may take long where many share a machine.
pytestmark = pytest.mark.timeout(600)

ROWS = """
    SELECT i::INTEGER AS id, 'v' || i AS name, i * 1.5::DECIMAL(9,2) AS price, i::DOUBLE / 7 AS x,
           DATE '2024-01-01' + i::INTEGER AS d, TIMESTAMP '2024-01-01' + to_hours(i) AS ts,
           TIMESTAMPTZ '2024-01-01 00:00:00+00' + to_days(i::INTEGER) AS tz, i % 2 = 0 AS even,
           CASE WHEN i % 10 = 0 THEN i END AS tens, uuid() AS u, {'a': i} AS st
    FROM range({first}, {last}) r(i)
"""  # fmt: skip


@pytest.fixture(scope="module")
def lake(
    reference: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealLake]:
    """Two files of a hundred rows, a deleted row, an inlined row, and a column with a comma."""
    folder = tmp_path_factory.mktemp("source")
    made = RealLake(reference, f"ducklake:{folder}/meta.ducklake", f"{folder}/data/")
    first, second = (
        ROWS.replace("{first}", str(start)).replace("{last}", str(start + 100))
        for start in (0, 100)
    )
    made.execute(
        f"CREATE TABLE events AS {first}",
        f"INSERT INTO events {second}",
        "DELETE FROM events WHERE id = 150",
        "INSERT INTO events SELECT * REPLACE (1000 AS id) FROM events WHERE id = 1",
        'CREATE SCHEMA "odd schema"',
        'CREATE TABLE "odd schema"."a.b"("x,y" INTEGER, z INTEGER)',
        'INSERT INTO "odd schema"."a.b" VALUES (1, 2)',
        "CREATE TABLE empty(id INTEGER)",
    )
    made.detach()
    yield made
    made.detach()


def load(spark: Any, lake: RealLake, **options: Any) -> Any:
    return spark.read.format("ducklake").options(catalog=lake.uri, **options).load()


def test_a_table_has_the_rows_and_types_of_the_lake(spark: Any, lake: RealLake) -> None:
    frame = load(spark, lake, table="events")

    ours = frame.select("id", "name", "price", "d", "ts", "even", "tens", "u").orderBy("id")
    theirs = lake.query(
        "SELECT id, name, price, d, ts, even, tens, u::VARCHAR FROM events ORDER BY id"
    )
    lake.detach()
    assert [tuple(row) for row in ours.collect()] == theirs
    assert dict(frame.dtypes)["ts"] == "timestamp_ntz"
    assert dict(frame.dtypes)["st"] == "struct<a:bigint>"


def test_a_table_is_read_at_the_snapshot_it_was_loaded_at(spark: Any, make_lake: Any) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE t AS SELECT 1 AS id")
    lake.detach()
    frame = load(spark, lake, table="t")
    lake.execute("INSERT INTO t VALUES (2)", "ALTER TABLE t ADD COLUMN more INTEGER")
    lake.detach()

    assert [tuple(row) for row in frame.collect()] == [(1,)]
    assert sorted(load(spark, lake, table="t").collect()) == [(1, None), (2, None)]


def test_versions_columns_and_quoted_names_work_from_sql(spark: Any, lake: RealLake) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW old USING ducklake OPTIONS (catalog '{lake.uri}',"
        " table 'main.events', version '1', columns 'name, rowid')"
    )
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW odd USING ducklake OPTIONS (catalog '{lake.uri}',"
        """ table '"odd schema"."a.b"', columns '"x,y"')"""
    )

    counted = spark.sql("SELECT count(*), max(rowid) FROM old").collect()

    assert [tuple(row) for row in counted] == [(100, 99)]
    assert spark.table("old").columns == ["name", "rowid"]
    assert [row.asDict() for row in spark.table("odd").collect()] == [{"x,y": 1}]


def test_files_that_cannot_match_are_not_read(spark: Any, lake: RealLake) -> None:
    register_data_source(spark)
    frame = load(spark, lake, table="events")

    late = frame.where("id BETWEEN 100 AND 199 AND name LIKE 'v1%'")

    # Two files and the inlined row; the second file alone.
    assert frame.rdd.getNumPartitions() == 3
    assert late.rdd.getNumPartitions() == 1
    assert late.count() == 99


def test_a_session_that_pushes_no_filters_down_reads_the_same(spark: Any, lake: RealLake) -> None:
    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "false")
    try:
        assert load(spark, lake, table="events").where("id >= 150").count() == 50
    finally:
        spark.conf.set(setting, before)


def test_a_table_without_rows_is_empty(spark: Any, lake: RealLake) -> None:
    assert load(spark, lake, table="empty").collect() == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"table": "nowhere"}, "there is no table main.nowhere at snapshot"),
        ({"table": "events", "columns": "id,nothing"}, "has no column 'nothing'"),
    ],
)
def test_a_mistake_is_said_in_one_sentence(
    spark: Any, lake: RealLake, options: dict[str, str], sentence: str
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=sentence):
        load(spark, lake, **options)


def test_secrets_appear_neither_in_plans_nor_in_errors(spark: Any, lake: RealLake) -> None:
    from pyspark.errors import PySparkException

    secrets = {"s3.key_id": "AKIAHIDDEN", "s3.secret": "hunter2"}
    frame = load(spark, lake, table="events", **secrets)
    plan = frame._jdf.queryExecution().toString()
    unreachable = "ducklake:postgres:host=127.0.0.1 port=1 dbname=x user=me password=hunter2"

    with pytest.raises(PySparkException, match="cannot be reached") as failure:
        spark.read.format("ducklake").options(catalog=unreachable, table="t", **secrets).load()

    assert not re.search("hunter2|AKIAHIDDEN", plan + str(failure.value))


@pytest.mark.parametrize(
    ("text", "schema", "expected"),
    [
        ("events", None, ("main", "events")),
        ("sales.events", None, ("sales", "events")),
        ("events", "sales", ("sales", "events")),
        ("sales.events", "sales", ("sales", "events")),
        (' "my ""own"" schema" . `a.b` ', None, ('my "own" schema', "a.b")),
    ],
)
def test_a_table_is_named_with_or_without_its_schema(
    text: str, schema: str | None, expected: tuple[str, str]
) -> None:
    given = {"catalog": "x", "table": text} | ({"schema": schema} if schema else {})

    options = SourceOptions.parse(given)

    assert (options.schema, options.name) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id", ("id",)),
        ("id, amount", ("id", "amount")),
        ('id,"a, ""b""",`c,d`', ("id", 'a, "b"', "c,d")),
        ("two words , other", ("two words", "other")),
    ],
)
def test_columns_are_a_list_of_names(text: str, expected: tuple[str, ...]) -> None:
    options = SourceOptions.parse({"Catalog": "x", "TABLE": "t", "columns": text})

    assert options.columns == expected


def test_an_s3_secret_is_given_in_the_words_of_duckdb() -> None:
    options = SourceOptions.parse(
        {
            "catalog": "x",
            "table": "t",
            "s3.key_id": "AKIAHIDDEN",
            "s3.secret": "hunter2",
            "S3.Endpoint": "localhost:9000",
            "s3.use_ssl": "false",
        }
    )

    assert options.storage.secrets == (
        S3Secret(key_id="AKIAHIDDEN", secret="hunter2", endpoint="localhost:9000", use_ssl=False),
    )
    assert not re.search("hunter2|AKIAHIDDEN", repr(options))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"table": "t"}, "needs the option 'catalog'"),
        ({"catalog": "x", "table": " "}, "needs the option 'table'"),
        ({"catalog": "x", "table": "t", "path": "y"}, "has no option 'path'"),
        ({"catalog": "x", "table": "a.b.c"}, "more than a schema and a name"),
        ({"catalog": "x", "table": "a.b", "schema": "c"}, "is not in the schema 'c'"),
        ({"catalog": "x", "table": 'a."b'}, "'table' cannot be understood"),
        ({"catalog": "x", "table": "t", "columns": "a,,b"}, "'columns' cannot be understood"),
        ({"catalog": "x", "table": "t", "version": "new"}, "'new' is not the number of a snapshot"),
        ({"catalog": "x", "table": "t", "s3.colour": "red"}, "'colour' is not an option"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        SourceOptions.parse(options)


def test_every_filter_of_spark_keeps_the_rows_that_match(lake: RealLake) -> None:
    """The rows that are left out, by pruning or by Arrow, are never rows that match."""
    from pyspark.sql import datasource as spark

    moment = datetime(2024, 1, 5)
    cases: list[tuple[Any, str]] = [
        (spark.EqualTo(("id",), 7), "id = 7"),
        (spark.EqualNullSafe(("tens",), None), "tens IS NULL"),
        (spark.GreaterThan(("price",), Decimal("200.00")), "price > 200"),
        (spark.GreaterThanOrEqual(("d",), date(2024, 6, 1)), "d >= DATE '2024-06-01'"),
        (spark.LessThan(("ts",), moment), "ts < TIMESTAMP '2024-01-05'"),
        (spark.LessThanOrEqual(("x",), 3.0), "x <= 3.0"),
        (spark.In(("name",), ("v3", "v190", None)), "name IN ('v3', 'v190')"),
        (spark.IsNull(("tens",)), "tens IS NULL"),
        (spark.IsNotNull(("tens",)), "tens IS NOT NULL"),
        (spark.Not(spark.EqualTo(("even",), True)), "NOT even"),
        (spark.StringStartsWith(("name",), "v19"), "starts_with(name, 'v19')"),
        (spark.StringEndsWith(("name",), "9"), "suffix(name, '9')"),
        (spark.StringContains(("name",), "5"), "contains(name, '5')"),
    ]
    expected = [
        [row[0] for row in lake.query(f"SELECT id FROM events WHERE {sql} ORDER BY 1")]
        for _, sql in cases
    ]
    with lake.open() as ours:
        table = ours.table("events")
        for (pushed, sql), ids in zip(cases, expected, strict=True):
            filter = pushed_filter([pushed], table.columns)
            found = table.scan(["id"], filter, exact=False).to_table()
            assert sorted(found["id"].to_pylist()) == ids, sql


def test_filters_on_values_that_spark_holds_otherwise_are_left_to_spark(lake: RealLake) -> None:
    from pyspark.sql import datasource as spark

    with lake.open() as ours:
        columns = ours.table("events").columns
    given = [
        spark.EqualTo(("u",), "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        spark.GreaterThan(("st", "a"), 5),
        spark.EqualTo(("tz",), object()),
        spark.Not(spark.IsNull(("u",))),
    ]

    assert not pushed_filter(given, columns)
