"""Writing: the throughput of INSERT over DoExchange, and of appends to a lake."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import flight

from benchmarks.measure import Figure, interleaved
from benchmarks.reference_lakes import attached
from benchmarks.servers import measured_table, running
from lakeport import Lake

__all__ = ["append", "insert", "trips"]

# What DuckDB puts into one batch.
ROWS_PER_CHUNK = 2048


def insert(*, rows: int, repeats: int) -> Iterator[Figure]:
    """INSERT into a table in memory against a sink that drops the batches."""
    table = measured_table(min(rows, 1_000_000))
    batches = table.combine_chunks().to_batches(max_chunksize=ROWS_PER_CHUNK)
    rounds = max(1, rows // table.num_rows)
    with running("bare", rows=1) as bare, running("memory", rows=1) as lakeport:
        baseline, ours = flight.connect(bare), flight.connect(lakeport)
        samples = interleaved(
            {
                "bare": lambda: _send(baseline, batches, rounds),
                "lakeport": lambda: _send(ours, batches, rounds),
            },
            repeats=repeats,
        )
    yield Figure.throughput(
        f"INSERT, {rows:,} rows of 4 columns in batches of {ROWS_PER_CHUNK:,}",
        samples["lakeport"],
        samples["bare"],
        "bare pyarrow.flight exchange that drops the batches",
        0.8,
    )


def _send(client: flight.FlightClient, batches: list[pa.RecordBatch], rounds: int) -> None:
    headers = [(b"airport-operation", b"insert"), (b"return-chunks", b"0")]
    descriptor = flight.FlightDescriptor.for_path("bench", "t")
    writer, reader = client.do_exchange(descriptor, flight.FlightCallOptions(headers=headers))
    with writer:
        writer.begin(batches[0].schema)
        for _ in range(rounds):
            for batch in batches:
                writer.write_batch(batch)
        writer.done_writing()
        reader.read_chunk()


def append(*, rows: int, repeats: int) -> Iterator[Figure]:
    """Append to a lake against pyarrow writing the same files, and against DuckDB's INSERT."""
    content = trips(rows)
    with tempfile.TemporaryDirectory(prefix="lakeport-bench-") as folder:
        counts = _append(folder, content)
        runs: dict[str, Callable[[], object]] = {
            "lakeport": lambda: _append(folder, content),
            "pyarrow": lambda: _write(folder, content, counts),
            "duckdb": lambda: _insert(folder, content),
        }
        samples = interleaved(runs, repeats=repeats)
    name = f"append of {rows:,} rows of 6 columns to a lake"
    yield Figure.throughput(
        name, samples["lakeport"], samples["pyarrow"], "pyarrow.parquet, the same files", 0.8
    )
    yield Figure.throughput(
        name, samples["lakeport"], samples["duckdb"], "INSERT of DuckDB into a lake", 1.0
    )


def trips(rows: int) -> pa.Table:
    """Return rows with a key, times, numbers, and texts that repeat."""
    random = np.random.default_rng(1)
    stations = pa.array([f"Station {number}" for number in range(2_000)])
    notes = pa.array([f"a note of some length, number {number}" for number in range(50_000)])
    return pa.table(
        {
            "id": np.arange(rows),
            "started": pa.array(random.integers(0, 1 << 50, rows)).view(pa.timestamp("us")),
            "minutes": random.integers(0, 600, rows).astype(np.int32),
            "price": random.random(rows) * 50,
            "station": stations.take(pa.array(random.integers(0, len(stations), rows))),
            "note": notes.take(pa.array(random.integers(0, len(notes), rows))),
        }
    )


def _append(folder: str, content: pa.Table) -> list[int]:
    """Append to a new lake; return the rows of each file."""
    place = tempfile.mkdtemp(dir=folder)
    with Lake.create(f"ducklake:sqlite:{place}/meta.sqlite", data_path=f"{place}/data/") as lake:
        lake.create_table("trips", content.schema).append(content)
        counts = [file.record_count or 0 for file in lake.table("trips").files()]
    shutil.rmtree(place)
    return counts


def _write(folder: str, content: pa.Table, counts: list[int]) -> None:
    """Write files of the same numbers of rows, one after the other."""
    place = Path(tempfile.mkdtemp(dir=folder))
    start = 0
    for number, count in enumerate(counts):
        part = content.slice(start, count)
        pq.write_table(part, place / f"{number}.parquet", row_group_size=122_880)
        start += count
    shutil.rmtree(place)


def _insert(folder: str, content: pa.Table) -> None:
    place = tempfile.mkdtemp(dir=folder)
    uri = f"ducklake:sqlite:{place}/meta.sqlite"
    with attached(uri, f"DATA_PATH '{place}/data/'") as connection:
        connection.register("content", content)
        connection.execute("CREATE TABLE lake.trips AS FROM content LIMIT 0")
        connection.execute("INSERT INTO lake.trips FROM content")
    shutil.rmtree(place)
