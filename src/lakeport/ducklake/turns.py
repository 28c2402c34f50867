"""Turns of the threads that decode files, so that small scans do not wait for large ones.

A thread takes a turn for each item that it reads. Of the threads that wait, the one goes first
whose scan has had the fewest turns; every fourth time the one that has waited longest, so that no
scan stands still. Large scans leave a part of the turns free while another caller has small ones:
beside threads on all cores, a small scan would wait for a core in each of its steps, not only here.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from lakeport._sharing import CALLER

__all__ = ["LOCAL_TURNS", "REMOTE_TURNS", "ScanTurns", "Turns"]

_POLL_SECONDS: Final = 0.1
_LONGEST_WAITING_EVERY: Final = 4

# A scan is small if it reads less; its caller may have more of them soon.
_LARGE_BYTES: Final = 4 * 1024 * 1024
_REMEMBERED_SECONDS: Final = 1.0
# One turn in four, and at least one, is not for large scans.
_RESERVED_SHARE: Final = 4


@dataclass(slots=True, eq=False)
class ScanTurns:
    """The turns of one scan."""

    bytes_to_read: int = 0
    caller: str = field(default_factory=CALLER.get)
    # Several threads count: a turn that is missed in the count makes no difference.
    had: int = 0

    @property
    def is_large(self) -> bool:
        """Whether the scan leaves turns to small ones."""
        return self.bytes_to_read >= _LARGE_BYTES


@dataclass(slots=True, eq=False)
class _Waiting:
    """A thread that waits for its turn."""

    scan: ScanTurns
    granted: threading.Event = field(default_factory=threading.Event)


class Turns:
    """At most `count` threads have a turn at the same time."""

    def __init__(self, count: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._reserved = min(count - 1, max(1, count // _RESERVED_SHARE))
        self._clock = clock
        self._lock = threading.Lock()
        # Guarded by the lock.
        self._free = count
        # In the order of arrival.
        self._waiting: list[_Waiting] = []
        self._grants = 0
        self._small_scans: dict[str, float] = {}

    def take(self, scan: ScanTurns, is_ended: Callable[[], bool]) -> bool:
        """Wait for a turn of a scan; return False if the scan has ended."""
        with self._lock:
            if not scan.is_large:
                self._small_scans[scan.caller] = self._clock()
            if self._free and not self._waiting and not self._is_reserved(scan):
                self._free -= 1
                scan.had += 1
                return True
            waiting = _Waiting(scan)
            self._waiting.append(waiting)
            self._grant()
        while not waiting.granted.wait(_POLL_SECONDS):
            with self._lock:
                # Turns that were reserved may no longer be.
                self._grant()
                if is_ended() and not waiting.granted.is_set():
                    self._waiting.remove(waiting)
                    return False
        scan.had += 1
        return True

    def give_back(self) -> None:
        """End a turn; the next thread begins its own."""
        with self._lock:
            self._free += 1
            self._grant()

    def leaves_room(self, scan: ScanTurns) -> bool:
        """Return whether a scan is large and another caller has small ones now."""
        with self._lock:
            return self._leaves_room(scan)

    def _grant(self) -> None:
        """Give the free turns to threads that may have one."""
        while self._free and self._waiting:
            eligible = [each for each in self._waiting if not self._is_reserved(each.scan)]
            if not eligible:
                return
            self._grants += 1
            longest = self._grants % _LONGEST_WAITING_EVERY == 0
            chosen = eligible[0] if longest else min(eligible, key=lambda each: each.scan.had)
            self._waiting.remove(chosen)
            self._free -= 1
            chosen.granted.set()

    def _is_reserved(self, scan: ScanTurns) -> bool:
        """Return whether the free turns are for small scans of other callers."""
        return self._free <= self._reserved and self._leaves_room(scan)

    def _leaves_room(self, scan: ScanTurns) -> bool:
        if not scan.is_large:
            return False
        since = self._clock() - _REMEMBERED_SECONDS
        for caller, last in list(self._small_scans.items()):
            if last < since:
                del self._small_scans[caller]
        return any(caller != scan.caller for caller in self._small_scans)


_CORES: Final = os.cpu_count() or 1

# More threads than cores would make every scan slower, and small ones most of all.
LOCAL_TURNS: Final = Turns(max(2, _CORES))
# Threads that read from an object store mostly wait for it.
REMOTE_TURNS: Final = Turns(max(16, 4 * _CORES))
