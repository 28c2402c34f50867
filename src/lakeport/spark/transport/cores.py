"""Which scans wait for a core of Spark, and which release one.

Spark gives a core that becomes free to small scans first, by the pools of its fair scheduler. But
it never preempts a task, and a task of a large scan may hold a core for seconds. So a small scan
that finds all cores busy requests one: the next large scan that has sent a batch ends its Spark
task, and reads the rest later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["LARGE_POOLS", "SMALL_POOL", "Cores", "write_pools"]

SMALL_POOL: Final = "lakeport-small"
# Spark keeps a scheduler pool for every name it ever saw, so the names are few and reused.
LARGE_POOLS: Final = tuple(f"lakeport-{number}" for number in range(64))

# Of the cores that become free, small scans get the first one and eight of nine others.
_POOLS: Final = f"""<?xml version="1.0"?>
<allocations>
  <pool name="{SMALL_POOL}">
    <schedulingMode>FAIR</schedulingMode>
    <weight>8</weight>
    <minShare>1</minShare>
  </pool>
</allocations>
"""

# A core that is released before the small scan is in Spark's queue goes to another large scan.
_QUEUE_SECONDS: Final = 0.01
# How long a core takes to become free after it was requested.
_RELEASE_SECONDS: Final = 0.1


def write_pools(folder: Path) -> str:
    """Write the file of Spark's scheduler pools; return its address."""
    file = folder / "pools.xml"
    file.write_text(_POOLS)
    return file.as_uri()


class Cores:
    """The cores of one Spark context, as far as scans use them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._sending = 0
        self._waiting: dict[str, float] = {}
        """Small scans that have no core yet, and when each may request one."""

    @contextmanager
    def waiting(self, scan: str) -> Iterator[None]:
        """Request a core while a small scan has none."""
        with self._lock:
            self._waiting[scan] = time.monotonic() + _QUEUE_SECONDS
        try:
            yield
        finally:
            with self._lock:
                self._waiting.pop(scan, None)

    @contextmanager
    def sending(self, scan: str) -> Iterator[None]:
        """Count a running Spark task: its scan has a core."""
        with self._lock:
            self._sending += 1
            self._waiting.pop(scan, None)
        try:
            yield
        finally:
            with self._lock:
                self._sending -= 1

    def is_wanted(self) -> bool:
        """Return whether the caller must release its core; each request is for one core."""
        if not self._waiting:
            return False
        now = time.monotonic()
        with self._lock:
            if self._sending < self._count:
                return False
            for scan, due in self._waiting.items():
                if due <= now:
                    self._waiting[scan] = now + _RELEASE_SECONDS
                    return True
        return False
