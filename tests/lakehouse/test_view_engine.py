"""Views in the DuckDB of the server: pruning through them, limits, errors, cancellation."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport import ScanOptions, col
from lakeport.catalog import Table
from lakeport.ducklake import View
from lakeport.ducklake.views import ViewDatabase
from lakeport.errors import InvalidInputError, LakeportError, MissingFileError, UnavailableError
from lakeport.filters import Filter, pushed_filter
from lakeport.lakehouse import LakeCatalog

MakeLake = Callable[..., Any]
Open = Callable[[Any], Callable[[str], Table]]


@pytest.fixture
def open_catalog() -> Iterator[Open]:
    catalogs: list[LakeCatalog] = []

    def opened(lake: Any) -> Callable[[str], Table]:
        lake.detach()
        catalogs.append(LakeCatalog(lake.uri, engine="local"))
        schema = catalogs[-1].schema("public")
        assert schema is not None

        def table(name: str) -> Table:
            found = schema.table(name)
            assert found is not None
            return found

        return table

    yield opened
    for catalog in catalogs:
        catalog.close()


def rows(table: Table, *columns: str, filter: Filter | None = None) -> list[dict[str, Any]]:
    options = ScanOptions(columns=columns or None, filter=filter or Filter.always())
    found: list[dict[str, Any]] = table.scan(options).read_all().to_pylist()
    return found


@pytest.fixture
def many_files(make_lake: MakeLake) -> Any:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE t(id INTEGER, x DOUBLE, s STRUCT(a INTEGER))")
    for first in range(0, 50, 10):
        lake.execute(
            f"INSERT INTO t SELECT i, i / 2, {{'a': i}} FROM range({first}, {first + 10}) r(i)"
        )
    return lake


@pytest.mark.parametrize(
    "view",
    [
        "SELECT id, id * 2 AS twice FROM t WHERE id BETWEEN 23 AND 24",
        "SELECT id, id * 2 AS twice FROM t WHERE id IN (23, 24)",
        "SELECT id, id * 2 AS twice FROM t WHERE x > 11.4 AND x < 12.4",
        "SELECT id, id * 2 AS twice FROM t WHERE s.a > 22 AND s.a < 25",
        "SELECT q.id, q.twice FROM (SELECT *, id * 2 AS twice FROM t) q WHERE id IN (23, 24)",
    ],
)
def test_filters_inside_a_view_choose_the_files_that_are_read(
    many_files: Any, open_catalog: Open, view: str
) -> None:
    many_files.execute(f"CREATE VIEW v AS {view}")
    table = open_catalog(many_files)
    remove_files_without(many_files, 23)

    assert rows(table("v")) == [{"id": 23, "twice": 46}, {"id": 24, "twice": 48}]


def test_filters_of_the_query_go_through_a_view(many_files: Any, open_catalog: Open) -> None:
    many_files.execute("CREATE VIEW v AS SELECT id AS number, x FROM t")
    table = open_catalog(many_files)
    remove_files_without(many_files, 23)

    found = rows(table("v"), "number", filter=Filter.of(col("number", pa.int32()) == 23))

    assert found == [{"number": 23}]


def test_views_are_listed_and_read_without_pyspark(
    many_files: Any, open_catalog: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_files.execute("CREATE VIEW v AS SELECT id, x FROM t WHERE id < 2")
    monkeypatch.setitem(sys.modules, "pyspark", None)
    table = open_catalog(many_files)("v")

    assert table.arrow_schema().names == ["id", "x"]
    assert rows(table) == [{"id": 0, "x": 0.0}, {"id": 1, "x": 0.5}]


def test_the_error_of_a_scan_keeps_its_kind(many_files: Any, open_catalog: Open) -> None:
    many_files.execute("CREATE VIEW v AS SELECT count(x) AS n FROM t")
    table = open_catalog(many_files)
    remove_files_without(many_files, 23)

    with pytest.raises(MissingFileError):
        rows(table("v"))


def test_a_value_that_cannot_be_computed_is_an_error_in_one_sentence(
    make_lake: MakeLake, open_catalog: Open
) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t AS SELECT 'a' AS v", "CREATE VIEW bad AS SELECT v::INTEGER AS n FROM t"
    )

    with pytest.raises(InvalidInputError, match="Could not convert string 'a'") as caught:
        rows(open_catalog(lake)("bad"))
    assert "\n" not in str(caught.value)


def test_a_view_that_needs_too_much_memory_fails_and_the_next_one_runs() -> None:
    database = ViewDatabase(memory_bytes=64 << 20)
    schema = pa.schema([("n", pa.int64())])

    def run(sql: str) -> pa.Table:
        view = View(id=1, schema="main", name="v", uuid="", dialect="duckdb", sql=sql)
        reads: list[View] = [view]
        return database.stream(reads, no_table, schema=schema, filter=Filter.always()).read_all()

    with pytest.raises(UnavailableError, match="more memory than the 64 MiB"):
        run("SELECT len(list(i::VARCHAR || repeat('x', 100))) AS n FROM range(10000000) r(i)")
    assert run("SELECT 1::BIGINT AS n").to_pydict() == {"n": [1]}


def no_table(table: Any) -> Any:
    raise AssertionError(f"no table is read: {table}")


def test_closing_the_reader_ends_a_view_that_never_ends() -> None:
    sql = "SELECT count(*) AS n FROM range(10000000) a, range(10000000) b WHERE a.range <> b.range"
    view = View(id=1, schema="main", name="v", uuid="", dialect="duckdb", sql=sql)
    schema = pa.schema([("n", pa.int64())])
    reader = ViewDatabase().stream([view], no_table, schema=schema, filter=Filter.always())
    ended = threading.Event()

    def read() -> None:
        with pytest.raises((LakeportError, StopIteration)):
            reader.read_next_batch()
        ended.set()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    while not ended.wait(0.2):
        reader.close()

    thread.join()


def test_many_views_run_at_once(many_files: Any, open_catalog: Open) -> None:
    many_files.execute(
        "CREATE VIEW a AS SELECT sum(id)::BIGINT AS n FROM t",
        "CREATE VIEW b AS SELECT n + 1 AS n FROM a",
    )
    table = open_catalog(many_files)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda name: rows(table(name)), ["a", "b"] * 16))

    assert [row["n"] for (row,) in found] == [1225, 1226] * 16


def test_a_filter_that_is_pushed_keeps_the_meaning_of_duckdb(
    make_lake: MakeLake, open_catalog: Open
) -> None:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t AS "
        "FROM (VALUES (1, 'nan'::DOUBLE), (2, 'inf'), (3, 0.5), (4, NULL)) v(id, x)"
    )
    conditions = [
        "x > 1",
        "x <> 0.5",
        "NOT (x > 1)",
        "x = 'nan'",
        "x <= 'inf'",
        "x IN (0.5, 'nan')",
    ]
    for number, condition in enumerate(conditions):
        lake.execute(f"CREATE VIEW v{number} AS SELECT id FROM t WHERE {condition}")
    expected = [sorted(lake.query(f"FROM v{number}")) for number in range(len(conditions))]

    table = open_catalog(lake)

    found = [sorted((row["id"],) for row in rows(table(f"v{n}"))) for n in range(len(conditions))]
    assert found == expected


def test_an_expression_that_is_not_understood_is_marked() -> None:
    import pyarrow.compute as pc

    assert "Unsupported" in repr(pushed_filter(pc.sqrt(pc.field("x")) > 2))
    assert "Unsupported" not in repr(pushed_filter((pc.field("x") > 2) & pc.field("y").is_valid()))


def remove_files_without(lake: Any, id: int) -> None:
    """Delete the data files of `t` that do not hold a row, so that reading them is an error."""
    for path in Path(lake.data_path).rglob("*.parquet"):
        if id not in pq.read_table(path, columns=["id"])["id"].to_pylist():
            path.unlink()
