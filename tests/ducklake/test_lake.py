"""What a lake and its tables tell about themselves, and how they refuse."""

from __future__ import annotations

import pickle
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlalchemy as sa

from lakeport.ducklake import Lake, SnapshotCache
from lakeport.ducklake.cache import WeighedCache
from lakeport.ducklake.database import Database
from lakeport.ducklake.uri import parse_location
from lakeport.errors import (
    CorruptLakeError,
    InvalidArgumentError,
    LakeportError,
    LakeVersionError,
    MissingFileError,
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
                assert table.scan().to_table()["id"].to_pylist() == expected
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
        with pytest.raises(NotFoundError, match=r"no table main\.t at snapshot 0"):
            ours.table("t", version=0)
    with lake.open(snapshot=2) as pinned:
        assert pinned.table("t").scan().to_table()["id"].to_pylist() == [0]
    with lake.open(snapshot=snapshots[3].time) as pinned:
        assert pinned.table("t").scan().to_table()["id"].to_pylist() == [0, 1]


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
        assert before.scan().to_table().num_rows == 0
        assert ours.table("t").scan().to_table().num_rows == 1


def test_a_cache_saves_lookups_and_is_never_stale(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE t(id INTEGER)", "INSERT INTO t VALUES (1)")
    cache = SnapshotCache(max_entries=2)
    with lake.open(cache=cache) as ours:
        assert ours.table("t") is ours.table("T")
        lake.execute("ALTER TABLE t ADD COLUMN v INTEGER DEFAULT 3", "INSERT INTO t VALUES (2, 4)")
        lake.detach()
        assert ours.table("t").scan().to_table().to_pylist() == [
            {"id": 1, "v": 3},
            {"id": 2, "v": 4},
        ]
        old = ours.table("t", version=2)
        lake.execute("CALL ducklake_flush_inlined_data('lake')")
        lake.detach()
        assert old.scan().to_table().to_pylist() == [{"id": 1}]
        ours.table("t")
        assert len(cache) == 2
        lake.execute("CALL ducklake_expire_snapshots('lake', versions => [2])")
        lake.detach()
        with pytest.raises(SnapshotNotFoundError, match="expired"):
            old.scan()
    with pytest.raises(InvalidArgumentError):
        SnapshotCache(max_entries=0)


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
    with lake.open() as ours:
        ours.table("t")
        engine = ours._catalog.database.engine
        sa.event.listen(engine, "before_cursor_execute", lambda *a: statements.append(a[2]))
        from lakeport.filters import col

        arrow = Database.read_arrow
        try:
            Database.read_arrow = lambda self, c, s: (statements.append(s), arrow(self, c, s))[1]  # type: ignore[assignment,func-returns-value,method-assign]
            plan = ours.table("t").scan(filter=col("c5") > 3)
        finally:
            Database.read_arrow = arrow  # type: ignore[method-assign]
        assert plan.to_table().num_rows > 0
    assert len([s for s in statements if s != "BEGIN"]) <= 3


def test_plans_and_tasks_are_small_and_run_in_another_process(
    make_lake: LakeMaker, tmp_path: Path
) -> None:
    lake = make_lake("sqlite")
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id, {'a': i} AS s FROM range(1000) r(i)",
        "DELETE FROM t WHERE id = 5",
        "INSERT INTO t VALUES (7, {'a': 1})",
    )
    with lake.open() as ours:
        plan = ours.table("t").scan(["id", "s", "rowid"])
    assert pickle.loads(pickle.dumps(plan)) == plan
    sizes = [len(pickle.dumps(task)) for task in plan.tasks]
    assert max(sizes) < 6000
    (tmp_path / "plan").write_bytes(pickle.dumps(plan))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).to_table().num_rows)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "plan")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "1000"


def test_large_files_are_divided_and_every_row_is_read_once(make_lake: LakeMaker) -> None:
    lake = make_lake("duckdb", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CALL ducklake_set_option('lake', 'parquet_row_group_size', 2048)",
        "CREATE TABLE t AS SELECT i AS id FROM range(30000) r(i)",
        "DELETE FROM t WHERE id % 100 = 0",
    )
    with lake.open() as ours:
        for task_bytes in (1, 10_000, 50_000, 1 << 30):
            plan = ours.table("t").scan(["id", "file_row_number", "rowid"], task_bytes=task_bytes)
            table = plan.to_table()
            assert table["id"].to_pylist() == [i for i in range(30000) if i % 100]
            assert table["id"] == table["file_row_number"] == table["rowid"]
        assert len(ours.table("t").scan(task_bytes=10_000).tasks) > 3
        batches = list(ours.table("t").scan().tasks[0].read(batch_rows=1000))
        assert max(batch.num_rows for batch in batches) <= 1000
        with pytest.raises(InvalidArgumentError):
            ours.table("t").scan(task_bytes=0)


