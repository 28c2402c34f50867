"""`lakeport inspect`, on lakes of the real implementation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures_lakes import LakeMaker, RealLake

Command = Callable[..., Any]


@pytest.fixture
def lake(make_lake: LakeMaker) -> RealLake:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 3")
    lake.execute(
        "CREATE TABLE events AS SELECT i AS id, 'kind ' || i % 3 AS kind FROM range(1000) r(i)",
        "INSERT INTO events SELECT i, 'late' FROM range(1000, 1500) r(i)",
        "DELETE FROM events WHERE id < 100",
        "COMMENT ON TABLE events IS 'What [bold]happened[/bold]\x1b'",
        "CREATE SCHEMA sales",
        "CREATE TABLE sales.few (a INTEGER NOT NULL, b VARCHAR DEFAULT 'x')",
        "INSERT INTO sales.few VALUES (1, 'one'), (2, 'two')",
        "CREATE VIEW sales.v AS SELECT 1 AS one",
    )
    lake.detach()
    return lake


def test_a_lake_is_shown_as_a_tree(lake: RealLake, lakeport_command: Command) -> None:
    result = lakeport_command("inspect", lake.uri)

    assert result.exit_code == 0, result.stderr
    assert "events  2 columns, 1,400 rows, 100 deleted, 2 files" in result.stdout
    assert "What [bold]happened[/bold]" in result.stdout
    assert "\x1b" not in result.stdout
    assert "few  2 columns, 2 rows, 2 inlined, 0 files" in result.stdout
    assert "v  view" in result.stdout
    assert "inserted_into_table" in result.stdout


def test_the_json_of_a_lake_has_a_stable_shape(lake: RealLake, lakeport_command: Command) -> None:
    found = json.loads(lakeport_command("inspect", lake.uri, "--json").stdout)

    assert sorted(found) == [
        "format_version",
        "location",
        "problems",
        "schemas",
        "snapshot",
        "snapshots",
    ]
    assert found["problems"] == []
    main, sales = found["schemas"]
    assert (main["name"], sales["name"]) == ("main", "sales")
    (events,) = main["tables"]
    assert events["size"].pop("bytes") > 0
    assert events == {
        "name": "events",
        "comment": "What [bold]happened[/bold]\x1b",
        "columns": 2,
        "size": {
            "rows": 1400,
            "deleted_rows": 100,
            "inlined_rows": 0,
            "files": 2,
            "delete_files": 1,
        },
    }
    assert sales["views"] == ["v"]
    ids = [snapshot["id"] for snapshot in found["snapshots"]]
    assert ids == sorted(ids)
    assert found["snapshot"] == ids[-1]
    assert sorted(found["snapshots"][0]) == [
        "author", "changes", "id", "message", "schema_version", "time",
    ]  # fmt: skip


def test_a_table_is_shown_with_its_columns_and_files(
    lake: RealLake, lakeport_command: Command
) -> None:
    result = lakeport_command("inspect", lake.uri, "sales.few")
    found = json.loads(lakeport_command("inspect", lake.uri, "events", "--json").stdout)

    assert "NOT NULL" in result.stdout
    assert [(file["rows"], file["deleted_rows"]) for file in found["files"]] == [
        (900, 100),
        (500, 0),
    ]
    assert found["columns"][1]["type"] == "VARCHAR"


def test_a_snapshot_can_be_chosen_by_number_and_by_time(
    lake: RealLake, lakeport_command: Command
) -> None:
    all_of_it = json.loads(lakeport_command("inspect", lake.uri, "--json").stdout)
    moment = all_of_it["snapshots"][1]["time"]

    for at in ("1", moment):
        found = json.loads(lakeport_command("inspect", lake.uri, "--json", "--at", at).stdout)
        assert found["snapshot"] == 1
        assert found["schemas"][0]["tables"][0]["size"]["rows"] == 1000


def test_the_path_of_a_file_or_a_file_with_the_location_is_enough(
    make_lake: LakeMaker, lakeport_command: Command, tmp_path: Path
) -> None:
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE t AS SELECT 1 AS x")
    lake.detach()
    path = lake.uri.removeprefix("ducklake:sqlite:")
    (tmp_path / "location").write_text(f"{lake.uri}\n")

    for argument in (path, f"@{tmp_path / 'location'}"):
        found = json.loads(lakeport_command("inspect", argument, "--json").stdout)
        assert found["location"] == f"sqlite:{path}"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["memory:"], "is not a lake"),
        (["/nowhere/x.ducklake"], "there is no catalog database"),
        (["LAKE", "nothing"], "there is no table main.nothing"),
        (["LAKE", "--at", "99"], "there is no snapshot 99"),
        (["LAKE", "--at", "²"], "'²' is not a timestamp"),
        (["LAKE", "--at", "2027-02-30 00:00:00"], "is not a timestamp"),
        (["LAKE", "--at", "1999-01-01"], "there is no snapshot at or before 1999-01-01"),
    ],
)
def test_what_is_not_there_is_one_sentence(
    lake: RealLake, lakeport_command: Command, arguments: list[str], sentence: str
) -> None:
    result = lakeport_command(
        "inspect", *(lake.uri if word == "LAKE" else word for word in arguments)
    )

    assert result.exit_code == 1
    assert sentence in result.stderr
