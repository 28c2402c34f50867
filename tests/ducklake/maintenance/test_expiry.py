"""Expiry, clean-up and orphans: what goes, and that nothing else does."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeport.errors import InvalidArgumentError, NotFoundError, SnapshotNotFoundError
from tests.ducklake.maintenance.lake_states import read_state
from tests.fixtures_lakes import LakeMaker, RealLake, make_twins

ROWS = "INSERT INTO {0} SELECT i, 'n' || i FROM range({1}, {2}) r(i)"
LIFE = (
    "CREATE TABLE t (id INTEGER, name VARCHAR)",
    ROWS.format("t", 0, 5),
    ROWS.format("t", 5, 50),
    "UPDATE t SET name = 'x' WHERE id = 2",
    "CREATE SCHEMA s",
    "CREATE TABLE s.gone (id INTEGER, name VARCHAR)",
    ROWS.format("s.gone", 0, 30),
    "DELETE FROM s.gone WHERE id < 15",
    "CREATE VIEW v AS SELECT 1",
    "CREATE MACRO m(a) AS a + 1",
    "COMMENT ON TABLE t IS 'first'",
    "COMMENT ON TABLE t IS 'second'",
    "DELETE FROM t WHERE id BETWEEN 5 AND 30",
    "DELETE FROM t WHERE id > 30",
    "DROP VIEW v",
    "DROP MACRO m",
    "DROP TABLE s.gone",
    "DROP SCHEMA s",
    ROWS.format("t", 60, 90),
)


def stored(lake: RealLake) -> set[str]:
    return {str(path) for path in Path(lake.data_path).rglob("*.parquet")}


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgresql"])
def test_an_expiry_leaves_the_catalog_that_the_reference_leaves(
    make_lake: LakeMaker, kind: str
) -> None:
    ours, theirs = make_twins(make_lake, *LIFE, kind=kind)
    versions = [s for s in range(len(LIFE)) if s not in (2, 18)]
    kept = [s for s in range(1, len(LIFE) + 1) if s not in versions]
    before = read_state(ours, feed=False)
    theirs.execute(f"CALL ducklake_expire_snapshots('lake', versions => {versions})")
    expected = _catalog(theirs)
    with ours.open() as lake:
        planned = lake.expire(versions=versions, dry_run=True)
        assert _catalog(ours) != expected
    with ours.open() as lake:
        done = lake.expire(versions=versions)
        assert done.expired == planned.expired == tuple(versions)
        assert done.files_replaced == planned.files_replaced > 0
        with pytest.raises(SnapshotNotFoundError):
            lake.table("t", version=3)
    assert _catalog(ours) == expected
    after = read_state(ours, kept, feed=False)
    assert after == {key: before[key] for key in after}


def _catalog(lake: RealLake) -> dict[str, list[Any]]:
    tables = {
        "snapshot": "snapshot_id, schema_version, next_catalog_id, next_file_id",
        "snapshot_changes": "snapshot_id, changes_made",
        "data_file": "data_file_id, table_id, begin_snapshot, end_snapshot",
        "delete_file": "delete_file_id, data_file_id, begin_snapshot, end_snapshot",
        "file_column_stats": "data_file_id, column_id",
        "table": "table_id, begin_snapshot, end_snapshot",
        "column": "table_id, column_id, begin_snapshot",
        "table_stats": "table_id, record_count",
        "table_column_stats": "table_id, column_id",
        "schema": "schema_id, begin_snapshot",
        "schema_versions": "begin_snapshot, schema_version, table_id",
        "view": "view_id",
        "tag": "object_id, begin_snapshot, value",
        "macro": "macro_id",
        "macro_impl": "macro_id",
        "macro_parameters": "macro_id",
        "inlined_data_tables": "table_id, schema_version",
        "files_scheduled_for_deletion": "data_file_id, path_is_relative, split_part(path, '/', 2)",
    }
    found = {
        name: lake.query(f"SELECT {columns} FROM meta.ducklake_{name} ORDER BY ALL")
        for name, columns in tables.items()
    }
    lake.detach()
    return found


def test_snapshots_expire_by_age_and_number(make_lake: LakeMaker) -> None:
    lake = make_lake()
    lake.execute(*LIFE[:4])
    middle = datetime.now(UTC)
    lake.execute(*LIFE[4:8])
    with lake.open() as ours:
        ids = [s.id for s in ours.snapshots()]
        assert ours.expire().is_empty
        assert ours.expire(older_than=timedelta(days=1)).is_empty
        assert ours.expire(older_than="1 day").is_empty
        assert ours.expire(older_than=middle, retain_last=7, dry_run=True).expired == (0, 1)
        assert ours.expire(older_than=middle, dry_run=True).expired == (0, 1, 2, 3, 4)
        assert ours.expire(retain_last=2, dry_run=True).expired == tuple(ids[:-2])
        with pytest.raises(InvalidArgumentError, match="at least 1"):
            ours.expire(retain_last=0)
        with pytest.raises(InvalidArgumentError, match="together"):
            ours.expire(versions=[1], retain_last=2)
        with pytest.raises(NotFoundError, match="99"):
            ours.expire(versions=[99])
        ours.set_option("expire_older_than", "0 seconds")
        assert ours.expire().expired == tuple(ids[:-1])
        assert [s.id for s in ours.snapshots()] == ids[-1:]


def test_dead_inlined_rows_and_deletes_of_vanished_files_go(make_lake: LakeMaker) -> None:
    lake = make_lake()
    lake.execute(*LIFE[:4], "DELETE FROM t WHERE id = 7")
    with lake.open(engine="local") as ours:
        ours.table("t").rewrite_files(threshold=0.01)
        assert ours.expire(retain_last=1).files_replaced == 1
    assert lake.query("SELECT count(*) FROM meta.ducklake_inlined_data_1_1") == [(5,)]
    assert lake.query("SELECT count(*) FROM meta.ducklake_inlined_delete_1") == [(0,)]
    lake.check()


def test_a_clean_up_deletes_what_is_scheduled_and_nothing_else(make_lake: LakeMaker) -> None:
    lake = make_lake()
    lake.execute(*LIFE)
    before = stored(lake)
    with lake.open() as ours:
        expired = ours.expire(retain_last=1)
        assert ours.clean_up().is_empty  # files stay for two days
        planned = ours.clean_up(everything=True, dry_run=True)
        assert stored(lake) == before
        done = ours.clean_up(everything=True)
        assert planned.paths == done.paths
        assert done.files_replaced == expired.files_replaced
        assert done.bytes_replaced == expired.bytes_replaced
        assert before - stored(lake) == set(done.paths)
        assert ours.clean_up(everything=True).is_empty
    assert lake.query("SELECT count(*) FROM meta.ducklake_files_scheduled_for_deletion") == [(0,)]
    lake.check()


def test_a_scheduled_file_that_is_needed_again_stays(make_lake: LakeMaker) -> None:
    lake = make_lake()
    lake.execute(*LIFE[:3])
    [(path,)] = lake.query("SELECT 'main/t/' || path FROM meta.ducklake_data_file")
    lake.execute(
        "INSERT INTO meta.ducklake_files_scheduled_for_deletion"
        f" VALUES (0, '{path}', true, TIMESTAMPTZ '2024-01-01')"
    )
    with lake.open() as ours:
        result = ours.clean_up()
    assert (result.files_replaced, len(result.skipped)) == (0, 1)
    lake.check()


def test_tables_for_inlined_rows_are_dropped_one_run_after_they_are_forgotten(
    make_lake: LakeMaker,
) -> None:
    lake = make_lake()
    lake.execute(*LIFE[:2], "ALTER TABLE t ADD COLUMN extra INTEGER")
    with lake.open(engine="local") as ours:
        ours.flush()
        ours.clean_up()
        assert _inlined_tables(lake) == [1, 2]
    lake.check(snapshots=[2, 3])
    with lake.open() as ours:
        ours.clean_up()
    assert _inlined_tables(lake) == [1, 1]
    lake.check(snapshots=[2, 3])


def _inlined_tables(lake: RealLake) -> list[int]:
    counts = [
        lake.query(f"SELECT count(*) FROM {source}")[0][0]
        for source in (
            "meta.ducklake_inlined_data_tables",
            "(FROM duckdb_tables() WHERE table_name LIKE 'ducklake_inlined_data_1%')",
        )
    ]
    lake.detach()
    return counts


def test_orphans_are_old_unknown_files_of_tables(make_lake: LakeMaker, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    lake = make_lake(data_path=f"{tmp_path}/link/../link/")
    lake.execute(*LIFE[:3])
    lake.detach()
    uuid = "01a1e0a0-663c-7d27-8e41-08f976ed455f"
    made = {
        name: real / path
        for name, path in {
            "orphan": f"main/t/a=1/ducklake-{uuid}.parquet",
            "deletes": f"main/t/ducklake-{uuid}-delete.puffin",
            "young": f"main/t/ducklake-{uuid[:-1]}0.parquet",
            "other": "main/t/mine.parquet",
            "elsewhere": f"main/u/ducklake-{uuid}.parquet",
        }.items()
    }
    old = time.time() - 90_000
    for name, path in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 10)
        if name != "young":
            os.utime(path, (old, old))
    for path in real.rglob("*.parquet"):
        if path not in made.values():
            os.utime(path, (old, old))
    with lake.open() as ours:
        with pytest.raises(InvalidArgumentError, match="younger than a day"):
            ours.remove_orphans(older_than="1 hour")
        planned = ours.remove_orphans(dry_run=True)
        assert planned.files_replaced == 2
        assert planned.bytes_replaced == 20
        assert "another lake" in planned.skipped[0]
        assert ours.remove_orphans().paths == planned.paths
        assert {n for n, p in made.items() if p.exists()} == {"young", "other", "elsewhere"}
        forced = ours.remove_orphans(older_than=timedelta(0), force=True)
        assert forced.files_replaced == 2
        assert {n for n, p in made.items() if p.exists()} == {"other"}
    lake.check()
