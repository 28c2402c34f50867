"""DataFrames and Spark SQL, served to a client: the right rows, in order, or one clear sentence."""

from __future__ import annotations

import datetime as dt
import gc
import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import lakeport
from lakeport.catalog import CatalogBuilder, ScanOptions
from lakeport.errors import (
    DefinitionError,
    InvalidArgumentError,
    InvalidInputError,
    LakeportError,
    PermissionDeniedError,
    UnsupportedError,
)
from lakeport.filters import Filter, col
from lakeport.spark import SparkTable, spark_sql_function
from lakeport.spark.compat import map_in_arrow
from lakeport.spark.transport.frame_stream import stream_dataframe
from tests.wait import wait_until

ROWS = 20_000
NUMBERS = f"""
    SELECT id, CAST(id % 7 AS INT) AS seven, concat('t', id % 10) AS text,
           IF(id % 3 = 0, NULL, id / 2.0D) AS half, timestamp_micros(id * 1000000) AS at
    FROM range({ROWS})
"""
IDS = pa.schema([("id", pa.int64())])


@pytest.fixture(scope="module")
def own_spark(spark: Any) -> Any:
    """A session whose views nobody else has, and whose batches are small."""
    own = spark.newSession()
    own.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
    own.sql(NUMBERS).createOrReplaceTempView("numbers")
    return own


@pytest.fixture(scope="module")
def client(own_spark: Any) -> Iterator[lakeport.Client]:
    builder = CatalogBuilder()
    shop = builder.schema("s", comment="Spark")
    shop.table("frame", SparkTable(own_spark.sql(NUMBERS)), comment="A DataFrame")
    shop.table(SparkTable(NUMBERS + " ORDER BY id DESC", name="query", spark=own_spark))
    shop.table("made", SparkTable(lambda: own_spark.range(3).toDF("Id")))
    shop.function(spark_sql_function(own_spark))
    with (
        lakeport.Server(builder.build()) as server,
        lakeport.connect(server.location) as client,
    ):
        yield client


def active_jobs(spark: Any) -> bool:
    return bool(spark.sparkContext.statusTracker().getActiveJobsIds())


def test_a_client_reads_every_row_of_a_frame(client: lakeport.Client) -> None:
    rows = client.table("s.frame").scan().to_arrow()

    assert rows.schema == pa.schema(
        [
            ("id", pa.int64()),
            ("seven", pa.int32()),
            ("text", pa.string()),
            ("half", pa.float64()),
            ("at", pa.timestamp("us", "UTC")),
        ]
    )
    assert rows["id"].to_pylist() == list(range(ROWS))
    assert rows["half"].null_count == len(range(0, ROWS, 3))
    assert rows["at"][5].as_py() == dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=dt.UTC)
    assert client.table("s.frame").comment == "A DataFrame"


def test_a_query_keeps_its_order_and_a_callable_is_asked(client: lakeport.Client) -> None:
    ids = client.table("s.query").scan(["id"]).to_arrow()["id"].to_pylist()

    assert ids == list(range(ROWS - 1, -1, -1))
    assert client.table("s.made").scan().to_arrow().to_pydict() == {"Id": [0, 1, 2]}
    assert client.table("s.frame").scan().count() == ROWS


@pytest.mark.parametrize(
    ("where", "count"),
    [
        (col("id") < 10, 10),
        ((col("seven") == 3) & col("text").starts_with("t1"), len(range(31, ROWS, 70))),
        (col("half").is_null(), len(range(0, ROWS, 3))),
        (col("at") >= dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=ROWS - 2), 2),
    ],
    ids=["number", "text", "null", "moment"],
)
def test_filters_mean_the_same_in_spark(client: lakeport.Client, where: Any, count: int) -> None:
    assert client.table("s.frame").scan(["id"], filter=where).to_arrow().num_rows == count


def test_a_void_in_a_struct_is_read_whatever_the_names_are(own_spark: Any) -> None:
    frame = own_spark.sql("SELECT named_struct('a b', NULL, 'x{}y', array(NULL)) AS `s{}`")

    rows = SparkTable(frame, name="t").scan(ScanOptions()).read_all()

    assert rows.to_pylist() == [{"s{}": {"a b": None, "x{}y": [None]}}]


