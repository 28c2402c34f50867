"""The servers under measurement, each in a process of its own.

    python -m benchmarks.servers bare|lakeport|wide|memory --rows N

prints its port and serves until its input ends.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import flight

__all__ = ["ROWS_PER_BATCH", "measured_table", "running"]

ROWS_PER_BATCH = 64 * 1024


def measured_table(rows: int) -> pa.Table:
    """Four columns of plain data in batches of one size."""
    batches = []
    for start in range(0, rows, ROWS_PER_BATCH):
        count = min(ROWS_PER_BATCH, rows - start)
        numbers = pa.array(range(start, start + count), pa.int64())
        batches.append(
            pa.RecordBatch.from_pydict(
                {
                    "id": numbers,
                    "amount": numbers.cast(pa.float64()),
                    "day": pa.repeat(pa.scalar(19_000, pa.int32()), count).cast(pa.date32()),
                    "name": numbers.cast(pa.string()),
                }
            )
        )
    return pa.Table.from_batches(batches)


@contextmanager
def running(kind: str, *, rows: int = 0) -> Iterator[str]:
    """Start a server in another process; gives its location."""
    command = [sys.executable, "-m", "benchmarks.servers", kind, "--rows", str(rows)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        port = process.stdout.readline().strip()
        if not port:
            raise RuntimeError(f"the {kind} server did not start")
        try:
            yield f"grpc://127.0.0.1:{port}"
        finally:
            process.stdin.close()


class BareServer(flight.FlightServerBase):  # type: ignore[misc]
    """The least that a Flight server can do: hand out prepared batches, drop what it is sent."""

    def __init__(self, data: pa.Table) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._data = data

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        return flight.RecordBatchStream(self._data)

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        writer.begin(reader.schema)
        while True:
            try:
                reader.read_chunk()
            except StopIteration:
                break
        writer.write_metadata(b"\x81\xadtotal_changed\x00")


def _lakeport(rows: int) -> int:
    from lakeport.airport import Server
    from lakeport.catalog import CatalogBuilder

    catalog = CatalogBuilder().schema("bench").table("t", measured_table(rows)).build()
    return Server(catalog).start().port


def _wide(tables: int) -> int:
    from lakeport.airport import Server
    from lakeport.catalog import CatalogBuilder

    schema = pa.schema([(f"c{i}", pa.int64()) for i in range(10)])
    builder = CatalogBuilder().schema("bench")
    for number in range(tables):
        builder.table(f"t{number}", schema.empty_table())
    return Server(builder.build()).start().port


def _memory(rows: int) -> int:
    from lakeport.airport import Server
    from lakeport.memory import MemoryCatalog

    catalog = MemoryCatalog()
    catalog.add_table("bench", "t", measured_table(rows))
    return Server(catalog).start().port


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["bare", "lakeport", "wide", "memory"])
    parser.add_argument("--rows", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.kind == "bare":
        server = BareServer(measured_table(arguments.rows or 1))
        port = server.port
    else:
        make = {"lakeport": _lakeport, "wide": _wide, "memory": _memory}[arguments.kind]
        port = make(arguments.rows)
    print(port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
