"""All tables of TPC-H as a real lake, one row in a hundred deleted, and its 22 queries."""

from __future__ import annotations

from typing import Final

import duckdb

from benchmarks.reference_lakes import connect, kept_lake

__all__ = ["TABLES", "tpch_lake", "tpch_queries"]

# How many files a table has, and what a row is identified by.
TABLES: Final[dict[str, tuple[int, str]]] = {
    "lineitem": (12, "l_orderkey, l_linenumber"),
    "orders": (4, "o_orderkey"),
    "partsupp": (4, "ps_partkey, ps_suppkey"),
    "customer": (2, "c_custkey"),
    "part": (2, "p_partkey"),
    "supplier": (1, "s_suppkey"),
    "nation": (1, "n_nationkey"),
    "region": (1, "r_regionkey"),
}
_DIMENSIONS: Final = ("nation", "region")


def tpch_lake(scale: float) -> str:
    """Return the URI of a lake with the eight tables; nations and regions have no deletes."""
    return kept_lake(f"tpch-{scale:g}", lambda connection: _fill(connection, scale))


def tpch_queries() -> dict[str, str]:
    """Return the 22 queries by name, as DuckDB has them; Spark understands them, too."""
    with connect("tpch") as connection:
        rows = connection.execute("SELECT query_nr, query FROM tpch_queries()").fetchall()
    return {f"Q{number}": query.rstrip().rstrip(";") for number, query in sorted(rows)}


def _fill(connection: duckdb.DuckDBPyConnection, scale: float) -> None:
    connection.execute(f"CALL dbgen(sf = {scale})")
    for table, (files, key) in TABLES.items():
        connection.execute(f"CREATE TABLE lake.{table} AS FROM memory.{table} LIMIT 0")
        first_key = key.split(", ")[0]
        (last,) = connection.execute(f"SELECT max({first_key}) FROM memory.{table}").fetchall()[0]
        step = last // files + 1
        for number in range(files):
            connection.execute(
                f"INSERT INTO lake.{table} FROM memory.{table}"
                f" WHERE {first_key} // {step} = {number}"
            )
        if table not in _DIMENSIONS:
            connection.execute(f"DELETE FROM lake.{table} WHERE hash({key}) % 100 = 0")
