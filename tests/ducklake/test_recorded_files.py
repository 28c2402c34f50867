"""A file that is not the one the catalog describes is an error that names the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.ducklake import Lake
from lakeport.ducklake.reading.tasks import FileTask
from lakeport.errors import CorruptLakeError

LakeMaker = Callable[..., Any]
NO_INLINING = "DATA_INLINING_ROW_LIMIT 0"


def edit(lake: Any, *statements: str) -> None:
    """Change the catalog of a SQLite lake by hand."""
    lake.detach()
    connection = sqlite3.connect(lake.uri.removeprefix("ducklake:sqlite:"))
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def replace_rows(path: Path, table: pa.Table, *, padding: int = 0) -> None:
    """Another valid Parquet file with the field ids of the old one, perhaps of a chosen size."""
    schema = pq.read_schema(path)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(table.columns, schema=schema), sink, compression="none")
    data = sink.getvalue().to_pybytes()
    if padding:
        # Bytes between the last page and the footer belong to nothing.
        footer = int.from_bytes(data[-8:-4], "little") + 8
        data = data[:-footer] + bytes(padding - len(data)) + data[-footer:]
    path.write_bytes(data)


def only_file(lake: Lake, table: str = "t") -> Path:
    (file,) = lake.table(table).files()
    return Path(file.path)


def test_a_shorter_valid_file_is_an_error(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", NO_INLINING)
    lake.execute("CREATE TABLE t AS SELECT i, 'v' || i AS s FROM range(1000) r(i)")
    with lake.open() as ours:
        file = only_file(ours)
        replace_rows(file, pq.read_table(file).slice(0, 600))
        with pytest.raises(CorruptLakeError, match=file.name):
            ours.table("t").scan().to_arrow()
        with pytest.raises(CorruptLakeError, match=file.name):
            ours.table("t").scan(["i"]).to_arrow()
        # The catalog has the number of rows, so no file is opened.
        assert ours.table("t").scan([]).to_arrow().num_rows == 1000


def test_a_file_of_the_same_size_and_other_rows_is_an_error(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", NO_INLINING)
    lake.execute("CREATE TABLE t AS SELECT i, 'v' || i AS s FROM range(1000) r(i)")
    with lake.open() as ours:
        file = only_file(ours)
        size = file.stat().st_size
        replace_rows(file, pq.read_table(file).slice(0, 10), padding=size)
        assert file.stat().st_size == size
        with pytest.raises(CorruptLakeError, match="has 10 rows, but the catalog records 1000"):
            ours.table("t").scan().to_arrow()


def test_every_piece_of_a_divided_file_is_compared(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", NO_INLINING)
    lake.execute(
        "CALL ducklake_set_option('lake', 'parquet_row_group_size', 2048)",
        "CREATE TABLE t AS SELECT i, hash(i) AS s FROM range(20000) r(i)",
    )
    with lake.open() as ours:
        scan = ours.table("t").scan(task_bytes=40_000)
        assert len(scan.plan.tasks) > 2
        file = only_file(ours)
        replace_rows(file, pq.read_table(file).slice(0, 19_999))
        for task in scan.plan.tasks:
            with pytest.raises(CorruptLakeError, match=file.name):
                task.to_table()


@pytest.mark.parametrize("column", ["record_count", "file_size_bytes", "footer_size"])
@pytest.mark.parametrize("options", ["", "ENCRYPTED"])
@pytest.mark.parametrize("type", ["BIGINT", "VARIANT"])
def test_each_number_of_the_catalog_is_compared(
    column: str, options: str, type: str, make_lake: LakeMaker
) -> None:
    lake = make_lake("sqlite", ", ".join(filter(None, [NO_INLINING, options])))
    lake.execute(f"CREATE TABLE t AS SELECT i::{type} AS i FROM range(100) r(i)")
    lake.check()
    edit(lake, f"UPDATE ducklake_data_file SET {column} = {column} + 1")
    with lake.open() as ours:
        file = only_file(ours)
        with pytest.raises(CorruptLakeError, match=f"{file.name}.* but the catalog records"):
            ours.table("t").scan().to_arrow()


@pytest.mark.parametrize("column", ["delete_count", "file_size_bytes", "footer_size"])
@pytest.mark.parametrize("options", ["", "ENCRYPTED"])
def test_delete_files_are_compared(column: str, options: str, make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", ", ".join(filter(None, [NO_INLINING, options])))
    lake.execute("CREATE TABLE t AS SELECT i FROM range(100) r(i)", "DELETE FROM t WHERE i % 3 = 0")
    lake.check()
    edit(lake, f"UPDATE ducklake_delete_file SET {column} = {column} + 1")
    with lake.open() as ours:
        (delete,) = ours.table("t").files()[0].deletes
        with pytest.raises(CorruptLakeError, match=Path(delete.path).name):
            ours.table("t").scan().to_arrow()


def test_a_deletion_vector_is_compared(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", NO_INLINING)
    lake.execute(
        "CALL ducklake_set_option('lake', 'write_deletion_vectors', true)",
        "CREATE TABLE t AS SELECT i FROM range(100) r(i)",
        "DELETE FROM t WHERE i % 3 = 0",
    )
    lake.check(snapshots=[max(lake.snapshots())])
    edit(lake, "UPDATE ducklake_delete_file SET file_size_bytes = file_size_bytes + 1")
    with lake.open() as ours:
        (delete,) = ours.table("t").files()[0].deletes
        assert delete.format == "puffin"
        with pytest.raises(CorruptLakeError, match=Path(delete.path).name):
            ours.table("t").scan().to_arrow()


@pytest.mark.parametrize(
    "unknown",
    ["footer_size = NULL", "file_size_bytes = 0", "record_count = NULL", "file_size_bytes = NULL"],
)
def test_numbers_that_the_catalog_does_not_record_are_not_compared(
    unknown: str, make_lake: LakeMaker
) -> None:
    lake = make_lake("sqlite", NO_INLINING)
    lake.execute("CREATE TABLE t AS SELECT i FROM range(100) r(i)", "DELETE FROM t WHERE i % 3 = 0")
    edit(lake, f"UPDATE ducklake_data_file SET {unknown}")
    if "record_count" not in unknown:
        edit(lake, f"UPDATE ducklake_delete_file SET {unknown}")
    if unknown != "file_size_bytes = NULL":  # the real one has an internal error
        assert len(lake.query("FROM t")) == 66
    with lake.open() as ours:
        assert ours.table("t").scan().to_arrow().num_rows == 66


def test_deletions_of_a_file_of_unknown_row_count_are_in_the_change_feed(
    make_lake: LakeMaker,
) -> None:
    lake = make_lake("sqlite", NO_INLINING)
    lake.execute("CREATE TABLE t AS SELECT i FROM range(100) r(i)", "DELETE FROM t")
    last = max(lake.snapshots())
    edit(lake, "UPDATE ducklake_data_file SET record_count = NULL")
    with lake.open() as ours:
        assert ours.table("t").changes(last).deletions.to_arrow().num_rows == 100


def test_added_files_are_compared(make_lake: LakeMaker, tmp_path: Path) -> None:
    file = tmp_path / "added.parquet"
    pq.write_table(pa.table({"i": range(100)}), file)
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE t(i BIGINT)", f"CALL ducklake_add_data_files('lake', 't', '{file}')")
    lake.check()
    with lake.open() as ours:
        scan = ours.table("t").scan()
        assert scan.to_arrow().num_rows == 100
        pq.write_table(pa.table({"i": range(99)}), file)
        (task,) = scan.plan.tasks
        assert isinstance(task, FileTask)
        with pytest.raises(CorruptLakeError, match=r"added\.parquet"):
            task.to_table()


@pytest.mark.parametrize("filter", [None, "i > 0", "s = 'c'"])
def test_pages_that_arrow_does_not_decode_are_read_by_duckdb(
    filter: str | None, make_lake: LakeMaker
) -> None:
    lake = make_lake("sqlite", NO_INLINING)
    lake.execute(
        "CALL ducklake_set_option('lake', 'parquet_version', '2')",
        "CREATE TABLE t(i INTEGER, s VARCHAR, u UUID, n INTERVAL, z TIMETZ, h HUGEINT, m TIMESTAMP_MS)",
        "INSERT INTO t VALUES (-2000000000, 'a', uuid(), INTERVAL 1 DAY, '01:02:03+02', 7, '2024-01-02'), (2000000000, 'b', NULL, NULL, NULL, NULL, NULL), (5, 'c', uuid(), INTERVAL 2 MONTH, '05:06:07+00', 9, NULL)",
        "DELETE FROM t WHERE i = 5 AND s = 'nothing'",
    )
    lake.check()
    expected = lake.query(f"SELECT i, s FROM t WHERE {filter or 'true'} ORDER BY ALL")
    with lake.open() as ours:
        found = ours.table("t").scan(["i", "s"], filter).to_arrow()
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == expected


def test_a_later_row_group_that_arrow_does_not_decode_is_read_by_duckdb(
    make_lake: LakeMaker,
) -> None:
    lake = make_lake("sqlite", NO_INLINING)
    lake.execute(
        "CALL ducklake_set_option('lake', 'parquet_version', '2')",
        "CALL ducklake_set_option('lake', 'parquet_row_group_size', 2048)",
        "CREATE TABLE t AS SELECT CASE WHEN i < 5000 THEN i WHEN i % 2 = 0 THEN 2000000000 - i ELSE i - 2000000000 END::INTEGER AS v, i FROM range(12000) r(i)",
        "DELETE FROM t WHERE i % 100 = 7",
    )
    lake.check()
    with lake.open() as ours:
        scan = ours.table("t").scan(task_bytes=8_000)
        assert len(scan.plan.tasks) > 1
        assert scan.to_arrow().num_rows == 12_000 - 120
        narrow = ours.table("t").scan(["i"], "i BETWEEN 4000 AND 9000 AND v <> 17")
        assert narrow.to_arrow().num_rows == 5001 - 50
