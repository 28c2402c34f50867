"""The servers under measurement, each in a process of its own.

    python -m benchmarks.servers bare|lakeport|wide|memory --rows N
    python -m benchmarks.servers lake|limited|writable --lake URI

prints its port and serves until its input ends.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

import pyarrow as pa
from pyarrow import flight

__all__ = ["GREEDY", "MODEST", "ROWS_PER_BATCH", "measured_table", "running"]

ROWS_PER_BATCH: Final = 64 * 1024

# The tokens of the two users of a server with limits.
GREEDY: Final = "token-of-the-greedy-user"
MODEST: Final = "token-of-the-modest-user"


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
def running(kind: str, *, rows: int = 0, lake: str = "") -> Iterator[str]:
    """Start a server in another process; gives its location."""
    options = ["--rows", str(rows), "--lake", lake]
    command = [sys.executable, "-m", "benchmarks.servers", kind, *options]
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


@contextmanager
def _bare(rows: int, _: str) -> Iterator[int]:
    with BareServer(measured_table(rows or 1)) as server:
        yield server.port


@contextmanager
def _lakeport(rows: int, _: str) -> Iterator[int]:
    from lakeport.airport import Server
    from lakeport.catalog import CatalogBuilder

    data = measured_table(rows)
    schema = CatalogBuilder().schema("bench")
    catalog = schema.table("t", data).table("whole", data, endpoints=1).build()
    with Server(catalog) as server:
        yield server.port


@contextmanager
def _wide(tables: int, _: str) -> Iterator[int]:
    from lakeport.airport import Server
    from lakeport.catalog import CatalogBuilder

    schema = pa.schema([(f"c{i}", pa.int64()) for i in range(10)])
    builder = CatalogBuilder().schema("bench")
    for number in range(tables):
        builder.table(f"t{number}", schema.empty_table())
    with Server(builder.build()) as server:
        yield server.port


@contextmanager
def _memory(rows: int, _: str) -> Iterator[int]:
    from lakeport.airport import Server
    from lakeport.memory import MemoryCatalog

    catalog = MemoryCatalog()
    catalog.add_table("bench", "t", measured_table(rows))
    with Server(catalog) as server:
        yield server.port


@contextmanager
def _lake(_: int, uri: str) -> Iterator[int]:
    from lakeport.airport import Server
    from lakeport.lakehouse import LakeCatalog
    from lakeport.spark import session

    spark = session("local[*,4]")
    spark.sparkContext.setLogLevel("ERROR")
    try:
        with LakeCatalog(uri, spark=spark) as catalog, Server(catalog) as server:
            yield server.port
    finally:
        spark.stop()


@contextmanager
def _limited(_: int, uri: str) -> Iterator[int]:
    from lakeport.airport import Server
    from lakeport.auth import CallerLimits, LimitRules, Who
    from lakeport.lakehouse import LakeCatalog

    limits = LimitRules(
        each=((Who(everyone=True), CallerLimits(scans=2, queued_scans=1000)),),
        together=CallerLimits(scans=8),
    )
    auth = {GREEDY: "greedy", MODEST: "modest"}
    with (
        LakeCatalog(uri, engine="local") as catalog,
        Server(catalog, auth=auth, caller_limits=limits) as server,
    ):
        yield server.port


@contextmanager
def _writable(_: int, uri: str) -> Iterator[int]:
    from lakeport.airport import Server
    from lakeport.lakehouse import LakeCatalog

    with LakeCatalog(uri, writable=True, engine="local") as catalog, Server(catalog) as server:
        yield server.port


_KINDS: Final[dict[str, Callable[[int, str], AbstractContextManager[int]]]] = {
    "bare": _bare,
    "lakeport": _lakeport,
    "wide": _wide,
    "memory": _memory,
    "lake": _lake,
    "limited": _limited,
    "writable": _writable,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=_KINDS)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--lake", default="")
    arguments = parser.parse_args()
    with _KINDS[arguments.kind](arguments.rows, arguments.lake) as port:
        print(port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
