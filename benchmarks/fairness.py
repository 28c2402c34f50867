"""Small scans of one user beside 64 large scans of another, on a server with limits.

    python -m benchmarks.fairness LOCATION --scans N

is the other user, in a process of its own: it prints a line when its first scans have begun, and
reads until its input ends.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from benchmarks.lineitem import LINEITEM, lineitem_lake, one_file
from benchmarks.measure import Figure, Goal, Sample, latencies
from benchmarks.servers import GREEDY, MODEST, running
from lakeport import col, connect

__all__ = ["fairness"]

_TABLE: Final = f"public.{LINEITEM}"
_WARM_UP_SCANS: Final = 10
_RUNNING: Final = 2


def fairness(*, scale: float, scans: int, repeats: int) -> Iterator[Figure]:
    """One order of lineitem for one user, alone and beside the large scans of another."""
    uri = lineitem_lake(scale)
    key, _ = one_file(scale)
    with running("limited", lake=uri) as location, connect(location, token=MODEST) as client:
        table = client.table(_TABLE)

        def ask() -> int:
            found = table.scan(["l_comment"], filter=col("l_orderkey") == key).to_arrow()
            return int(found.num_rows)

        before = latencies(ask, repeats=repeats, warmups=_WARM_UP_SCANS)
        with _large_scans(location, scans):
            beside = latencies(ask, repeats=repeats)
        after = latencies(ask, repeats=repeats)
    # Half from before and half from after, so that a machine that became slower counts for both.
    idle = Sample((*before.seconds[::2], *after.seconds[1::2]))
    parts = [part.percentile(50) / idle.percentile(50) for part in beside.fifths()]
    yield Figure(
        name=f"small scans beside {scans} large scans of another user, median",
        value=beside.percentile(50) / idle.percentile(50),
        low=min(parts),
        high=max(parts),
        unit="share",
        baseline=f"the same on an idle server: {idle.percentile(50) * 1000:.0f} ms",
        goal=Goal(3.0, "less than"),
        samples={"measured": beside, "baseline": idle},
    )


@contextmanager
def _large_scans(location: str, scans: int) -> Iterator[None]:
    """Run the large scans in another process."""
    command = [sys.executable, "-m", "benchmarks.fairness", location, "--scans", str(scans)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        if not process.stdout.readline():
            raise RuntimeError("the large scans did not begin")
        try:
            yield
        finally:
            process.stdin.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("location")
    parser.add_argument("--scans", type=int, required=True)
    arguments = parser.parse_args()
    begun = threading.Semaphore(0)

    def devour() -> None:
        with connect(arguments.location, token=GREEDY) as client:
            while True:
                reader = client.table(_TABLE).scan().to_reader()
                for number, _ in enumerate(reader):
                    if number == 0:
                        begun.release()

    for _ in range(arguments.scans):
        threading.Thread(target=devour, daemon=True).start()
    for _ in range(min(_RUNNING, arguments.scans)):
        begun.acquire()
    print("begun", flush=True)
    sys.stdin.read()
    # At once: threads that wait for their turn would hold an orderly end up.
    os._exit(0)


if __name__ == "__main__":
    main()
