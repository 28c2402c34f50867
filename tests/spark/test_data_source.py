"""The `ducklake` data source: a table of a lake for `spark.read` and for SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakeport.ducklake import S3Secret
from lakeport.errors import InvalidArgumentError
from lakeport.spark import register_data_source
from lakeport.spark.source.options import SourceOptions
from tests.fixtures_lakes import RealLake

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


PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(params=["pushdown", "rule", "pushdown and rule"])
def session(spark: Any, request: pytest.FixtureRequest) -> Any:
    """A session of its own, in which Spark's pushdown, our rule, or both have the filters."""
    own = spark.newSession()
    own.conf.set(PUSHDOWN, str("pushdown" in request.param).lower())
    if "rule" in request.param:
        register_data_source(own)
    return own


def ids(frame: Any) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


IDS = [*range(150), *range(151, 200), 1000]


def test_a_frame_is_whole_after_a_part_of_it_was_read(session: Any, lake: RealLake) -> None:
    frame = load(session, lake, table="events")

    assert frame.where("id < 10").count() == 10
    assert frame.count() == len(IDS)
    assert ids(frame.where("id >= 190")) == [*range(190, 200), 1000]
    assert ids(frame) == IDS


def test_a_frame_can_be_united_and_joined_with_itself(session: Any, lake: RealLake) -> None:
    frame = load(session, lake, table="events")
    low, high = frame.where("id < 10"), frame.where("id >= 190 AND id < 1000")

    assert ids(low.union(high)) == [*range(10), *range(190, 200)]
    assert low.union(high).union(frame).count() == 20 + len(IDS)
    assert frame.where("name = 'v5'").join(frame.select("id", "x"), "id").count() == 1
    pairs = low.alias("l").join(high.alias("h"), on=low["even"] == high["even"])
    assert pairs.count() == 50
    assert high.join(low, "id", "left_anti").count() == 10


def test_a_cached_frame_is_whole(session: Any, lake: RealLake) -> None:
    frame = load(session, lake, table="events")
    part = frame.where("id < 10").cache()
    try:
        assert part.count() == 10
        frame.cache()
        assert frame.where("id >= 190").count() == 11
        assert (frame.count(), part.count()) == (len(IDS), 10)
    finally:
        frame.unpersist()
        part.unpersist()


def test_a_temporary_view_is_whole_in_every_query(session: Any, lake: RealLake) -> None:
    session.sql(
        "CREATE OR REPLACE TEMPORARY VIEW reused USING ducklake "
        f"OPTIONS (catalog '{lake.uri}', table 'events')"
    )
    load(session, lake, table="events").createOrReplaceTempView("framed")
    for view in ("reused", "framed"):
        queries = [
            (f"SELECT * FROM {view} WHERE id < 10", 10),
            (f"SELECT * FROM {view}", len(IDS)),
            (f"SELECT * FROM {view} WHERE name IN (SELECT name FROM {view})", len(IDS)),
            (
                f"WITH w AS (TABLE {view}) SELECT 1 FROM w WHERE id < 5 UNION ALL SELECT 1 FROM w",
                205,
            ),
        ]
        for query, expected in queries:
            assert session.sql(query).count() == expected, query


def test_nothing_switches_the_pushdown_of_filters_on(spark: Any) -> None:
    own = spark.newSession()
    register_data_source(own)

    assert spark.conf.get(PUSHDOWN) == "false"
    assert own.conf.get(PUSHDOWN) == "false"


def test_the_option_filter_leaves_out_files_and_rows(session: Any, lake: RealLake) -> None:
    frame = load(session, lake, table="events")
    late = load(session, lake, table="events", filter="id BETWEEN 100 AND 199 AND name LIKE 'v19%'")

    # Two files and the inlined row; the second file alone.
    assert frame.rdd.getNumPartitions() == 3
    assert late.rdd.getNumPartitions() == 1
    assert ids(late) == list(range(190, 200))
    assert ids(late.where("id % 2 = 0").union(late)) == sorted(
        [*range(190, 200), *range(190, 200, 2)]
    )


