"""Lakes without Spark: how long a plan takes as files grow, and how fast a scan task reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import duckdb
import psycopg
import pyarrow.parquet as pq
import sqlalchemy as sa

from benchmarks.measure import Figure, Skipped, interleaved, latencies
from benchmarks.reference_lakes import attached, temporary_lake
from lakeport.ducklake import Lake, LakeTable
from lakeport.filters import col
from tests.fixtures_databases import PostgreSQL

__all__ = ["TRIPS", "multiply_files", "planning", "planning_postgresql", "reading"]

TRIPS: Final = """
  SELECT i AS id, i % 1000 AS station, i * 0.25 AS amount, DATE '2024-01-01' + (i % 365)::INTEGER
    AS day, 'customer ' || (i % 50000) AS customer, hash(i) AS reference
  FROM range({rows}) t(i)
"""


def reading(*, rows: int, repeats: int) -> Iterator[Figure]:
    """`task.read()` against a plain pyarrow read of the same files, and DuckDB's own scan."""
    with (
        temporary_lake(lambda duck: _trips(duck, rows)) as uri,
        Lake.open(uri) as lake,
        attached(uri) as duck,
    ):
        plan = lake.table("trips").scan().plan
        paths = [file.path for file in lake.table("trips").files()]
        samples = interleaved(
            {
                "tasks": lambda: sum(
                    batch.num_rows for task in plan.tasks for batch in task.read()
                ),
                "pyarrow": lambda: _read_parquet(paths),
                "duckdb": lambda: _read_duckdb(duck),
            },
            repeats=repeats,
            same=True,
        )
    name = f"task.read(), {rows:,} rows of 6 columns"
    tasks = samples["tasks"]
    yield Figure.throughput(
        name, tasks, samples["pyarrow"], "pyarrow.parquet, the same files, all cores", 0.9
    )
    yield Figure.throughput(
        name, tasks, samples["duckdb"], "DuckDB's ducklake scan to Arrow, all cores"
    )


def planning(*, files: tuple[int, ...], repeats: int) -> Iterator[Figure]:
    """Plan a selective filter over tables of more and more files, on SQLite."""
    base = ""
    for count in files:
        with temporary_lake(lambda duck: _trips(duck, 100)) as uri:
            multiply_files(f"sqlite:///{uri.removeprefix('ducklake:sqlite:')}", count)
            figure = _plan(uri, count, repeats, base, "SQLite")
        base = base or f"{files[0]:,} files: {figure.value:.1f} ms"
        yield figure


def planning_postgresql(*, files: int, repeats: int) -> Iterator[Figure | Skipped]:
    """Plan the same on PostgreSQL, where a server can be started."""
    initdb = PostgreSQL.initdb()
    if initdb is None:
        yield Skipped("plan on PostgreSQL", "PostgreSQL is not installed")
        return
    with (
        closing(PostgreSQL(initdb)) as server,
        temporary_lake(lambda duck: _trips(duck, 100), server.create_database()) as uri,
    ):
        address = uri.removeprefix("ducklake:postgres:")
        one = _plan(uri, 1, repeats, "", "PostgreSQL")
        multiply_files(_url(address), files)
        baseline = f"1 file: {one.value:.1f} ms"
        # Nobody waits for the database's own statistics after a large commit.
        yield _plan(uri, files, 1, baseline, "PostgreSQL, files just added", warmups=0)
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("ANALYZE")
        yield _plan(uri, files, repeats, baseline, "PostgreSQL, analyzed")


def multiply_files(database: str | sa.URL, count: int) -> None:
    """Give the table as many files as wanted, each with bounds of its own; nobody reads them."""
    engine = sa.create_engine(database)
    inspector = sa.inspect(engine)
    columns = [column["name"] for column in inspector.get_columns("ducklake_data_file")]
    rest = ", ".join(column for column in columns if column != "data_file_id")
    stats = [column["name"] for column in inspector.get_columns("ducklake_file_column_stats")]
    kept = ", ".join(c for c in stats if c not in ("data_file_id", "min_value", "max_value"))
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :more)"
    files = (
        f"{numbers} INSERT INTO ducklake_data_file (data_file_id, {rest}) "
        f"SELECT 1000 + i, {rest} FROM n, ducklake_data_file WHERE data_file_id < 1000"
    )
    bounds = (
        f"{numbers} INSERT INTO ducklake_file_column_stats "
        f"(data_file_id, min_value, max_value, {kept}) "
        f"SELECT 1000 + i, CAST(i * 100 AS TEXT), CAST(i * 100 + 99 AS TEXT), {kept} "
        "FROM n, ducklake_file_column_stats WHERE data_file_id < 1000 AND column_id = 1"
    )
    with engine.begin() as connection:
        for statement in (files, bounds):
            connection.execute(sa.text(statement), {"more": count - 1})
    engine.dispose()


def _trips(connection: duckdb.DuckDBPyConnection, rows: int) -> None:
    connection.execute("CREATE TABLE lake.trips AS " + TRIPS.format(rows=rows))


def _url(address: str) -> sa.URL:
    parts = dict(part.split("=") for part in address.split())
    return sa.URL.create(
        "postgresql+psycopg",
        username=parts["user"],
        host=parts["host"],
        port=int(parts["port"]),
        database=parts["dbname"],
    )


def _plan(
    uri: str, files: int, repeats: int, baseline: str, database: str, *, warmups: int = 5
) -> Figure:
    with Lake.open(uri) as lake:
        table: LakeTable = lake.table("trips")
        sample = latencies(
            lambda: table.scan(filter=col("id") == 70), repeats=repeats, warmups=warmups
        )
    return Figure.latency(
        f"plan with a selective filter, {files:,} files, {database}",
        sample,
        baseline or "none: the smallest",
        less_than=1.0,
    )


def _read_parquet(paths: list[str]) -> int:
    return sum(
        batch.num_rows
        for path in paths
        for batch in pq.ParquetFile(path).iter_batches(batch_size=65_536)
    )


def _read_duckdb(connection: duckdb.DuckDBPyConnection) -> int:
    reader = connection.execute("FROM lake.trips").to_arrow_reader(65_536)
    return sum(batch.num_rows for batch in reader)
