"""A whole lake in a Spark session: names, one snapshot, refusals, and undoing it."""

from __future__ import annotations

from typing import Any

import pytest

from lakeport.errors import DefinitionError, SnapshotNotFoundError
from lakeport.spark import session
from tests.fixtures_lakes import LakeMaker


def rows(spark: Any, sql: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.sql(sql).collect())


def test_tables_and_views_are_named_after_their_schema_and_the_lake(
    spark: Any, make_lake: LakeMaker
) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE events AS SELECT 1 AS id",
        "CREATE SCHEMA sales",
        "CREATE TABLE sales.events AS SELECT 2 AS id",
        'CREATE TABLE sales."odd `name`" AS SELECT 3 AS id',
        "CREATE VIEW sales.newest AS SELECT max(id) AS id FROM events",
    )
    with lake.open() as ours:
        plain = ours.register(spark)
        named = ours.register(spark, "lake")

    assert dict(plain.names) == {
        ("main", "events"): "events",
        ("sales", "events"): "sales_events",
        ("sales", "odd `name`"): "sales_odd `name`",
        ("sales", "newest"): "sales_newest",
    }
    assert set(named.names.values()) == {f"lake_{name}" for name in plain.names.values()}
    assert not plain.skipped
    assert rows(spark, "SELECT * FROM events UNION SELECT * FROM lake_sales_events") == [(1,), (2,)]
    assert rows(spark, "SELECT * FROM `lake_sales_odd ``name```") == [(3,)]
    assert rows(spark, "SELECT * FROM sales_newest") == [(2,)]

    plain.unregister()
    named.unregister()

    assert not {table.name for table in spark.catalog.listTables()} & {
        *plain.names.values(),
        *named.names.values(),
    }


def test_everything_is_read_at_one_snapshot(spark: Any, make_lake: LakeMaker) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE a AS SELECT 1 AS id",
        "CREATE TABLE b AS SELECT 1 AS id",
        "CREATE VIEW pairs AS SELECT a.id AS x, b.id AS y FROM a JOIN b ON a.id = b.id",
    )
    with lake.open() as ours:
        now = ours.register(spark, "now")
        lake.execute("INSERT INTO a VALUES (2)", "INSERT INTO b VALUES (2)", "DROP VIEW pairs")
        lake.detach()
        old = ours.register(spark, "old", version=now.snapshot)
        new = ours.register(spark, "new")
        with pytest.raises(SnapshotNotFoundError):
            ours.register(spark, version=9999)

    assert rows(spark, "SELECT * FROM now_pairs") == [(1, 1)]
    assert rows(spark, "SELECT * FROM old_pairs") == [(1, 1)]
    assert rows(spark, "SELECT * FROM new_a") == [(1,), (2,)]
    assert ("main", "pairs") not in new.names
    for registration in (now, old, new):
        registration.unregister()


def test_one_bad_view_stops_no_other(spark: Any, make_lake: LakeMaker) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t AS SELECT 1 AS id, 2 AS gone",
        "CREATE VIEW good AS SELECT id FROM t",
        "CREATE VIEW stale AS SELECT gone FROM t",
        "CREATE VIEW odd AS SELECT list(id) AS l FROM t",
        "CREATE VIEW after_odd AS SELECT * FROM odd",
        "CREATE VIEW after_good AS SELECT id + 1 AS next FROM good",
        "CREATE VIEW first AS SELECT 1 AS id",
        "CREATE VIEW second AS SELECT * FROM first",
        "CREATE OR REPLACE VIEW first AS SELECT * FROM second",
        "ALTER TABLE t DROP COLUMN gone",
    )
    with lake.open() as ours:
        registration = ours.register(spark, "mixed")

    assert {name for _, name in registration.names} == {
        "t", "good", "after_good", "odd", "after_odd",
    }  # fmt: skip
    in_duckdb = {name: reason for (_, name), reason in registration.in_duckdb.items()}
    assert "has no translation" in in_duckdb["odd"]
    assert in_duckdb["after_odd"] == "the view reads main.odd, which DuckDB runs"
    skipped = {name: reason for (_, name), reason in registration.skipped.items()}
    assert "gone" in skipped["stale"]
    assert skipped["first"] == skipped["second"] == "views that read each other have no translation"
    assert rows(spark, "SELECT * FROM mixed_after_good") == [(2,)]
    assert rows(spark, "SELECT * FROM mixed_after_odd") == [([1],)]
    shown = repr(registration)
    assert "main.good as mixed_good" in shown
    assert "main.after_odd runs in DuckDB: the view reads main.odd" in shown
    assert "main.stale skipped: " in shown
    registration.unregister()


