"""All maintenance of a lake of ours, on each of the four databases."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakeport.ducklake import Lake
from tests.fixtures_lakes import LakeMaker


def rows(first: int, last: int) -> pa.Table:
    ids = list(range(first, last))
    return pa.table({"id": pa.array(ids, pa.int32()), "name": [f"n{i}" for i in ids]})


def contents(lake: Lake, snapshots: list[int]) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for snapshot in snapshots:
        table = lake.table("t", version=snapshot)
        read = table.scan(["rowid", "snapshot_id", "id", "name"]).to_arrow()
        found[snapshot] = sorted(map(str, read.to_pylist()))
    return found


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgresql", "mariadb"])
def test_all_maintenance_keeps_the_snapshots(make_lake: LakeMaker, kind: str) -> None:
    real = make_lake(kind)
    with Lake.create(real.uri, data_path=real.data_path, engine="local") as lake:
        table = lake.create_table("t", {"id": "INTEGER", "name": "VARCHAR"})
        for first in (0, 30, 60):
            table.append(rows(first, first + 30))
        table.append(rows(90, 95))
        table.delete("id < 20")
        table.delete("id IN (40, 91)")
        table.update({"name": "'new'"}, "id IN (50, 92)")
        snapshots = [snapshot.id for snapshot in lake.snapshots() if snapshot.id > 0]
        before = contents(lake, snapshots)

        flushed = table.flush()
        assert flushed.is_empty == (kind == "mariadb")  # where rows are not inlined
        assert contents(lake, snapshots) == before
        rewritten = table.rewrite_files(threshold=0.05)
        assert rewritten.deletes >= 20
        assert contents(lake, snapshots) == before
        merged = table.merge_files()
        assert merged.files_replaced > merged.files_written
        assert contents(lake, snapshots) == before
        kept = snapshots[-2:]
        lake.expire(versions=[0, *snapshots[:-2]])
        assert contents(lake, kept) == {key: before[key] for key in kept}
        assert lake.clean_up(everything=True).files_replaced > 0
        assert contents(lake, kept) == {key: before[key] for key in kept}
        lake.expire(retain_last=1)
        lake.clean_up(everything=True)
        assert lake.remove_orphans(older_than="0 seconds", force=True).is_empty
        newest = lake.snapshot().id
        assert [row.split(", ", 2)[2] for row in contents(lake, [newest])[newest]] == [
            row.split(", ", 2)[2] for row in before[snapshots[-1]]
        ]
        assert lake.maintain() == []
