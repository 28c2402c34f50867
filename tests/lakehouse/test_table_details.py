"""The functions about the shape of tables: growth by snapshots, layout, NULLs, partitions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import pytest

from tests.lakehouse.conftest import Serve

MakeLake = Callable[..., Any]


def rows(served: Any, name: str, *arguments: Any, **named: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        served.client.call_table(f"lakeport.{name}", *arguments, **named).to_arrow().to_pylist()
    )
    return found


@pytest.mark.parametrize("inlined", [0, 5], ids=["files", "inlined"])
def test_growth_adds_up_to_the_rows_of_every_snapshot(
    make_lake: MakeLake, serve: Serve, inlined: int
) -> None:
    lake = make_lake(options=f"DATA_INLINING_ROW_LIMIT {inlined}")
    lake.execute(
        "CREATE TABLE other AS SELECT i AS id FROM range(7) r(i)",
        "CREATE TABLE t AS SELECT i AS id, 'v' || i AS v FROM range(100) r(i)",
        "INSERT INTO t VALUES (1000, 'few')",
        "DELETE FROM t WHERE id BETWEEN 10 AND 30",
        "UPDATE t SET v = 'changed' WHERE id = 1000",
        "INSERT INTO t SELECT i, 'more' FROM range(2000, 2010) r(i)",
        "INSERT INTO t SELECT i, NULL FROM range(20) r(i)",
        "DROP TABLE other",
    )
    created = 2
    versions = [version for version in lake.snapshots() if version >= created]
    real = [
        lake.query(f"SELECT count(*) FROM t AT (VERSION => {version})")[0][0]
        for version in versions
    ]

    served = serve(lake)
    growth = {row["snapshot_id"]: row for row in rows(served, "growth", table_name="t")}
    changed = [growth.get(version, {}) for version in versions]
    added = [row.get("rows_added", 0) - row.get("rows_removed", 0) for row in changed]
    whole = rows(served, "growth")

    assert list(accumulate(added)) == real
    assert sum(row["rows_added"] - row["rows_removed"] for row in whole) == real[-1]
    files = [row["files_added"] - row["files_removed"] for row in changed if row]
    assert sum(files) == len(rows(served, "list_files", "t"))


def test_rows_that_several_snapshots_deleted_from_a_file_count_for_the_last(
    make_lake: MakeLake, serve: Serve
) -> None:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id FROM range(100) r(i)",
        "DELETE FROM t WHERE id < 10",
        "DELETE FROM t WHERE id < 15",
        "INSERT INTO t VALUES (1)",
        "DELETE FROM t",
    )

    removed = [(row["snapshot_id"], row["rows_removed"]) for row in rows(serve(lake), "growth")]

    assert removed == [(1, 0), (3, 15), (4, 0), (5, 86)]


def test_a_table_has_a_layout_counts_of_nulls_and_partitions(
    make_lake: MakeLake, serve: Serve
) -> None:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t(day DATE, id INTEGER, note VARCHAR)",
        "ALTER TABLE t SET PARTITIONED BY (year(day))",
        "ALTER TABLE t SET SORTED BY (id DESC)",
        "CALL lake.set_option('target_file_size', '64MB', table_name => 't')",
        "INSERT INTO t VALUES ('2024-01-01', 1, NULL), ('2024-05-01', 2, 'a'),"
        " ('2025-01-01', 3, NULL), ('2025-01-02', 4, NULL)",
        "DELETE FROM t WHERE id = 2",
    )

    served = serve(lake)

    layout = [tuple(row.values()) for row in rows(served, "table_layout", "t")]
    assert layout[0] == ("partitioned by", "day", "year")
    assert [(kind, name) for kind, name, _ in layout if kind == "sorted by"] == [
        ("sorted by", "id")
    ]
    assert ("option", "target_file_size") in [row[:2] for row in layout]
    assert not [row for row in layout if row[1] in ("data_path", "version")]
    nulls = {row["column_name"]: row for row in rows(served, "column_info", "t")}
    assert (nulls["note"]["row_count"], nulls["note"]["null_count"]) == (4, 3)
    assert nulls["id"]["null_count"] == 0
    assert (nulls["id"]["min_value"], nulls["id"]["max_value"]) == ("1", "4")
    parts = sorted(rows(served, "partitions", "t"), key=lambda row: str(row["partition"]))
    assert [(row["partition"], row["record_count"]) for row in parts] == [
        ("day = 2024", 2),
        ("day = 2025", 2),
    ]
    assert [row["delete_file_count"] for row in parts] == [1, 0]
