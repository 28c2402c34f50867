"""Lakes: how long a plan takes as files grow, and how fast a scan task reads."""

from __future__ import annotations

import importlib
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from benchmarks.measure import Figure, interleaved, latencies
from lakeport.ducklake import Lake, ScanPlan
from lakeport.filters import col

__all__ = ["planning", "reading"]

_ROWS_SQL = """
  SELECT i AS id, i % 1000 AS station, i * 0.25 AS amount, DATE '2024-01-01' + (i % 365)::INTEGER
    AS day, 'customer ' || (i % 50000) AS customer, hash(i) AS reference
  FROM range({rows}) t(i)
"""


def reading(*, rows: int, repeats: int) -> Iterator[Figure]:
    """`task.read()` against a plain pyarrow read of the same files, and DuckDB's own scan."""
    with _lake() as (connection, uri):
        connection.execute("CREATE TABLE lake.trips AS " + _ROWS_SQL.format(rows=rows))
        connection.execute("DETACH lake")
        with Lake.open(uri) as lake:
            plan = lake.table("trips").scan()
            paths = [file.path for file in lake.table("trips").files()]
        connection.execute(f"ATTACH '{uri}' AS lake (READ_ONLY)")
        samples = interleaved(
            {
                "tasks": lambda: _read(plan),
                "pyarrow": lambda: _read_parquet(paths),
                "duckdb": lambda: _read_duckdb(connection),
            },
            repeats=repeats,
        )
    for name, baseline, goal in (
        ("pyarrow", "pyarrow.parquet, the same files, all cores", 0.9),
        ("duckdb", "DuckDB's ducklake scan to Arrow, all cores", None),
    ):
        ratio = samples[name].median / samples["tasks"].median
        yield Figure(
            f"task.read(), {rows:,} rows of 6 columns",
            f"{ratio:.2f} of its throughput",
            baseline,
            "" if goal is None else f"at least {goal}",
            None if goal is None else ratio >= goal,
            samples["tasks"].spread,
        )


def planning(*, files: tuple[int, ...], repeats: int) -> Iterator[Figure]:
    """A selective filter over tables of more and more files, metadata only."""
    base = 0.0
    for count in files:
        with _lake() as (connection, uri):
            connection.execute("CREATE TABLE lake.trips AS " + _ROWS_SQL.format(rows=100))
            connection.execute("DETACH lake")
            _multiply_files(uri.removeprefix("ducklake:sqlite:"), count)
            with Lake.open(uri) as lake:
                table = lake.table("trips")
                sample = latencies(lambda: table.scan(filter=col("id") == 70), repeats=repeats)  # noqa: B023
        base = base or sample.median
        yield Figure(
            f"plan with a selective filter, {count:,} files",
            f"{sample.median * 1000:.1f} ms",
            f"{files[0]:,} files: {base * 1000:.1f} ms",
            "less than 1 s",
            sample.median < 1,
            sample.spread,
        )


@contextmanager
def _lake() -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        for name in ("ducklake", "sqlite_scanner"):
            package = importlib.import_module(f"duckdb_extension_{name}")
            place = Path(next(iter(package.__path__)), "extensions", f"v{duckdb.__version__}")
            connection.execute(f"LOAD '{place / name}.duckdb_extension'")
        uri = f"ducklake:sqlite:{folder}/meta.sqlite"
        connection.execute(f"ATTACH '{uri}' AS lake (DATA_PATH '{folder}/data/')")
        connection.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
        yield connection, uri


def _multiply_files(database: str, count: int) -> None:
    """Give the table as many files as wanted, each with bounds of its own; nobody reads them."""
    with closing(sqlite3.connect(database)) as connection, connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(ducklake_data_file)")]
        rest = ", ".join(column for column in columns if column != "data_file_id")
        stats = [
            row[1] for row in connection.execute("PRAGMA table_info(ducklake_file_column_stats)")
        ]
        kept = [c for c in stats if c not in ("data_file_id", "min_value", "max_value")]
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
        connection.execute(
            f"{numbers} INSERT INTO ducklake_data_file (data_file_id, {rest}) "
            f"SELECT 1000 + i, {rest} FROM n, ducklake_data_file WHERE data_file_id < 1000",
            (count - 1,),
        )
        connection.execute(
            f"{numbers} INSERT INTO ducklake_file_column_stats "
            f"(data_file_id, min_value, max_value, {', '.join(kept)}) "
            "SELECT 1000 + i, CAST(i * 100 AS TEXT), CAST(i * 100 + 99 AS TEXT), "
            f"{', '.join(kept)} "
            "FROM n, ducklake_file_column_stats WHERE data_file_id < 1000 AND column_id = 1",
            (count - 1,),
        )


def _read(plan: ScanPlan) -> int:
    return sum(batch.num_rows for batch in plan.read())


def _read_parquet(paths: list[str]) -> int:
    return sum(
        batch.num_rows
        for path in paths
        for batch in pq.ParquetFile(path).iter_batches(batch_size=65_536)
    )


def _read_duckdb(connection: duckdb.DuckDBPyConnection) -> int:
    reader = connection.execute("FROM lake.trips").to_arrow_reader(65_536)
    return sum(batch.num_rows for batch in reader)
