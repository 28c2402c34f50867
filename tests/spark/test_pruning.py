"""Files that a query does not read, because its own predicates exclude them.

`where` on a DataFrame, `lake.sql` and the `ducklake` source are compared with DuckDB, and with
`scan(filter=…)` of the same predicate.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeport import Lake
from lakeport.ducklake.reading import FileTask
from lakeport.errors import UnavailableError
from lakeport.filters import Filter
from lakeport.spark import register_data_source
from lakeport.spark.frames import file_index, lake_files, optimizer_rule
from tests.fixtures_lakes import RealLake

FILES = 12
ROWS = 6


@dataclass(frozen=True)
class Tables:
    """A lake with a sorted and a partitioned table, and the same rows in DuckDB's memory."""

    lake: Lake
    uri: str
    connection: duckdb.DuckDBPyConnection

    def keys(self, table: str, predicate: str) -> list[int]:
        rows = self.connection.execute(f"SELECT key FROM memory.{table} WHERE {predicate}")
        return sorted(row[0] for row in rows.fetchall())

    def planned(self, table: str, predicate: str) -> int:
        """Return how many files `scan(filter=…)` reads."""
        return self.lake.table(table).scan(filter=predicate).plan.pruning.files_read


@pytest.fixture(scope="module")
def tables(
    reference: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory, spark: Any
) -> Iterator[Tables]:
    folder = tmp_path_factory.mktemp("pruning")
    made = RealLake(
        reference, f"ducklake:{folder}/m.ducklake", f"{folder}/data", "DATA_INLINING_ROW_LIMIT 0"
    )
    columns = (
        "key INTEGER, i INTEGER, l BIGINT, d DOUBLE, f FLOAT, s VARCHAR, day DATE, "
        "ts TIMESTAMP, tz TIMESTAMPTZ, n DECIMAL(9, 2), b BOOLEAN, p STRUCT(x INTEGER, y VARCHAR)"
    )
    made.execute(
        f"CREATE TABLE sorted({columns})",
        f"CREATE TABLE parts({columns})",
        "ALTER TABLE parts SET PARTITIONED BY (b, month(day))",
    )
    for number in range(FILES):
        made.execute(f"INSERT INTO sorted {_values(number)}")
    for number in (0, 1):
        values = " UNION ALL ".join(_values(6 * number + i) for i in range(6))
        made.execute(f"INSERT INTO parts {values}")
    made.execute(
        "ALTER TABLE sorted ALTER COLUMN i SET DATA TYPE BIGINT",
        "ALTER TABLE sorted RENAME COLUMN l TO l2",
        "ALTER TABLE sorted RENAME COLUMN d TO l",
        "ALTER TABLE sorted RENAME COLUMN l2 TO d",
        f"INSERT INTO sorted SELECT key, i, d, l, f, s, day, ts, tz, n, b, p "
        f"FROM ({_values(FILES)}) v(key, i, d, l, f, s, day, ts, tz, n, b, p)",
        "DELETE FROM sorted WHERE key IN (3, 40)",
        "CREATE OR REPLACE TABLE memory.sorted AS FROM lake.sorted",
        "CREATE OR REPLACE TABLE memory.parts AS FROM lake.parts",
    )
    made.detach()
    with Lake.open(made.uri, spark=spark) as lake:
        yield Tables(lake, made.uri, reference)


def _values(number: int) -> str:
    """Return the rows of one file; every third file has NULL, and every fourth NaN."""
    r = f"CAST({number * ROWS} + r AS INTEGER)"
    null = "NULL" if number % 3 == 2 else r
    nan = "CAST('NaN' AS DOUBLE)" if number % 4 == 3 else f"{r} - 20.5"
    return (
        f"SELECT {r}, if(r = 1, {null}, {r}), {r} * 10, if(r = 2, {nan}, {r} - 20.5), {r} / 2, "
        f"if(r = 3 AND {number % 3 == 2}, NULL, chr(CAST(97 + {r} // 9 AS INTEGER)) || {r}), "
        f"DATE '2024-01-15' + 5 * {r}, TIMESTAMP '2024-01-01' + INTERVAL 7 HOUR * {r}, "
        f"TIMESTAMPTZ '2024-01-01 00:00:00+00' + INTERVAL 7 HOUR * {r}, {r} / 4, {r} < 30, "
        f"{{'x': {r}, 'y': 'y' || {r}}} FROM range({ROWS}) t(r)"
    )


