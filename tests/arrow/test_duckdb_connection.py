"""Connections of threads, and sandboxes: they run SQL of others and reach only their own memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from lakeport.arrow import sandbox
from tests.wait import TIMEOUT_SECONDS

_FORKING = """
import os, warnings
from lakeport.arrow import take_cursor, thread_connection, thread_sandbox

warnings.simplefilter("ignore")  # Python 3.12 warns of forks beside threads
connections = thread_connection(), take_cursor(), thread_sandbox()
assert [c.sql("SELECT sum(i) FROM range(100000) AS t(i)").fetchall() for c in connections]
del connections
child = os.fork()
if not child:
    os._exit(int(thread_connection().sql("SELECT 7").fetchall()[0][0]))
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.process
def test_a_forked_process_has_connections_of_its_own() -> None:
    ended = subprocess.run([sys.executable, "-c", _FORKING], timeout=TIMEOUT_SECONDS, check=False)

    assert ended.returncode == 7


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
        ((limit,),) = connection.sql("SELECT current_setting('memory_limit')").fetchall()
        assert limit.startswith("61.0 MiB")


def test_no_setting_of_a_caller_opens_a_sandbox() -> None:
    with sandbox(enable_external_access="true") as connection, pytest.raises(duckdb.Error):
        connection.sql("SELECT * FROM glob('/*')").fetchall()
