"""`python -m lakeport` is the `lakeport` command."""

from __future__ import annotations

from lakeport.cli import main

main()