def test_filters_and_columns_are_pushed_into_catalyst(own_spark: Any) -> None:
    table = SparkTable(own_spark.table("numbers"), name="t")
    where = Filter.of(col("id") < 5)
    bound = lakeport.filters.bind(where, table.arrow_schema())

    rows = table.scan(ScanOptions(columns=("text",), filter=bound)).read_all()
    limited = table.scan(ScanOptions(columns=(), limit=7)).read_all()

    assert rows.to_pydict() == {"text": ["t0", "t1", "t2", "t3", "t4"]}
    assert limited.num_rows == 7
    assert SparkTable(own_spark.range(12), name="t").size(ScanOptions()).rows == 12


def test_every_type_of_spark_has_one_in_duckdb_or_a_reason(own_spark: Any) -> None:
    frame = own_spark.sql(
        """SELECT 1Y AS i8, 2S AS i16, 1.25BD AS dec, X'00FF' AS bin, DATE '2024-02-29' AS d,
        TIMESTAMP_NTZ '2024-02-29 12:00:00.000001' AS ntz, TIME '12:34:56.789' AS clock,
        INTERVAL '1 02:03:04' DAY TO SECOND AS span, INTERVAL '1-2' YEAR TO MONTH AS months,
        make_interval(0, 1, 0, 2, 0, 0, 3) AS mixed, NULL AS nothing, array() AS none,
        array(1, NULL) AS list, map('a', TIMESTAMP_NTZ '2024-01-01 00:00:00') AS entries,
        named_struct('a', array(named_struct('b', 1.5F))) AS nested,
        parse_json('{"k": [1, "x"]}') AS doc, 'A' COLLATE UTF8_LCASE AS loose, 1 AS LIST"""
    )

    rows = SparkTable(frame, name="t").scan(ScanOptions()).read_all()

    (row,) = rows.to_pylist()
    assert json.loads(row.pop("doc")) == {"k": [1, "x"]}
    assert row == {
        "i8": 1,
        "i16": 2,
        "dec": Decimal("1.25"),
        "bin": b"\x00\xff",
        "d": dt.date(2024, 2, 29),
        "ntz": dt.datetime(2024, 2, 29, 12, 0, 0, 1),
        "clock": dt.time(12, 34, 56, 789000),
        "span": dt.timedelta(days=1, hours=2, minutes=3, seconds=4),
        "months": pa.MonthDayNano((14, 0, 0)),
        "mixed": pa.MonthDayNano((1, 2, 3_000_000_000)),
        "nothing": None,
        "none": [],
        "list": [1, None],
        "entries": [("a", dt.datetime(2024, 1, 1))],
        "nested": {"a": [{"b": 1.5}]},
        "loose": "A",
        "LIST_1": 1,
    }
    assert rows.schema.field("nothing").type == pa.int32()
    assert rows.schema.field("clock").type == pa.time64("us")
    with pytest.raises(UnsupportedError, match=r"'v' has the Spark type array<variant>"):
        SparkTable(own_spark.sql("SELECT array(parse_json('1')) AS v"), name="t").arrow_schema()


def test_comparisons_that_differ_in_spark_are_left_to_the_client(own_spark: Any) -> None:
    frame = own_spark.sql("SELECT 'A' COLLATE UTF8_LCASE AS loose, parse_json('1') AS doc")
    table = SparkTable(frame, name="t")
    where = Filter.of(col("loose") != "a", col("doc") == "1")

    bound = lakeport.filters.bind(where, table.arrow_schema())

    assert table.scan(ScanOptions(filter=bound)).read_all().num_rows == 1


