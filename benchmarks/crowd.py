"""A small query beside clients that stop reading and clients that read everything, again and again.

    python -m benchmarks.crowd LOCATION --stalled N --greedy N

is the crowd, in a process of its own: it prints a line when it is there, and stays until its input
ends.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from benchmarks.lineitem import LINEITEM, lineitem_lake, one_file
from benchmarks.measure import Figure, Goal, Sample, latencies
from benchmarks.servers import running
from lakeport import Client, col, connect

__all__ = ["small_query"]

_TABLE: Final = f"public.{LINEITEM}"
_WARM_UP_SCANS: Final = 25
# What the crowd reads at first settles: stalled clients are paused, Java has compiled its part.
_SETTLING: Final = 10.0


def small_query(*, scale: float, stalled: int, greedy: int, repeats: int) -> Iterator[Figure]:
    """One order of lineitem through the server, alone and beside a crowd."""
    uri = lineitem_lake(scale)
    key, _ = one_file(scale)
    with running("lake", lake=uri) as location, connect(location) as client:
        served = client.table(_TABLE)

        def ask() -> int:
            found = served.scan(["l_comment"], filter=col("l_orderkey") == key).to_arrow()
            return int(found.num_rows)

        before = latencies(ask, repeats=repeats, warmups=_WARM_UP_SCANS)
        with _crowd(location, stalled=stalled, greedy=greedy):
            beside = latencies(ask, repeats=repeats)
        after = latencies(ask, repeats=repeats)
    # Half from before and half from after, so that a machine that became slower counts for both.
    alone = Sample((*before.seconds[::2], *after.seconds[1::2]))
    for label, percent in (("median", 50), ("95th percentile", 95)):
        yield _figure(label, percent, beside, alone, f"{stalled} stalled and {greedy} greedy")


def _figure(label: str, percent: int, beside: Sample, alone: Sample, crowd: str) -> Figure:
    base = alone.percentile(percent)
    parts = [part.percentile(percent) / base for part in beside.fifths()]
    return Figure(
        name=f"one order of lineitem beside {crowd} clients, {label}",
        value=beside.percentile(percent) / base,
        low=min(parts),
        high=max(parts),
        unit="share",
        baseline=f"the same alone: {base * 1000:.0f} ms",
        goal=Goal(3.0, "less than") if percent == 50 else None,
        samples={"measured": beside, "baseline": alone},
    )


@contextmanager
def _crowd(location: str, *, stalled: int, greedy: int) -> Iterator[None]:
    """Run the crowd in another process."""
    options = ["--stalled", str(stalled), "--greedy", str(greedy)]
    command = [sys.executable, "-m", "benchmarks.crowd", location, *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        if not process.stdout.readline():
            raise RuntimeError("the crowd did not come")
        time.sleep(_SETTLING)
        try:
            yield
        finally:
            process.stdin.close()


def _stall(client: Client, stack: ExitStack) -> object:
    """Read one batch and no more, as long as the process lives."""
    reader = stack.enter_context(client.table(_TABLE).scan().to_reader())
    return reader, reader.read_next_batch()


def _devour(client: Client, has_begun: threading.Event) -> None:
    """Read everything, again and again."""
    while True:
        for _ in client.table(_TABLE).scan().to_reader():
            has_begun.set()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("location")
    parser.add_argument("--stalled", type=int, required=True)
    parser.add_argument("--greedy", type=int, required=True)
    arguments = parser.parse_args()
    with ExitStack() as stack:

        def client() -> Client:
            return stack.enter_context(connect(arguments.location))

        held = [_stall(client(), stack) for _ in range(arguments.stalled)]
        begun = [threading.Event() for _ in range(arguments.greedy)]
        for event in begun:
            threading.Thread(target=_devour, args=(client(), event), daemon=True).start()
        for event in begun:
            event.wait()
        print(f"{len(held)} stalled, {len(begun)} greedy", flush=True)
        sys.stdin.read()
        # At once: threads that read and streams that stand still would hold an orderly end up.
        os._exit(0)


if __name__ == "__main__":
    main()
