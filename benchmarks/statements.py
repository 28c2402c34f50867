"""Statements of DuckDB's airport client on a served lake, against DuckDB's own ducklake extension.

The calls of the client are played (`statement_client`), the server is `lakeport serve` in another
process, and the baseline is the same statement on the same lake by an attached DuckDB.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

import duckdb
import psutil

from benchmarks.measure import Figure, Sample, Skipped, interleaved
from benchmarks.reference_lakes import attached, temporary_lake
from benchmarks.statement_client import Statement, StatementClient, statement_client
from tests.cli.processes import COMMAND, running
from tests.fixtures_databases import PostgreSQL

__all__ = ["statements"]

COLUMNS: Final = 16
_TABLE: Final = "events"
_WARM_UPS: Final = 5

STATEMENTS: Final = (
    Statement(
        name="one row by its key, all columns",
        sql="SELECT * FROM {table} WHERE id = 500",
        filter="id = 500",
    ),
    Statement(name="count(*)", sql="SELECT count(*) FROM {table}", columns=()),
    Statement(name="sum of one column", sql="SELECT sum(c1) FROM {table}", columns=("c1",)),
    Statement(name="LIMIT 10", sql="SELECT * FROM {table} LIMIT 10", limit=10),
    Statement(
        name="min and max of a column", sql="SELECT min(id), max(id) FROM {table}", columns=("id",)
    ),
)


def statements(*, rows: int, repeats: int) -> Iterator[Figure | Skipped]:
    """Measure the statements on a table of 16 columns, in three catalog databases."""
    for database in ("DuckDB", "SQLite", "PostgreSQL"):
        with ExitStack() as stack:
            place = stack.enter_context(_place(database))
            if place is None:
                yield Skipped(f"statements on {database}", f"{database} is not installed")
                continue
            uri = stack.enter_context(temporary_lake(lambda duck: _make(duck, rows), place))
            server = stack.enter_context(
                running([*COMMAND, "serve", f"lake={uri}", "--listen", "127.0.0.1:0"])
            )
            client = stack.enter_context(statement_client(server.location, _TABLE))
            duck = stack.enter_context(attached(uri))
            process = psutil.Process(server.process.pid)
            label = f"{rows:,} rows, {COLUMNS} columns, lake in {database}"
            for statement in STATEMENTS:
                yield from _measured(statement, client, duck, process, repeats, label)


def _measured(
    statement: Statement,
    client: StatementClient,
    duck: duckdb.DuckDBPyConnection,
    server: psutil.Process,
    repeats: int,
    label: str,
) -> Iterator[Figure]:
    direct = statement.sql.format(table=f"lake.{_TABLE}")

    def served() -> object:
        rows = client.run(statement)
        return rows if statement.limit is None else len(rows)

    def own() -> object:
        rows = duck.execute(direct).fetchall()
        return rows if statement.limit is None else len(rows)

    if served() != own():
        raise RuntimeError(f"the results of {direct!r} differ")
    sent, used = client.calls, _cpu_seconds(server)
    samples = interleaved({"served": served, "duckdb": own}, repeats=repeats, warmups=_WARM_UPS)
    runs = repeats + _WARM_UPS
    calls = (client.calls - sent) // runs
    # The kernel counts CPU time in steps of ten milliseconds, so only the mean is known.
    mean = Sample(((_cpu_seconds(server) - used) / runs,))
    yield Figure.share(
        f"{statement.name}, {label}",
        samples["served"],
        samples["duckdb"],
        "DuckDB's own ducklake",
        less_than=3.0,
    )
    yield Figure.latency(
        f"CPU time of the server for {calls} calls: {statement.name}, {label}", mean, "none"
    )


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@contextmanager
def _place(database: str) -> Iterator[str | None]:
    """Return where a lake is made in a database; None if the database is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        if database == "DuckDB":
            yield f"ducklake:{Path(folder)}/meta.ducklake"
        elif database == "SQLite":
            yield f"ducklake:sqlite:{Path(folder)}/meta.sqlite"
        elif (initdb := PostgreSQL.initdb()) is None:
            yield None
        else:
            with closing(PostgreSQL(initdb)) as server:
                yield server.create_database()


def _make(duck: duckdb.DuckDBPyConnection, rows: int) -> None:
    numbers = ", ".join(f"(i * {n}) % 1000 AS c{n}" for n in range(1, 11))
    duck.execute(
        f"CREATE TABLE lake.{_TABLE} AS SELECT i AS id, {numbers}, i * 0.25 AS amount,"
        " DATE '2024-01-01' + (i % 365)::INTEGER AS day, 'customer ' || (i % 5000) AS customer,"
        f" hash(i) AS reference, i % 2 = 0 AS even FROM range({rows}) r(i)"
    )
