"""The command line: `lakeport serve | demo`. `lakeport --help` tells the rest."""

from lakeport.cli.app import main

__all__ = ["main"]
