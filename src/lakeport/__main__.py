"""`python -m lakeport` is the `lakeport` command."""

from lakeport.cli import main

main()
