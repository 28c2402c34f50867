"""Turns of the threads that decode files, so that small scans do not wait for large ones.

A thread takes a turn for each item that it reads. Of the threads that wait, the one goes first
whose scan has had the fewest turns; every fourth time the one that has waited longest, so that no
scan stands still.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

__all__ = ["LOCAL_TURNS", "REMOTE_TURNS", "Turns"]

_POLL_SECONDS: Final = 0.1
_LONGEST_WAITING_EVERY: Final = 4


@dataclass(slots=True, eq=False)
class _Waiting:
    """A thread that waits for its turn."""

    had: int
    granted: threading.Event = field(default_factory=threading.Event)


class Turns:
    """At most `count` threads have a turn at the same time."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        # Guarded by the lock.
        self._free = count
        self._waiting: list[_Waiting] = []
        self._grants = 0

    def take(self, had: int, is_ended: Callable[[], bool]) -> bool:
        """Wait for a turn of a scan that has had some; return False if the scan has ended."""
        with self._lock:
            if self._free and not self._waiting:
                self._free -= 1
                return True
            waiting = _Waiting(had)
            self._waiting.append(waiting)
        while not waiting.granted.wait(_POLL_SECONDS):
            if is_ended():
                with self._lock:
                    if not waiting.granted.is_set():
                        self._waiting.remove(waiting)
                        return False
                return True
        return True

    def give_back(self) -> None:
        """End a turn; the next thread begins its own."""
        with self._lock:
            if not self._waiting:
                self._free += 1
                return
            self._grants += 1
            # The list is in the order of arrival.
            longest = self._grants % _LONGEST_WAITING_EVERY == 0
            chosen = self._waiting[0] if longest else min(self._waiting, key=lambda w: w.had)
            self._waiting.remove(chosen)
            chosen.granted.set()


_CORES: Final = os.cpu_count() or 1

# More threads than cores would make every scan slower, and small ones most of all.
LOCAL_TURNS: Final = Turns(max(2, _CORES))
# Threads that read from an object store mostly wait for it.
REMOTE_TURNS: Final = Turns(max(16, 4 * _CORES))
