"""`lakeport console`: lakes in the browser, without a server that others can reach."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated, Final

import typer

from lakeport.airport.server import Server, exit_immediately, serve_until_signalled
from lakeport.cli.arguments import (
    by_name,
    default_name,
    parse_argument,
    resolve_uri,
    storage_of,
)
from lakeport.cli.output import make_console
from lakeport.console import Console, ServerAddress, serve_console
from lakeport.errors import DefinitionError
from lakeport.lakehouse import LakeCatalog
from lakeport.observability import split_address

__all__ = ["DEFAULT_CONSOLE", "EndingConsole", "console"]

DEFAULT_CONSOLE = "127.0.0.1:8816"
"""Where consoles listen unless another address is given."""

# Only pages of the console use the server, and they have been closed by then.
_DRAIN_SECONDS: Final = 2.0


class EndingConsole:
    """A server with a console, which is closed first: its queries end, its pages disconnect."""

    def __init__(self, server: Server, console: Console | None) -> None:
        self._server = server
        self._console = console

    def drain(self, limit: float) -> bool:
        """Close the console, then drain the server; return whether everything has finished."""
        is_closed = self._console is None or self._console.end()
        return self._server.drain(limit) and is_closed


def console(
    lakes: Annotated[
        list[str],
        typer.Argument(
            metavar="LAKE", help="'ducklake:…', 'postgresql://…', a database file, or '@file'."
        ),
    ],
    listen: Annotated[
        str, typer.Option(help="Host and port of the page; port 0 picks a free one.")
    ] = DEFAULT_CONSOLE,
) -> None:
    """Show lakes in the browser: tables, files, history, queries.

    Only this machine can reach the page unless --listen gives another address; anybody who
    reaches it sees the whole lake. `lakeport serve --console` asks for tokens.

    For example:

      lakeport console meta.ducklake
    """
    settings = by_name([parse_argument(lake) for lake in lakes])
    if not settings:
        raise DefinitionError("no lake given: pass a LAKE")
    host, port = split_address(listen)
    with ExitStack() as stack:
        catalogs = {
            name or default_name(lake.uri): stack.enter_context(
                LakeCatalog(resolve_uri(lake.uri), storage=storage_of(lake))
            )
            for name, lake in settings.items()
        }
        server = stack.enter_context(Server(catalogs))
        address = ServerAddress(location=server.location)
        page = stack.enter_context(serve_console(address, host=host, port=port))

        def announce() -> None:
            make_console().print(f"The console is at {page.url}", highlight=False)

        ending = EndingConsole(server, page)
        finished = serve_until_signalled(ending, ready=announce, drain=_DRAIN_SECONDS)
    if not finished:
        exit_immediately()
