"""A lake behind a server: lineitem as a whole, a selective filter, a small query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import duckdb

from benchmarks.lineitem import FILES, LINEITEM, lineitem_lake, one_file
from benchmarks.measure import Figure, interleaved
from benchmarks.reference_lakes import attached
from benchmarks.scans import drained
from benchmarks.servers import running
from benchmarks.sessions import shared_session
from lakeport import Lake, col, connect

__all__ = ["serving"]

_WARM_UP_SCANS: Final = 25
_PART: Final = 12345


def serving(*, scale: float, repeats: int, small_repeats: int) -> Iterator[Figure]:
    """Read with the Python client here, the server and its Spark in another process."""
    uri = lineitem_lake(scale)
    first, last = one_file(scale)
    spark = shared_session()
    with (
        running("lake", lake=uri) as location,
        connect(location) as client,
        Lake.open(uri, spark=spark) as lake,
        attached(uri) as duck,
    ):
        ours = lake.table(LINEITEM)
        served = client.table(f"public.{LINEITEM}")
        key = col("l_orderkey")
        # Java compiles what a scan needs while it scans, as in `shared_session`.
        for _ in range(_WARM_UP_SCANS):
            drained(served.scan(filter=(key >= first) & (key <= last)).to_reader())
        whole = interleaved(
            {
                "server": lambda: drained(served.scan().to_reader()),
                "to_batches": lambda: drained(ours.scan().to_batches()),
                "duckdb": lambda: _read_duckdb(duck),
            },
            repeats=repeats,
            warmups=5,
            same=True,
        )
        part = interleaved(
            {
                "filter": lambda: served.scan(filter=(key >= first) & (key <= last)).to_arrow(),
                "whole": lambda: drained(served.scan().to_reader()),
            },
            repeats=repeats,
        )
        small = interleaved(
            {
                "server": lambda: served.scan(["l_comment"], filter=key == first).to_arrow(),
                "duckdb": lambda: _look_up(duck, first),
            },
            repeats=small_repeats,
            warmups=5,
        )
        # The rows of a part are all over the files, one or two in a third of the row groups.
        scattered = interleaved(
            {
                "server": lambda: served.scan(filter=col("l_partkey") == _PART).to_arrow().num_rows,
                "duckdb": lambda: _one_part(duck),
            },
            repeats=repeats,
            same=True,
        )
    name = f"SELECT * of lineitem through the server, scale factor {scale:g}"
    server = whole["server"]
    yield Figure.throughput(name, server, whole["to_batches"], "to_batches() of the same", 0.85)
    yield Figure.throughput(
        name, server, whole["duckdb"], "DuckDB's ducklake scan to Arrow, all cores"
    )
    yield Figure.share(
        f"a filter that needs one file of {FILES}, through the server",
        part["filter"],
        part["whole"],
        "the same without a filter",
    )
    yield Figure.share(
        "one order of lineitem through the server",
        small["server"],
        small["duckdb"],
        "DuckDB's ducklake scan",
        1.5,
    )
    yield Figure.latency(
        "one order of lineitem through the server, 99th percentile",
        small["server"],
        f"DuckDB's ducklake scan: {small['duckdb'].percentile(99) * 1000:.1f} ms",
        percent=99,
    )
    yield Figure.share(
        "one part of lineitem through the server, 16 columns",
        scattered["server"],
        scattered["duckdb"],
        "DuckDB's ducklake scan",
    )


def _read_duckdb(connection: duckdb.DuckDBPyConnection) -> int:
    return drained(connection.execute(f"FROM lake.{LINEITEM}").to_arrow_reader(65_536))


def _look_up(connection: duckdb.DuckDBPyConnection, key: int) -> object:
    query = f"SELECT l_comment FROM lake.{LINEITEM} WHERE l_orderkey = {key}"
    return connection.execute(query).to_arrow_table()


def _one_part(connection: duckdb.DuckDBPyConnection) -> int:
    query = f"FROM lake.{LINEITEM} WHERE l_partkey = {_PART}"
    return int(connection.execute(query).to_arrow_table().num_rows)
