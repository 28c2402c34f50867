"""How cost grows: with rows, files, deleted rows, concurrent clients, and tables in the catalog."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial

import duckdb

from benchmarks.growth_fit import Curve, grow
from benchmarks.lineitem import LINEITEM, lineitem_lake, one_file
from benchmarks.measure import Skipped
from benchmarks.reference_lakes import attached, kept_lake, temporary_lake
from benchmarks.scans import drained
from benchmarks.servers import running
from benchmarks.sessions import shared_session
from lakeport import Client, Lake, Server, col, connect
from lakeport.lakehouse import LakeCatalog

__all__ = ["clients", "deletes", "files", "recorded_rows", "rows", "tables"]

Runs = Mapping[str, Callable[[], object]]

_ROW_BYTES = 40
_ROWS_PER_FILE = 100
_ROWS_OF_COPY = 1_000_000


def rows(*, sizes: tuple[int, ...], repeats: int) -> Iterator[Curve | Skipped]:
    """Four columns, a million rows to a file; sizes that the disk cannot hold are left out."""
    fitting = []
    for size in sizes:
        try:
            _rows_lake(size)
        except OSError as error:
            yield Skipped(f"{size:,} rows", str(error))
        else:
            fitting.append(size)
    yield from grow("rows", fitting, lambda size: _scans(_rows_lake(int(size))), repeats=repeats)


def recorded_rows(*, sizes: tuple[int, ...], repeats: int) -> Iterator[Curve]:
    """Read as many rows as no disk here holds: one file, recorded again and again."""
    yield from grow("recorded rows", sizes, lambda size: _recorded(int(size)), repeats=repeats)


def files(*, sizes: tuple[int, ...], repeats: int) -> Iterator[Curve]:
    """Measure the cost of a file besides its rows, with a hundred rows to a file."""
    yield from grow("files", sizes, lambda size: _scans(_files_lake(int(size))), repeats=repeats)


def deletes(*, rows: int, percents: tuple[int, ...], repeats: int) -> Iterator[Curve]:
    """Read the same rows with more and more of them deleted."""
    yield from grow(
        "deleted, %",
        percents,
        lambda percent: _scans(_deletes_lake(rows, int(percent))),
        repeats=repeats,
    )


def clients(*, scale: float, counts: tuple[int, ...], repeats: int) -> Iterator[Curve]:
    """Clients that all ask one server for a file of lineitem at the same time."""
    with running("lake", lake=lineitem_lake(scale)) as location:
        yield from grow(
            "clients",
            counts,
            lambda count: _crowd(location, int(count), one_file(scale)),
            repeats=repeats,
        )


def tables(*, counts: tuple[int, ...], repeats: int) -> Iterator[Curve]:
    """Measure the first listing of all tables of a lake."""
    yield from grow("tables", counts, lambda count: _catalogs(int(count)), repeats=repeats)


@contextmanager
def _recorded(count: int) -> Iterator[Runs]:
    """Read in this process, where no row leaves it."""
    with temporary_lake(lambda duck: _make_rows(duck, _ROWS_OF_COPY)) as uri:
        _record_again(uri.removeprefix("ducklake:sqlite:"), count // _ROWS_OF_COPY - 1)
        with Lake.open(uri, engine="local") as lake, attached(uri) as duck:
            table = lake.table("t")
            yield {
                "to_batches() in this process": lambda: drained(table.scan().to_batches()),
                "count()": lambda: table.scan().count(),
                "DuckDB": lambda: drained(duck.execute("FROM lake.t").to_arrow_reader(65_536)),
            }


def _record_again(catalog: str, copies: int) -> None:
    """Add the only data file of a catalog to its table again, with row ids of its own."""
    with closing(sqlite3.connect(catalog)) as database, database:
        names = [row[1] for row in database.execute("PRAGMA table_info(ducklake_data_file)")]
        steps = {"data_file_id": 1, "row_id_start": _ROWS_OF_COPY}
        values = ", ".join(
            f"{name} + i * {steps[name]}" if name in steps else name for name in names
        )
        database.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 WHERE ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)"
            f" INSERT INTO ducklake_data_file SELECT {values} FROM ducklake_data_file, n",
            (copies,),
        )


@contextmanager
def _scans(uri: str) -> Iterator[Runs]:
    """Plan and read the table `t` of a lake, by Lakeport and by DuckDB."""
    spark = shared_session()
    with Lake.open(uri, spark=spark) as lake, attached(uri) as duck:
        table = lake.table("t")
        yield {
            "to_batches() on Spark": lambda: drained(table.scan().to_batches()),
            "to_batches() in this process": lambda: drained(
                table.scan().to_batches(engine="local")
            ),
            "DuckDB": lambda: drained(duck.execute("FROM lake.t").to_arrow_reader(65_536)),
        }


@contextmanager
def _crowd(location: str, count: int, keys: tuple[int, int]) -> Iterator[Runs]:
    with ExitStack() as stack:
        crowd = [stack.enter_context(connect(location)) for _ in range(count)]
        threads = stack.enter_context(ThreadPoolExecutor(count))
        yield {"a scan by each": lambda: sum(threads.map(partial(_ask, keys), crowd))}


def _ask(keys: tuple[int, int], client: Client) -> int:
    key = col("l_orderkey")
    table = client.table(f"public.{LINEITEM}")
    return drained(table.scan(filter=(key >= keys[0]) & (key <= keys[1])).to_reader())


@contextmanager
def _catalogs(count: int) -> Iterator[Runs]:
    uri = kept_lake(f"tables-{count}", lambda duck: _make_tables(duck, count))
    yield {
        "Lake.tables()": lambda: _list_tables(uri),
        "first listing by a client": lambda: _attach(uri),
    }


def _list_tables(uri: str) -> int:
    with Lake.open(uri) as lake:
        return len(lake.tables())


def _attach(uri: str) -> int:
    with (
        LakeCatalog(uri) as catalog,
        Server(catalog) as server,
        connect(server.location) as client,
    ):
        return len(client.tables("public"))


def _rows_lake(count: int) -> str:
    return kept_lake(
        f"rows-{count}", lambda duck: _make_rows(duck, count), needed_bytes=count * _ROW_BYTES
    )


def _make_rows(duck: duckdb.DuckDBPyConnection, count: int) -> None:
    duck.execute("CREATE TABLE lake.t (id BIGINT, station INTEGER, amount DOUBLE, day DATE)")
    for first in range(0, count, 1_000_000):
        last = min(count, first + 1_000_000)
        duck.execute(f"INSERT INTO lake.t {_values(first, last)}")


def _files_lake(count: int) -> str:
    return kept_lake(f"files-{count}", lambda duck: _make_files(duck, count))


def _make_files(duck: duckdb.DuckDBPyConnection, count: int) -> None:
    duck.execute("CREATE TABLE lake.t (id BIGINT, station INTEGER, amount DOUBLE, day DATE)")
    duck.execute("ALTER TABLE lake.t SET PARTITIONED BY (station)")
    query = _values(0, count * _ROWS_PER_FILE, station=f"i // {_ROWS_PER_FILE}")
    duck.execute(f"INSERT INTO lake.t {query}")


def _deletes_lake(count: int, percent: int) -> str:
    return kept_lake(f"deletes-{count}-{percent}", lambda duck: _make_deletes(duck, count, percent))


def _make_deletes(duck: duckdb.DuckDBPyConnection, count: int, percent: int) -> None:
    _make_rows(duck, count)
    if percent:
        duck.execute(f"DELETE FROM lake.t WHERE hash(id) % 100 < {percent}")


def _make_tables(duck: duckdb.DuckDBPyConnection, count: int) -> None:
    duck.execute("BEGIN")
    for number in range(count):
        columns = ", ".join(f"c{i} BIGINT" for i in range(10))
        duck.execute(f"CREATE TABLE lake.t{number} ({columns})")
    duck.execute("COMMIT")


def _values(first: int, last: int, *, station: str = "i % 1000") -> str:
    return (
        f"SELECT i AS id, ({station})::INTEGER AS station, i * 0.25 AS amount,"
        f" DATE '2024-01-01' + (i % 365)::INTEGER AS day FROM range({first}, {last}) r(i)"
    )
