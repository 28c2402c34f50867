"""`lakeport doctor` and `lakeport advise`, on lakes of the real implementation."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures_lakes import LakeMaker, RealLake

Command = Callable[..., Any]


@pytest.fixture
def lake(make_lake: LakeMaker) -> RealLake:
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE t AS SELECT i AS id, 'name ' || i AS s FROM range(100) r(i)")
    for number in range(12):
        lake.execute(f"INSERT INTO t SELECT i, 'x' FROM range({number}, {number + 20}) r(i)")
    lake.detach()
    return lake


def spoil(lake: RealLake) -> None:
    with closing(sqlite3.connect(lake.uri.removeprefix("ducklake:sqlite:"))) as connection:
        connection.execute("UPDATE ducklake_table_column_stats SET max_value = '5'")
        connection.commit()


def test_a_healthy_lake_has_a_verdict_and_the_exit_code_0(
    lake: RealLake, lakeport_command: Command
) -> None:
    result = lakeport_command("doctor", lake.uri)

    assert result.exit_code == 0, result.stderr
    assert "The lake is healthy. 27 checks, 13 of 13 data files read." in result.stdout


def test_a_damaged_lake_is_shown_and_repaired(
    lake: RealLake, lakeport_command: Command, tmp_path: Path
) -> None:
    spoil(lake)

    shown = lakeport_command("doctor", lake.uri)
    planned = lakeport_command("doctor", lake.uri, "--repair", "--dry-run")
    backup = tmp_path / "rows.json"
    repaired = lakeport_command("doctor", lake.uri, "--repair", "--backup", str(backup))

    assert shown.exit_code == planned.exit_code == 1
    assert "error  table main.t: the statistics of the table do not contain" in shown.stdout
    assert "The lake is damaged: 1 error." in shown.stdout
    assert "these repairs would be made:" in planned.stdout
    assert repaired.exit_code == 0, repaired.stdout
    assert "these repairs were made:" in repaired.stdout
    (saved,) = json.loads(backup.read_text())
    assert {row["max_value"] for row in saved["rows_before"]} == {"5"}
    assert lake.query("SELECT max(id) FROM t WHERE id > 50") == [(99,)]


def test_the_json_has_every_finding(lake: RealLake, lakeport_command: Command) -> None:
    spoil(lake)
    result = lakeport_command("doctor", lake.uri, "--deep", "--json")

    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert found["verdict"] == "damaged"
    (finding,) = found["findings"]
    assert finding["check"] == "bounds_of_tables"
    assert finding["repairable"] is True


def test_advice_names_what_maintenance_would_gain(
    lake: RealLake, lakeport_command: Command
) -> None:
    result = lakeport_command("advise", lake.uri)
    found = json.loads(lakeport_command("advise", lake.uri, "--json").stdout)

    assert result.exit_code == 0, result.stderr
    assert "main.t: merge: 13 small files become about 1" in result.stdout
    (table,) = found["tables"]
    assert (table["files"], table["small_files"], table["overlap_column"]) == (13, 13, "id")
    assert table["read_per_needed"] > 10