def test_a_scan_may_ask_for_any_columns_in_any_order(make_lake: LakeMaker) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id, -i AS v FROM range(20) r(i)",
        "INSERT INTO t VALUES (100, 0)",
        "DELETE FROM t WHERE id = 3",
        "ALTER TABLE t ADD COLUMN d INTEGER DEFAULT 4",
    )
    with lake.open() as ours:
        table = ours.table("t")
        assert table.scan(["V", "id"]).to_table().column_names == ["v", "id"]
        assert table.scan(["d"]).to_table()["d"].to_pylist() == [4] * 20
        assert table.scan([]).to_table().num_rows == 20
        assert table.scan([], "1 = 0").to_table().num_rows == 0
        assert table.scan([], "NULL").to_table().num_rows == 0
        assert table.scan([], "1 = 1").to_table().num_rows == 20
        assert (
            table.scan(["filename"])
            .to_table()["filename"]
            .to_pylist()[-1]
            .startswith("ducklake_inlined")
        )
        assert table.scan().estimated_rows == 21
        assert "2 columns" not in table.scan().explain()
        with pytest.raises(NotFoundError, match="no column 'nope'"):
            table.scan(["nope"])


def test_a_column_named_like_a_virtual_one_hides_it(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE t AS SELECT 42 AS snapshot_id, 'f' AS filename")
    with lake.open() as ours:
        assert ours.table("t").scan(["snapshot_id", "filename"]).to_table().to_pylist() == [
            {"snapshot_id": 42, "filename": "f"}
        ]


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
            found.extend(ours.table("t").scan().to_table().num_rows for _ in range(3))

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [1000] * 18


def test_missing_files_are_errors(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id FROM range(10) r(i)", "DELETE FROM t WHERE id = 1"
    )
    with lake.open() as ours:
        file = ours.table("t").files()[0]
        Path(file.deletes[0].path).unlink()
        with pytest.raises(MissingFileError, match="delete"):
            ours.table("t").scan().to_table()
        assert ours.table("t", version=1).scan().to_table().num_rows == 10
        Path(file.path).unlink()
        with pytest.raises(MissingFileError):
            ours.table("t", version=1).scan().to_table()


@pytest.mark.parametrize("type", ["INTEGER", "VARIANT"])  # the second is read by DuckDB
def test_damage_inside_a_file_names_the_file(type: str, make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(f"CREATE TABLE t AS SELECT i::{type} AS id FROM range(10000) r(i)")
    with lake.open() as ours:
        file = Path(ours.table("t").files()[0].path)
        content = bytearray(file.read_bytes())
        content[4:4000] = b"\xff" * 3996
        file.write_bytes(content)
        with pytest.raises(CorruptLakeError, match=file.name):
            ours.table("t").scan().to_table()


def test_a_file_that_duckdb_must_read_may_be_divided(make_lake: LakeMaker) -> None:
    lake = make_lake("duckdb", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CALL ducklake_set_option('lake', 'parquet_row_group_size', 2048)",
        "CREATE TABLE t AS SELECT i AS id, INTERVAL (i) SECOND AS i FROM range(10000) r(i)",
        "ALTER TABLE t ALTER i TYPE JSON",
        "DELETE FROM t WHERE id % 100 = 0",
    )
    with lake.open() as ours:
        plan = ours.table("t").scan(["id", "i", "file_row_number"], task_bytes=20_000)
        assert len(plan.tasks) > 1
        table = plan.to_table()
        assert table["id"].to_pylist() == [i for i in range(10000) if i % 100]
        assert table["id"] == table["file_row_number"]
        assert table["i"][0].as_py() == '"00:00:01"'


def test_variants_that_became_json(make_lake: LakeMaker) -> None:
    # The real implementation itself cannot read the snapshots before it any more.
    lake = make_lake("duckdb", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t(v VARIANT)",
        "INSERT INTO t VALUES ({'a': 1}::VARIANT), (42::VARIANT), (NULL)",
        "ALTER TABLE t ALTER v TYPE JSON",
    )
    wanted = [row[0] for row in lake.query("SELECT v FROM t")]
    with lake.open() as ours:
        assert ours.table("t").scan().to_table()["v"].to_pylist() == wanted


def test_a_cache_is_bounded_by_the_weight_of_what_it_keeps() -> None:
    cache = WeighedCache(10, len)
    for word in ("four", "fours", "a", "a word too long to be kept", "six"):
        assert cache.remembered(word, lambda word=word: word) == word  # type: ignore[misc]
    assert len(cache) == 3
    assert cache.remembered("four", lambda: "again") == "again"
    assert cache.remembered("six", lambda: "not asked") == "six"


@pytest.mark.parametrize("version", ["0.5", "2.0", "1.x", ""])
def test_unknown_versions_are_refused_by_name(version: str, make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE t(id INTEGER)")
    lake.detach()
    with sqlite3.connect(lake.uri.removeprefix("ducklake:sqlite:")) as database:
        database.execute("UPDATE ducklake_metadata SET value = ? WHERE key = 'version'", (version,))
    database.close()
    with pytest.raises(LakeVersionError, match=repr(version)):
        Lake.open(lake.uri)


def test_what_is_not_a_lake_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no catalog database"):
        Lake.open(f"ducklake:{tmp_path}/nothing.ducklake")
    with sqlite3.connect(tmp_path / "empty.sqlite") as database:
        database.execute("CREATE TABLE t(a)")
    database.close()
    for uri in (f"sqlite:{tmp_path}/empty.sqlite", f"ducklake:{tmp_path}/empty.sqlite"):
        with pytest.raises(NotFoundError, match=r"sqlite:.* holds no DuckLake tables"):
            Lake.open(uri)
    with pytest.raises(InvalidArgumentError):
        Lake.open("oracle://db/lake")
    with pytest.raises(InvalidArgumentError):
        Lake.open("ducklake:")


def test_secrets_are_in_no_text() -> None:
    for uri in (
        "ducklake:postgres:dbname=l host=127.0.0.1 port=1 user=u password='s3 cret' connect_timeout=1",
        "postgresql://u:s3%20cret@127.0.0.1:1/l",
        "ducklake:mysql:db=l host=127.0.0.1 port=1 user=u passwd='s3 cret'",
        "mysql://u:s3%20cret@127.0.0.1:1/l",
    ):
        location = parse_location(uri)
        assert location.parameters["password"] == "s3 cret"
        assert "s3 cret" not in str(location) + repr(location)
        with pytest.raises(UnavailableError) as caught:
            Lake.open(uri)
        assert "s3 cret" not in str(caught.value)
        assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("uri", "kind", "where"),
    [
        ("ducklake:meta.ducklake", "duckdb", "meta.ducklake"),
        ("meta.ducklake", "duckdb", "meta.ducklake"),
        ("ducklake:duckdb:a b.db", "duckdb", "a b.db"),
        ("ducklake:sqlite:meta.sqlite", "sqlite", "meta.sqlite"),
        ("sqlite:///meta.sqlite", "sqlite", "meta.sqlite"),
        ("sqlite:////abs/meta.sqlite", "sqlite", "/abs/meta.sqlite"),
        ("C:/lakes/meta.ducklake", "duckdb", "C:/lakes/meta.ducklake"),
        ("ducklake:postgres:postgresql://h/db", "postgresql", ""),
    ],
)
def test_every_spelling_of_a_location(uri: str, kind: str, where: str) -> None:
    location = parse_location(uri)
    assert (location.kind, location.path) == (kind, where)


@pytest.mark.parametrize(
    "text", ["postgres:host", "mysql:nope=1", "mysql:port=x", "sqlite://host/x", "sqlite:"]
)
def test_unclear_locations_are_refused(text: str) -> None:
    with pytest.raises(LakeportError):
        parse_location(f"ducklake:{text}")


def test_structs_inlined_as_text_keep_what_the_real_implementation_loses(
    make_lake: LakeMaker,
) -> None:
    lake = make_lake("sqlite")
    lake.execute(
        "CREATE TABLE t(s STRUCT(q VARCHAR, d DATE, ts TIMESTAMP, b BLOB, u UUID, f DOUBLE, n STRUCT(x VARCHAR), i INTERVAL))",
        r"""INSERT INTO t VALUES ({'q': 'x''y\z', 'd': '2024-01-02', 'ts': '2024-01-02 03:04:05', 'b': '\x00\xAA'::BLOB,
            'u': '00000000-0000-0000-0000-000000000001', 'f': 'nan', 'n': {'x': 'a' || chr(0) || '''b'},
            'i': INTERVAL '1 month 2 days'})""",
    )
    with lake.open() as ours:
        value = ours.table("t").scan().to_table()["s"][0]
    assert value["q"].as_py() == r"x'y\z"
    assert str(value["d"].as_py()) == "2024-01-02"
    assert value["b"].as_py() == b"\x00\xaa"
    assert value["n"]["x"].as_py() == "a\x00'b"
    assert value["i"].as_py() == pa.scalar((1, 2, 0), pa.month_day_nano_interval()).as_py()


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
        assert ours.table("Ä").scan().to_table().to_pylist() == [{"x": 1}]
        assert ours.table("ä").scan().to_table().to_pylist() == [{"y": 2, "z": 3}]
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
