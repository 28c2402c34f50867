"""Writers in processes of their own, some of which are killed: nothing acknowledged is lost.

`LAKEPORT_SOAK_SECONDS=120` makes 16 processes of 100 commits, and more kills.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakeport import Lake
from tests.fixtures_lakes import LakeMaker, RealLake
from tests.wait import TIMEOUT_SECONDS

IS_LONG = "LAKEPORT_SOAK_SECONDS" in os.environ
WRITERS, COMMITS = (16, 100) if IS_LONG else (8, 10)
KILLS = 40 if IS_LONG else 4

WRITER = """
import sys
from lakeport import Lake

uri, name, commits, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
with Lake.open(uri) as lake:
    table = lake.table("t")
    print("ready", flush=True)
    for number in range(commits):
        result = table.append([{"writer": name, "number": number}] * rows)
        print(number, result.snapshot, flush=True)
"""


def start(lake: RealLake, name: int, *, commits: int, rows: int = 1) -> subprocess.Popen[str]:
    arguments = [lake.uri, str(name), str(commits), str(rows)]
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, *arguments], stdout=subprocess.PIPE, text=True
    )


def acknowledged(process: subprocess.Popen[str]) -> list[tuple[int, int]]:
    output, _ = process.communicate(timeout=TIMEOUT_SECONDS * (10 if IS_LONG else 1))
    # A line that was cut by the end of the process is not an acknowledgement.
    lines = [line.split() for line in output.splitlines(keepends=True)[1:] if line.endswith("\n")]
    return [(int(number), int(snapshot)) for number, snapshot in lines]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_processes_commit_without_gaps_and_losses(make_lake: LakeMaker, kind: str) -> None:
    real = make_lake(kind)
    with Lake.create(real.uri, data_path=real.data_path) as lake:
        lake.create_table("t", {"writer": "INTEGER", "number": "INTEGER"})
    writers, commits = WRITERS, COMMITS
    processes = [start(real, name, commits=commits) for name in range(writers)]
    found = {name: acknowledged(process) for name, process in enumerate(processes)}

    assert [process.returncode for process in processes] == [0] * writers
    snapshots = sorted(snapshot for pairs in found.values() for _, snapshot in pairs)
    assert snapshots == list(range(2, 2 + writers * commits))
    expected = [(w, n, 1) for w in range(writers) for n in range(commits)]
    counts = "SELECT writer, number, count(*) FROM t GROUP BY ALL ORDER BY ALL"
    assert real.query(counts) == expected
    assert real.query("SELECT count(DISTINCT rowid) FROM t") == [(writers * commits,)]
    ids = real.snapshots()
    assert ids == list(range(2 + writers * commits))


@pytest.mark.parametrize(("kind", "rows"), [("sqlite", 1), ("sqlite", 50), ("duckdb", 1)])
def test_a_killed_writer_leaves_whole_commits_only(
    make_lake: LakeMaker, kind: str, rows: int
) -> None:
    real = make_lake(kind)
    with Lake.create(real.uri, data_path=real.data_path) as lake:
        lake.create_table("t", {"writer": "INTEGER", "number": "INTEGER"})
    choice = random.Random(0)
    seen: set[tuple[int, int]] = set()
    for name in range(KILLS):
        process = start(real, name, commits=1000, rows=rows)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(choice.uniform(0.05, 0.6))
        process.kill()
        seen |= {(name, number) for number, _ in acknowledged(process)}

    stored = {
        (w, n): c for w, n, c in real.query("SELECT writer, number, count(*) FROM t GROUP BY ALL")
    }
    assert seen <= stored.keys()
    assert set(stored.values()) <= {rows}
    # At most the last commit of each process was not acknowledged.
    assert len(stored.keys() - seen) <= KILLS
    ids = real.snapshots()
    assert ids == list(range(len(ids)))
    real.execute("INSERT INTO t VALUES (99, 0)")
    files = {
        path for (path,) in real.query("SELECT data_file FROM ducklake_list_files('lake', 't')")
    }
    assert all(Path(path).exists() for path in files)
    assert real.check() > 1


SPILLING = """
import os, signal, sqlite3, sys

connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 2")
connection.execute("BEGIN IMMEDIATE")
for number in range(2000):
    connection.execute("UPDATE ducklake_column SET column_name = ?", ["x" * number])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_reader_rolls_back_what_a_killed_writer_has_left_in_a_sqlite_file(
    make_lake: LakeMaker,
) -> None:
    real = make_lake("sqlite")
    path = real.uri.removeprefix("ducklake:sqlite:")
    with Lake.create(real.uri, data_path=real.data_path) as lake:
        lake.create_table("t", {f"column_{number}": "INTEGER" for number in range(500)})
        killed = subprocess.run([sys.executable, "-c", SPILLING, path], check=False)

        assert killed.returncode == -9
        assert Path(f"{path}-journal").stat().st_size > 0
        assert lake.table("t").schema.names[:2] == ["column_0", "column_1"]
