"""Lakeport beside its peers, on the same rows: `make bench-peers`.

    python -m benchmarks.peers PYTHON_OF_THE_PEERS [--scale 0.1] [--rounds 5]

Every peer has a process of its own. The processes take turns, a read each in every round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.lineitem import LINEITEM, LINEITEM_DELETED, lineitem_lake, one_file
from benchmarks.measure import Sample
from lakeport.ducklake import Lake, LocalEngine
from lakeport.filters import col

__all__ = ["main"]

_PEER: Final = Path(__file__).with_name("peer.py")
_OF_LAKES: Final = ("lakeport", "duckdb", "ducklake-dataframe", "ducklake-sdk")
_ELSEWHERE: Final = frozenset({"ducklake-dataframe", "ducklake-sdk", "deltalake"})
_READS: Final = {"all": "all rows, 16 columns", "one": "the rows of one order"}
_WRITE_DELTA: Final = (
    "import sys, pyarrow.dataset as ds; from deltalake import write_deltalake;"
    " write_deltalake(sys.argv[1], ds.dataset(sys.argv[2:]).to_table())"
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-peers", description="Measure the peers.")
    parser.add_argument("python", help="the interpreter of the environment with the peers")
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    uri = lineitem_lake(arguments.scale)
    first, last = one_file(arguments.scale)
    with Lake.open(uri, engine=LocalEngine()) as lake:
        paths = [file.path for file in lake.table(LINEITEM).files()]
        # Not every number is the key of an order.
        keys = lake.table(LINEITEM_DELETED).scan(
            ["l_orderkey"], col("l_orderkey").between(first, last)
        )
        key = int(keys.to_arrow()["l_orderkey"][0].as_py())
    with tempfile.TemporaryDirectory() as folder:
        delta = str(Path(folder, "delta"))
        command = [arguments.python, "-c", _WRITE_DELTA, delta, *paths]
        subprocess.run(command, check=True)
        whole = dict.fromkeys(_OF_LAKES, uri)
        whole |= {"deltalake": delta, "pyspark": ",".join(paths)}
        for table, peers in ((LINEITEM, whole), (LINEITEM_DELETED, dict.fromkeys(_OF_LAKES, uri))):
            title = f"{table}, scale factor {arguments.scale:g}, {arguments.rounds} rounds"
            with _running(peers, table, key, arguments.python) as processes:
                console.print(_table(title, processes, arguments.rounds))


@contextmanager
def _running(
    peers: dict[str, str], table: str, key: int, python: str
) -> Iterator[dict[str, subprocess.Popen[str]]]:
    pipe = subprocess.PIPE
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                subprocess.Popen(
                    [
                        *([python] if name in _ELSEWHERE else [sys.executable]),
                        str(_PEER),
                        name,
                        location,
                        table,
                        str(key),
                    ],
                    stdin=pipe,
                    stdout=pipe,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    env=None if name in _ELSEWHERE else _environment(),
                )
            )
            for name, location in peers.items()
        }


def _environment() -> dict[str, str]:
    """Return the environment of peers that import `benchmarks`."""
    root = str(Path(__file__).parents[1])
    found = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": root if not found else f"{root}{os.pathsep}{found}"}


def _table(title: str, processes: dict[str, subprocess.Popen[str]], rounds: int) -> Table:
    table = Table("peer", *(f"{text}: median" for text in _READS.values()), "rows", title=title)
    times: dict[tuple[str, str], list[float]] = {}
    rows: dict[str, dict[str, Any]] = {name: {} for name in processes}
    for read in _READS:
        # The first round is a warm-up, and not counted.
        for number in range(rounds + 1):
            order = list(processes.items())
            for name, process in order if number % 2 else reversed(order):
                reply = _ask(process, read)
                if "error" in reply:
                    rows[name][read] = reply["error"]
                    continue
                rows[name][read] = reply["rows"]
                if number:
                    times.setdefault((name, read), []).append(reply["seconds"])
    for name, process in processes.items():
        process.stdin.close()  # type: ignore[union-attr]
        cells = [_cell(times.get((name, read)), times.get(("lakeport", read))) for read in _READS]
        table.add_row(name, *cells, ", ".join(str(value) for value in rows[name].values()))
    return table


def _ask(process: subprocess.Popen[str], read: str) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(f"{read}\n")
        process.stdin.flush()
        line = process.stdout.readline()
    except BrokenPipeError:
        line = ""
    reply: dict[str, Any] = json.loads(line) if line else {"error": "the process ended"}
    return reply


def _cell(seconds: list[float] | None, ours: list[float] | None) -> str:
    """Return a median, and how many times Lakeport's it is."""
    if not seconds or not ours:
        return "none"
    median, own = Sample(tuple(seconds)).median, Sample(tuple(ours)).median
    return f"{median * 1000:,.0f} ms ({median / own:.2f} times)"


if __name__ == "__main__":
    main()
