"""The functions and tables about a lake, beside what the real implementation's functions say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakeport.errors import InvalidArgumentError, InvalidInputError, NotFoundError
from tests.lakehouse.conftest import Serve, Served

MakeLake = Callable[..., Any]


@pytest.fixture
def lake(make_lake: MakeLake) -> Any:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 5")
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id, 'v' || i AS v FROM range(100) r(i)",
        "INSERT INTO t VALUES (1000, 'inlined')",
        "UPDATE t SET v = 'changed' WHERE id IN (3, 1000)",
        "DELETE FROM t WHERE id BETWEEN 10 AND 30",
        "COMMENT ON COLUMN t.v IS 'text'",
        'CREATE SCHEMA "we ird"',
        'CREATE TABLE "we ird"."t ""q, x"(a INTEGER NOT NULL DEFAULT 5)',
        'CREATE VIEW "we ird".v AS SELECT 1 AS one',
        "BEGIN; INSERT INTO t VALUES (7, 'x');"
        " CALL ducklake_set_commit_message('lake', 'me', 'a message', extra_info => '{}'); COMMIT",
    )
    return lake


def called(served: Served, name: str, *arguments: Any, **named: Any) -> list[tuple[Any, ...]]:
    table = served.client.call_table(f"lakeport.{name}", *arguments, **named).to_arrow()
    return sorted(zip(*table.to_pydict().values(), strict=True), key=repr)


def test_snapshots_are_those_of_the_real_function(lake: Any, serve: Serve) -> None:
    lake.attach()
    lake.connection.execute("FROM ducklake_snapshots('lake') ORDER BY 1")
    real = lake.connection.to_arrow_table()

    served = serve(lake)
    for ours in (
        served.client.call_table("lakeport.snapshots").to_arrow(),
        served.client.table("lakeport.snapshots").scan().to_arrow(),
    ):
        assert ours.column_names == real.column_names
        assert ours.to_pylist() == real.to_pylist()


def test_names_are_those_of_every_snapshot_with_dropped_and_renamed_objects(
    lake: Any, serve: Serve
) -> None:
    lake.execute(
        "ALTER TABLE t RENAME TO u", 'DROP VIEW "we ird".v', "CREATE VIEW later AS SELECT 2 AS two"
    )
    rows = serve(lake).client.table("lakeport.names").scan().to_arrow().to_pylist()
    found = {
        (row["kind"], row["schema_name"], row["object_name"]): (
            row["begin_snapshot"],
            row["end_snapshot"],
        )
        for row in rows
    }

    assert found == {
        ("schema", "public", None): (0, None),
        ("schema", "we ird", None): (6, None),
        ("table", "public", "t"): (1, 10),
        ("table", "public", "u"): (10, None),
        ("table", "we ird", 't "q, x'): (7, None),
        ("view", "we ird", "v"): (8, 11),
        ("view", "public", "later"): (12, None),
    }
    assert len({row["id"] for row in rows}) == 6


def test_table_info_is_that_of_the_real_function(lake: Any, serve: Serve) -> None:
    columns = "* REPLACE (table_uuid::VARCHAR AS table_uuid)"
    real = lake.query(f"SELECT {columns} FROM ducklake_table_info('lake')")

    assert called(serve(lake), "table_info") == sorted(real, key=repr)


def test_files_are_listed_as_by_the_real_function_without_keys(lake: Any, serve: Serve) -> None:
    columns = "COLUMNS(c -> c NOT LIKE '%key')"
    real = lake.query(f"SELECT {columns} FROM ducklake_list_files('lake', 't')")
    first = lake.query(
        f"SELECT {columns} FROM ducklake_list_files('lake', 't', snapshot_version => 1)"
    )

    served = serve(lake)

    assert called(served, "list_files", "t") == real
    assert called(served, "list_files", "main.t") == real
    assert called(served, "list_files", 'public."T"') == real
    assert called(served, "list_files", "t", snapshot_version=1) == first
    assert called(served, "list_files", '"we ird"."t ""q, x"') == []


def test_the_change_feed_is_that_of_the_real_functions(lake: Any, serve: Serve) -> None:
    newest = lake.snapshots()[-1]
    with lake.on_one_thread():
        expected = {
            "table_changes": lake.query(f"FROM lake.table_changes('t', 1, {newest})"),
            **{
                name: lake.query(
                    "SELECT snapshot_id, rowid, *"
                    f" FROM ducklake_{name}('lake', 'main', 't', 1, {newest})"
                )
                for name in ("table_insertions", "table_deletions")
            },
        }

    served = serve(lake)

    for name, rows in expected.items():
        assert called(served, name, "t", 1, newest) == sorted(rows, key=repr), name


def test_the_bounds_of_a_change_feed_may_be_moments(lake: Any, serve: Serve) -> None:
    times = [
        row[0]
        for row in lake.query("SELECT snapshot_time FROM ducklake_snapshots('lake') ORDER BY 1")
    ]
    with lake.on_one_thread():
        real = lake.query("FROM lake.table_changes('t', 2, 3)")

    instant = pa.timestamp("us", "UTC")
    bounds = [pa.scalar(times[snapshot], instant) for snapshot in (2, 3)]

    assert called(serve(lake), "table_changes", "t", *bounds) == sorted(real, key=repr)


def test_a_change_feed_is_that_of_the_table_that_had_the_name_then(
    make_lake: MakeLake, serve: Serve
) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t(a INTEGER)",
        "INSERT INTO t VALUES (1)",
        "DROP TABLE t",
        "CREATE TABLE t(b VARCHAR)",
        "INSERT INTO t VALUES ('x')",
    )
    real = {last: lake.query(f"FROM lake.table_changes('t', 1, {last})") for last in (2, 4, 5)}

    served = serve(lake)

    for last, rows in real.items():
        assert called(served, "table_changes", "t", 1, last) == rows, last
    with pytest.raises(NotFoundError, match="no table 't' at snapshot 3: snapshot 3 dropped"):
        called(served, "table_changes", "t", 1, 3)


def test_the_tables_about_a_lake_describe_it(lake: Any, serve: Serve) -> None:
    client = serve(lake).client

    def rows(name: str, *columns: str) -> list[tuple[Any, ...]]:
        found = client.table(f"lakeport.{name}").scan(list(columns)).to_arrow()
        return list(zip(*found.to_pydict().values(), strict=True))

    assert rows("schemas", "schema_name", "name_in_lake") == [
        ("public", "main"),
        ("we ird", "we ird"),
    ]
    assert rows("tables", "schema_name", "table_name", "table_type") == [
        ("public", "t", "BASE TABLE"),
        ("we ird", 't "q, x', "BASE TABLE"),
        ("we ird", "v", "VIEW"),
    ]
    assert rows("columns", "table_name", "column_name", "data_type", "is_nullable", "comment") == [
        ("t", "id", "BIGINT", True, None),
        ("t", "v", "VARCHAR", True, "text"),
        ('t "q, x', "a", "INTEGER", False, None),
    ]
    files = rows("files", "schema_name", "table_name", "record_count", "is_encrypted")
    assert ("public", "t", 100, False) in files


def test_the_name_of_a_table_that_is_not_there_is_a_clear_error(lake: Any, serve: Serve) -> None:
    served = serve(lake)

    with pytest.raises(NotFoundError, match="no table 'nothing'"):
        called(served, "list_files", "nothing")
    with pytest.raises(InvalidArgumentError, match="is not the name of a table"):
        called(served, "list_files", "a.b.c")
    with pytest.raises(NotFoundError, match="no snapshot 99"):
        called(served, "table_changes", "t", 1, 99)


def test_a_null_argument_is_a_clear_error(lake: Any, serve: Serve) -> None:
    served = serve(lake)
    no_name, no_bound = pa.scalar(None, pa.string()), pa.scalar(None, pa.int64())

    with pytest.raises(InvalidInputError, match="the name of the table is NULL"):
        called(served, "list_files", no_name)
    # The client asks for the columns first, which has no word for the other kind of error.
    with pytest.raises(InvalidArgumentError, match="the name of the table is NULL"):
        called(served, "table_changes", no_name, 1, 2)
    for bounds in ((no_bound, 2), (1, no_bound)):
        with pytest.raises(InvalidArgumentError, match="needs two bounds, which are not NULL"):
            called(served, "table_insertions", "t", *bounds)
