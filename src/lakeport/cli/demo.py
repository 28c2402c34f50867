"""`lakeport demo`: a small catalog, served and queried, to see what this is about."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console
from rich.table import Table

from lakeport.airport import Server
from lakeport.airport.client import Client, connect
from lakeport.catalog import CatalogBuilder, Stability, StaticCatalog, column
from lakeport.filters import col

__all__ = ["demo", "demo_catalog"]

_ROWS = 300_000
_STATIONS = ["Harbour", "Old Mill", "Observatory", "Market Square", "Botanic Garden", "Lighthouse"]


def demo(
    once: Annotated[bool, typer.Option("--once", help="Exit after the queries.")] = False,
    listen: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1:8815",
) -> None:
    """Serve a small catalog, run three queries, and show how to attach it from DuckDB."""
    console = Console()
    location = "grpc://127.0.0.1:0" if once else f"grpc://{listen}"
    with Server({"demo": demo_catalog()}, location=location) as server:
        console.print(f"[bold]Lakeport[/bold] serves the catalog 'demo' at {server.location}\n")
        with connect(server.location, catalog="demo") as client:
            _show_queries(console, client)
        console.print("\nIn DuckDB:\n", style="bold")
        console.print(_sql(server.location), highlight=False)
        if once:
            return
        console.print("Serving; Ctrl-C ends it.", style="dim")
        _wait_for_interrupt()


def demo_catalog() -> StaticCatalog:
    """Trips of a bicycle rental, and two functions to go with them."""
    builder = CatalogBuilder(comment="A bicycle rental by the lake")
    rental = builder.schema("rental", comment="Trips and stations")
    rental.table("trips", _trips(), comment="Every trip of a year", endpoints=2, statistics=True)
    rental.table("stations", pa.table({"name": _STATIONS}), comment="Where bicycles stand")

    @rental.scalar_function(
        parameters={"minutes": pa.float64()},
        returns=pa.float64(),
        stability=Stability.CONSISTENT,
        comment="What a trip of that length costs",
    )
    def fare(minutes: pa.Array) -> pa.Array:
        return pc.round(pc.add(1.0, pc.multiply(minutes, 0.15)), 2)

    @rental.table_function(
        parameters={"days": pa.int64()},
        schema=pa.schema([("day", pa.date32()), ("open", pa.bool_())]),
        comment="The days to come, and whether the rental is open",
    )
    def calendar(days: int) -> pa.Table:
        today = datetime.now(tz=UTC).date()
        dates = [today + timedelta(days=number) for number in range(days)]
        return pa.table({"day": dates, "open": [date.weekday() != 0 for date in dates]})

    return builder.build()


def _trips() -> pa.Table:
    chance = random.Random(7)  # noqa: S311
    start = datetime(2025, 1, 1, tzinfo=UTC)
    minutes = [round(chance.lognormvariate(2.8, 0.6), 1) for _ in range(_ROWS)]
    schema = pa.schema(
        [
            column("id", pa.int64(), nullable=False),
            column("started_at", pa.timestamp("us", tz="UTC")),
            column("station", pa.string(), comment="Where the trip began"),
            column("minutes", pa.float64(), comment="How long it took"),
        ]
    )
    return pa.table(
        {
            "id": range(_ROWS),
            "started_at": [start + timedelta(seconds=105 * number) for number in range(_ROWS)],
            "station": [chance.choice(_STATIONS) for _ in range(_ROWS)],
            "minutes": minutes,
        },
        schema=schema,
    )


def _show_queries(console: Console, client: Client) -> None:
    trips = client.table("rental.trips")
    queries: dict[str, Callable[[], pa.Table]] = {
        "SELECT count(*) FROM rental.trips": lambda: pa.table({"count": [trips.scan().count()]}),
        "SELECT id, station, minutes FROM rental.trips WHERE minutes > 150": lambda: trips.scan(
            columns=["id", "station", "minutes"], where=col("minutes") > 150.0
        ).to_arrow(),
        "SELECT * FROM rental.calendar(3)": lambda: client.call_table(
            "rental.calendar", 3
        ).to_arrow(),
    }
    for sql, run in queries.items():
        started = time.perf_counter()
        result = run()
        seconds = time.perf_counter() - started
        console.print(f"[bold]{sql}[/bold]   [dim]{result.num_rows} rows, {seconds:.3f} s[/dim]")
        console.print(_as_rich(result))


def _as_rich(result: pa.Table, *, most: int = 5) -> Table:
    table = Table(*result.column_names)
    for row in result.slice(0, most).to_pylist():
        table.add_row(*(str(value) for value in row.values()))
    if result.num_rows > most:
        table.add_row(*("…" for _ in result.column_names))
    return table


def _sql(location: str) -> str:
    return f"""  INSTALL airport FROM community;
  LOAD airport;
  ATTACH 'demo' AS demo (TYPE airport, LOCATION '{location}');
  SELECT station, count(*), avg(demo.rental.fare(minutes))
  FROM demo.rental.trips GROUP BY station ORDER BY 2 DESC;
"""  # noqa: S608


def _wait_for_interrupt() -> None:
    interrupted = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: interrupted.set())
    interrupted.wait()
