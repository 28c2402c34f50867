"""`lakeport ps` and `lakeport kill`: what a server runs and ran, and how to end it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from lakeport._wording import size_text
from lakeport.airport.client import Client, connect
from lakeport.cli.arguments import read_certificates, read_token
from lakeport.cli.output import cell, make_console, printable
from lakeport.errors import NotFoundError

__all__ = ["kill", "ps"]

_Location = Annotated[str, typer.Argument(help="The server, such as grpc://127.0.0.1:8815.")]
_Catalog = Annotated[
    str, typer.Option(help="Which lake of the server; any will do, and the first is the default.")
]
_TokenFile = Annotated[
    Path | None,
    typer.Option(help="A file with the bearer token; else the variable LAKEPORT_TOKEN."),
]
_TlsCa = Annotated[
    Path | None, typer.Option(help="Certificates to trust (PEM); the system's by default.")
]


def ps(
    location: _Location,
    catalog: _Catalog = "",
    all_: Annotated[
        bool, typer.Option("--all", "-a", help="Show calls that have ended, too.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    watch: Annotated[
        float | None, typer.Option(min=0.1, help="Repeat every so many seconds, until interrupted.")
    ] = None,
    token_file: _TokenFile = None,
    tls_ca: _TlsCa = None,
) -> None:
    """List the queries that a server runs: who reads what, since when, how far.

    A caller sees its own queries; one who may administer the lake sees all.

    For example:

      lakeport ps grpc://127.0.0.1:8815

      lakeport ps grpc://127.0.0.1:8815 --all --json
    """
    with _connected(location, catalog, token_file, tls_ca) as client:
        while True:
            rows = client.table("lakeport.queries").scan().to_arrow().to_pylist()
            # Neither the scan that made the list nor calls without an object are of interest.
            shown = [
                row
                for row in rows
                if (all_ or row["state"] == "RUNNING")
                and row["table"] not in ("", "lakeport.queries")
            ]
            _show(shown, as_json=as_json)
            if watch is None:
                return
            time.sleep(watch)


def kill(
    location: _Location,
    id: Annotated[str, typer.Argument(help="The id of the query, as `lakeport ps` shows it.")],
    catalog: _Catalog = "",
    token_file: _TokenFile = None,
    tls_ca: _TlsCa = None,
) -> None:
    """End a running query. Its client receives an error; the server frees what it held.

    For example:

      lakeport kill grpc://127.0.0.1:8815 5f0c9a1d2b3e
    """
    with _connected(location, catalog, token_file, tls_ca) as client:
        ended = client.call_table("lakeport.kill", id).to_arrow().to_pylist()
    for row in ended:
        typer.echo(f"{row['id']} on {printable(row['table'])} was cancelled")
    if not ended:
        typer.echo(f"{printable(id)} had already ended")


@contextmanager
def _connected(
    location: str, catalog: str, token_file: Path | None, tls_ca: Path | None
) -> Iterator[Client]:
    token = os.environ.get("LAKEPORT_TOKEN") if token_file is None else read_token(token_file)
    certificates = None if tls_ca is None else read_certificates(tls_ca)
    with connect(location, token=token, tls_root_certs=certificates) as server:
        names = [str(row.get("name", "")) for row in server.databases()]
    if not names:
        raise NotFoundError(f"the server at {location} has no catalog for this caller")
    chosen = catalog or names[0]
    with connect(location, catalog=chosen, token=token, tls_root_certs=certificates) as client:
        yield client


def _show(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row, default=str))
        return
    console = make_console()
    if not rows:
        console.print("no query is running", style="dim")
        return
    table = Table(
        *("id", "state", "who", "what", "table", "snapshot", "engine", "seconds", "rows", "bytes")
    )
    for row in rows:
        what = row["operation"] or ("scan" if row["verb"] == "DoGet" else row["verb"])
        values = (
            row["id"], row["state"], row["identity"], what, row["table"], row["snapshot"],
            row["engine"],
            f"{row['seconds']:.1f}", row["rows_sent"] + row["rows_received"],
            size_text(row["bytes_sent"] + row["bytes_received"]),
        )  # fmt: skip
        table.add_row(*(cell(value) for value in values))
        for note in filter(None, (row["progress"], row["error"])):
            table.add_row("", cell(note))
    console.print(table)