def test_a_table_that_spark_cannot_read_is_refused_and_others_are_there(
    spark: Any, make_lake: LakeMaker
) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE fine AS SELECT 1 AS id",
        "CREATE TABLE strange AS SELECT 1 AS odd",
        "CREATE VIEW on_strange AS SELECT * FROM strange",
        "UPDATE meta.ducklake_column SET column_type = 'quaternion' WHERE column_name = 'odd'",
    )
    with lake.open() as ours:
        registration = ours.register(spark, "partly")

    assert dict(registration.names) == {("main", "fine"): "partly_fine"}
    assert "'quaternion'" in registration.skipped["main", "strange"]
    assert "main.strange, which is skipped" in registration.skipped["main", "on_strange"]
    registration.unregister()


@pytest.mark.parametrize("inlined_rows", [0, 10])
def test_a_column_that_spark_cannot_hold_is_hidden_and_its_table_is_there(
    spark: Any, make_lake: LakeMaker, inlined_rows: int
) -> None:
    lake = make_lake(options=f"DATA_INLINING_ROW_LIMIT {inlined_rows}")
    lake.execute(
        "CREATE TABLE partly AS SELECT 1 AS id, 2 AS odd, 3 AS wide",
        "CREATE VIEW ids AS SELECT id FROM partly",
        "CREATE VIEW odds AS SELECT odd FROM partly",
        "UPDATE meta.ducklake_column SET column_type = 'quaternion' WHERE column_name = 'odd'",
        "UPDATE meta.ducklake_column SET column_type = 'decimal(99,1)' WHERE column_name = 'wide'",
    )
    with lake.open() as ours:
        registration = ours.register(spark, "seen")

    assert spark.table("seen_partly").collect() == [(1,)]
    assert spark.table("seen_ids").collect() == [(1,)]
    hidden = registration.hidden["main", "partly"]
    assert "'quaternion'" in hidden["odd"]
    assert "decimal(99,1)" in hidden["wide"]
    assert "main.partly without column odd: " in repr(registration)
    assert registration.skipped.keys() == {("main", "odds")}
    registration.unregister()


def test_registering_keeps_the_active_session(spark: Any, make_lake: LakeMaker) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE inlined AS SELECT 1 AS id",
        "CREATE TABLE in_files AS SELECT i AS id FROM range(100) r(i)",
        "DELETE FROM in_files WHERE id = 7",
        "CREATE TABLE empty (id INTEGER)",
    )
    other = spark.newSession()
    other.conf.set("spark.lakeport.test", "other")
    with lake.open() as ours:
        registration = ours.register(other)

    assert len(registration.names) == 3
    assert session().conf.get("spark.lakeport.test", None) != "other"


def test_two_things_of_one_name_are_an_error_before_anything_is_registered(
    spark: Any, make_lake: LakeMaker
) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE alone AS SELECT 1 AS id",
        "CREATE TABLE sales_events AS SELECT 1 AS id",
        "CREATE SCHEMA sales",
        "CREATE VIEW sales.Events AS SELECT 1 AS id",
    )

    with lake.open() as ours, pytest.raises(DefinitionError, match="would both be called"):
        ours.register(spark, "twice")

    assert "twice_alone" not in {table.name for table in spark.catalog.listTables()}


def test_a_lake_cannot_read_the_environment_of_its_reader(spark: Any, make_lake: LakeMaker) -> None:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t AS SELECT 1 AS \"${env:PATH}\", {'a ${env:PATH}': 2} AS s",
        'CREATE TABLE "${env:PATH}" AS SELECT 1 AS id',
        "CREATE VIEW text AS SELECT '${env:PATH}' AS v FROM t",
        'CREATE VIEW alias AS SELECT s AS "${env:PATH}" FROM t',
        "CREATE VIEW all_of_it AS SELECT * FROM t",
    )
    safe = spark.newSession()
    safe.conf.set("spark.sql.variable.substitute", "false")
    with lake.open() as ours:
        registration = ours.register(spark, "secret")
        complete = ours.register(safe)

    row = {"${env:PATH}": 1, "s": {"a ${env:PATH}": 2}}
    for name in ("secret_t", "secret_all_of_it"):
        assert spark.table(name).toArrow().to_pylist() == [row]
    skipped = {name: reason for (_, name), reason in registration.skipped.items()}
    assert skipped.keys() == {"${env:PATH}"}
    in_duckdb = {name: reason for (_, name), reason in registration.in_duckdb.items()}
    assert in_duckdb.keys() == {"text", "alias"}
    for reason in (*skipped.values(), *in_duckdb.values()):
        assert "'${', a part that Spark would replace" in reason
    assert spark.table("secret_text").collect() == [("${env:PATH}",)]
    assert spark.table("secret_alias").columns == ["${env:PATH}"]
    assert not complete.skipped
    assert safe.sql("SELECT v FROM text").collect() == [("${env:PATH}",)]
    assert safe.table("alias").columns == ["${env:PATH}"]
    registration.unregister()
