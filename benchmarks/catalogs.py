"""How planning and listing grow with what is in the catalog: files, snapshots, tables, columns.

The catalogs are generated in the catalog database: their files are recorded, and do not exist.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import duckdb

from benchmarks.growth_fit import Curve, grow
from benchmarks.reference_lakes import temporary_lake
from lakeport.ducklake import Lake, Scan
from lakeport.filters import col

__all__ = ["columns", "crowded_catalog", "files", "large_catalog", "snapshots", "tables"]

Runs = Mapping[str, Callable[[], object]]

_ROWS_PER_FILE = 1000


def files(*, counts: tuple[int, ...], repeats: int) -> Iterator[Curve]:
    """Plan scans of a table of many files; the filters keep as many files at every size."""
    yield from _grow("files in the catalog", counts, _plans, repeats)


def snapshots(*, counts: tuple[int, ...], repeats: int) -> Iterator[Curve]:
    """Open a table, plan a scan and find a snapshot by its time, in a lake with a long history."""
    yield from _grow("snapshots", counts, _histories, repeats)


def tables(*, counts: tuple[int, ...], repeats: int) -> Iterator[Curve]:
    """List tables, and open one of them."""
    yield from _grow("tables in the catalog", counts, _listings, repeats)


def columns(*, counts: tuple[int, ...], repeats: int) -> Iterator[Curve]:
    """Open a wide table, and plan a scan of one of its columns."""
    yield from _grow("columns", counts, _wide_tables, repeats)


@contextmanager
def crowded_catalog(*, tables: int, files: int) -> Iterator[str]:
    """Return the URI of a lake with many tables, and a table `t` of many files."""

    def add(catalog: sqlite3.Connection, count: int) -> None:
        _add_files(catalog, count)
        _add_tables(catalog, tables)

    with _generated(_one_table, add, files) as uri:
        yield uri


@contextmanager
def large_catalog(*, tables: int, files: int, snapshots: int) -> Iterator[str]:
    """Return the URI of a lake whose files were added by many snapshots.

    Half of the files are of the table `t`; the tables `t1`, `t2` and so on share the others.
    """

    def add(catalog: sqlite3.Connection, count: int) -> None:
        _add_files(catalog, count)
        _add_tables(catalog, tables - 1)
        _add_snapshots(catalog, snapshots - 2, with_files=False)
        _spread_files(catalog, tables - 1, snapshots - 2)

    with _generated(_one_table, add, files) as uri:
        yield uri


def _grow(
    axis: str,
    counts: tuple[int, ...],
    at: Callable[[int], AbstractContextManager[Runs]],
    repeats: int,
) -> Iterator[Curve]:
    yield from grow(axis, counts, lambda n: at(int(n)), repeats=repeats, same=False)


@contextmanager
def _plans(count: int) -> Iterator[Runs]:
    with _generated(_one_table, _add_files, count) as uri, Lake.open(uri) as lake:
        table = lake.table("t")
        middle = count // 2 * _ROWS_PER_FILE
        few = (col("id") >= middle) & (col("id") < middle + 10 * _ROWS_PER_FILE)
        yield {
            "plan that keeps one file": lambda: _kept(table.scan(filter=col("id") == middle)),
            "plan that keeps ten files": lambda: _kept(table.scan(filter=few)),
        }


@contextmanager
def _histories(count: int) -> Iterator[Runs]:
    with _generated(_one_table, _add_snapshots, count) as uri, Lake.open(uri) as lake:
        time = lake.snapshot(version=count // 2).time
        yield {
            "open a table and plan a scan": lambda: len(lake.table("t").scan().plan.tasks),
            "open a table as of a time": lambda: len(lake.table("t", timestamp=time).columns),
        }


@contextmanager
def _listings(count: int) -> Iterator[Runs]:
    with _generated(_one_table, _add_tables, count) as uri:

        def listed() -> int:
            with Lake.open(uri) as lake:
                return len(lake.tables())

        def opened() -> int:
            with Lake.open(uri) as lake:
                return len(lake.table(f"t{count}").columns)

        yield {"Lake.tables()": listed, "Lake.table() of one table": opened}


@contextmanager
def _wide_tables(count: int) -> Iterator[Runs]:
    def make(duck: duckdb.DuckDBPyConnection) -> None:
        names = ", ".join(f"i + {n} AS c{n}" for n in range(count))
        duck.execute(f"CREATE TABLE lake.t AS SELECT {names} FROM range(10) r(i)")

    with temporary_lake(make) as uri, Lake.open(uri) as lake:
        last = f"c{count - 1}"
        table = lake.table("t")
        yield {
            "open the table": lambda: len(lake.table("t").columns),
            "plan a scan of one column": lambda: _kept(table.scan([last], col(last) == count)),
        }


def _kept(scan: Scan) -> int:
    return len(scan.plan.tasks)


@contextmanager
def _generated(
    make: Callable[[duckdb.DuckDBPyConnection], None],
    add: Callable[[sqlite3.Connection, int], None],
    count: int,
) -> Iterator[str]:
    """Make a small lake, and add rows to its catalog."""
    with tempfile.TemporaryDirectory() as folder, temporary_lake(make) as small:
        # The small lake is removed with its folder; the copy has no files and needs none.
        path = Path(folder, "catalog.sqlite")
        with (
            closing(sqlite3.connect(small.removeprefix("ducklake:sqlite:"))) as source,
            closing(sqlite3.connect(path)) as target,
        ):
            source.backup(target)
            add(target, count)
            target.commit()
        yield f"ducklake:sqlite:{path}"


def _one_table(duck: duckdb.DuckDBPyConnection) -> None:
    duck.execute(
        "CREATE TABLE lake.t AS SELECT i AS id, i * 0.25 AS amount, 'customer ' || i AS customer,"
        " DATE '2024-01-01' + i::INTEGER AS day FROM range(10) r(i)"
    )


_NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"


def _add_files(catalog: sqlite3.Connection, count: int) -> None:
    """Add files whose ids do not overlap, each with the statistics of every column."""
    catalog.execute(
        f"{_NUMBERS} INSERT INTO ducklake_data_file SELECT 1000 + i, table_id, begin_snapshot,"
        f" end_snapshot, file_order, 'f' || i || '.parquet', path_is_relative, file_format,"
        f" {_ROWS_PER_FILE}, 100000, footer_size, {_ROWS_PER_FILE} * i, partition_id,"
        " encryption_key, mapping_id, partial_max FROM ducklake_data_file, n",
        (count - 1,),
    )
    catalog.execute(
        f"{_NUMBERS} INSERT INTO ducklake_file_column_stats SELECT 1000 + i, table_id, column_id,"
        f" column_size_bytes, {_ROWS_PER_FILE}, 0,"
        f" CASE column_id WHEN 1 THEN CAST({_ROWS_PER_FILE} * i AS TEXT) ELSE min_value END,"
        f" CASE column_id WHEN 1 THEN CAST({_ROWS_PER_FILE} * (i + 1) - 1 AS TEXT)"
        " ELSE max_value END, contains_nan, extra_stats FROM ducklake_file_column_stats, n"
        " WHERE data_file_id < 1000",
        (count - 1,),
    )


def _add_snapshots(catalog: sqlite3.Connection, count: int, *, with_files: bool = True) -> None:
    """Add snapshots; with files, each replaced the file of the one before."""
    catalog.execute(
        f"{_NUMBERS} INSERT INTO ducklake_snapshot SELECT 1 + i,"
        " strftime('%Y-%m-%d %H:%M:%f+00', '2030-01-01', '+' || i || ' seconds'), schema_version,"
        " next_catalog_id, next_file_id + i FROM ducklake_snapshot, n WHERE snapshot_id = 1",
        (count,),
    )
    catalog.execute(
        f"{_NUMBERS} INSERT INTO ducklake_snapshot_changes SELECT 1 + i, changes_made, author,"
        " commit_message, commit_extra_info FROM ducklake_snapshot_changes, n"
        " WHERE snapshot_id = 1",
        (count,),
    )
    if not with_files:
        return
    catalog.execute(
        f"{_NUMBERS} INSERT INTO ducklake_data_file SELECT 1000 + i, table_id, 1 + i, 2 + i,"
        " file_order, 'f' || i || '.parquet', path_is_relative, file_format, record_count,"
        " file_size_bytes, footer_size, row_id_start, partition_id, encryption_key, mapping_id,"
        " partial_max FROM ducklake_data_file, n",
        (count - 1,),
    )


def _add_tables(catalog: sqlite3.Connection, count: int) -> None:
    catalog.execute(
        f"{_NUMBERS} INSERT INTO ducklake_table SELECT 1000 + i, table_uuid, begin_snapshot,"
        " end_snapshot, schema_id, 't' || i, path, path_is_relative FROM ducklake_table, n",
        (count,),
    )
    names = [row[1] for row in catalog.execute("PRAGMA table_info(ducklake_column)")]
    rest = ", ".join("1000 + i" if name == "table_id" else name for name in names)
    catalog.execute(
        f"{_NUMBERS} INSERT INTO ducklake_column SELECT {rest} FROM ducklake_column, n", (count,)
    )


def _spread_files(catalog: sqlite3.Connection, tables: int, snapshots: int) -> None:
    """Give every second file to another table, and let the snapshots add them one after another."""
    catalog.execute(
        "UPDATE ducklake_data_file SET table_id = 1001 + (data_file_id / 2) % ?"
        " WHERE data_file_id > 1000 AND data_file_id % 2 = 1",
        (tables,),
    )
    catalog.execute(
        "UPDATE ducklake_file_column_stats SET table_id = 1001 + (data_file_id / 2) % ?"
        " WHERE data_file_id > 1000 AND data_file_id % 2 = 1",
        (tables,),
    )
    catalog.execute(
        "UPDATE ducklake_data_file SET begin_snapshot = 2 + (data_file_id - 1001) % ?,"
        " file_size_bytes = 1000 + 7919 * data_file_id % 4000000 WHERE data_file_id > 1000",
        (snapshots,),
    )
    catalog.execute(
        "UPDATE ducklake_snapshot_changes SET author = 'loader ' || (snapshot_id % 7),"
        " commit_message = 'load ' || snapshot_id, changes_made = made FROM (SELECT"
        " begin_snapshot, group_concat(DISTINCT 'inserted_into_table:' || table_id) AS made"
        " FROM ducklake_data_file GROUP BY begin_snapshot) WHERE snapshot_id = begin_snapshot"
        " AND snapshot_id > 1"
    )
    catalog.execute("DELETE FROM ducklake_table_stats")
    catalog.execute(
        "INSERT INTO ducklake_table_stats SELECT table_id, sum(record_count), sum(record_count),"
        " sum(file_size_bytes) FROM ducklake_data_file GROUP BY table_id"
    )
    catalog.execute(
        "UPDATE ducklake_snapshot SET next_catalog_id = 2000 + ?, next_file_id = 1001 + (SELECT"
        " max(data_file_id) FROM ducklake_data_file) WHERE snapshot_id > 1",
        (tables,),
    )
