"""Maintenance by thresholds, one at a time, on a schedule."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeport.ducklake import Lake
from lakeport.ducklake.maintenance import (
    MaintenancePolicy,
    MaintenanceResult,
    MaintenanceSchedule,
    maintenance_lease,
)
from lakeport.ducklake.maintenance.lease import KEY
from lakeport.ducklake.writing.options import store_option
from lakeport.errors import CancelledError, InvalidArgumentError
from tests.fixtures_lakes import LakeMaker, RealLake
from tests.wait import wait_until

ROWS = "INSERT INTO {0} SELECT i, 'n' || i FROM range({1}, {2}) r(i)"


@pytest.fixture
def lake(make_lake: LakeMaker) -> RealLake:
    lake = make_lake("sqlite")
    for name in ("t", "u", "quiet"):
        lake.execute(f"CREATE TABLE {name} (id INTEGER, name VARCHAR)")
    lake.execute(*(ROWS.format("t", n, n + 30) for n in (0, 30, 60)))
    lake.execute(ROWS.format("u", 0, 5), ROWS.format("u", 5, 60), "DELETE FROM u WHERE id > 20")
    lake.execute(*(ROWS.format("quiet", n, n + 30) for n in (0, 30, 60)))
    lake.execute("CALL lake.set_option('auto_compact', false, table_name => 'quiet')")
    lake.detach()
    return lake


POLICY = MaintenancePolicy(flush_rows=5, merge_files=3, rewrite_threshold=0.5)


def done(results: list[MaintenanceResult]) -> list[tuple[str, str | None]]:
    return [(result.operation, result.table) for result in results]


def test_only_what_reaches_its_threshold_is_done(lake: RealLake) -> None:
    with lake.open(engine="local") as ours:
        high = MaintenancePolicy(flush_rows=6, merge_files=4, rewrite_threshold=0.8)
        assert ours.maintain(high) == []
        planned = ours.maintain(POLICY, dry_run=True)
        wanted = [("flush", "main.u"), ("merge", "main.t"), ("rewrite", "main.u")]
        assert done(planned) == wanted
        count = len(ours.snapshots())
        results = ours.maintain(POLICY)
        assert done(results) == wanted
        assert len(ours.snapshots()) == count + 3
        for plan, result in zip(planned, results, strict=True):
            assert (plan.files_replaced, plan.rows) == (result.files_replaced, result.rows)
        assert ours.maintain(POLICY) == []
        assert ours.maintain(POLICY, operations=["merge"]) == []
        with pytest.raises(InvalidArgumentError, match="no maintenance 'polish'"):
            ours.maintain(operations=["polish"])  # type: ignore[list-item]
    lake.check(snapshots=lake.snapshots()[-1:])


def test_a_table_has_thresholds_of_its_own(lake: RealLake) -> None:
    own = MaintenancePolicy(merge_files=100)
    policy = MaintenancePolicy(merge_files=3, tables={"main.t": own})
    with lake.open(engine="local") as ours:
        assert ours.maintain(policy, operations=["merge"]) == []


def test_expiry_and_clean_up_follow_the_policy(lake: RealLake) -> None:
    now = MaintenancePolicy(
        merge_files=3, expire_older_than=timedelta(0), retain_last=2, delete_older_than=timedelta(0)
    )
    with lake.open(engine="local") as ours:
        results = {result.operation: result for result in ours.maintain(now)}
        # The merge comes after the expiry, and makes a snapshot.
        assert len(ours.snapshots()) == 3
        assert results["clean_up"].files_replaced == 3
    lake.check()


def test_one_process_at_a_time_maintains_a_lake(lake: RealLake) -> None:
    with lake.open(engine="local") as ours, Lake.open(lake.uri, engine="local") as other:
        with maintenance_lease(other) as held:
            assert held
            assert ours.maintain(POLICY) == []
            with maintenance_lease(ours) as second:
                assert not second
        assert done(ours.maintain(POLICY, operations=["flush"])) == [("flush", "main.u")]
        assert KEY not in {row.key for row in ours.option_rows()}


def lease_of(lake: Lake) -> dict[str, str]:
    """Return the owner of the lease, and its end as text that sorts by time."""
    (value,) = [row.value for row in lake.option_rows() if row.key == KEY]
    lease: dict[str, str] = json.loads(value)
    return lease


def test_a_lease_of_a_killed_process_ends_by_itself(lake: RealLake) -> None:
    old = {"owner": "gone", "until": (datetime.now(UTC) - timedelta(seconds=1)).isoformat()}
    with lake.open(engine="local") as ours:
        with ours.write_database.transaction() as writer:
            store_option(writer, KEY, json.dumps(old), None, None)
            writer.commit()
        assert done(ours.maintain(POLICY, operations=["flush"])) == [("flush", "main.u")]


def test_a_lease_is_renewed_while_it_is_held(lake: RealLake) -> None:
    with lake.open() as ours, Lake.open(lake.uri) as other:
        with maintenance_lease(ours, renewal=timedelta(milliseconds=50)):
            first = lease_of(other)
            assert wait_until(lambda: lease_of(other)["until"] > first["until"])
            assert lease_of(other)["owner"] == first["owner"]
            with maintenance_lease(other) as held:
                assert not held


def test_an_error_in_one_table_does_not_prevent_the_others(lake: RealLake) -> None:
    [(path,)] = lake.query(
        "SELECT path FROM meta.ducklake_data_file WHERE table_id = 1 ORDER BY data_file_id LIMIT 1"
    )
    lake.detach()
    (Path(lake.data_path) / "main" / "t" / path).unlink()
    with lake.open(engine="local") as ours:
        results = ours.maintain(POLICY)
    assert done(results) == [("flush", "main.u"), ("merge", "main.t"), ("rewrite", "main.u")]
    assert results[1].is_empty
    assert "missing" in results[1].skipped[0]


def test_a_cancelled_maintenance_ends(lake: RealLake) -> None:
    with lake.open(engine="local") as ours, pytest.raises(CancelledError):
        ours.maintain(POLICY, cancel=lambda: True)


def test_a_schedule_maintains_a_lake_when_it_has_changed(lake: RealLake) -> None:
    found: list[tuple[str, str, Any]] = []
    with lake.open(engine="local") as ours:
        schedule = MaintenanceSchedule(
            lambda: {"sales": (ours, POLICY)},
            every=0.05,
            on_result=lambda name, r: found.append((name, r.operation, r.table)),
        )
        with schedule:
            assert wait_until(lambda: len(found) >= 3)
            for n in range(90, 210, 30):
                ours.table("t").append([{"id": i, "name": ""} for i in range(n, n + 30)])
            assert wait_until(lambda: len(found) >= 4)
    assert found[:3] == [
        ("sales", "flush", "main.u"),
        ("sales", "merge", "main.t"),
        ("sales", "rewrite", "main.u"),
    ]
    assert found[3] == ("sales", "merge", "main.t")