def test_spark_sql_runs_a_query(client: lakeport.Client) -> None:
    text = "SELECT seven, count(*) AS n, max(id) AS id FROM numbers GROUP BY seven ORDER BY seven;"

    rows = client.call_table("s.spark_sql", text).to_arrow()

    assert rows.schema.names == ["seven", "n", "id"]
    assert rows["seven"].to_pylist() == list(range(7))
    assert sum(rows["n"].to_pylist()) == ROWS
    narrow = (
        client.call_table("s.spark_sql", "TABLE numbers").select("id").filter(col("id") > ROWS - 3)
    )
    assert narrow.to_arrow().to_pydict() == {"id": [ROWS - 2, ROWS - 1]}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("SELECT * FROM nowhere", r"\[TABLE_OR_VIEW_NOT_FOUND\] The table or view `nowhere`"),
        ("SELECT missing FROM numbers", r"\[UNRESOLVED_COLUMN.* `missing`"),
        ("SELEC 1", r"not one query that Spark understands: \[PARSE_SYNTAX_ERROR\]"),
        ("SELECT 1 / (id - 5) FROM numbers", r"\[DIVIDE_BY_ZERO\] Division by zero"),
        ("  ", "needs the text of a query"),
    ],
)
def test_what_spark_refuses_is_one_sentence(
    client: lakeport.Client, text: str, sentence: str
) -> None:
    with pytest.raises((InvalidArgumentError, InvalidInputError), match=sentence) as caught:
        client.call_table("s.spark_sql", text).to_arrow()

    assert "\n" not in str(caught.value)
    assert "java" not in str(caught.value).lower()


@pytest.mark.parametrize(
    "text",
    [
        "DROP VIEW numbers",
        "CREATE TABLE made AS SELECT 1",
        "SET spark.sql.ansi.enabled = false",
        "SELECT 1) ; DROP VIEW numbers; SELECT * FROM (SELECT 1",
        "SHOW TABLES",
        "SELECT * FROM parquet.`/etc`",
        "SELECT * FROM text.`/etc/hostname`",
        "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
        "SELECT (SELECT identifier('java' || '_method')('java.lang.System', 'exit', 1))",
        "SELECT TRANSFORM(id) USING 'cat' AS (x) FROM numbers",
    ],
)
def test_what_is_not_a_harmless_query_is_refused_before_it_runs(
    client: lakeport.Client, own_spark: Any, text: str
) -> None:
    with pytest.raises((InvalidArgumentError, PermissionDeniedError)):
        client.call_table("s.spark_sql", text).to_arrow()

    assert own_spark.catalog.tableExists("numbers")
    assert not own_spark.catalog.tableExists("made")


def test_a_query_sees_no_environment_unless_it_is_trusted(
    client: lakeport.Client, own_spark: Any
) -> None:
    text = "SELECT '${env:HOME}' AS home"
    catalog = CatalogBuilder().schema("s").function(spark_sql_function(own_spark, trusted=True))

    assert client.call_table("s.spark_sql", text).to_arrow().to_pydict() == {
        "home": ["${env:HOME}"]
    }
    with lakeport.Server(catalog.build()) as server, lakeport.connect(server.location) as trusted:
        assert "${" not in str(trusted.call_table("s.spark_sql", text).to_arrow())


def test_without_a_session_only_the_catalog_of_spark_is_seen(spark: Any) -> None:
    spark.range(1).createOrReplaceTempView("private")
    catalog = CatalogBuilder().schema("s").function(spark_sql_function()).build()

    with lakeport.Server(catalog) as server, lakeport.connect(server.location) as client:
        with pytest.raises(LakeportError, match="`private` cannot be found"):
            client.call_table("s.spark_sql", "TABLE private").to_arrow()
        assert client.call_table("s.spark_sql", "VALUES (1)").to_arrow().num_rows == 1
    # The server's threads have found the session that runs, and left it as it is.
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_a_client_that_leaves_ends_the_job_though_no_row_comes(
    client: lakeport.Client, own_spark: Any
) -> None:
    endless = """SELECT id FROM range(0, 10, 1, 10)
        UNION ALL SELECT id FROM range(0, 1000000000000000, 1, 1) WHERE id % 7 = 9"""
    reader = client.call_table("s.spark_sql", endless).to_reader()
    assert reader.read_next_batch().num_rows == 1
    assert wait_until(lambda: active_jobs(own_spark))

    del reader
    gc.collect()

    assert wait_until(lambda: not active_jobs(own_spark))


