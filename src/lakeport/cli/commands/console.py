"""`lakeport console`: lakes in the browser, without a server that others can reach."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from lakeport.airport.server import Server, serve_until_signalled
from lakeport.cli.arguments import (
    by_name,
    default_name,
    parse_argument,
    resolve_uri,
    storage_of,
)
from lakeport.cli.output import make_console
from lakeport.console import ServerAddress, serve_console
from lakeport.errors import DefinitionError
from lakeport.lakehouse import LakeCatalog
from lakeport.observability import split_address

__all__ = ["DEFAULT_CONSOLE", "console"]

DEFAULT_CONSOLE = "127.0.0.1:8816"
"""Where consoles listen unless another address is given."""


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

        serve_until_signalled(server, ready=announce)
