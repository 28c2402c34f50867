"""The newest snapshot: asked for only after a change, and never missed, whatever was written."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakeport import Lake
from lakeport.ducklake.metadata import freshness
from lakeport.ducklake.metadata.database import Database, open_sqlite
from lakeport.ducklake.metadata.freshness import DuckDBFileSignal, NewestSnapshot, SQLiteSignal

MakeLake = Callable[..., Any]
DATABASES = ("duckdb", "sqlite", "postgresql", "mysql")

ROUNDS = 12

WRITER = """
import sys
from tests.fixtures_lakes import connect
uri, data = sys.argv[1:]
connection = connect()
for statement in sys.stdin:
    connection.execute(f"ATTACH '{uri}' AS lake (DATA_PATH '{data}')")
    connection.execute(statement)
    (newest,) = connection.execute("SELECT max(snapshot_id) FROM ducklake_snapshots('lake')").fetchone()
    connection.execute("DETACH lake")
    print(newest, flush=True)
"""


@contextmanager
def writer_process(lake: Any) -> Iterator[Callable[[str], int]]:
    """Yield a function that runs a statement in another process and returns the newest snapshot."""
    lake.detach()
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, lake.uri, lake.data_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def write(statement: str) -> int:
            stdin.write(f"{statement}\n")
            stdin.flush()
            return int(stdout.readline())

        yield write
        stdin.close()


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[Database]:
    """The databases that were asked, once for each question."""
    asked: list[Database] = []
    read = Database.read

    def counting(self: Database, work: Any, **options: Any) -> Any:
        asked.append(self)
        return read(self, work, **options)

    monkeypatch.setattr(Database, "read", counting)
    return asked


@pytest.mark.parametrize("kind", DATABASES)
def test_a_commit_of_another_process_is_seen_by_the_next_read(
    kind: str, make_lake: MakeLake
) -> None:
    lake = make_lake(kind)
    lake.execute("CREATE TABLE t(id INTEGER)")
    lake.detach()
    with Lake.open(lake.uri) as ours, writer_process(lake) as write:
        for number in range(ROUNDS):
            # One row after another: the files change by as little as they ever do.
            row = f"INSERT INTO lake.t VALUES ({number % 10})"
            # DuckDB's mysql_scanner 1.5.5 cannot run the UPDATE of a second insert.
            newest = write(f"CREATE TABLE lake.t{number}(id INTEGER)" if kind == "mysql" else row)

            assert ours.newest().id == newest
            assert ours.newest().id == newest


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_commit_of_this_process_is_seen_by_the_next_read(kind: str, make_lake: MakeLake) -> None:
    lake = make_lake(kind)
    lake.execute("CREATE TABLE t(id INTEGER)")
    lake.detach()
    with Lake.open(lake.uri) as ours:
        before = ours.newest().id
        for number in range(ROUNDS):
            lake.execute(f"UPDATE t SET id = {number}", "INSERT INTO t VALUES (1)")
            lake.detach()

            assert ours.newest().id > before
            before = ours.newest().id


def test_commits_to_a_write_ahead_log_of_sqlite_and_its_checkpoints_are_seen(
    make_lake: MakeLake, questions: list[Database]
) -> None:
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE t(id INTEGER)")
    lake.detach()
    path = lake.uri.removeprefix("ducklake:sqlite:")
    with Lake.open(lake.uri) as ours, closing(sqlite3.connect(path)) as writer:
        writer.isolation_level = None
        assert writer.execute("PRAGMA journal_mode = wal").fetchone() == ("wal",)
        newest = ours.newest().id
        for number in range(1, ROUNDS):
            writer.execute(
                "INSERT INTO ducklake_snapshot SELECT snapshot_id + 1, snapshot_time,"
                " schema_version, next_catalog_id, next_file_id FROM ducklake_snapshot"
                " ORDER BY snapshot_id DESC LIMIT 1"
            )
            assert ours.newest().id == newest + number
            if number % 4 == 0:
                writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                assert ours.newest().id == newest + number
        questions.clear()
        for _ in range(10):
            ours.newest()

        assert len(questions) <= 1


def test_an_unchanged_sqlite_file_is_not_read_again(
    make_lake: MakeLake, questions: list[Database]
) -> None:
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE t(id INTEGER)")
    with lake.open() as ours:
        newest = ours.newest()
        questions.clear()

        assert [ours.newest() for _ in range(20)] == [newest] * 20
        assert questions == []


def test_an_unchanged_duckdb_file_is_read_once_when_it_has_been_quiet(
    make_lake: MakeLake, questions: list[Database]
) -> None:
    lake = make_lake("duckdb")
    lake.execute("CREATE TABLE t(id INTEGER)")
    with lake.open() as ours:
        questions.clear()
        for _ in range(5):
            ours.newest()
        assert len(questions) == 5, "a file that has just been written is read for every answer"

        later = NewestSnapshot(ours.catalog, signal=_duckdb_signal(lake, seconds=60))
        questions.clear()
        for _ in range(5):
            later.read()
        assert len(questions) == 1


def test_a_writer_that_holds_a_duckdb_file_without_a_commit_delays_no_reader(
    make_lake: MakeLake,
) -> None:
    lake = make_lake("duckdb")
    lake.execute("CREATE TABLE t(id INTEGER)")
    path = lake.uri.removeprefix("ducklake:")
    holder = f"import duckdb; c = duckdb.connect({path!r}); print('held', flush=True); input(); c.close()"
    with lake.open(lock_timeout=0.1) as ours:
        newest = NewestSnapshot(ours.catalog, signal=_duckdb_signal(lake, seconds=60))
        before = newest.read()
        with subprocess.Popen(
            [sys.executable, "-c", holder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            try:
                assert newest.read() == before
            finally:
                process.communicate("\n")


def test_a_duckdb_file_that_changed_within_the_last_seconds_has_no_signal(tmp_path: Path) -> None:
    path = tmp_path / "catalog"
    path.write_bytes(b"first")
    now = time.time_ns()

    assert DuckDBFileSignal(str(path), clock=lambda: now).read() is None
    assert DuckDBFileSignal(str(path), clock=lambda: now + 5 * 10**9).read() is not None


def test_every_change_of_a_duckdb_file_or_its_log_changes_the_signal(tmp_path: Path) -> None:
    path, log = tmp_path / "catalog", tmp_path / "catalog.wal"
    path.write_bytes(b"first")
    signal = DuckDBFileSignal(str(path), clock=lambda: time.time_ns() + 60 * 10**9)
    signals = [signal.read()]

    def changed(change: Callable[[], object]) -> None:
        time.sleep(0.02)  # longer than a tick of the clock of a file system
        change()
        signals.append(signal.read())

    def checkpoint() -> None:
        path.write_bytes(b"third")
        log.unlink()

    changed(lambda: path.write_bytes(b"other"))  # in place, with the same size
    changed(lambda: log.write_bytes(b"commit"))
    changed(lambda: log.write_bytes(b"commit, and another"))
    changed(checkpoint)
    changed(lambda: os.utime(path, ns=(0, 0)))  # a restored copy has old times

    assert None not in signals
    assert len(set(signals)) == len(signals)


def test_a_missing_file_has_no_signal(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")

    assert DuckDBFileSignal(missing).read() is None
    assert SQLiteSignal(missing, connect=open_sqlite).read() is None


def test_another_sqlite_file_at_the_same_path_is_another_signal(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    sqlite3.connect(path).execute("CREATE TABLE t(a)").connection.close()
    signal = SQLiteSignal(str(path), connect=open_sqlite)
    before = signal.read()
    path.unlink()
    sqlite3.connect(path).execute("CREATE TABLE u(a)").connection.close()

    assert before is not None
    assert signal.read() not in (None, before)
    signal.close()


@pytest.mark.parametrize(
    ("mounts", "is_local"),
    [
        ("1 0 8:1 / / rw - ext4 /dev/sda rw\n", True),
        ("1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:1 / /lake rw - nfs4 server:/lake rw\n", False),
        ("1 0 8:1 / / rw - nfs4 server:/ rw\n2 1 0:1 / /lake rw - xfs /dev/sdb rw\n", True),
        ("1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:1 / /lak rw - cifs //server/x rw\n", True),
        ("", False),
    ],
)
def test_only_files_on_local_file_systems_are_trusted(
    mounts: str, is_local: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mountinfo").write_text(mounts)
    monkeypatch.setattr(freshness, "_MOUNTS", tmp_path / "mountinfo")

    assert freshness._is_local("/lake/meta.ducklake") is is_local


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_a_database_server_is_asked_again_unless_an_older_answer_will_do(
    kind: str, make_lake: MakeLake, questions: list[Database]
) -> None:
    lake = make_lake(kind)
    lake.execute("CREATE TABLE t(id INTEGER)")
    with lake.open() as ours:
        questions.clear()
        ours.newest()
        ours.newest()
        assert len(questions) == 2
        ours.newest(max_age=600.0)
        assert len(questions) == 2


def test_a_duckdb_file_is_released_after_every_question(make_lake: MakeLake) -> None:
    lake = make_lake("duckdb")
    lake.execute("CREATE TABLE t(id INTEGER)")
    path = lake.uri.removeprefix("ducklake:")
    with lake.open() as ours:
        ours.table("t")
        with duckdb.connect(path) as writer:
            writer.execute("CREATE TABLE other(a INTEGER)")
        assert ours.tables() == [("main", "t")]


def _duckdb_signal(lake: Any, *, seconds: int) -> DuckDBFileSignal:
    """Return the signal of a lake's file as it will be some seconds later."""
    path = lake.uri.removeprefix("ducklake:")
    return DuckDBFileSignal(path, clock=lambda: time.time_ns() + seconds * 10**9)
