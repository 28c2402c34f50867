"""`lakeport demo`: a small lake, served and queried, to see what this is about."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console

from lakeport._wording import counted
from lakeport.airport import Server
from lakeport.airport.client import Client, connect
from lakeport.airport.lifetime import leave, serve_until_signalled
from lakeport.airport.listening import check_listening
from lakeport.cli.banner import attach_sql, show_served, show_sql
from lakeport.cli.catalogs import Catalogs
from lakeport.cli.config import LakeSettings, SparkSettings
from lakeport.cli.demo_lake import BEFORE_DELETE, make_lake
from lakeport.cli.output import make_console, show_rows
from lakeport.cli.places import listening_location
from lakeport.errors import DefinitionError

__all__ = ["demo"]

_ROWS_SHOWN = 7
_SNAPSHOT = ("snapshot_id", "snapshot_time", "changes")


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
    """Make a small lake, serve it, run three queries, and show how to attach it from DuckDB.

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
            lakes = {"demo": LakeSettings(uri=str(make_lake(folder.resolve())), name="demo")}
        catalogs = stack.enter_context(Catalogs(SparkSettings(master=master)))
        opened = catalogs.open(lakes)
        server = stack.enter_context(Server(opened, location=location))
        show_served(console, server, opened, lakes)
        with connect(server.location, catalog="demo") as client:
            with console.status("Starting the workers of Spark …"):
                client.table("public.trips").scan(limit=1).to_arrow()
            _show_queries(console, client)
        show_sql(console, [*attach_sql(server.location, lakes), *_QUERY])
        finished = once or serve_until_signalled(
            server, ready=lambda: console.print("Serving; Ctrl-C ends it.", style="dim")
        )
    if not finished:
        leave()


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
        f"SELECT count(*) FROM public.trips AT (VERSION => {BEFORE_DELETE})": lambda: pa.table(  # noqa: S608
            {"count": [trips.scan(version=BEFORE_DELETE).count()]}
        ),
        f"SELECT {', '.join(_SNAPSHOT)} FROM lakeport.snapshots()": lambda: (  # noqa: S608
            client.call_table("lakeport.snapshots").select(*_SNAPSHOT).to_arrow()
        ),
    }
    for sql, run in queries.items():
        began = time.perf_counter()
        result = run()
        seconds = time.perf_counter() - began
        told = f"[dim]{counted(result.num_rows, 'row')}, {seconds:.3f} s[/dim]"
        console.print(f"\n[bold]{sql}[/bold]   {told}", highlight=False, soft_wrap=True)
        show_rows(console, result.to_reader(), most=_ROWS_SHOWN, note="and so on")


_QUERY = [
    "SELECT station, count(*) AS trips, avg(minutes) AS minutes",
    "FROM demo.public.trips GROUP BY station ORDER BY trips DESC;",
    f"SELECT count(*) FROM demo.public.trips AT (VERSION => {BEFORE_DELETE});",  # noqa: S608
]
