"""Lakes as other writers and older formats leave them, compared with the real implementation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

LakeMaker = Callable[..., Any]
KINDS = ("duckdb", "sqlite")


@pytest.mark.parametrize("kind", KINDS)
def test_an_inlined_table_of_a_version_without_a_snapshot_has_the_next_newer_columns(
    kind: str, make_lake: LakeMaker, lake_class: Any
) -> None:
    lake = make_lake(kind, "DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE a(x INTEGER, y INTEGER)", "CREATE TABLE b(x INTEGER)")
    lake.detach()
    again = lake_class(lake.connection, lake.uri, lake.data_path)
    try:
        again.execute(
            "BEGIN",
            "INSERT INTO b VALUES (1)",
            "ALTER TABLE a DROP y",
            "COMMIT",
            "INSERT INTO a VALUES (5)",
        )
        (version,) = again.query(
            "SELECT schema_version FROM meta.ducklake_inlined_data_tables WHERE table_id = 1"
        )
        assert version not in again.query("SELECT schema_version FROM meta.ducklake_snapshot")
        assert again.query("FROM a") == [(5,)]
        # At older snapshots the real one looks for columns that the inlined table does not have.
        again.check(snapshots=[max(again.snapshots())])
    finally:
        again.detach()


@pytest.mark.parametrize("kind", KINDS)
def test_an_inlined_table_is_told_by_the_names_of_its_columns(
    kind: str, make_lake: LakeMaker, lake_class: Any
) -> None:
    lake = make_lake(kind, "DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE a(x INTEGER, y INTEGER)", "CREATE TABLE b(x INTEGER)")
    lake.detach()
    again = lake_class(lake.connection, lake.uri, lake.data_path)
    try:
        again.execute(
            "BEGIN",
            "INSERT INTO b VALUES (1)",
            "ALTER TABLE a DROP y",
            "ALTER TABLE a ADD COLUMN z INTEGER",
            "COMMIT",
            "INSERT INTO a VALUES (5, 6)",
            "ALTER TABLE a RENAME x TO w",
            "INSERT INTO a VALUES (7, 8)",
        )
        # The real one takes older columns, and shows (5, NULL).
        with again.open() as ours:
            found = ours.table("a").scan().to_arrow().to_pylist()
        assert found == [{"w": 5, "z": 6}, {"w": 7, "z": 8}]
    finally:
        again.detach()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("default", ["x y", '{"a": 1}', "", "null"])
def test_a_default_that_was_text_before_its_column_became_json(
    default: str, kind: str, make_lake: LakeMaker
) -> None:
    lake = make_lake(kind)
    lake.execute(
        "CREATE TABLE t(i INTEGER)",
        "INSERT INTO t SELECT i FROM range(20) r(i)",
        "INSERT INTO t VALUES (100)",
        f"ALTER TABLE t ADD COLUMN j VARCHAR DEFAULT '{default}'",
        "ALTER TABLE t ALTER j SET DATA TYPE JSON",
    )
    expected = lake.query("SELECT i, j FROM t ORDER BY i")
    with lake.open() as ours:
        found = ours.table("t").scan().to_arrow().sort_by("i")
    texts = found["j"].cast("string").to_pylist()
    assert list(zip(found["i"].to_pylist(), texts, strict=True)) == expected
