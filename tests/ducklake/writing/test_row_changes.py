"""Appends, deletes, updates and overwrites of ours, beside the same statements of the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakeport.ducklake import LakeTable
from tests.fixtures_lakes import LakeMaker, RealLake, make_twins

TABLE = "CREATE TABLE t (id INTEGER, name VARCHAR, amount DECIMAL(9,2), moment TIMESTAMP)"
ROWS = (
    "INSERT INTO t SELECT i, 'n' || i, i / 4, TIMESTAMP '2024-01-01' + INTERVAL (i) HOUR "
    "FROM range({0}, {1}) r(i)"
)
LIVE: tuple[str, ...] = (
    TABLE,
    ROWS.format(0, 5),
    ROWS.format(5, 105),
    ROWS.format(105, 205),
    "DELETE FROM t WHERE id IN (3, 7)",
    "DELETE FROM t WHERE id BETWEEN 110 AND 140",
)


class Twins:
    """Two equal lakes of the reference: statements of ours go to one, the reference's to the other."""

    def __init__(self, make_lake: LakeMaker, kind: str, statements: tuple[str, ...]) -> None:
        self.ours, self.theirs = make_twins(make_lake, *statements, kind=kind)
        self.feed_start = len(statements)

    def run(self, change: Callable[[LakeTable], Any], *statements: str) -> Any:
        self.theirs.execute(*statements)
        self.theirs.detach()
        with self.ours.open() as lake:
            return change(lake.table("t"))

    def check(self, *, row_ids: bool = True, catalog: bool = True) -> None:
        """Compare the two lakes, as the reference reads them and as we read ours."""
        expected, found = (self._state(lake, row_ids=row_ids) for lake in (self.theirs, self.ours))
        for key, value in expected.items():
            assert found[key] == value, key
        if catalog:
            mine, other = (self._catalog(lake) for lake in (self.ours, self.theirs))
            for key, value in other.items():
                assert mine[key] == value, key
        self.ours.check()

    def _state(self, lake: RealLake, *, row_ids: bool) -> dict[str, Any]:
        state: dict[str, Any] = {}
        own = "rowid, *" if row_ids else "*"
        for snapshot in lake.snapshots()[1:]:
            at = f"t AT (VERSION => {snapshot})"
            state[f"rows at {snapshot}"] = sorted(lake.query(f"SELECT {own} FROM {at}"), key=repr)
            state[f"count at {snapshot}"] = lake.query(f"SELECT count(*) FROM {at}")
        state["bounds"] = lake.query("SELECT min(id), max(id), min(name), max(moment) FROM t")
        state["filter"] = lake.query("SELECT count(*) FROM t WHERE id > 100 AND amount < 50")
        newest = lake.snapshots()[-1]
        dropped = "" if row_ids else " EXCLUDE (rowid)"
        with lake.on_one_thread():
            feed = lake.query(
                f"SELECT *{dropped} FROM ducklake_table_changes('lake', 'main', 't', 1, {newest})"
            )
        state["feed"] = sorted(feed, key=repr)
        lake.detach()
        return state

    def _catalog(self, lake: RealLake) -> dict[str, list[Any]]:
        queries = {
            "data files": "SELECT begin_snapshot, end_snapshot, record_count, row_id_start"
            " FROM meta.ducklake_data_file ORDER BY data_file_id",
            "delete files": "SELECT data_file_id, begin_snapshot, end_snapshot, delete_count,"
            " partial_max, format FROM meta.ducklake_delete_file ORDER BY 1, 2",
            "scheduled": "SELECT count(*) FROM meta.ducklake_files_scheduled_for_deletion",
            "totals": "SELECT record_count, next_row_id FROM meta.ducklake_table_stats",
            "bounds": "SELECT column_id, contains_null::INT, contains_nan::INT, min_value, max_value"
            " FROM meta.ducklake_table_column_stats ORDER BY 1",
            "inlined": "SELECT * FROM meta.ducklake_inlined_data_1_1 ORDER BY row_id, begin_snapshot",
            "snapshots": "SELECT snapshot_id, schema_version, next_catalog_id, next_file_id"
            " FROM meta.ducklake_snapshot ORDER BY 1",
        }
        found = {name: lake.query(sql) for name, sql in queries.items()}
        if lake.query(
            "SELECT 1 FROM duckdb_tables() WHERE table_name = 'ducklake_inlined_delete_1'"
        ):
            found["inlined deletes"] = lake.query(
                "SELECT * FROM meta.ducklake_inlined_delete_1 ORDER BY ALL"
            )
        lake.detach()
        return found


CHANGES: dict[str, tuple[Callable[[LakeTable], Any], str]] = {
    "delete of a few rows of a file": (lambda t: t.delete("id = 8"), "DELETE FROM t WHERE id = 8"),
    "delete of inlined rows": (lambda t: t.delete("id < 2"), "DELETE FROM t WHERE id < 2"),
    "delete of many rows of a file": (
        lambda t: t.delete("id BETWEEN 20 AND 60"),
        "DELETE FROM t WHERE id BETWEEN 20 AND 60",
    ),
    "delete of more rows of a file with a delete file": (
        lambda t: t.delete("id BETWEEN 150 AND 190"),
        "DELETE FROM t WHERE id BETWEEN 150 AND 190",
    ),
    "delete of all rows of a file": (lambda t: t.delete("id >= 105"), "DELETE FROM t WHERE id >= 105"),
    "delete of all rows by a condition": (lambda t: t.delete("true"), "DELETE FROM t WHERE true"),
    "delete without a condition": (lambda t: t.delete(), "DELETE FROM t"),
    "update of a few rows": (
        lambda t: t.update({"amount": "amount * 2", "name": "upper(name)"}, where="id IN (1, 9)"),
        "UPDATE t SET amount = amount * 2, name = upper(name) WHERE id IN (1, 9)",
    ),
    "update of many rows": (
        lambda t: t.update({"name": "name || '!'"}, where="id BETWEEN 20 AND 150"),
        "UPDATE t SET name = name || '!' WHERE id BETWEEN 20 AND 150",
    ),
    "update of all rows": (lambda t: t.update({"id": "id + 1000"}), "UPDATE t SET id = id + 1000"),
    "update to NULL": (
        lambda t: t.update({"NAME": "NULL"}, where="id = 100"),
        "UPDATE t SET name = NULL WHERE id = 100",
    ),
    "delete by an expression": (
        lambda t: t.delete("length(name) = 2 OR date_part('hour', moment) = 5"),
        "DELETE FROM t WHERE length(name) = 2 OR date_part('hour', moment) = 5",
    ),
}  # fmt: skip


SEQUENCES = {
    "deletes": [name for name in CHANGES if name.startswith("delete of") and "all" not in name],
    "deletes of whole files": ["delete of all rows of a file", "delete of all rows by a condition"],
    "updates": [name for name in CHANGES if name.startswith("update")],
    "others": ["delete by an expression", "delete without a condition"],
}


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_changes_leave_the_lake_that_the_reference_would_leave(
    sequence: str, make_lake: LakeMaker
) -> None:
    twins = Twins(make_lake, "duckdb", LIVE)
    for name in SEQUENCES[sequence]:
        change, statement = CHANGES[name]
        twins.run(change, statement)
    twins.check()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_changes_leave_the_same_rows_on_every_database(kind: str, make_lake: LakeMaker) -> None:
    twins = Twins(make_lake, kind, LIVE)
    for name in ("delete of inlined rows", "update of a few rows", "update of many rows"):
        change, statement = CHANGES[name]
        twins.run(change, statement)
    twins.check(catalog=False)
