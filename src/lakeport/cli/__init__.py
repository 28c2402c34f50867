"""The command line: `lakeport serve | demo | inspect | sql | query`."""

from lakeport.cli.app import main

__all__ = ["main"]
