"""The change feed over every pair of snapshots, against the real implementation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from lakeport.errors import InvalidArgumentError, SnapshotNotFoundError

ROWS = "SELECT i::INTEGER AS id, 'v' || i AS v FROM range({}) r(i)"
LIVES: dict[str, tuple[str, ...]] = {
    "inlined and in files": (
        "CREATE TABLE t(id INTEGER, v VARCHAR)",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL)",
        "INSERT INTO t SELECT 100 + id, v FROM (" + ROWS.format(20) + ")",
        "DELETE FROM t WHERE id = 105",
        "DELETE FROM t WHERE id = 1",
        "UPDATE t SET v = 'upd' WHERE id IN (2, 106)",
        "CALL ducklake_flush_inlined_data('lake')",
        "DELETE FROM t WHERE id < 110 AND id <> 2",
    ),
    "delete files and whole files": (
        "CREATE TABLE t AS " + ROWS.format(100),
        "DELETE FROM t WHERE id < 30",
        "UPDATE t SET v = 'u' WHERE id BETWEEN 40 AND 60",
        "INSERT INTO t " + ROWS.format(50),
        "DELETE FROM t WHERE id > 50",
        "DELETE FROM t",
        "INSERT INTO t " + ROWS.format(12),
    ),
    "merged files": (
        "CREATE TABLE t(id INTEGER, v VARCHAR)",
        "INSERT INTO t " + ROWS.format(15),
        "INSERT INTO t " + ROWS.format(16),
        "CALL ducklake_merge_adjacent_files('lake')",
        "INSERT INTO t " + ROWS.format(17),
        "DELETE FROM t WHERE id = 3",
    ),
    "a changing schema": (
        "CREATE TABLE t(id INTEGER, v VARCHAR)",
        "INSERT INTO t VALUES (1, 'a')",
        "INSERT INTO t " + ROWS.format(15),
        "ALTER TABLE t ADD COLUMN w INTEGER DEFAULT 5",
        "UPDATE t SET w = 6 WHERE id = 1",
        "ALTER TABLE t DROP COLUMN v",
        "DELETE FROM t WHERE id = 2",
    ),
}


@pytest.mark.parametrize(
    ("life", "kind"),
    [*((life, "sqlite") for life in LIVES), ("inlined and in files", "duckdb")],
)
def test_insertions_and_deletions_of_every_range(
    life: str, kind: str, make_lake: Callable[..., Any]
) -> None:
    lake = make_lake(kind)
    lake.execute(*LIVES[life])
    ids = [id for id in lake.snapshots() if ("main", "t") in lake.tables(id)]
    pairs = [(a, b) for a in ids for b in ids if a <= b]
    with lake.on_one_thread():
        expected = {
            (a, b, what): sorted(
                lake.query(
                    f"SELECT *, rowid, snapshot_id FROM ducklake_table_{what}('lake', 'main', 't', {a}, {b})"
                ),
                key=repr,
            )
            for a, b in pairs
            for what in ("insertions", "deletions")
        }
    with lake.open() as ours:
        table = ours.table("t")
        for a, b in pairs:
            feed = table.changes(a, b)
            assert rows(feed.insertions.to_arrow()) == expected[(a, b, "insertions")], (a, b)
            assert rows(feed.deletions.to_arrow()) == expected[(a, b, "deletions")], (a, b)


def test_bounds_may_be_moments_and_must_exist(make_lake: Callable[..., Any]) -> None:
    lake = make_lake("sqlite")
    lake.execute(
        "CREATE TABLE t(id INTEGER)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"
    )
    with lake.open() as ours:
        table = ours.table("t")
        times = {snapshot.id: snapshot.time for snapshot in ours.snapshots()}
        feed = table.changes(times[2], times[3])
        assert (feed.first.id, feed.last.id) == (2, 3)
        assert feed.insertions.to_arrow()["id"].to_pylist() == [1, 2]
        with pytest.raises(SnapshotNotFoundError, match="no snapshot 9"):
            table.changes(1, 9)
        with pytest.raises(SnapshotNotFoundError):
            table.changes(datetime(2999, 1, 1, tzinfo=UTC))
        with pytest.raises(InvalidArgumentError, match="after"):
            table.changes(3, 2)


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)
