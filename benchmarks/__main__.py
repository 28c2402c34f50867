"""Run the benchmarks, print one table, keep and draw the results.

python -m benchmarks [--size small] [--only doget]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks.charts import draw
from benchmarks.environment import facts
from benchmarks.measure import Skipped
from benchmarks.report import Report
from benchmarks.sessions import stop_session
from benchmarks.suite import SIZES, Benchmark, Result

RESULTS: Final = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure Lakeport.")
    parser.add_argument("--size", choices=sorted(SIZES), default="full")
    parser.add_argument(
        "--only", action="append", choices=sorted(SIZES["full"]), help="only this; nothing is kept"
    )
    arguments = parser.parse_args()
    # Spark's launcher and workers talk on stderr; what they say is no result.
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    console = Console(width=None if sys.stdout.isatty() else 180)
    chosen = {
        name: benchmark
        for name, benchmark in SIZES[arguments.size].items()
        if not arguments.only or name in arguments.only
    }
    report = _run(chosen, arguments.size, console)
    console.print(report.tables())
    if not arguments.only:
        suffix = "" if arguments.size == "full" else f"-{arguments.size}"
        report.save(RESULTS / f"{report.started:%Y-%m-%d}{suffix}.json")
        draw(report, RESULTS / f"latest{suffix}.svg")
    if any(each.failed for each in report.skipped):
        sys.exit(1)


def _run(benchmarks: dict[str, Benchmark], size: str, console: Console) -> Report:
    started, clock = datetime.now(UTC), time.perf_counter()
    machine = facts()
    results: list[tuple[str, Result]] = []
    try:
        for name, benchmark in benchmarks.items():
            begun = time.perf_counter()
            with console.status(f"{name} …"):
                results += _results(name, benchmark, console)
            console.print(f"{name}: {time.perf_counter() - begun:.0f} s", style="dim")
    finally:
        stop_session()
    return Report(
        size=size,
        started=started,
        seconds=time.perf_counter() - clock,
        machine=machine,
        results=tuple(results),
    )


def _results(name: str, benchmark: Benchmark, console: Console) -> list[tuple[str, Result]]:
    """Run a benchmark and return its figures; a failure does not end the others."""
    results: list[tuple[str, Result]] = []
    try:
        results.extend((name, result) for result in benchmark())
    except Exception as error:  # noqa: BLE001
        console.print_exception()
        results.append((name, Skipped(name, f"it failed: {error}", failed=True)))
    return results


if __name__ == "__main__":
    main()
