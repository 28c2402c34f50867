"""Tables that are restored to an earlier snapshot, as a new one."""

from __future__ import annotations

from typing import Any

import pytest

from lakeport import Lake
from lakeport.errors import SnapshotNotFoundError, UnsupportedError
from tests.fixtures_lakes import LakeMaker

HISTORY = (
    "CREATE TABLE t (id INTEGER, name VARCHAR)",
    "INSERT INTO t SELECT i, 'n' || i FROM range(5) r(i)",
    "INSERT INTO t SELECT i, 'n' || i FROM range(5, 105) r(i)",
    "DELETE FROM t WHERE id IN (2, 7)",
    "UPDATE t SET name = 'updated' WHERE id IN (1, 9)",
    "UPDATE t SET name = upper(name) WHERE id BETWEEN 20 AND 60",
    "ALTER TABLE t ADD COLUMN more INTEGER DEFAULT 5",
    "INSERT INTO t SELECT i, 'n' || i, 6 FROM range(200, 220) r(i)",
    "ALTER TABLE t RENAME name TO label",
    "ALTER TABLE t DROP COLUMN label",
    "DELETE FROM t WHERE id BETWEEN 40 AND 80",
    "CALL ducklake_flush_inlined_data('lake')",
    "CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.1)",
    "CALL ducklake_merge_adjacent_files('lake')",
)


def rows(lake: Lake, version: int | None = None) -> tuple[list[str], list[Any]]:
    """Columns and rows of the table, with row ids."""
    table = lake.table("t", version=version)
    names = table.schema.names
    found = table.scan([*names, "rowid"]).to_arrow().to_pylist()
    return names, sorted((tuple(row.values()) for row in found), key=repr)


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_restored_table_has_the_columns_rows_and_row_ids_of_the_snapshot(
    kind: str, make_lake: LakeMaker
) -> None:
    lake = make_lake(kind)
    lake.execute(*HISTORY)
    versions = lake.snapshots()[1:]
    lake.detach()
    with lake.open() as ours:
        expected = {version: rows(ours, version) for version in versions}
        # Back and forth, so that each restored snapshot is a start for the next one.
        for version in [*versions[::-3], *versions[1::4]]:
            result = ours.restore("t", version=version, message=f"back to {version}")
            assert rows(ours) == expected[version], version
            assert result.snapshot in (None, ours.snapshot().id)
        for version in versions:
            assert rows(ours, version) == expected[version], version
    lake.check()


def test_what_has_not_changed_is_neither_read_nor_written(make_lake: LakeMaker) -> None:
    lake = make_lake()
    lake.execute(*HISTORY[:3], "INSERT INTO t SELECT i, 'n' FROM range(200, 300) r(i)")
    lake.detach()
    with lake.open() as ours:
        result = ours.restore("t", version=3)
        assert (result.rows_inserted, result.rows_updated, result.rows_deleted) == (0, 0, 100)
        assert ours.restore("t", version=3).snapshot is None
        assert ours.table("t").scan().count() == 105


def test_a_table_is_not_restored_across_a_change_of_type(make_lake: LakeMaker) -> None:
    lake = make_lake()
    lake.execute(*HISTORY[:2], "ALTER TABLE t ALTER id TYPE BIGINT")
    lake.detach()
    with lake.open() as ours:
        with pytest.raises(UnsupportedError, match="column 'id' was int32 and is int64 now"):
            ours.restore("t", version=2)
        with pytest.raises(SnapshotNotFoundError):
            ours.restore("t", version=99)
        assert ours.snapshot().id == 3


def test_the_whole_lake_goes_back_to_a_snapshot_in_one_new_one(make_lake: LakeMaker) -> None:
    lake = make_lake()
    lake.execute(
        *HISTORY[:4],
        "CREATE TABLE swapped (a INTEGER)",
        "CREATE TABLE gone (a INTEGER NOT NULL, s STRUCT(x VARCHAR)); "
        "COMMENT ON TABLE gone IS 'kept'",
        "INSERT INTO gone SELECT i, {'x': 'y'} FROM range(30) r(i)",
        "CREATE VIEW v AS SELECT a FROM gone",
        "CREATE SCHEMA other; CREATE TABLE other.o (b INTEGER); INSERT INTO other.o VALUES (1)",
    )
    base = lake.snapshots()[-1]
    lake.execute(
        *HISTORY[4:9],
        "DROP VIEW v; DROP TABLE gone; DROP SCHEMA other CASCADE",
        "CREATE TABLE new (a INTEGER); INSERT INTO new VALUES (1); CREATE SCHEMA later",
        "ALTER TABLE t RENAME TO x; ALTER TABLE swapped RENAME TO t; ALTER TABLE x RENAME TO swapped",
        "CREATE VIEW v AS SELECT 1 AS one",
    )
    lake.detach()
    with lake.open() as ours:
        before = ours.contents(version=base)
        expected = {
            (table.schema, table.name): ours.table(table.name, table.schema, version=base)
            .scan()
            .to_arrow()
            .to_pylist()
            for table in before.tables
        }
        newest = ours.snapshot().id
        result = ours.rollback(version=base, message="undo")
        assert result.snapshot == newest + 1
        after = ours.contents()
        assert [s.name for s in after.schemas] == [s.name for s in before.schemas]
        assert [(v.schema, v.name, v.sql) for v in after.views] == [
            (v.schema, v.name, v.sql) for v in before.views
        ]
        assert sorted((t.schema, t.name) for t in after.tables) == sorted(expected)
        for table in after.tables:
            found = ours.table(table.name, table.schema)
            assert sorted(found.scan().to_arrow().to_pylist(), key=repr) == sorted(
                expected[table.schema, table.name], key=repr
            )
        kept = {table.name: table.id for table in before.tables}
        assert {
            table.name: table.id for table in after.tables if table.name in ("t", "swapped")
        } == {name: kept[name] for name in ("t", "swapped")}
        assert ours.table("gone").comment == "kept"
        assert not ours.table("gone").columns[0].nullable
        assert ours.rollback(version=result.snapshot or 0).snapshot is None
    lake.check()
    assert lake.query("SELECT count(*), max(a) FROM v") == [(30, 29)]
