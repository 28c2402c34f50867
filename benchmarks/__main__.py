"""Run the benchmarks and print one table: `python -m benchmarks [--size small] [--only doget]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial

from rich.console import Console
from rich.table import Table

from benchmarks import lakes, reading, writing
from benchmarks.measure import Figure

Benchmark = Callable[[], Iterator[Figure]]

SIZES: dict[str, dict[str, Benchmark]] = {
    "small": {
        "doget": partial(reading.doget, rows=2_000_000, repeats=5),
        "listing": partial(reading.listing, tables=5_000, repeats=20),
        "discovery": partial(reading.discovery, tables=5_000, repeats=200),
        "insert": partial(writing.insert, rows=1_000_000, repeats=3),
        "plan": partial(lakes.planning, files=(10, 1_000, 20_000), repeats=5),
        "read": partial(lakes.reading, rows=1_000_000, repeats=5),
    },
    "full": {
        "doget": partial(reading.doget, rows=10_000_000, repeats=9),
        "listing": partial(reading.listing, tables=5_000, repeats=50),
        "discovery": partial(reading.discovery, tables=5_000, repeats=1_000),
        "insert": partial(writing.insert, rows=10_000_000, repeats=5),
        "plan": partial(lakes.planning, files=(10, 1_000, 20_000), repeats=20),
        "read": partial(lakes.reading, rows=10_000_000, repeats=7),
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), default="full")
    parser.add_argument("--only", action="append", choices=sorted(SIZES["full"]))
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 150)
    table = Table("measured", "result", "spread", "baseline", "goal", "", title="Lakeport")
    for name, benchmark in SIZES[arguments.size].items():
        if arguments.only and name not in arguments.only:
            continue
        with console.status(f"{name} …"):
            for figure in benchmark():
                mark = {True: "[green]met", False: "[red]missed", None: ""}[figure.met]
                table.add_row(
                    figure.name,
                    figure.value,
                    f"± {figure.spread / 2:.0%}",
                    figure.baseline,
                    figure.goal,
                    mark,
                )
    console.print(table)


if __name__ == "__main__":
    main()
