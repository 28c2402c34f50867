"""Writing to a served lake: INSERT over DoExchange, and statements of single rows."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyarrow import flight

from benchmarks.measure import Figure, interleaved
from benchmarks.reference_lakes import attached
from benchmarks.servers import measured_table, running
from benchmarks.writing import ROWS_PER_CHUNK, send
from lakeport import Client, Lake, connect

__all__ = ["insert_into_lake", "single_rows"]


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


def single_rows(*, count: int, repeats: int) -> Iterator[Figure]:
    """Insert single rows through a server, and with DuckDB into a lake, on SQLite."""
    one = measured_table(1)
    with (
        tempfile.TemporaryDirectory(prefix="lakeport-bench-") as folder,
        running("writable", lake=_new_lake(folder, one.schema)) as location,
        connect(location) as client,
    ):
        runs: dict[str, Callable[[], object]] = {
            "lakeport": lambda: _insert_rows(client, one, count),
            "duckdb": lambda: _insert(folder, one, count),
        }
        samples = interleaved(runs, repeats=repeats)
    yield Figure.throughput(
        f"{count:,} INSERTs of one row into a served lake, SQLite",
        samples["lakeport"],
        samples["duckdb"],
        "the same INSERTs of DuckDB",
        1.0,
    )


def _new_lake(folder: str, schema: pa.Schema) -> str:
    """Make a lake with an empty table `t`; return where it is."""
    place = tempfile.mkdtemp(dir=folder)
    uri = f"ducklake:sqlite:{place}/meta.sqlite"
    with Lake.create(uri, data_path=f"{place}/data/") as lake:
        lake.create_table("t", schema)
    return uri


def _insert_rows(client: Client, one: pa.Table, count: int) -> None:
    table = client.table("public.t")
    for _ in range(count):
        table.insert(one)


def _insert(folder: str, content: pa.Table, rounds: int) -> None:
    place = tempfile.mkdtemp(dir=folder)
    uri = f"ducklake:sqlite:{place}/meta.sqlite"
    with attached(uri, f"DATA_PATH '{place}/data/'") as connection:
        connection.register("content", content)
        connection.execute("CREATE TABLE lake.t AS FROM content LIMIT 0")
        if content.num_rows == 1:
            for _ in range(rounds):
                connection.execute("INSERT INTO lake.t FROM content")
        else:
            connection.execute(f"INSERT INTO lake.t SELECT content.* FROM content, range({rounds})")
    shutil.rmtree(place)
