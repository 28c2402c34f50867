"""Writers in processes of their own, some of which are killed: nothing acknowledged is lost.

`LAKEPORT_SOAK_SECONDS=120` makes 16 processes of 100 commits, and more kills.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from lakeport import Lake
from tests.fixtures_lakes import LakeMaker, RealLake
from tests.wait import TIMEOUT_SECONDS, wait_until

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


class Writer:
    """A process that commits, and the file with its acknowledgements.

    A pipe would lose lines: `readline` reads ahead, and `communicate` begins after that.
    """

    def __init__(self, lake: RealLake, name: int, *, commits: int, rows: int = 1) -> None:
        self.log = Path(lake.data_path).parent / f"writer{name}.log"
        arguments = [lake.uri, str(name), str(commits), str(rows)]
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", WRITER, *arguments], stdout=output
            )

    def acknowledged(self) -> list[tuple[int, int]]:
        """Return the numbers and snapshots of the commits that were acknowledged so far."""
        # A line that was cut by the end of the process is not an acknowledgement.
        lines = [
            line for line in self.log.read_text().splitlines(keepends=True) if line[-1] == "\n"
        ]
        pairs = [line.split() for line in lines if line != "ready\n"]
        return [(int(number), int(snapshot)) for number, snapshot in pairs]

    def has_begun(self) -> bool:
        """Return whether a commit was acknowledged; raise an error if the process has ended."""
        assert self.process.poll() is None
        return bool(self.acknowledged())

    def end(self) -> None:
        """Kill the process if it still runs."""
        self.process.kill()
        self.process.wait()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_processes_commit_without_gaps_and_losses(make_lake: LakeMaker, kind: str) -> None:
    real = make_lake(kind)
    with Lake.create(real.uri, data_path=real.data_path) as lake:
        lake.create_table("t", {"writer": "INTEGER", "number": "INTEGER"})
    writers, commits = WRITERS, COMMITS
    processes = [Writer(real, name, commits=commits) for name in range(writers)]
    try:
        limit = TIMEOUT_SECONDS * (10 if IS_LONG else 1)
        codes = [writer.process.wait(limit) for writer in processes]
    finally:
        for writer in processes:
            writer.end()
    found = {name: writer.acknowledged() for name, writer in enumerate(processes)}

    assert codes == [0] * writers
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
        writer = Writer(real, name, commits=1000, rows=rows)
        try:
            assert wait_until(writer.has_begun)
            time.sleep(choice.uniform(0, 0.5))
        finally:
            writer.end()
        seen |= {(name, number) for number, _ in writer.acknowledged()}

    stored = {
        (w, n): c for w, n, c in real.query("SELECT writer, number, count(*) FROM t GROUP BY ALL")
    }
    assert seen <= stored.keys()
    assert set(stored.values()) <= {rows}
    # At most the last commit of each process was not acknowledged.
    for name in range(KILLS):
        assert len({key for key in stored.keys() - seen if key[0] == name}) <= 1
    ids = real.snapshots()
    assert ids == list(range(len(ids)))
    real.execute("INSERT INTO t VALUES (99, 0)")
    files = {
        path for (path,) in real.query("SELECT data_file FROM ducklake_list_files('lake', 't')")
    }
    assert all(Path(path).exists() for path in files)
    assert real.check(snapshots=ids[1 :: len(ids) // 20 + 1]) > 1


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


def test_a_reader_replays_the_log_that_a_killed_writer_has_left_beside_a_duckdb_file(
    make_lake: LakeMaker,
) -> None:
    real = make_lake("duckdb")
    path = real.uri.removeprefix("ducklake:")
    with Lake.create(real.uri, data_path=real.data_path) as lake:
        lake.create_table("t", {"i": "INTEGER"})
        # A writer that is killed between its commit and the checkpoint leaves the same log.
        with closing(duckdb.connect(path)) as connection:
            connection.execute("PRAGMA disable_checkpoint_on_shutdown")
            connection.execute("CREATE TABLE indexed (i INTEGER PRIMARY KEY, j INTEGER)")
            connection.execute("INSERT INTO indexed VALUES (1, 2)")
            connection.execute("CREATE INDEX second ON indexed (j)")

        assert Path(f"{path}.wal").stat().st_size > 0
        assert lake.table("t").schema.names == ["i"]