def files_read(frame: Any) -> int:
    """Return how many files were opened for a DataFrame that has been collected."""
    waiting, files = [frame._jdf.queryExecution().executedPlan()], 0
    while waiting:
        node = waiting.pop()
        if node.getClass().getSimpleName() == "FileSourceScanExec":
            files += node.metrics().apply("numFiles").value()
        if node.getClass().getSimpleName() == "BatchScanExec":
            partitions = node.inputPartitions()
            pickled = [partitions.apply(i).pickedPartition() for i in range(partitions.length())]
            tasks = [getattr(pickle.loads(part), "task", None) for part in pickled]
            files += len({task.file.id for task in tasks if isinstance(task, FileTask)})
        children = node.children()
        waiting += [children.apply(i) for i in range(children.length())]
    return files


def collect(frame: Any) -> tuple[list[int], int]:
    """Return the keys of a DataFrame and the number of files that were read for them."""
    chosen = frame.select("key")
    return sorted(row[0] for row in chosen.collect()), files_read(chosen)


FORMS = [
    "key = 40",
    "i = 41 AND s LIKE 'e%'",
    "i > 60 OR i <= 3",
    "i IN (5, 30)",
    "i IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)",
    "s IN ('a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7', 'a8', 'b9', 'b10', 'b11', 'b12')",
    "s LIKE 'c%'",
    "s IS NULL",
    "s IS NOT NULL AND i < 6",
    "i IS NULL",
    "NOT (i > 5 AND s > 'a')",
    "i <> 5 AND i < 7",
    "day = DATE '2024-02-29'",
    "day BETWEEN DATE '2024-02-01' AND DATE '2024-02-20'",
    "ts < TIMESTAMP '2024-01-02 03:04:05.5'",
    "tz >= TIMESTAMP '2024-01-20 00:00:00+00:00'",
    "n > 15.25",
    "b",
    "NOT b",
    "p.x = 31",
    "p.y = 'y31'",
    "f < 2.5",
    "f >= 30",
    "CAST(key AS DOUBLE) > 70.5",
    "CAST(key AS BIGINT) < 5",
    "i = 1000",
]


