"""`lakeport demo`: make a small lake, serve it and query it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import pyarrow as pa
import typer
from rich.console import Console

from lakeport._wording import counted
from lakeport.airport.client import Client, connect
from lakeport.airport.server import Server, check_listening, exit_immediately, serve_until_signalled
from lakeport.arrow import arrow_query, thread_connection
from lakeport.cli.arguments import listening_location
from lakeport.cli.banner import attach_sql, show_served, show_sql
from lakeport.cli.catalogs import ServedCatalogs
from lakeport.cli.commands.console import EndingConsole
from lakeport.cli.config import LakeSettings, SparkSettings
from lakeport.cli.output import make_console, show_rows
from lakeport.console import Console as WebConsole
from lakeport.console import ServerAddress, serve_console
from lakeport.ducklake import Lake
from lakeport.errors import DefinitionError

__all__ = ["SNAPSHOT_BEFORE_DELETE", "demo", "make_lake"]

TRIPS: Final = 300_000
_STATIONS: Final = (
    ("Harbour", 40),
    ("Old Mill", 24),
    ("Observatory", 18),
    ("Market Square", 60),
    ("Botanic Garden", 30),
    ("Lighthouse", 12),
    ("Workshop", 8),
)

SNAPSHOT_BEFORE_DELETE: Final = 3
"""The snapshot that still has the trips of the workshop."""


def make_lake(folder: Path) -> Path:
    """Make a lake in a folder; return the file of its catalog database."""
    database = folder / "demo.ducklake"
    if database.exists():
        raise DefinitionError(f"there is a lake already: lakeport serve {database} serves it")
    with Lake.create(str(database), data_path=f"{folder / 'files'}/") as lake:
        names, docks = zip(*_STATIONS, strict=True)
        stations = pa.table({"name": names, "docks": pa.array(docks, pa.int32())})
        with lake.transaction(message="the stations") as tx:
            tx.create_table_as("stations", stations, comment="Where bicycles stand")
        half = TRIPS // 2
        with lake.transaction(message="the first half of the year") as tx:
            tx.create_table_as("trips", _trips(0, half), comment="Every trip of a year")
        with lake.transaction(message="the second half of the year") as tx:
            tx.table("trips").append(_trips(half, TRIPS))
        with lake.transaction(message="rides of the workshop are not trips") as tx:
            tx.table("trips").delete("station = 'Workshop'")
        with lake.transaction(message="a clearer name") as tx:
            tx.table("trips").rename_column("duration", "minutes")
            tx.table("trips").set_comment("How long the trip took", column="minutes")
    return database


def _trips(first: int, last: int) -> pa.Table:
    """Return the trips with numbers of a range; they are always the same."""
    names = ", ".join(f"'{name}'" for name, _ in _STATIONS)
    query = f"""
        SELECT i AS id,
            TIMESTAMPTZ '2025-01-01 00:00:00+00' + i * INTERVAL 105 SECOND AS started_at,
            [{names}][(1 + hash(i, 3) % {len(_STATIONS)})::INTEGER] AS station,
            round(exp(2.8 + 0.6 * sqrt(-2 * ln((hash(i, 1) % 999983 + 1) / 1000000.0))
                * cos(2 * pi() * (hash(i, 2) % 1000003) / 1000003.0)), 1) AS duration
        FROM range({first}, {last}) AS r(i)
        ORDER BY i
    """  # noqa: S608
    return arrow_query(thread_connection(), query).to_arrow_table()


_ROWS_SHOWN = 7
_SNAPSHOT = ("snapshot_id", "commit_message", "changes")


def demo(
    once: Annotated[bool, typer.Option("--once", help="Exit after the queries.")] = False,
    listen: Annotated[
        str, typer.Option(help="Where to listen: host:port or grpc://host:port.")
    ] = "127.0.0.1:8815",
    folder: Annotated[
        Path | None, typer.Option(help="Make the lake here, and keep it; else it is temporary.")
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="The Spark master; all cores of this machine by default.")
    ] = None,
) -> None:
    """Make a small lake, serve it, run queries and a write, and show how to attach it from DuckDB.

    For example:

      lakeport demo

      lakeport demo --once

      lakeport demo --folder rental --listen 0.0.0.0:8815
    """
    console = make_console()
    location = listening_location("127.0.0.1:0" if once else listen)
    check_listening(location)
    with ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="lakeport-demo-")))
        else:
            _make_folder(folder)
        with console.status("Making a lake …"):
            uri = str(make_lake(folder.resolve()))
            lakes = {"demo": LakeSettings(uri=uri, name="demo", writable=True)}
        catalogs = stack.enter_context(ServedCatalogs(SparkSettings(master=master)))
        opened = catalogs.open(lakes)
        server = stack.enter_context(Server(opened, location=location))
        show_served(console, server, opened, lakes)
        with connect(server.location, catalog="demo") as client:
            _show_queries(console, client)
            _show_write(console, client)
        show_sql(console, [*attach_sql(server.location, lakes), *_EXAMPLE_QUERIES])
        page = None if once else _show_page(console, stack, server.location)
        finished = once or serve_until_signalled(
            EndingConsole(server, page),
            ready=lambda: console.print("Serving; Ctrl-C ends it.", style="dim"),
        )
    if not finished:
        exit_immediately()


def _show_page(console: Console, stack: ExitStack, location: str) -> WebConsole | None:
    """Serve the console in the browser, at a free port, if its packages are installed."""
    try:
        page = stack.enter_context(serve_console(ServerAddress(location=location)))
    except DefinitionError as error:
        console.print(f"\nWithout the console: {error}", style="dim", highlight=False)
        return None
    console.print(f"\nThe console is at {page.url}", highlight=False)
    return page


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DefinitionError(f"{folder} cannot be made: {error.strerror}") from None


def _show_queries(console: Console, client: Client) -> None:
    trips = client.table("public.trips")
    queries: dict[str, Callable[[], pa.Table]] = {
        "SELECT station, minutes FROM public.trips WHERE minutes > 150": lambda: trips.scan(
            ["station", "minutes"], filter="minutes > 150"
        ).to_arrow(),
        f"SELECT count(*) FROM public.trips AT (VERSION => {SNAPSHOT_BEFORE_DELETE})": (  # noqa: S608
            lambda: pa.table({"count": [trips.scan(version=SNAPSHOT_BEFORE_DELETE).count()]})
        ),
        f"SELECT {', '.join(_SNAPSHOT)} FROM lakeport.snapshots()": lambda: (  # noqa: S608
            client.call_table("lakeport.snapshots").select(*_SNAPSHOT).to_arrow()
        ),
    }
    for sql, run in queries.items():
        _show(console, sql, run)


def _show_write(console: Console, client: Client) -> None:
    """Insert a row, and show the snapshot that it made."""
    stations = client.table("public.stations")
    new = [{"name": "Ferry Pier", "docks": 16}]
    call = "CALL lakeport.set_commit_message('demo', 'a new station')"
    _show(
        console,
        call,
        client.call_table("lakeport.set_commit_message", "demo", "a new station").to_arrow,
    )
    _show(
        console,
        "INSERT INTO public.stations VALUES ('Ferry Pier', 16) RETURNING *",
        lambda: stations.insert(new, returning=True).returning or pa.table({}),
    )
    _show(
        console,
        f"SELECT {', '.join(_SNAPSHOT)} FROM lakeport.snapshots() ORDER BY 1 DESC LIMIT 1",  # noqa: S608
        lambda: _last(client.call_table("lakeport.snapshots").select(*_SNAPSHOT).to_arrow()),
    )


def _last(rows: pa.Table) -> pa.Table:
    return rows.slice(max(rows.num_rows - 1, 0))


def _show(console: Console, sql: str, run: Callable[[], pa.Table]) -> None:
    began = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - began
    summary = f"[dim]{counted(result.num_rows, 'row')}, {seconds:.3f} s[/dim]"
    console.print(f"\n[bold]{sql}[/bold]   {summary}", highlight=False, soft_wrap=True)
    show_rows(console, result.to_reader(), max_rows=_ROWS_SHOWN, note="and so on")


_EXAMPLE_QUERIES = [
    "SELECT station, count(*) AS trips, avg(minutes) AS minutes",
    "FROM demo.public.trips GROUP BY station ORDER BY trips DESC;",
    f"SELECT count(*) FROM demo.public.trips AT (VERSION => {SNAPSHOT_BEFORE_DELETE});",  # noqa: S608
    "INSERT INTO demo.public.stations VALUES ('Ferry Pier', 16);",
]
