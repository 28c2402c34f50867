"""The driver's memory while a scan runs: `python -m benchmarks.memory URI REPEATS`.

A process of its own, so that nothing but the scan is in it. Prints one line of JSON: by how many
bytes the resident memory of Python and of its JVM rose above where it was before each scan.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from typing import Final

import psutil

from benchmarks.lineitem import LINEITEM
from lakeport import Lake
from lakeport.spark import session

_INTERVAL: Final = 0.02


class Watch:
    """Looks at the resident memory of processes until it is told to stop."""

    def __init__(self, processes: dict[str, psutil.Process]) -> None:
        self._processes = processes
        self._idle = self._sizes()
        self._peaks = dict(self._idle)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> dict[str, int]:
        """How far each process rose above its first size."""
        self._done.set()
        self._thread.join()
        return {name: peak - self._idle[name] for name, peak in self._peaks.items()}

    def _run(self) -> None:
        while not self._done.wait(_INTERVAL):
            for name, size in self._sizes().items():
                self._peaks[name] = max(self._peaks[name], size)

    def _sizes(self) -> dict[str, int]:
        return {name: each.memory_info().rss for name, each in self._processes.items()}


class WorkerWatch:
    """Looks at the memory that Spark's Python workers of this process have for themselves."""

    def __init__(self) -> None:
        self._driver = psutil.Process()
        self._peak = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """Return the most that all workers had together."""
        self._done.set()
        self._thread.join()
        return self._peak

    def _run(self) -> None:
        while not self._done.wait(_INTERVAL):
            size = 0
            for each in self._driver.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    size += each.memory_full_info().uss if "python" in each.name() else 0
            self._peak = max(self._peak, size)


def main() -> None:
    uri, repeats = sys.argv[1], int(sys.argv[2])
    spark = session("local[*,4]")
    driver = psutil.Process()
    java = next(each for each in driver.children(recursive=True) if "java" in each.name())
    result: dict[str, list[int]] = {"python": [], "java": []}
    total = 0
    with Lake.open(uri, spark=spark) as lake:
        table = lake.table(LINEITEM)
        table.scan(filter="l_orderkey < 100").to_arrow()
        for _ in range(repeats):
            watch = Watch({"python": driver, "java": java})
            total = sum(batch.nbytes for batch in table.scan().to_batches())
            for name, peak in watch.stop().items():
                result[name].append(peak)
    spark.stop()
    print(json.dumps({**result, "bytes": total}), flush=True)


if __name__ == "__main__":
    main()
