"""The `lakeport` command and what its subcommands share."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lakeport._version import __version__
from lakeport.cli.commands.access import access
from lakeport.cli.commands.console import console
from lakeport.cli.commands.demo import demo
from lakeport.cli.commands.doctor import advise, doctor
from lakeport.cli.commands.inspect import inspect
from lakeport.cli.commands.maintain import maintain
from lakeport.cli.commands.ps import kill, ps
from lakeport.cli.commands.query import query
from lakeport.cli.commands.serve import serve
from lakeport.cli.commands.sql import sql
from lakeport.cli.commands.token import token
from lakeport.errors import LakeportError

__all__ = ["app", "main"]


class _Commands(TyperGroup):
    """Commands whose errors are one sentence and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except LakeportError as error:
            typer.secho("lakeport: ", fg="red", nl=False, err=True)
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None


app = typer.Typer(
    name="lakeport",
    cls=_Commands,
    help="An airport for your lake: attach tables and functions to DuckDB over Arrow Flight.",
    epilog="Exit codes: 0 done, 1 an error in one sentence, 2 a wrong call, 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
_COMMANDS = (
    *(serve, demo, inspect, sql, query, console),
    *(maintain, doctor, advise, ps, kill, access),
)
for command in _COMMANDS:
    app.command()(command)
app.add_typer(token)


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
    """Run the command line."""
    app()
