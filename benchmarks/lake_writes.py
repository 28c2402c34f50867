"""Writing to a served lake: INSERT over DoExchange, and statements of single rows."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import duckdb
import pyarrow as pa
from pyarrow import flight

from benchmarks.commits import NewLake, databases
from benchmarks.measure import Figure, Skipped, interleaved
from benchmarks.reference_lakes import attached
from benchmarks.servers import measured_table, running
from benchmarks.writing import ROWS_PER_CHUNK, send
from lakeport import Lake, connect

__all__ = ["insert_into_lake", "single_rows"]


_INSERT: Final = "INSERT INTO lake.t FROM content"


def insert_into_lake(*, rows: int, repeats: int) -> Iterator[Figure]:
    """INSERT through a server against DuckDB's own into a lake, and against a sink."""
    table = measured_table(min(rows, 1_000_000))
    batches = table.combine_chunks().to_batches(max_chunksize=ROWS_PER_CHUNK)
    rounds = max(1, rows // table.num_rows)
    with (
        tempfile.TemporaryDirectory(prefix="lakeport-bench-") as folder,
        running("bare", rows=1) as bare,
        running("writable", lake=_new_lake(folder, table.schema)) as lakeport,
    ):
        baseline, ours = flight.connect(bare), flight.connect(lakeport)
        runs: dict[str, Callable[[], object]] = {
            "lakeport": lambda: send(ours, batches, rounds, schema="public"),
            "duckdb": lambda: _insert(folder, table, rounds),
            "bare": lambda: send(baseline, batches, rounds),
        }
        samples = interleaved(runs, repeats=repeats)
    name = f"INSERT into a served lake, {rows:,} rows of 4 columns"
    yield Figure.throughput(
        name, samples["lakeport"], samples["duckdb"], "INSERT of DuckDB into a lake", 0.5
    )
    yield Figure.throughput(
        name, samples["lakeport"], samples["bare"], "an exchange that drops the batches", None
    )


def single_rows(*, count: int, repeats: int) -> Iterator[Figure | Skipped]:
    """Insert single rows through a server, and with DuckDB into a lake."""
    one = measured_table(1)
    for database, places in databases():
        if places is None:
            yield Skipped(f"single rows on {database}", f"{database} is not installed")
            continue
        with (
            places() as new,
            running("writable", lake=_with_table(new, one.schema)) as location,
            connect(location) as client,
            _attached_table(new, one) as connection,
        ):
            table = client.table("public.t")
            runs: dict[str, Callable[[], object]] = {
                "lakeport": partial(_repeat, count, partial(table.insert, one)),
                "duckdb": partial(_repeat, count, partial(connection.execute, _INSERT)),
            }
            samples = interleaved(runs, repeats=repeats)
        yield Figure.throughput(
            f"{count:,} INSERTs of one row into a served lake, {database}",
            samples["lakeport"],
            samples["duckdb"],
            "the same INSERTs of DuckDB",
            1.0,
        )


def _repeat(count: int, statement: Callable[[], object]) -> None:
    for _ in range(count):
        statement()


def _with_table(new: NewLake, schema: pa.Schema) -> str:
    uri, data_path = new()
    with Lake.create(uri, data_path=data_path) as lake:
        lake.create_table("t", schema)
    return uri


@contextmanager
def _attached_table(new: NewLake, content: pa.Table) -> Iterator[duckdb.DuckDBPyConnection]:
    """Attach a lake with an empty table `t` to DuckDB, which also has the content of it."""
    uri, data_path = new()
    with attached(uri, f"DATA_PATH '{data_path}'") as connection:
        connection.register("content", content)
        connection.execute("CREATE TABLE lake.t AS FROM content LIMIT 0")
        yield connection


def _new_lake(folder: str, schema: pa.Schema) -> str:
    """Make a lake with an empty table `t`; return where it is."""
    place = tempfile.mkdtemp(dir=folder)
    uri = f"ducklake:sqlite:{place}/meta.sqlite"
    with Lake.create(uri, data_path=f"{place}/data/") as lake:
        lake.create_table("t", schema)
    return uri


def _insert(folder: str, content: pa.Table, rounds: int) -> None:
    place = tempfile.mkdtemp(dir=folder)
    uri = f"ducklake:sqlite:{place}/meta.sqlite"
    with attached(uri, f"DATA_PATH '{place}/data/'") as connection:
        connection.register("content", content)
        connection.execute("CREATE TABLE lake.t AS FROM content LIMIT 0")
        connection.execute(f"INSERT INTO lake.t SELECT content.* FROM content, range({rounds})")
    shutil.rmtree(place)
