"""`lakeport sql`, on the session of the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.fixtures_lakes import LakeMaker

Command = Callable[..., Any]


@pytest.fixture
def uri(make_lake: LakeMaker) -> str:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE trips AS SELECT i AS id, 'station ' || i % 3 AS station FROM range(300) r(i)",
        "DELETE FROM trips WHERE id >= 250",
    )
    lake.detach()
    return lake.uri


def test_a_view_that_cannot_be_run_is_refused_with_its_reason(
    spark: Any, make_lake: LakeMaker, lakeport_command: Command
) -> None:
    lake = make_lake()
    lake.execute("CREATE VIEW odd AS SELECT name FROM duckdb_settings()")
    lake.detach()

    result = lakeport_command("sql", lake.uri, "SELECT * FROM odd")

    assert result.exit_code == 1
    assert "duckdb_settings cannot be used in FROM of a view" in result.stderr


def test_a_query_is_printed(spark: Any, uri: str, lakeport_command: Command) -> None:
    query = "SELECT station, count(*) AS trips FROM trips GROUP BY station ORDER BY station"

    result = lakeport_command("sql", uri, query)

    assert result.exit_code == 0, result.stderr
    assert "│ station 0 │ 84    │" in result.stdout
    assert "3 rows" in result.stdout
    assert not spark.catalog.tableExists("trips")


def test_a_long_result_is_cut_and_says_so(spark: Any, uri: str, lakeport_command: Command) -> None:
    result = lakeport_command("sql", uri, "SELECT * FROM trips ORDER BY id", "--limit", "4")

    assert "the first 4 rows" in result.stdout
    assert "│ 3 " in result.stdout
    assert "│ 4 " not in result.stdout


def test_a_result_of_an_older_snapshot_is_saved(
    spark: Any, uri: str, lakeport_command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "rows.parquet"

    for at, rows in (("1", 300), ("2", 250)):
        result = lakeport_command(
            "sql", uri, "SELECT id FROM trips ORDER BY id", "--at", at, "--output", str(file)
        )
        assert result.exit_code == 0, result.stderr
        assert pq.read_table(file).to_pydict() == {"id": list(range(rows))}


def test_columns_of_the_same_name_are_numbered(
    spark: Any, uri: str, lakeport_command: Command
) -> None:
    query = "SELECT * FROM trips a JOIN trips b ON a.id = b.id + 1 WHERE a.id = 7"

    result = lakeport_command("sql", uri, query)

    assert result.exit_code == 0, result.stderr
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["┃", "id", "┃", "station", "┃", "id_1", "┃", "station_1", "┃"] in lines
    assert "│ 7 │ station 1 │ 6 │ station 0 │" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("SELECT * FROM no_such_table", "there is no table 'no_such_table' at snapshot"),
        ("SELEC 1", "SELEC cannot be run on a lake: there are queries and"),
        ("SHOW FUNCTIONS", "'FUNCTIONS' of SHOW is not supported here"),
        ("/* a\nnote */ -- more\ninsert INTO trips VALUES (1)", "a row of VALUES has 1 values"),
        (
            "WITH a AS (SELECT 1) INSERT INTO trips SELECT * FROM a",
            "INSERT has 2 columns, and the query has 1",
        ),
        ("SELECT assert_true(id < 5) FROM trips", "is not true"),
    ],
)
def test_a_query_that_fails_is_one_sentence(
    spark: Any, uri: str, lakeport_command: Command, query: str, sentence: str
) -> None:
    result = lakeport_command("sql", uri, query)

    assert result.exit_code == 1
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("statement", "outcome"),
    [
        ("INSERT INTO trips VALUES (900, 'new'), (901, 'new')", "2 rows inserted, snapshot 3"),
        ("UPDATE trips SET station = 'x' WHERE id = 1", "1 row updated, snapshot 3"),
        ("DELETE FROM trips WHERE id < 10", "10 rows deleted, snapshot 3"),
        ("DELETE FROM trips WHERE id > 300", "no new snapshot"),
        ("CREATE TABLE stations (name VARCHAR)", "snapshot 3"),
        ("DROP TABLE IF EXISTS stations", "no new snapshot"),
    ],
)
def test_a_statement_without_a_query_needs_no_spark(
    uri: str, lakeport_command: Command, statement: str, outcome: str
) -> None:
    result = lakeport_command("sql", uri, statement)

    assert result.exit_code == 0, result.stderr
    assert result.stdout.strip() == outcome


def test_tables_are_listed_without_spark(
    uri: str, lakeport_command: Command, tmp_path: Path
) -> None:
    shown = lakeport_command("sql", uri, "SHOW TABLES")
    file = str(tmp_path / "columns.parquet")
    saved = lakeport_command("sql", uri, "DESCRIBE trips", "--at", "1", "--output", file)

    assert (shown.exit_code, saved.exit_code) == (0, 0), shown.stderr + saved.stderr
    assert "│ main │ trips │" in " ".join(shown.stdout.split())
    assert pq.read_table(file)["col_name"].to_pylist() == ["id", "station"]


def test_a_statement_with_a_query_runs_on_spark(
    spark: Any, uri: str, lakeport_command: Command
) -> None:
    statement = "CREATE TABLE stations AS SELECT station, count(*) AS n FROM trips GROUP BY station"

    result = lakeport_command("sql", uri, statement)

    assert result.exit_code == 0, result.stderr
    assert result.stdout.strip() == "3 rows inserted, snapshot 3"


def test_a_terminal_shows_the_tasks_rows_and_files_of_a_write(
    spark: Any, uri: str, lakeport_command: Command
) -> None:
    statement = "CREATE TABLE many AS SELECT id, id * 2 AS twice FROM range(0, 40000, 1, 2)"

    result = lakeport_command("sql", uri, statement, env={"TTY_COMPATIBLE": "1", "COLUMNS": "160"})

    assert result.exit_code == 0, result.stderr
    assert "append to main.many" in result.stderr
    assert "2 of 2 tasks, 40,000 rows, 2 files" in result.stderr
    assert "40,000 rows inserted, 2 files of" in result.stdout


def test_a_statement_has_no_output(lakeport_command: Command) -> None:
    result = lakeport_command("sql", "nowhere.ducklake", "DELETE FROM trips", "--at", "3")

    assert result.exit_code == 1
    assert "--output and --at are for queries" in result.stderr