@pytest.mark.parametrize(
    ("table", "predicate"),
    [*(("sorted", form) for form in FORMS), *(("parts", form) for form in FORMS[::3])],
)
def test_where_reads_the_files_that_a_scan_with_the_filter_reads(
    tables: Tables, spark: Any, table: str, predicate: str
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = _frames(tables, spark)[table].where(predicate)
        keys, files = collect(frame)
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
    # Spark's TIMESTAMP has a zone.
    in_duckdb = predicate.replace("tz >= TIMESTAMP", "tz >= TIMESTAMPTZ")
    assert keys == tables.keys(table, in_duckdb)
    assert files == tables.planned(table, in_duckdb)


_FRAMES: dict[int, dict[str, Any]] = {}


def _frames(tables: Tables, spark: Any) -> dict[str, Any]:
    """Return the DataFrames of each table, for all tests: queries must not change them."""
    if id(tables) not in _FRAMES:
        register_data_source(spark)
        source = spark.read.format("ducklake").option("catalog", tables.uri)
        names = ("sorted", "parts")
        _FRAMES[id(tables)] = {
            **{name: tables.lake.table(name).to_spark(spark) for name in names},
            **{f"source of {name}": source.option("table", name).load() for name in names},
        }
    return _FRAMES[id(tables)]


_NUMBERS = st.integers(-3, 80)
_COLUMNS = {
    "key": _NUMBERS.map(str),
    "i": _NUMBERS.map(str),
    "l": st.integers(-50, 800).map(str),
    "d": st.one_of(st.integers(-25, 60).map(lambda n: f"{n}.5"), st.just("0.0")),
    "f": _NUMBERS.map(lambda n: f"{n}.25"),
    "s": st.builds(lambda a, n: f"'{a}{n}'", st.sampled_from("abcdez"), st.integers(0, 80)),
    "day": st.builds(
        lambda m, d: f"DATE '2024-{m:02}-{d:02}'", st.integers(1, 12), st.integers(1, 28)
    ),
    "ts": st.builds(
        lambda d, h: f"TIMESTAMP '2024-01-{d:02} {h:02}:30:00'",
        st.integers(1, 31),
        st.integers(0, 23),
    ),
    "n": st.integers(0, 80).map(lambda n: f"{n / 4}"),
    "p.x": _NUMBERS.map(str),
}


@st.composite
def _leaf(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(sorted(_COLUMNS)))
    form = draw(st.sampled_from(["compare", "compare", "in", "null", "like", "between"]))
    values = _COLUMNS[column]
    if form == "in":
        return f"{column} IN ({', '.join(draw(st.lists(values, min_size=1, max_size=14)))})"
    if form == "null":
        return f"{column} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if form == "between":
        return f"{column} BETWEEN {draw(values)} AND {draw(values)}"
    if form == "like" and column == "s":
        return f"s LIKE '{draw(st.sampled_from(['a', 'b1', 'c2', 'z', '']))}%'"
    return f"{column} {draw(st.sampled_from(['=', '<>', '<', '<=', '>', '>=']))} {draw(values)}"


PREDICATES = st.recursive(
    _leaf(),
    lambda inner: st.one_of(
        st.builds(lambda a, op, b: f"({a} {op} {b})", inner, st.sampled_from(["AND", "OR"]), inner),
        inner.map(lambda a: f"(NOT {a})"),
    ),
    max_leaves=4,
)


# With a number in the environment, the predicates are others in every run.
EXAMPLES = os.environ.get("LAKEPORT_PRUNING_EXAMPLES")
RANDOM = settings(
    max_examples=int(EXAMPLES or 8),
    derandomize=EXAMPLES is None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("road", ["where", "sql", "source"])
def test_random_predicates_read_the_rows_of_duckdb_and_the_files_of_a_scan(
    tables: Tables, spark: Any, road: str
) -> None:
    found: list[bool] = []

    @RANDOM
    @given(PREDICATES, st.sampled_from(["sorted", "parts"]))
    def run(predicate: str, table: str) -> None:
        if road == "sql":
            frame = tables.lake.sql(f"SELECT * FROM {table} WHERE {predicate}")
        else:
            name = table if road == "where" else f"source of {table}"
            frame = _frames(tables, spark)[name].where(predicate)
        keys, files = collect(frame)
        assert keys == tables.keys(table, predicate)
        # Spark leaves out more where it finds that nothing passes, as in `i > 2 AND NOT i > 1`.
        found.append(files <= tables.planned(table, predicate))

    run()
    assert sum(found) >= 0.9 * len(found)


def test_a_filter_of_the_source_and_one_of_the_query_leave_out_files_together(
    tables: Tables, spark: Any
) -> None:
    register_data_source(spark)
    reader = spark.read.format("ducklake").option("catalog", tables.uri).option("table", "sorted")
    frame = reader.option("filter", "key % 2 = 0 AND key < 50").load()

    assert collect(frame.where("key >= 30")) == ([30, 32, 34, 36, 38, 42, 44, 46, 48], 4)
    assert collect(frame)[0] == [key for key in range(0, 50, 2) if key != 40]


def test_a_call_without_the_secret_of_the_rule_reads_nothing(caplog: Any) -> None:
    narrowing = optimizer_rule._Narrowing(b"s" * 32)

    class Predicates:
        def length(self) -> int:
            return 0

    assert narrowing.apply(b"x" * 32 + pickle.dumps(print), Predicates()) is None
    assert "without the secret" in caplog.text


@pytest.fixture(scope="module")
def timed(
    reference: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory, spark: Any
) -> Iterator[Any]:
    """A table that Arrow reads, because Spark's reader has no TIME, in six files and a row."""
    folder = tmp_path_factory.mktemp("timed")
    made = RealLake(reference, f"ducklake:{folder}/m.ducklake", f"{folder}/data")
    made.execute("CREATE TABLE t(key INTEGER, u UUID, tm TIME, x DOUBLE)")
    for first in range(0, 600, 100):
        made.execute(
            "INSERT INTO t SELECT i, uuid(), TIME '10:00:00' + to_seconds(i), i / 2 "
            f"FROM range({first}, {first + 100}) r(i)"
        )
    made.execute("INSERT INTO t VALUES (1000, NULL, NULL, 'nan')")
    made.detach()
    with Lake.open(made.uri, spark=spark) as lake:
        yield lake


def test_where_leaves_out_files_that_arrow_reads(timed: Any, spark: Any) -> None:
    frame = timed.table("t").to_spark(spark)
    paths = [Path(file.path) for file in timed.table("t").files()]
    hidden = [path.rename(path.with_suffix(".hidden")) for path in paths[1:-1]]
    try:
        low, high = frame.where("key < 50"), frame.where("x > 275 AND u IS NULL OR key = 599")
        assert low.count() == 50
        assert sorted(row.key for row in high.collect()) == [599, 1000]
        both = low.unionAll(high)
        assert (both.count(), low.join(high, "key").count()) == (52, 0)
        with pytest.raises(Exception, match="is missing"):
            frame.count()
    finally:
        for path in hidden:
            path.rename(path.with_suffix(".parquet"))
    assert frame.count() == 601
    assert frame.where("tm = '10:00:07'").count() == 1


def test_two_filters_of_one_dataframe_in_one_query_do_not_share_files(
    tables: Tables, spark: Any
) -> None:
    frame = _frames(tables, spark)["sorted"]
    both = frame.where("key < 5").unionAll(frame.where("key > 70")).select("key")
    assert sorted(row[0] for row in both.collect()) == tables.keys("sorted", "key < 5 OR key > 70")
    assert frame.count() == len(tables.keys("sorted", "true"))
    pairs = frame.alias("a").join(frame.alias("b"), "key").where("a.i < 9 AND b.i > 5")
    assert sorted(row[0] for row in pairs.select("key").collect()) == [6, 7, 8]


def test_registered_tables_and_views_leave_out_files(tables: Tables, spark: Any) -> None:
    registration = tables.lake.register(spark, "pruned")
    try:
        keys, files = collect(spark.sql("SELECT * FROM pruned_parts WHERE s = 'b10'"))
    finally:
        registration.unregister()
    assert (keys, files) == ([10], tables.planned("parts", "s = 'b10'"))
    assert files < tables.planned("parts", "true")


def test_a_cached_dataframe_is_found_by_a_new_one_of_the_same_files(
    tables: Tables, spark: Any
) -> None:
    cached = tables.lake.table("parts").to_spark(spark).where("key < 9").cache()
    try:
        assert cached.count() == 9
        again = tables.lake.table("parts").to_spark(spark).where("key < 9")
        other = tables.lake.table("sorted").to_spark(spark).where("key < 9")
        plans = [f._jdf.queryExecution().executedPlan().toString() for f in (again, other)]
        assert ["InMemoryTableScan" in plan for plan in plans] == [True, False]
    finally:
        cached.unpersist()


def test_a_catalog_that_fails_leaves_out_no_file_and_raises_no_error(
    tables: Tables, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = tables.lake.table("sorted").to_spark(spark)

    def fail(*_: object) -> Filter:
        raise UnavailableError("the catalog database cannot be reached")

    monkeypatch.setattr(file_index, "translate_predicates", fail)
    assert collect(frame.where("key = 5")) == ([5], FILES + 1)


def test_a_spark_with_other_classes_lists_the_files_itself(
    tables: Tables, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(lake_files._formats, spark._jvm, None)
    frame = tables.lake.table("parts").to_spark(spark)
    keys, files = collect(frame.where("key = 5"))
    assert (keys, files) == ([5], tables.planned("parts", "true"))


def test_files_that_a_merge_has_replaced_are_still_read(
    tables: Tables, spark: Any, tmp_path: Any
) -> None:
    made = RealLake(
        tables.connection, f"ducklake:{tmp_path}/m.ducklake", f"{tmp_path}/data",
        "DATA_INLINING_ROW_LIMIT 0",
    )  # fmt: skip
    made.execute(
        "CREATE TABLE t(key INTEGER)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"
    )
    made.detach()
    with Lake.open(made.uri, spark=spark) as lake:
        frame = lake.table("t").to_spark(spark)
        assert collect(frame.where("key = 2")) == ([2], 1)
        made.execute("CALL ducklake_merge_adjacent_files('lake')")
        made.detach()
        # The catalog has one file now, which is not among those of the DataFrame.
        assert collect(frame.where("key = 1")) == ([1], 2)
