"""TPC-H's lineitem as a real lake, whole and with one row in a hundred deleted."""

from __future__ import annotations

from typing import Final

import duckdb

from benchmarks.reference_lakes import kept_lake

__all__ = ["FILES", "LINEITEM", "LINEITEM_DELETED", "lineitem_lake", "one_file"]

LINEITEM: Final = "lineitem"
LINEITEM_DELETED: Final = "lineitem_deleted"
FILES: Final = 12


def lineitem_lake(scale: float) -> str:
    """Return the URI of a lake with both tables."""
    return kept_lake(f"lineitem-{scale:g}", lambda connection: _fill(connection, scale))


def one_file(scale: float) -> tuple[int, int]:
    """Return a range of `l_orderkey`, both ends included, whose rows are all in one file.

    The first one is the key of an order: TPC-H uses the first eight of every 32 numbers.
    """
    step = _keys_per_file(scale)
    return (5 * step // 32 + 1) * 32, 5 * step + step // 10


def _fill(connection: duckdb.DuckDBPyConnection, scale: float) -> None:
    connection.execute(f"CALL dbgen(sf = {scale})")
    step = _keys_per_file(scale)
    for table in (LINEITEM, LINEITEM_DELETED):
        connection.execute(f"CREATE TABLE lake.{table} AS FROM memory.lineitem LIMIT 0")
        for first in range(0, FILES * step, step):
            connection.execute(
                f"INSERT INTO lake.{table} FROM memory.lineitem"
                f" WHERE l_orderkey > {first} AND l_orderkey <= {first + step}"
            )
    connection.execute(
        f"DELETE FROM lake.{LINEITEM_DELETED} WHERE hash(l_orderkey, l_linenumber) % 100 = 0"
    )


def _keys_per_file(scale: float) -> int:
    """Return the largest key of TPC-H's orders: six million times the scale factor."""
    return int(6_000_000 * scale) // FILES