@pytest.mark.parametrize(
    "condition",
    [
        "tens IS NULL AND id < 20",
        "d >= DATE '2024-06-01' AND NOT even",
        "ts < TIMESTAMP '2024-01-05' OR price > 290",
        "st.a IN (3, 190)",
        "u IS NOT NULL AND rowid % 50 = 3",
        "tz = TIMESTAMPTZ '2024-01-03 02:00:00+02'",
    ],
)
def test_the_option_filter_is_sql_of_duckdb(spark: Any, lake: RealLake, condition: str) -> None:
    expected = lake.query(f"SELECT id, name FROM events WHERE {condition} ORDER BY id")
    lake.detach()

    found = load(spark, lake, table="events", filter=condition, columns="id, name")

    assert expected
    assert [tuple(row) for row in found.orderBy("id").collect()] == expected


def test_a_table_becomes_a_frame_of_the_rows_that_pass_a_filter(spark: Any, lake: RealLake) -> None:
    with lake.open() as ours:
        table = ours.table("events")
        chosen = table.to_spark(spark, columns=["id"], filter="id >= 195")
        everything = table.to_spark(spark, columns=["id", "name"])

    assert chosen.columns == ["id"]
    assert ids(chosen) == [*range(195, 200), 1000]
    assert ids(everything) == IDS
    assert (len(chosen.inputFiles()), len(everything.inputFiles())) == (1, 2)


def test_a_table_without_rows_is_empty(spark: Any, lake: RealLake) -> None:
    assert load(spark, lake, table="empty").collect() == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"table": "nowhere"}, "there is no table main.nowhere at snapshot"),
        ({"table": "events", "columns": "id,nothing"}, "has no column 'nothing'"),
        ({"table": "events", "filter": "id > "}, "the filter is not SQL"),
        ({"table": "events", "filter": "nothing = 1"}, "has no column 'nothing'"),
    ],
)
def test_a_mistake_is_said_in_one_sentence(
    spark: Any, lake: RealLake, options: dict[str, str], sentence: str
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=sentence) as failure:
        load(spark, lake, **options)

    assert "Traceback" not in str(failure.value)


def test_an_option_of_batches_is_refused_for_streams_in_one_sentence(
    spark: Any, lake: RealLake, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    reader = spark.readStream.format("ducklake").options(catalog=lake.uri, table="events")
    stream = reader.option("filter", "id > 1").load()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()

    with pytest.raises(StreamingQueryException, match="'filter' is not for streams") as failure:
        query.awaitTermination(300)

    assert not re.search("Traceback|UnboundLocalError", str(failure.value))


def test_sql_inserts_into_a_view_of_the_source(spark: Any, make_lake: Any) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE t (id INTEGER)")
    lake.detach()
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW written USING ducklake "
        f"OPTIONS (catalog '{lake.uri}', table 't')"
    )

    spark.sql("INSERT INTO written VALUES (1), (2)")

    assert lake.query("FROM t ORDER BY id") == [(1,), (2,)]
    lake.detach()


def test_a_stream_whose_columns_do_not_fit_is_refused_in_one_sentence(
    spark: Any, lake: RealLake, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    rate = spark.readStream.format("rate").load().writeStream.format("ducklake")
    query = rate.options(catalog=lake.uri, table="events", checkpointLocation=str(tmp_path)).start()

    with pytest.raises(StreamingQueryException, match="no column 'timestamp'") as failure:
        query.awaitTermination(300)

    assert "Traceback" not in str(failure.value)


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
        ({"catalog": "x", "table": 'a."b'}, "'table' cannot be parsed"),
        ({"catalog": "x", "table": "t", "columns": "a,,b"}, "'columns' cannot be parsed"),
        ({"catalog": "x", "table": "t", "version": "new"}, "'new' is not the number of a snapshot"),
        ({"catalog": "x", "table": "t", "lock_timeout": "-1"}, "'lock_timeout' is in seconds"),
        ({"catalog": "x", "table": "t", "s3.colour": "red"}, "'colour' is not an option"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        SourceOptions.parse(options)
