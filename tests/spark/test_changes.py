"""The whole change feed on Spark, against the real implementation's `table_changes`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport.errors import LakeportError, UnsupportedError
from lakeport.spark.transport.job import group_tasks
from lakeport.spark.transport.stream import stream

ROWS = "SELECT i::INTEGER AS id, 'v' || i AS v FROM range({}) r(i)"
LIVES: dict[str, tuple[str, ...]] = {
    "inlined, flushed and updated": (
        "CREATE TABLE t(id INTEGER, v VARCHAR)",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL)",
        "INSERT INTO t SELECT 100 + id, v FROM (" + ROWS.format(20) + ")",
        "UPDATE t SET v = 'upd' WHERE id IN (2, 106)",
        "DELETE FROM t WHERE id IN (1, 105)",
        "CALL ducklake_flush_inlined_data('lake')",
        # A row that was updated before the flush would be deleted at the wrong snapshot by the
        # real implementation, so another one is updated.
        "UPDATE t SET v = 'again' WHERE id IN (3, 107)",
    ),
    "merges, compaction and whole files": (
        "CREATE TABLE t(id INTEGER, v VARCHAR)",
        "INSERT INTO t " + ROWS.format(30),
        "MERGE INTO t USING (" + ROWS.format(40) + ") s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT",
        "INSERT INTO t " + ROWS.format(15),
        "CALL ducklake_merge_adjacent_files('lake')",
        "UPDATE t SET v = v || '!'",
        "DELETE FROM t",
    ),
    "a changing schema": (
        "CREATE TABLE t(id INTEGER, v VARCHAR)",
        "INSERT INTO t VALUES (1, 'a')",
        "INSERT INTO t " + ROWS.format(15),
        "ALTER TABLE t ADD COLUMN w INTEGER DEFAULT 5",
        "UPDATE t SET w = 6 WHERE id < 4",
        "ALTER TABLE t RENAME COLUMN v TO change_type",
        "ALTER TABLE t ALTER w TYPE BIGINT",
        "UPDATE t SET id = id + 100, w = 7 WHERE id = 2",
    ),
}


@pytest.mark.parametrize("life", LIVES)
def test_the_feed_is_that_of_the_real_implementation(
    life: str, make_lake: Callable[..., Any], spark: Any
) -> None:
    lake = make_lake("sqlite")
    lake.execute(*LIVES[life])
    expected = {bounds: real_feed(lake, *bounds) for bounds in ranges(lake, life)}
    assert any("update_preimage" in str(row) for _, rows in expected.values() for row in rows)

    with lake.open(spark=spark) as ours:
        for (a, b), (schema, rows) in expected.items():
            feed = ours.table("t").changes(a, b).to_arrow()
            assert feed.schema.names == schema.names
            assert feed.schema.types == schema.types
            assert Counter(map(tuple_of, feed.to_pylist())) == rows, (a, b)


@pytest.mark.parametrize("life", LIVES)
def test_the_feed_is_the_same_as_a_data_frame(
    life: str, make_lake: Callable[..., Any], spark: Any
) -> None:
    lake = make_lake("duckdb")
    lake.execute(*LIVES[life])
    first, *_, last = (id for id in lake.snapshots() if ("main", "t") in lake.tables(id))
    schema, rows = real_feed(lake, first, last)

    with lake.open() as ours:
        feed = ours.table("t").changes(first).to_spark(spark)

        assert feed.columns == schema.names
        assert Counter(tuple(row) for row in feed.collect()) == rows


def test_insertions_and_deletions_can_be_read_alone(
    make_lake: Callable[..., Any], spark: Any
) -> None:
    lake = make_lake("sqlite")
    lake.execute(*LIVES["merges, compaction and whole files"])
    last = lake.snapshots()[-1]
    expected = {
        what: sorted(
            lake.query(
                f"SELECT *, rowid, snapshot_id "
                f"FROM ducklake_table_{what}('lake', 'main', 't', 1, {last})"
            )
        )
        for what in ("insertions", "deletions")
    }

    with lake.open(spark=spark) as ours:
        changes = ours.table("t").changes(1)
        for what, rows in expected.items():
            scan = getattr(changes, what)
            assert sorted(map(tuple_of, scan.to_arrow().to_pylist())) == rows
            assert scan.count() == len(rows)


def test_a_feed_without_row_ids_of_its_own_is_refused(
    make_lake: Callable[..., Any], spark: Any
) -> None:
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE t(snapshot_id INTEGER)", "INSERT INTO t VALUES (7)")

    with (
        lake.open(spark=spark) as ours,
        pytest.raises(UnsupportedError, match="called rowid or snapshot_id"),
    ):
        ours.table("t").changes(1).to_batches()


def test_a_file_that_is_missing_is_an_error_in_the_words_of_its_task(
    make_lake: Callable[..., Any], spark: Any
) -> None:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE t AS " + ROWS.format(1000), "UPDATE t SET v = 'u' WHERE id < 3")
    with lake.open(spark=spark) as ours:
        changes = ours.table("t").changes(1)
        for scan in (changes.insertions, changes.deletions):
            path = Path(max(scan.plan.tasks, key=lambda task: task.estimated_rows).file.path)
            hidden = path.rename(path.with_suffix(".gone"))
            with pytest.raises(LakeportError) as failure:
                changes.to_arrow()
            hidden.rename(path)
            assert path.name in str(failure.value)
            assert "\n" not in str(failure.value)
            assert "Traceback" not in str(failure.value)


def test_small_files_of_a_feed_share_spark_tasks(
    make_lake: Callable[..., Any], spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE t(id INTEGER, v VARCHAR)")
    lake.execute(*("INSERT INTO t " + ROWS.format(3) for _ in range(6)), "DELETE FROM t")
    groups = []

    def streamed(spark: Any, tasks: Any, *arguments: Any, **options: Any) -> Any:
        groups.append(len(group_tasks(list(enumerate(tasks)), 2)))
        return stream(spark, tasks, *arguments, **options)

    monkeypatch.setattr("lakeport.spark.engine.stream", streamed)
    with lake.open(spark=spark) as ours:
        assert ours.table("t").changes(1).to_arrow().num_rows == 36

    # The keys of both sides, then the rows.
    assert groups == [1, 1, 2]


def ranges(lake: Any, life: str) -> list[tuple[int, int]]:
    """Every range of snapshots of the first life; of others those of one, or up to the last."""
    ids = [id for id in lake.snapshots() if ("main", "t") in lake.tables(id)]
    is_first = life == next(iter(LIVES))
    return [(a, b) for a in ids for b in ids if a <= b and (is_first or b in (a, ids[-1]))]


def real_feed(lake: Any, first: int, last: int) -> tuple[pa.Schema, Counter[Any]]:
    with lake.on_one_thread():
        real = lake.connection.sql(f"FROM lake.table_changes('t', {first}, {last})")
        feed = real.to_arrow_table()
    return feed.schema, Counter(map(tuple_of, feed.to_pylist()))


def tuple_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.values())
