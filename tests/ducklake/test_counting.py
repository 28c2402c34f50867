"""Rows are counted by the catalog's numbers: no data file is opened where nothing of it is read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeport.ducklake.reading.tasks import FileTask
from lakeport.ducklake.storage.filesystems import Storage
from tests.fixtures_lakes import LakeMaker

NO_INLINING = "DATA_INLINING_ROW_LIMIT 0"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are opened."""
    names: list[str] = []
    original = Storage.open

    def record(self: Storage, path: str) -> pa.NativeFile:
        names.append(Path(path).name)
        return original(self, path)

    monkeypatch.setattr(Storage, "open", record)
    return names


def test_counting_a_table_opens_no_file(make_lake: LakeMaker, opened: list[str]) -> None:
    lake = make_lake("sqlite", NO_INLINING)
    lake.execute("CREATE TABLE t AS SELECT i FROM range(1000) r(i)", "INSERT INTO t FROM t")

    with lake.open(engine="local") as ours:
        table = ours.table("t")
        assert table.scan().count() == 2000
        assert table.scan([]).to_arrow().num_rows == 2000

    assert opened == []


def test_the_catalog_counts_deleted_rows_too(make_lake: LakeMaker, opened: list[str]) -> None:
    lake = make_lake("sqlite", NO_INLINING)
    lake.execute("CREATE TABLE t AS SELECT i FROM range(1000) r(i)")
    lake.execute("DELETE FROM t WHERE i % 10 = 3", "DELETE FROM t WHERE i < 50")

    with lake.open(engine="local") as ours:
        assert ours.table("t").scan().count() == 1000 - 100 - 45

    assert opened == []


def test_deletes_in_files_and_in_the_catalog_are_counted_once(
    make_lake: LakeMaker, opened: list[str]
) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 10")
    lake.execute("CREATE TABLE t AS SELECT i FROM range(1000) r(i)")
    lake.execute("DELETE FROM t WHERE i % 10 = 3", "DELETE FROM t WHERE i = 500")

    with lake.open(engine="local") as ours:
        table = ours.table("t")
        (task,) = table.scan().plan.tasks
        assert isinstance(task, FileTask)
        assert task.inlined_deletes
        assert task.file.deletes
        assert table.scan().count() == 899

    # The delete file has the positions, which may be those of the catalog.
    assert opened == [Path(task.file.deletes[0].path).name]


def test_a_divided_file_is_counted_by_its_first_task(
    make_lake: LakeMaker, opened: list[str]
) -> None:
    lake = make_lake("sqlite", NO_INLINING)
    lake.execute("CREATE TABLE t AS SELECT i FROM range(10000) r(i)", "DELETE FROM t WHERE i < 7")

    with lake.open(engine="local") as ours:
        plan = ours.table("t").scan([], task_bytes=1000).plan
        counts = [task.to_table().num_rows for task in plan.tasks]

    assert len(counts) > 3
    assert counts == [9993] + [0] * (len(counts) - 1)
    assert opened == []


def test_rows_of_later_snapshots_are_not_counted(make_lake: LakeMaker, opened: list[str]) -> None:
    lake = make_lake("duckdb", NO_INLINING)
    lake.execute("CREATE TABLE t AS SELECT i FROM range(10) r(i)", "INSERT INTO t FROM t")
    lake.execute("CALL ducklake_merge_adjacent_files('lake')")

    with lake.open(engine="local") as ours:
        assert ours.table("t").scan().count() == 20
        assert opened == []
        # The merged file has the snapshot of each row.
        assert ours.table("t", version=1).scan().count() == 10
        assert len(opened) == 1


def test_the_share_of_the_columns_is_what_a_scan_reads(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", NO_INLINING)
    lake.execute("CREATE TABLE t AS SELECT i AS a, i AS b, i AS c, i AS d FROM range(100) r(i)")

    with lake.open(engine="local") as ours:
        (everything,) = ours.table("t").scan().plan.tasks
        (one,) = ours.table("t").scan(["a"]).plan.tasks
        (two,) = ours.table("t").scan(["a"], filter="b >= 60").plan.tasks
        assert ours.table("t").scan(filter="b >= 60").count() == 40

    assert everything.bytes_to_read == everything.estimated_bytes
    assert one.bytes_to_read == everything.estimated_bytes // 4
    assert two.bytes_to_read == everything.estimated_bytes // 2


def test_a_scan_without_columns_needs_no_engine_that_reads_files(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", NO_INLINING)
    lake.execute("CREATE TABLE t AS SELECT i FROM range(100) r(i)")

    with lake.open(engine="spark") as ours:
        scan = ours.table("t").scan([])
        assert scan.runs_on.name == "local"
        assert scan.to_arrow().num_rows == ours.table("t").scan().count() == 100


def test_deletes_of_flushed_rows_are_counted_by_their_snapshots(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 10")
    lake.execute("CREATE TABLE t(i INTEGER)", "INSERT INTO t VALUES (1), (2), (3)")
    lake.execute("DELETE FROM t WHERE i = 1", "DELETE FROM t WHERE i = 2")
    lake.execute("CALL ducklake_flush_inlined_data('lake')")

    with lake.open(engine="local") as ours:
        counts = [ours.table("t", version=version).scan().count() for version in range(1, 6)]

    assert counts == [0, 3, 2, 1, 1]
