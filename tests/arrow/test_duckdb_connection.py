"""A sandbox runs SQL of others, and reaches nothing but its own memory."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from lakeport.arrow import sandbox


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM '{file}'",
        "COPY (SELECT 1) TO '{file}.csv'",
        "ATTACH '{file}.duckdb' AS other",
        "SELECT * FROM glob('/*')",
        "SELECT getenv('HOME')",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT * FROM variable_of_python",
        "SET enable_external_access = true",
        "SET threads = 8",
        "RESET python_enable_replacements",
    ],
)
def test_a_sandbox_refuses_what_is_outside_of_it(sql: str, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a\n1\n")
    variable_of_python = pa.table({"a": [1]})

    with sandbox() as connection, pytest.raises(duckdb.Error):
        connection.sql(sql.format(file=file)).fetchall()

    assert variable_of_python.num_rows == 1
    assert list(tmp_path.iterdir()) == [file]


def test_a_sandbox_has_what_it_was_prepared_with_and_its_settings() -> None:
    with sandbox(
        lambda connection: connection.execute("CREATE TABLE t AS SELECT 42 AS x"),
        memory_limit="64MB",
    ) as connection:
        connection.register("rows", pa.table({"x": [1]}))

        assert connection.sql("SELECT t.x + rows.x FROM t, rows").fetchall() == [(43,)]
        (limit,) = connection.sql("SELECT current_setting('memory_limit')").fetchone()
        assert limit.startswith("61.0 MiB")


def test_no_setting_of_a_caller_opens_a_sandbox() -> None:
    with sandbox(enable_external_access="true") as connection, pytest.raises(duckdb.Error):
        connection.sql("SELECT * FROM glob('/*')").fetchall()