@pytest.mark.parametrize("route", ["push", "collect"])
def test_a_frame_streams_in_order_and_can_be_closed(own_spark: Any, route: str) -> None:
    routed = own_spark.newSession()
    routed.conf.set("spark.lakeport.route", route)

    sorted_ids = stream_dataframe(routed.range(5000).orderBy("id"), IDS).read_all()
    assert sorted_ids["id"].to_pylist() == list(range(5000))
    assert stream_dataframe(routed.range(0), IDS).read_all().num_rows == 0
    with pytest.raises(InvalidInputError, match="DIVIDE_BY_ZERO"):
        stream_dataframe(routed.sql("SELECT 1 DIV (id - 5) AS id FROM range(9)"), IDS).read_all()
    with stream_dataframe(routed.range(0, 10**8, 1, 10_000), IDS) as reader:
        reader.read_next_batch()
    assert wait_until(lambda: not active_jobs(routed))


def test_a_route_that_does_not_exist_is_refused(own_spark: Any) -> None:
    routed = own_spark.newSession()
    routed.conf.set("spark.lakeport.route", "pigeon")

    with pytest.raises(InvalidArgumentError, match="'push' or 'collect', not 'pigeon'"):
        stream_dataframe(routed.range(1), IDS)


def test_a_partition_that_fails_midway_and_changes_its_order_comes_once(own_spark: Any) -> None:
    def unstable(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        ids = [id for batch in batches for id in batch["id"].to_pylist()]
        is_retry = context.attemptNumber() > 0
        for start in range(0, len(ids), 1000):
            if start == 5000 and context.partitionId() == 1 and not is_retry:
                raise OSError("the disk is away")
            rows = ids[start : start + 1000]
            yield pa.RecordBatch.from_pydict({"id": rows[::-1] if is_retry else rows})

    frame = map_in_arrow(own_spark.range(0, 40_000, 1, 4), unstable, "id bigint")

    ids = stream_dataframe(frame, IDS).read_all()["id"].to_pylist()

    assert ids[10_000:10_002] == [10_999, 10_998]
    assert sorted(ids) == list(range(40_000))


def test_a_slow_consumer_holds_no_cores(own_spark: Any) -> None:
    frame = own_spark.range(0, 400_000, 1, 8)
    reader = stream_dataframe(frame, IDS, max_bytes=100_000)
    first = reader.read_next_batch()

    assert wait_until(lambda: not active_jobs(own_spark))
    rest = reader.read_all()["id"].to_pylist()

    assert first["id"].to_pylist() + rest == list(range(400_000))


def test_no_more_partitions_are_begun_while_the_disk_share_is_full(own_spark: Any) -> None:
    frame = own_spark.range(0, 200_000, 1, 20)
    reader = stream_dataframe(frame, IDS, max_bytes=1000, max_disk_bytes=100_000)
    first = reader.read_next_batch()

    assert wait_until(lambda: not active_jobs(own_spark))
    rest = reader.read_all()["id"].to_pylist()

    assert first["id"].to_pylist() + rest == list(range(200_000))


def test_what_is_no_frame_is_refused_when_the_catalog_is_built(own_spark: Any) -> None:
    def build(source: Any, **options: Any) -> None:
        CatalogBuilder().schema("s").table("t", source, **options).build()

    with pytest.raises(DefinitionError, match=r"wrap the DataFrame in a lakeport\.spark\.Spark"):
        build(own_spark.range(1))
    with pytest.raises(DefinitionError, match="do not apply to a SparkTable"):
        build(SparkTable(own_spark.range(1)), statistics=True)
    with pytest.raises(DefinitionError, match="int is not a DataFrame"):
        build(SparkTable(3))
    with pytest.raises(InvalidInputError, match="not one query"):
        build(SparkTable("DROP VIEW numbers", spark=own_spark))
