"""Writing: the throughput of INSERT over DoExchange."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import flight

from benchmarks.measure import Figure, interleaved
from benchmarks.servers import measured_table, running

__all__ = ["insert"]

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
