"""The `lakeport` command and what its subcommands share."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from lakeport import __version__
from lakeport.cli import demo, serve
from lakeport.errors import LakeportError

__all__ = ["main"]

app = typer.Typer(
    name="lakeport",
    help="An airport for your lake: attach tables and functions to DuckDB over Arrow Flight.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command("serve")(serve.serve)
app.command("demo")(demo.demo)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"lakeport {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; an error of ours is one sentence and exit code 1."""
    try:
        app()
    except LakeportError as error:
        Console(stderr=True).print(f"[red]lakeport:[/red] {error}", highlight=False)
        sys.exit(1)
