"""The command line: `lakeport serve | demo | inspect | sql | query`."""

from __future__ import annotations

import sys
from contextlib import ExitStack

from lakeport.cli.arrow_memory import bounded_arrow_memory
from lakeport.errors import DefinitionError

__all__ = ["main"]

_SERVERS = (["serve"], ["demo"])


def main() -> None:
    """Run the command line."""
    # The limit must be set before Arrow is loaded, so the commands are imported inside.
    with ExitStack() as stack:
        if sys.argv[1:2] in _SERVERS:
            try:
                stack.enter_context(bounded_arrow_memory())
            except DefinitionError as error:
                sys.exit(f"lakeport: {error}")
        from lakeport.cli import app
    app.main()
