"""Compaction beside writers, ours and the reference's: no row is lost, and none comes back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakeport.ducklake import Lake
from lakeport.ducklake.maintenance.compaction import CompactionTask
from lakeport.ducklake.writing.commit import commit
from tests.fixtures_lakes import LakeMaker, RealLake

TABLE = "CREATE TABLE t (id INTEGER, name VARCHAR)"
ROWS = "INSERT INTO t SELECT i, 'n' || i FROM range({0}, {1}) r(i)"
LIFE = (TABLE, *(ROWS.format(n, n + 50) for n in (0, 50, 100, 150)))


@contextmanager
def during_compaction(monkeypatch: pytest.MonkeyPatch, work: Callable[[], None]) -> Iterator[None]:
    """Run other work once, after the files of a compaction are written and before its commit."""
    run, pending = CompactionTask.run, [work]

    def then(self: CompactionTask, *arguments: Any) -> dict[str, Any]:
        result = run(self, *arguments)
        if pending:
            pending.pop()()
        return result

    with monkeypatch.context() as patch:
        patch.setattr(CompactionTask, "run", then)
        yield
    assert not pending


def ids(lake: RealLake) -> list[int]:
    rows = [row[0] for row in lake.query("SELECT id FROM t ORDER BY 1")]
    assert lake.query("SELECT count(*) FROM t") == [(len(rows),)]
    return rows


@pytest.mark.parametrize("operation", ["merge", "rewrite"])
@pytest.mark.parametrize("deleted", [range(3, 5), range(3, 40), range(50)])
def test_deletes_during_a_compaction_are_kept(
    make_lake: LakeMaker, monkeypatch: pytest.MonkeyPatch, operation: str, deleted: range
) -> None:
    lake = make_lake("sqlite")
    lake.execute(*LIFE)
    if operation == "rewrite":
        lake.execute("DELETE FROM t WHERE id % 50 >= 25")
    left = [i for i in ids(lake) if i not in deleted]

    def delete() -> None:
        with Lake.open(lake.uri) as other:
            other.table("t").delete(f"id BETWEEN {deleted[0]} AND {deleted[-1]}")
            other.table("t").append([{"id": 1000, "name": None}])

    with lake.open(engine="local") as ours, during_compaction(monkeypatch, delete):
        table = ours.table("t")
        if operation == "merge":
            result = table.merge_files()
            assert result.redone == 1
            assert result.files_replaced == 3
        else:
            result = table.rewrite_files(threshold=0.4)
            assert result.redone == 1
            assert result.files_replaced == (3 if len(deleted) == 50 else 4)
    assert ids(lake) == [*left, 1000]
    lake.check()
    assert _unknown_files(lake) == 0


def _unknown_files(lake: RealLake) -> int:
    """Return the number of files in storage that the catalog does not know."""
    known = lake.query(
        "SELECT count(*) FROM (SELECT path FROM meta.ducklake_data_file UNION ALL"
        " SELECT path FROM meta.ducklake_delete_file UNION ALL"
        " SELECT path FROM meta.ducklake_files_scheduled_for_deletion)"
    )[0][0]
    return sum(1 for _ in Path(lake.data_path).rglob("*.parquet")) - int(known)


@pytest.mark.parametrize("operation", ["merge", "rewrite"])
@pytest.mark.parametrize("last", [2, 40])
def test_a_delete_of_the_reference_that_began_before_a_compaction_fails(
    make_lake: LakeMaker, operation: str, last: int
) -> None:
    lake = make_lake("sqlite")
    lake.execute(*LIFE)
    if operation == "rewrite":
        lake.execute("DELETE FROM t WHERE id % 50 >= 45")
    before = ids(lake)
    uri = lake.uri
    lake.execute("BEGIN", f"DELETE FROM t WHERE id < {last}")
    with Lake.open(uri, engine="local") as ours:
        table = ours.table("t")
        done = table.merge_files() if operation == "merge" else table.rewrite_files(threshold=0.01)
        assert done.files_replaced > 0
    with pytest.raises(duckdb.Error, match=r"(?i)conflict"):
        lake.execute("COMMIT")
    lake.detach()
    assert ids(lake) == before
    lake.check()


def test_appends_of_the_reference_during_a_merge_are_kept(
    make_lake: LakeMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake("sqlite")
    lake.execute(*LIFE)
    lake.detach()

    def append() -> None:
        lake.execute(ROWS.format(200, 250), ROWS.format(250, 255))
        lake.detach()

    with Lake.open(lake.uri, engine="local") as ours, during_compaction(monkeypatch, append):
        assert ours.table("t").merge_files().redone == 0
    assert ids(lake) == list(range(255))
    lake.check()


def test_a_flush_starts_again_when_inlined_rows_were_deleted(
    make_lake: LakeMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake("sqlite")
    lake.execute(TABLE, ROWS.format(0, 9), ROWS.format(9, 40), "DELETE FROM t WHERE id = 20")
    lake.detach()
    real, calls = commit, list[Any]()

    def committed(*arguments: Any) -> Any:
        if not calls:
            with Lake.open(lake.uri) as other:
                other.table("t").delete("id IN (3, 30)")
        calls.append(arguments)
        return real(*arguments)

    monkeypatch.setattr("lakeport.ducklake.maintenance.flush.commit", committed)
    with Lake.open(lake.uri) as ours:
        result = ours.table("t").flush()
    assert len(calls) == 2
    assert (result.rows, result.deletes) == (9, 2)
    assert ids(lake) == [i for i in range(40) if i not in (3, 20, 30)]
    lake.check()
    assert _unknown_files(lake) == 0


def test_snapshots_may_expire_during_a_merge(
    make_lake: LakeMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake("sqlite")
    lake.execute(*LIFE)
    lake.detach()

    def expire() -> None:
        with Lake.open(lake.uri) as other:
            other.table("t").append([{"id": 1000, "name": None}])
            other.table("t").append([{"id": 1001, "name": None}])
            other.expire(retain_last=1)

    with Lake.open(lake.uri, engine="local") as ours, during_compaction(monkeypatch, expire):
        assert ours.table("t").merge_files().files_replaced == 4
    assert len(ids(lake)) == 202
    lake.check()


def test_a_compaction_loop_beside_writers_and_readers_is_serial(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite")
    lake.execute(TABLE, *(ROWS.format(n, n + 20) for n in range(0, 80, 20)))
    lake.detach()
    ended = threading.Event()
    errors: list[BaseException] = []
    expected = set(range(80))

    def guarded(work: Callable[[Lake], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                with Lake.open(lake.uri, engine="local") as own:
                    work(own)
            except BaseException as error:
                errors.append(error)
                ended.set()

        return run

    def write(number: int) -> Callable[[Lake], None]:
        def work(own: Lake) -> None:
            for turn in range(6):
                first = 1000 * number + 20 * turn
                rows = [{"id": first + i, "name": "w"} for i in range(5 + 15 * (turn % 2))]
                own.table("t").append(rows)
                own.table("t").delete(f"id IN ({first}, {first + 1})")
                expected.update(row["id"] for row in rows[2:])  # type: ignore[misc]

        return work

    def maintain(own: Lake) -> None:
        while not ended.is_set():
            own.table("t").flush()
            own.table("t").merge_files()
            own.table("t").rewrite_files(threshold=0.1)

    def read(own: Lake) -> None:
        while not ended.is_set():
            found = own.table("t").scan(["id"]).to_arrow()["id"].to_pylist()
            assert len(found) == len(set(found))
            assert set(range(80)) <= set(found)

    writers = [threading.Thread(target=guarded(write(n))) for n in (1, 2)]
    others = [threading.Thread(target=guarded(work)) for work in (maintain, read)]
    for thread in (*others, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    ended.set()
    for thread in others:
        thread.join()
    assert not errors
    assert set(ids(lake)) == expected
    lake.check(snapshots=lake.snapshots()[-1:])
