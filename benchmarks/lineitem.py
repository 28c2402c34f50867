"""TPC-H's lineitem as a real lake, whole and with one row in a hundred deleted."""

from __future__ import annotations

from typing import Final

import duckdb

from benchmarks.duck import kept_lake

__all__ = ["FILES", "LINEITEM", "LINEITEM_DELETED", "Q1", "Q6", "lineitem_lake", "one_file"]

LINEITEM: Final = "lineitem"
LINEITEM_DELETED: Final = "lineitem_deleted"
FILES: Final = 12

Q1: Final = """
  SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty,
    sum(l_extendedprice) AS sum_base_price,
    sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
    sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
    avg(l_quantity) AS avg_qty, avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc,
    count(*) AS count_order
  FROM {table}
  WHERE l_shipdate <= DATE '1998-09-02'
  GROUP BY l_returnflag, l_linestatus
  ORDER BY l_returnflag, l_linestatus
"""

Q6: Final = """
  SELECT sum(l_extendedprice * l_discount) AS revenue
  FROM {table}
  WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
    AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24
"""


def lineitem_lake(scale: float) -> str:
    """Return the URI of a lake with both tables."""
    return kept_lake(f"lineitem-{scale:g}", lambda connection: _fill(connection, scale))


def one_file(scale: float) -> tuple[int, int]:
    """Return a range of `l_orderkey`, both ends included, whose rows are all in one file."""
    step = _keys_per_file(scale)
    return 5 * step + 1, 5 * step + step // 10


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
