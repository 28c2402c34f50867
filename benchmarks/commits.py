"""Small writes to a lake: many appends, many writers, deletes, and commits to a large catalog."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from benchmarks.catalogs import crowded_catalog
from benchmarks.measure import Figure, Sample, Skipped, interleaved
from benchmarks.reference_lakes import attached
from benchmarks.writing import trips
from lakeport.ducklake import Lake, LakeTable
from tests.fixtures_databases import PostgreSQL

__all__ = ["NewLake", "appends", "databases", "delete", "large_catalog", "writers"]

NewLake = Callable[[], tuple[str, str]]
"""Returns the URI and the data path of a lake that does not exist yet."""

_WRITER: Final = """
import sys
from lakeport import Lake

uri, commits = sys.argv[1], int(sys.argv[2])
with Lake.open(uri) as lake:
    table = lake.table("t")
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(commits):
        table.append([{"n": number}])
"""


def appends(*, count: int, rows: int) -> Iterator[Figure | Skipped]:
    """Append small tables one by one, and insert the same rows with the reference."""
    content = trips(rows)
    for database, places in databases():
        if places is None:
            yield Skipped(f"appends on {database}", f"{database} is not installed")
            continue
        with places() as new:
            samples = interleaved(
                {
                    "lakeport": partial(_append, new, content, count),
                    "duckdb": partial(_insert, new, content, count),
                },
                repeats=3,
                warmups=0,
            )
        yield Figure.throughput(
            f"{count:,} appends of {rows:,} rows of 6 columns, {database}",
            samples["lakeport"],
            samples["duckdb"],
            "the same INSERTs of DuckDB",
            1.5,
        )


def writers(*, commits: int, counts: tuple[int, ...]) -> Iterator[Figure | Skipped]:
    """Commit from several processes at once; the time of a commit, all processes together."""
    for database, places in databases():
        if places is None:
            yield Skipped(f"writers on {database}", f"{database} is not installed")
            continue
        with places() as new:
            samples = {number: _contend(new, number, commits) for number in counts}
        one = samples[counts[0]]
        for number, sample in samples.items():
            rate = 1 / sample.median
            yield Figure.share(
                f"a commit of {number} writers at once, {database}: {rate:.0f} a second",
                sample,
                one,
                f"a commit of {counts[0]} writer",
            )


def delete(*, rows: int, repeats: int) -> Iterator[Figure]:
    """Delete one row in a hundred by a predicate, and the same with the reference."""
    content = trips(rows)
    with (
        tempfile.TemporaryDirectory(prefix="lakeport-bench-") as folder,
        ExitStack() as stack,
    ):
        # Each repetition has a lake of its own, which is open already.
        lakes = iter(
            [stack.enter_context(Lake.open(_filled(folder, content))) for _ in range(repeats + 1)]
        )
        others = iter(
            [
                stack.enter_context(attached(_filled(folder, content), "METADATA_CATALOG 'meta'"))
                for _ in range(repeats + 1)
            ]
        )
        samples = interleaved(
            {
                "lakeport": lambda: next(lakes).table("trips").delete(_ONE_PERCENT).rows_deleted,
                "duckdb": lambda: _affected(
                    next(others), f"DELETE FROM lake.trips WHERE {_ONE_PERCENT}"
                ),
            },
            repeats=repeats,
            same=True,
        )
    yield Figure.throughput(
        f"delete of 1 % of {rows:,} rows by a predicate",
        samples["lakeport"],
        samples["duckdb"],
        "the same DELETE of DuckDB",
        0.8,
    )


def large_catalog(*, tables: int, files: int, repeats: int) -> Iterator[Figure]:
    """Append to a lake of many tables and files, and to a lake of ten."""
    rows = pa.table(
        {"id": [1], "amount": [Decimal(2)], "customer": ["c"], "day": [date(2024, 1, 1)]}
    )
    with (
        crowded_catalog(tables=10, files=10) as small,
        crowded_catalog(tables=tables, files=files) as large,
        Lake.open(small) as small_lake,
        Lake.open(large) as large_lake,
    ):
        few, many = small_lake.table("t"), large_lake.table("t")
        changes: dict[str, Callable[[LakeTable], object]] = {
            "append": lambda table: table.append(rows),
            "comment": lambda table: table.set_comment(str(time.monotonic())),
        }
        for what, change in changes.items():
            samples = interleaved(
                {"large": partial(change, many), "small": partial(change, few)},
                repeats=repeats,
                warmups=3,
            )
            yield Figure.share(
                f"{what}: a commit to a lake of {tables:,} tables and {files:,} files",
                samples["large"],
                samples["small"],
                "to a lake of 10 tables and 10 files",
                1.5,
            )


def databases() -> Iterator[tuple[str, Callable[[], AbstractContextManager[NewLake]] | None]]:
    """Yield the databases of catalogs, with what makes lakes in them; None if not installed."""
    yield "SQLite", _sqlite
    yield "PostgreSQL", _postgresql if PostgreSQL.initdb() else None


@contextmanager
def _sqlite() -> Iterator[NewLake]:
    with tempfile.TemporaryDirectory(prefix="lakeport-bench-") as folder:

        def new() -> tuple[str, str]:
            place = tempfile.mkdtemp(dir=folder)
            return f"ducklake:sqlite:{place}/meta.sqlite", f"{place}/data/"

        yield new


@contextmanager
def _postgresql() -> Iterator[NewLake]:
    initdb = PostgreSQL.initdb()
    if initdb is None:
        raise RuntimeError("PostgreSQL is not installed")
    with (
        closing(PostgreSQL(initdb)) as server,
        tempfile.TemporaryDirectory(prefix="lakeport-bench-") as folder,
    ):
        yield lambda: (server.create_database(), f"{tempfile.mkdtemp(dir=folder)}/")


def _append(new: NewLake, content: pa.Table, count: int) -> None:
    uri, data_path = new()
    with Lake.create(uri, data_path=data_path) as lake:
        table = lake.create_table("trips", content.schema)
        for _ in range(count):
            table.append(content)


def _insert(new: NewLake, content: pa.Table, count: int) -> None:
    uri, data_path = new()
    with attached(uri, f"DATA_PATH '{data_path}'") as connection:
        connection.register("content", content)
        connection.execute("CREATE TABLE lake.trips AS FROM content LIMIT 0")
        for _ in range(count):
            connection.execute("INSERT INTO lake.trips FROM content")


def _contend(new: NewLake, count: int, commits: int) -> Sample:
    uri, data_path = new()
    with Lake.create(uri, data_path=data_path) as lake:
        lake.create_table("t", {"n": "BIGINT"})
    each = max(1, commits // count)
    command = [sys.executable, "-c", _WRITER, uri, str(each)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    for process in processes:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise RuntimeError("a writer did not start")
    started = time.perf_counter()
    for process in processes:
        if process.stdin is not None:
            process.stdin.write("go\n")
            process.stdin.flush()
    if any(process.wait() for process in processes):
        raise RuntimeError("a writer failed")
    return Sample(((time.perf_counter() - started) / (each * count),))


def _filled(folder: str, content: pa.Table) -> str:
    place = tempfile.mkdtemp(dir=folder)
    uri = f"ducklake:sqlite:{place}/meta.sqlite"
    first = Path(folder, "first")
    if first.exists():
        # The data path is that of the first lake: data files are shared, catalogs are not.
        shutil.copy(first / "meta.sqlite", f"{place}/meta.sqlite")
        return uri
    first.mkdir()
    origin = f"ducklake:sqlite:{first}/meta.sqlite"
    with Lake.create(origin, data_path=f"{first}/data/") as lake:
        lake.create_table("trips", content.schema).append(content)
    return _filled(folder, content)


_ONE_PERCENT: Final = "id % 100 = 7"


def _affected(connection: duckdb.DuckDBPyConnection, statement: str) -> int:
    result = connection.execute(statement).fetchone()
    return 0 if result is None else int(result[0])
