"""A server in a process of its own whose peak memory can be asked for.

Run as a program it serves until its standard input ends, and answers each line with its peak.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import flight

from lakeport.airport import Server
from lakeport.auth import AccessRequest
from lakeport.catalog import Catalog, CatalogBuilder, CreateSchemaOptions, CreateTableOptions
from lakeport.memory import MemoryCatalog

COLUMNS = pa.schema([("x", pa.int64()), ("name", pa.string())])
WIDE = pa.schema([(f"c{i}", pa.int64()) for i in range(100)])


@dataclass(frozen=True)
class MeasuredServer:
    """A running server in another process."""

    process: subprocess.Popen[str]
    location: str

    def peak(self) -> int:
        """Return the largest resident memory of the process so far, in MiB."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextmanager
def measured_server() -> Iterator[tuple[MeasuredServer, flight.FlightClient]]:
    """Start a server and a client of it."""
    process = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        location = process.stdout.readline().strip()
        try:
            with flight.FlightClient(location) as client:
                yield MeasuredServer(process, location), client
        finally:
            process.kill()


def _main() -> None:
    memory = MemoryCatalog()
    schema = memory.create_schema("s", CreateSchemaOptions())
    for name, columns in {"t": COLUMNS, "wide": WIDE, "forbidden": COLUMNS}.items():
        schema.create_table(name, columns, CreateTableOptions())
    functions = CatalogBuilder().schema("s")

    @functions.table_function_in_out(schema=lambda rows: rows)
    def forbidden(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        return rows

    def authorize(access: AccessRequest) -> bool:
        return access.name != "forbidden"

    catalogs: dict[str, Catalog] = {"memory": memory, "functions": functions.build()}
    with Server(catalogs, authorize=authorize) as server:
        print(server.location, flush=True)  # noqa: T201
        for _ in sys.stdin:
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, flush=True)  # noqa: T201


if __name__ == "__main__":
    _main()
