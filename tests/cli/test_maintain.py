"""`lakeport maintain`, on lakes of the real implementation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeport.cli.config import load_settings
from tests.fixtures_lakes import LakeMaker, RealLake

Command = Callable[..., Any]


@pytest.fixture
def lake(make_lake: LakeMaker) -> RealLake:
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE events (id INTEGER, kind VARCHAR)")
    lake.execute(
        *(f"INSERT INTO events SELECT i, 'k' FROM range({n}, {n + 20}) r(i)" for n in (0, 20, 40))
    )
    lake.execute("INSERT INTO events VALUES (100, 'late')", "DELETE FROM events WHERE id < 15")
    lake.detach()
    return lake


def test_a_dry_run_shows_what_would_be_done(lake: RealLake, lakeport_command: Command) -> None:
    flags = ("--dry-run", "--merge-files", "2", "--flush-rows", "1", "--threshold", "0.5")
    result = lakeport_command("maintain", lake.uri, *flags)
    assert result.exit_code == 0, result.stderr
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0] == "operation table files size rows"
    assert lines[1].startswith("flush main.events 0 → 1")
    assert lines[2].startswith("merge main.events 2 → 1")
    assert lines[3].startswith("rewrite main.events 1 → 1")
    assert lines[3].endswith("15 deletes")
    assert lines[-1] == "nothing was changed: leave out --dry-run to do it"
    assert len(lake.snapshots()) == 7


def test_each_operation_runs_alone_and_finds_nothing_the_second_time(
    lake: RealLake, lakeport_command: Command
) -> None:
    calls: tuple[tuple[str, ...], ...] = (
        ("flush", "--table", "events"),
        ("merge", "--table", "main.events", "--where", "id >= 0"),
        ("rewrite", "--threshold", "0.5"),
        ("expire", "--retain-last", "1"),
        ("clean-up", "--everything"),
    )
    for call in calls:
        first = lakeport_command("maintain", lake.uri, *call)
        assert first.exit_code == 0, first.stderr
        assert "nothing to do" not in first.stdout
        again = lakeport_command("maintain", lake.uri, *call)
        assert again.stdout == "nothing to do\n"
    orphans = lakeport_command("maintain", lake.uri, "orphans", "--json")
    assert json.loads(orphans.stdout)[0]["paths"] == []
    assert lake.query("SELECT count(*) FROM events") == [(46,)]
    assert len(list(Path(lake.data_path).rglob("*.parquet"))) == lake.query(
        "SELECT count(*) FROM meta.ducklake_data_file WHERE end_snapshot IS NULL"
    )[0][0]  # fmt: skip
    lake.check()


def test_wrong_calls_are_one_sentence(lake: RealLake, lakeport_command: Command) -> None:
    for flags, message in (
        (("merge", "--where", "id = 1"), "--where needs a --table"),
        (("merge", "--watch"), "--watch does all maintenance"),
        (("orphans", "--older-than", "1 hour"), "younger than a day"),
    ):
        result = lakeport_command("maintain", lake.uri, *flags)
        assert result.exit_code == 1
        assert message in result.stderr


def test_the_configuration_has_thresholds_for_lakes_and_tables(tmp_path: Path) -> None:
    file = tmp_path / "lakeport.toml"
    file.write_text(
        """
        [[lake]]
        uri = "meta.ducklake"
        [lake.maintenance]
        enabled = false
        [maintenance]
        enabled = true
        expire_older_than = "7 days"
        merge_files = 20
        [maintenance.tables."main.events"]
        merge_files = 5
        """
    )
    settings = load_settings(file)
    policy = settings.maintenance.policy
    assert (policy.merge_files, policy.expire_older_than) == (20, "7 days")
    assert policy.tables["main.events"].merge_files == 5
    own = settings.lake[0].maintenance
    assert own is not None
    assert not own.enabled
