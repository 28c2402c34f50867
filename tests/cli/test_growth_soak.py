"""A hundred clients for a while: the memory of the server, its JVM and its workers does not grow.

`LAKEPORT_SOAK_SECONDS=600 pytest tests/cli/test_growth_soak.py` runs it. It is skipped below three
minutes: caches and allocators have not settled by then, and the figure would mean nothing.
"""

from __future__ import annotations

import os
import signal
import statistics
import threading
import time
from contextlib import suppress

import psutil
import pytest

from tests.cli.processes import Serving, serving
from tests.cli.test_soak import MIB, Crowd, lake
from tests.wait import TIMEOUT_SECONDS

__all__ = ["lake"]

SECONDS = float(os.environ.get("LAKEPORT_SOAK_SECONDS", "8"))
CLIENTS = 100
SETTLING = 60.0
GROWTH = 1.05


@pytest.mark.skipif(SECONDS < 180, reason="needs LAKEPORT_SOAK_SECONDS of at least 180")
@pytest.mark.timeout(600 + 2 * SECONDS)
def test_memory_does_not_grow_under_a_hundred_clients(lake: str) -> None:
    options = ["--master", "local[2]", "--drain", "20", "--log-level", "error"]
    with serving(lake, *options) as server:
        crowd = Crowd(server.location)
        threads = [threading.Thread(target=crowd.run, args=(n,)) for n in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            watch(server, SETTLING)
            memory = watch(server, SECONDS - SETTLING)
            crowd.ending.set()
        finally:
            crowd.stop.set()
            for thread in threads:
                thread.join(TIMEOUT_SECONDS)
        server.send(signal.SIGTERM)
        assert server.wait() == 0

    assert crowd.wrong == []
    assert crowd.outcomes["answered in time"] > CLIENTS // 2
    part = max(len(memory) // 4, 1)
    first, last = statistics.median(memory[:part]), statistics.median(memory[-part:])
    report = f"{first / MIB:.0f} → {last / MIB:.0f} MiB, {dict(crowd.outcomes)}"
    assert last < first * GROWTH, report


def watch(server: Serving, seconds: float) -> list[int]:
    """The memory of the server and of its children, again and again."""
    end = time.monotonic() + seconds
    found: list[int] = []
    while not found or time.monotonic() < end:
        found.append(sum(_own_memory(process) for process in _family(server)))
        threading.Event().wait(0.5)
    return found


def _family(server: Serving) -> list[psutil.Process]:
    process = psutil.Process(server.process.pid)
    return [process, *process.children(recursive=True)]


def _own_memory(process: psutil.Process) -> int:
    # Pages that several processes share count once.
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        return int(process.memory_full_info().pss)
    return 0
