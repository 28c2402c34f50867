"""What a lake and its tables tell about themselves, and how they refuse."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlalchemy as sa

from lakeport.ducklake import Lake, LocalEngine, LruCache
from lakeport.ducklake.metadata.database import Database
from lakeport.errors import (
    InvalidArgumentError,
    NotFoundError,
    SnapshotNotFoundError,
    UnavailableError,
)

KINDS = ("duckdb", "sqlite", "postgresql")
LakeMaker = Callable[..., Any]


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_describes_itself(kind: str, make_lake: LakeMaker) -> None:
    lake = make_lake(kind)
    lake.execute(
        "CREATE TABLE t(id INTEGER NOT NULL, v VARCHAR DEFAULT 'x', n TIMESTAMP DEFAULT now(), s STRUCT(a INTEGER))",
        "COMMENT ON TABLE t IS 'it''s a table'",
        "COMMENT ON COLUMN t.v IS 'a column'",
        "ALTER TABLE t SET PARTITIONED BY (bucket(4, id), v)",
        "ALTER TABLE t SET SORTED BY (id DESC NULLS FIRST, lower(v))",
        "INSERT INTO t VALUES (1, 'a', NULL, NULL), (5, NULL, NULL, NULL)",
        "COMMENT ON TABLE t IS NULL",
    )
    with lake.open() as ours:
        old, new = ours.table("t", version=6), ours.table("T", "MAIN")
        assert (old.comment, new.comment) == ("it's a table", None)
        assert (new.name, new.schema_name, new.id, len(new.uuid)) == ("t", "main", 1, 36)
        id, v, n, s = new.columns
        assert (id.nullable, id.default, v.default, v.comment) == (False, None, "x", "a column")
        assert (n.default, n.default_is_expression, s.children[0].name) == ("now()", True, "a")
        assert new.partition_spec is not None
        assert [f.transform for f in new.partition_spec.fields] == ["bucket(4)", "identity"]
        assert [(k.expression, k.descending, k.nulls_first) for k in new.sort_order] == [
            ("id", True, True),
            ("lower(v)", False, False),
        ]
        assert new.stats is not None
        assert (new.stats.record_count, new.stats.next_row_id) == (2, 2)
        assert (new.stats.columns[1].min_value, new.stats.columns[1].max_value) == ("1", "5")
        assert new.schema.field("id").nullable is False
        assert ours.table("t", version=1).partition_spec is None
        assert ours.table("t", version=1).sort_order == ()


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_and_views_at_every_snapshot(kind: str, make_lake: LakeMaker) -> None:
    lake = make_lake(kind)
    lake.execute(
        "CREATE SCHEMA s",
        "CREATE TABLE s.t AS SELECT 1 AS id",
        'CREATE VIEW s.v(a, "b c") AS SELECT id, id + 1 FROM lake.s.t',
        "COMMENT ON VIEW s.v IS 'a view'",
        "ALTER VIEW s.v RENAME TO w",
        "DROP SCHEMA s CASCADE",
    )
    with lake.open() as ours:
        assert [s.name for s in ours.schemas()] == ["main"]
        assert [s.name for s in ours.schemas(version=1)] == ["main", "s"]
        assert ours.views(version=2) == []
        view = ours.views("S", version=4)[0]
        assert (view.schema, view.name, view.comment) == ("s", "v", "a view")
        assert view.column_aliases == ("a", "b c")
        assert "{DUCKLAKE_CATALOG}" in view.sql
        assert '"my lake"' in view.select("my lake")
        assert [v.name for v in ours.views(version=5)] == ["w"]
        assert ours.views() == []


@pytest.mark.parametrize("kind", KINDS)
def test_time_travel_by_timestamp_and_by_version(kind: str, make_lake: LakeMaker) -> None:
    lake = make_lake(kind)
    lake.execute("CREATE TABLE t(id INTEGER)")
    for i in range(3):
        lake.execute(f"INSERT INTO t VALUES ({i})")
        time.sleep(0.01)
    with lake.open() as ours:
        snapshots = ours.snapshots()
        assert [s.id for s in snapshots] == [0, 1, 2, 3, 4]
        assert snapshots[1].changes == 'created_table:"main"."t"'
        for snapshot in snapshots[1:]:
            expected = list(range(snapshot.id - 1))
            for options in (
                {"version": snapshot.id},
                {"timestamp": snapshot.time},
                {"timestamp": snapshot.time + timedelta(microseconds=1)},
                {"timestamp": str(snapshot.time.astimezone(UTC))},
            ):
                table = ours.table("t", **options)
                assert table.scan().to_arrow()["id"].to_pylist() == expected
        with pytest.raises(SnapshotNotFoundError, match="no snapshot at or before"):
            ours.table("t", timestamp=datetime(2000, 1, 1, tzinfo=UTC))
        with pytest.raises(SnapshotNotFoundError, match="no snapshot 99"):
            ours.table("t", version=99)
        with pytest.raises(InvalidArgumentError):
            ours.table("t", version=1, timestamp=snapshots[1].time)
        for later in ("2999-01-01", "2999-01-01 00:00", "2999-01-01T00:00:00+99", "infinity"):
            assert ours.snapshot(timestamp=later).id == 4
        for nonsense in ("soon", "", "2027-02-30 00:00:00", "²"):
            with pytest.raises(InvalidArgumentError, match="is not a timestamp"):
                ours.table("t", timestamp=nonsense)
        with pytest.raises(
            NotFoundError, match=r"no table main\.t at snapshot 0: snapshot 1 created it"
        ):
            ours.table("t", version=0)
    with lake.open(snapshot=2) as pinned:
        assert pinned.table("t").scan().to_arrow()["id"].to_pylist() == [0]
    with lake.open(snapshot=snapshots[3].time) as pinned:
        assert pinned.table("t").scan().to_arrow()["id"].to_pylist() == [0, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_what_another_writer_commits_is_seen_at_the_next_lookup(
    kind: str, make_lake: LakeMaker
) -> None:
    lake = make_lake(kind)
    lake.execute("CREATE TABLE t(id INTEGER)")
    with lake.open() as ours:
        before = ours.table("t")
        lake.execute("INSERT INTO t VALUES (1)")
        lake.detach()
        assert before.scan().to_arrow().num_rows == 0
        assert ours.table("t").scan().to_arrow().num_rows == 1


def test_a_cache_saves_lookups_and_is_never_stale(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE t(id INTEGER)", "INSERT INTO t VALUES (1)")
    cache = LruCache(2)
    with lake.open(cache=cache) as ours:
        assert ours.table("t").planner.state is ours.table("T").planner.state
        lake.execute("ALTER TABLE t ADD COLUMN v INTEGER DEFAULT 3", "INSERT INTO t VALUES (2, 4)")
        lake.detach()
        assert ours.table("t").scan().to_arrow().to_pylist() == [
            {"id": 1, "v": 3},
            {"id": 2, "v": 4},
        ]
        old = ours.table("t", version=2)
        lake.execute("CALL ducklake_flush_inlined_data('lake')")
        lake.detach()
        assert old.scan().to_arrow().to_pylist() == [{"id": 1}]
        ours.table("t")
        assert len(cache) == 2
        lake.execute("CALL ducklake_expire_snapshots('lake', versions => [2])")
        lake.detach()
        with pytest.raises(SnapshotNotFoundError, match="expired"):
            old.scan()
    with pytest.raises(InvalidArgumentError):
        LruCache(0)


@pytest.mark.parametrize("kind", KINDS)
def test_opening_and_scanning_a_table_costs_three_queries(kind: str, make_lake: LakeMaker) -> None:
    lake = make_lake(kind)
    columns = ", ".join(f"c{i} INTEGER" for i in range(60))
    lake.execute(f"CREATE TABLE t({columns})", "ALTER TABLE t SET PARTITIONED BY (c0, c1)")
    for i in range(4):
        values = ", ".join(["i"] * 60)
        lake.execute(f"INSERT INTO t SELECT {values} FROM range({12 + i}) r(i)")
    lake.execute("INSERT INTO t (c1) VALUES (1)", "DELETE FROM t WHERE c2 = 3")
    lake.execute("ALTER TABLE t ADD COLUMN d INTEGER", "INSERT INTO t (d) VALUES (1)")
    statements: list[str] = []
    real = duckdb.DuckDBPyConnection
    assert real is not None
    # Its files are so many that Spark would read them.
    with lake.open(engine=LocalEngine()) as ours:
        ours.table("t")
        engine = ours.catalog.database.engine
        sa.event.listen(engine, "before_cursor_execute", lambda *a: statements.append(a[2]))
        from lakeport.filters import col

        arrow = Database.read_arrow
        try:
            Database.read_arrow = lambda self, c, s: (statements.append(s), arrow(self, c, s))[1]  # type: ignore[assignment,func-returns-value,method-assign]
            plan = ours.table("t").scan(filter=col("c5") > 3)
        finally:
            Database.read_arrow = arrow  # type: ignore[method-assign]
        assert plan.to_arrow().num_rows > 0
    assert len([s for s in statements if s != "BEGIN"]) <= 3


@pytest.mark.process
def test_a_writer_in_another_process_is_waited_for(make_lake: LakeMaker, tmp_path: Path) -> None:
    lake = make_lake("duckdb")
    lake.execute("CREATE TABLE t(id INTEGER)")
    lake.detach()
    path = lake.uri.removeprefix("ducklake:")
    code = (
        "import duckdb, sys, time\n"
        "c = duckdb.connect(sys.argv[1]); print('open', flush=True); time.sleep(float(sys.argv[2]))"
    )
    for seconds, succeeds in (("1", True), ("20", False)):
        writer = subprocess.Popen(
            [sys.executable, "-c", code, path, seconds], stdout=subprocess.PIPE
        )
        assert writer.stdout is not None
        writer.stdout.readline()
        try:
            if succeeds:
                with Lake.open(lake.uri) as ours:
                    assert ours.tables() == [("main", "t")]
            else:
                with pytest.raises(UnavailableError, match="held by a writer"):
                    Lake.open(lake.uri, lock_timeout=0.2)
        finally:
            writer.kill()
            writer.communicate()


def test_a_lake_is_read_from_many_threads(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite")
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id FROM range(1000) r(i)",
        "ALTER TABLE t ADD COLUMN d DATE DEFAULT '2024-01-02'",
    )
    found: list[int] = []
    with lake.open() as ours:

        def work() -> None:
            found.extend(ours.table("t").scan().to_arrow().num_rows for _ in range(3))

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [1000] * 18


def test_a_cache_is_bounded_by_the_weight_of_what_it_keeps() -> None:
    cache = LruCache(10, weigh=len)
    for word in ("four", "fours", "a", "a word too long to be kept", "six"):
        assert cache.get_or_load(word, lambda word=word: word) == word  # type: ignore[misc]
    assert len(cache) == 3
    assert cache.get_or_load("four", lambda: "again") == "again"
    assert cache.get_or_load("six", lambda: "not asked") == "six"


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgresql"])
def test_names_that_only_a_database_takes_for_equal_are_two(
    kind: str, make_lake: LakeMaker
) -> None:
    lake = make_lake(kind)
    lake.execute(
        'CREATE TABLE "Ä"(x INTEGER)',
        'INSERT INTO "Ä" VALUES (1)',
        'CREATE TABLE "ä"(y INTEGER, z INTEGER)',
        'INSERT INTO "ä" VALUES (2, 3)',
        'CREATE SCHEMA "Ö"',
        'CREATE SCHEMA "ö"',
        'CREATE TABLE "ö".t(x INTEGER)',
    )
    with lake.open() as ours:
        assert ours.table("Ä").scan().to_arrow().to_pylist() == [{"x": 1}]
        assert ours.table("ä").scan().to_arrow().to_pylist() == [{"y": 2, "z": 3}]
        assert ours.table("T", "ö").schema.names == ["x"]
        with pytest.raises(NotFoundError):
            ours.table("t", "Ö")


def test_a_snapshot_tells_its_commit(make_lake: LakeMaker) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE t(id INTEGER)", "INSERT INTO t VALUES (1)")
    with lake.open() as ours:
        assert ours.snapshot() == ours.snapshots()[-1]
        assert ours.snapshot(version=1) == ours.snapshots()[1]
        assert "created_table" in ours.snapshot(version=1).changes
