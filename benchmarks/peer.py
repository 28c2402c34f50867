"""One peer of `make bench-peers`, in a process and an environment of its own.

    python benchmarks/peer.py NAME LOCATION TABLE KEY

reads a line, `all` or `one`, does that, and prints the seconds and the number of rows as JSON. This
file imports nothing of Lakeport: most peers run in an environment without it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

Read = Callable[[], int]


def duckdb_peer(location: str, table: str, key: int) -> tuple[Read, Read]:
    """DuckDB with its own ducklake extension, to Arrow."""
    from benchmarks.reference_lakes import connect

    duck = connect("ducklake", "sqlite_scanner")
    duck.execute(f"ATTACH '{location}' AS lake (READ_ONLY)")

    def rows(sql: str) -> int:
        return int(duck.execute(sql).to_arrow_table().num_rows)

    return (
        lambda: rows(f"FROM lake.{table}"),
        lambda: rows(f"FROM lake.{table} WHERE l_orderkey = {key}"),
    )


def lakeport_peer(location: str, table: str, key: int) -> tuple[Read, Read]:
    """Lakeport, planned and read in this process."""
    from lakeport.ducklake import Lake, LocalEngine
    from lakeport.filters import col

    lake = Lake.open(location, engine=LocalEngine())

    def rows(**options: Any) -> int:
        return int(lake.table(table).scan(**options).to_arrow().num_rows)

    return rows, lambda: rows(filter=col("l_orderkey") == key)


def dataframe_peer(location: str, table: str, key: int) -> tuple[Read, Read]:
    """ducklake-dataframe, to polars."""
    pl, package = import_module("polars"), import_module("ducklake_polars")
    path = location.removeprefix("ducklake:sqlite:")

    def one() -> int:
        scan = package.scan_ducklake(path, table)
        return int(scan.filter(pl.col("l_orderkey") == key).collect().height)

    return lambda: int(package.read_ducklake(path, table).height), one


def sdk_peer(location: str, table: str, key: int) -> tuple[Read, Read]:
    """ducklake-sdk, to polars."""
    pl, package = import_module("polars"), import_module("ducklake")
    path = location.removeprefix("ducklake:sqlite:")

    def scan() -> Any:
        return package.connect(f"sqlite:///{path}").table(table).scan_polars()

    return (
        lambda: int(scan().collect().height),
        lambda: int(scan().filter(pl.col("l_orderkey") == key).collect().height),
    )


def delta_peer(location: str, _table: str, key: int) -> tuple[Read, Read]:
    """deltalake, a Delta table of the same rows, to Arrow."""
    package = import_module("deltalake")

    def rows(filters: Any = None) -> int:
        return int(package.DeltaTable(location).to_pyarrow_table(filters=filters).num_rows)

    return rows, lambda: rows([("l_orderkey", "=", key)])


def spark_peer(location: str, _table: str, key: int) -> tuple[Read, Read]:
    """Plain PySpark with the Parquet files, to Arrow."""
    from lakeport.spark import session

    spark = session("local[*]")
    spark.sparkContext.setLogLevel("ERROR")
    frame = spark.read.parquet(*location.split(","))
    return (
        lambda: int(frame.toArrow().num_rows),
        lambda: int(frame.where(f"l_orderkey = {key}").toArrow().num_rows),
    )


PEERS: dict[str, Callable[[str, str, int], tuple[Read, Read]]] = {
    "lakeport": lakeport_peer,
    "duckdb": duckdb_peer,
    "ducklake-dataframe": dataframe_peer,
    "ducklake-sdk": sdk_peer,
    "deltalake": delta_peer,
    "pyspark": spark_peer,
}


def main() -> None:
    """Answer each line of the input with one line."""
    name, location, table, key = sys.argv[1:]
    answer, sys.stdout = sys.stdout, sys.stderr
    try:
        everything, one = PEERS[name](location, table, int(key))
    except Exception as error:  # noqa: BLE001 (a peer may raise anything)
        everything = one = _raises(error)
    for line in sys.stdin:
        read = everything if line.strip() == "all" else one
        started = time.perf_counter()
        try:
            reply: dict[str, Any] = {"rows": read(), "seconds": time.perf_counter() - started}
        except Exception as error:  # noqa: BLE001
            reply = {"error": f"{type(error).__name__}: {error}".split("\n")[0][:200]}
        print(json.dumps(reply), file=answer, flush=True)


def _raises(error: Exception) -> Read:
    def read() -> int:
        raise error

    return read


if __name__ == "__main__":
    main()
