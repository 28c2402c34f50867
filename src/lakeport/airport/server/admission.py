"""Admission: which calls and scans may run now, by the limits of their callers.

Scans that must wait form one queue for each caller. Whenever a scan ends, the callers take turns,
so one caller with many scans does not delay another with few.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Final

from lakeport._wording import counted
from lakeport.airport.server.connections import Connections
from lakeport.auth import UNLIMITED, CallerLimits, Identity, LimitRules
from lakeport.catalog import current_request
from lakeport.errors import CancelledError, ResourceExhaustedError

__all__ = ["Admission", "ScanBudget"]

_POLL_SECONDS: Final = 0.2
_BURST_SECONDS: Final = 2.0
_MAX_BUCKETS: Final = 10_000

_READ_LESS: Final = "try again with a filter or fewer columns"
_READ_LESS_OR_LATER: Final = f"{_READ_LESS}, or when the server is less busy"


class Admission:
    """Admits calls and scans by the limits of callers."""

    def __init__(
        self, rules: LimitRules | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rules = rules
        self._clock = clock
        # Guards everything below.
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[_Waiter]] = OrderedDict()
        # The calls that a user has left, and when that was computed.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check_call(self, caller: Identity) -> None:
        """Count a call; raise `ResourceExhaustedError` if there are too many in a second."""
        if self._rules is None:
            return
        own, together = self._rules.of(caller), self._rules.together
        with self._lock:
            for key, limits, whose in (
                (f"user {caller.user}", own, "yours"),
                ("together", together, "of all callers"),
            ):
                rate = limits.calls_per_second
                if rate is not None and not self._take(key, rate):
                    raise ResourceExhaustedError(
                        f"the limit of {rate:g} calls a second ({whose}) is reached; try again in "
                        f"{max(1 / rate, 0.1):.1f} seconds"
                    )

    def check_connection(self, caller: Identity, peer: str, connections: Connections) -> None:
        """Raise `ResourceExhaustedError` for the first call of one connection too many."""
        if self._rules is None:
            return
        own, together = self._rules.of(caller).connections, self._rules.together.connections
        if own is not None or together is not None:
            connections.check(peer, caller.user, own=own, together=together)

    def check_transactions(self, caller: Identity, own: int, together: int) -> None:
        """Raise `ResourceExhaustedError` if no more transactions may be opened."""
        if self._rules is None:
            return
        pairs = (
            (own, self._rules.of(caller), "yours"),
            (together, self._rules.together, "of all callers"),
        )
        for count, limits, whose in pairs:
            if limits.transactions is not None and count >= limits.transactions:
                raise ResourceExhaustedError(
                    f"the limit of {counted(limits.transactions, 'open transaction')} ({whose}) is "
                    "reached; try again when one has ended"
                )

    def begin_scan(
        self, caller: Identity, is_cancelled: Callable[[], bool], *, is_immediate: bool = False
    ) -> tuple[ScanBudget, Callable[[], None]]:
        """Wait for the turn of a scan; return its budget, and the function to call at its end.

        An immediate scan has no limits: by it a caller finds and cancels scans that wait.

        Raises:
            ResourceExhaustedError: Too many scans wait.
            CancelledError: The client has disconnected, or the scan was cancelled.
        """
        if self._rules is None or is_immediate:
            return ScanBudget(UNLIMITED, UNLIMITED, self._clock), _nothing
        own, together = self._rules.of(caller), self._rules.together
        waiter = _Waiter(own.scans)
        with self._lock:
            self._check_queue(caller.user, own, together)
            self._waiting.setdefault(caller.user, deque()).append(waiter)
            self._start_next()
        notes = current_request().notes
        notes.progress = lambda: self._position(caller.user, waiter)
        while not waiter.started.wait(_POLL_SECONDS):
            if is_cancelled():
                self._withdraw(caller.user, waiter)
                raise CancelledError(
                    notes.cancelled or "the client disconnected while its scan waited for its turn"
                )
        notes.progress = None
        return ScanBudget(own, together, self._clock), _once(lambda: self._end(caller.user))

    def _position(self, user: str, waiter: _Waiter) -> str:
        """Return how many scans of the caller are before a waiting one; nothing if it runs."""
        with self._lock:
            queue = self._waiting.get(user, ())
            if waiter not in queue:
                return ""
            return f"waits for its turn behind {counted(queue.index(waiter), 'scan')}"

    def _check_queue(self, user: str, own: CallerLimits, together: CallerLimits) -> None:
        """Raise if the next scan would have to wait, and too many wait already."""
        mine = len(self._waiting.get(user, ()))
        every = sum(map(len, self._waiting.values()))
        waits = _is_full(self._running[user] + mine, own.scans) or _is_full(
            self._running.total() + every, together.scans
        )
        for count, limits, whose in ((mine, own, "yours"), (every, together, "of all callers")):
            if waits and _is_full(count, limits.queued_scans):
                limit = counted(limits.queued_scans or 0, "waiting scan")
                raise ResourceExhaustedError(
                    f"the limit of {limit} ({whose}) is reached; try again when one has ended"
                )

    def _start_next(self) -> None:
        """Start scans while there is room; callers take turns."""
        together = UNLIMITED if self._rules is None else self._rules.together
        for user in list(self._waiting):
            if _is_full(self._running.total(), together.scans):
                return
            queue = self._waiting[user]
            if queue and not _is_full(self._running[user], queue[0].limit):
                self._running[user] += 1
                queue.popleft().started.set()
                # The next turn of this caller is after all others.
                self._waiting.move_to_end(user)
            if not queue:
                del self._waiting[user]

    def _end(self, user: str) -> None:
        with self._lock:
            self._running[user] -= 1
            if not self._running[user]:
                del self._running[user]
            self._start_next()

    def _withdraw(self, user: str, waiter: _Waiter) -> None:
        with self._lock:
            if waiter.started.is_set():
                started = True
            else:
                started = False
                self._waiting[user].remove(waiter)
                if not self._waiting[user]:
                    del self._waiting[user]
        if started:
            self._end(user)

    def _take(self, key: str, rate: float) -> bool:
        """Take one call of a bucket that fills with `rate` calls a second."""
        now, size = self._clock(), max(1.0, rate * _BURST_SECONDS)
        left, since = self._buckets.pop(key, (size, now))
        left = min(size, left + (now - since) * rate)
        taken = left >= 1
        self._buckets[key] = (left - 1 if taken else left, now)
        while len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return taken


class ScanBudget:
    """The rows, bytes and seconds that one scan may use."""

    def __init__(
        self, own: CallerLimits, together: CallerLimits, clock: Callable[[], float]
    ) -> None:
        self._rows = _least(own.rows_per_scan, together.rows_per_scan)
        self._bytes = _least(own.bytes_per_scan, together.bytes_per_scan)
        self._seconds = _least(own.scan_seconds, together.scan_seconds)
        self._clock = clock
        self._started = clock()

    def check(self, rows: int, size: int) -> None:
        """Raise `ResourceExhaustedError` if a scan has sent more than it may."""
        for used, limit, unit, advice in (
            (rows, self._rows, "rows", _READ_LESS),
            (size, self._bytes, "bytes", _READ_LESS),
            (self._clock() - self._started, self._seconds, "seconds", _READ_LESS_OR_LATER),
        ):
            if limit is not None and used > limit:
                raise ResourceExhaustedError(
                    f"the limit of {limit:g} {unit} for a scan is reached; {advice}"
                )


class _Waiter:
    """A scan that waits for its turn."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.started = threading.Event()


def _is_full(count: int, limit: int | None) -> bool:
    return limit is not None and count >= limit


def _least(*limits: float | None) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _nothing() -> None:
    pass


def _once(work: Callable[[], None]) -> Callable[[], None]:
    """Return a function that does the work when it is called for the first time."""
    lock = threading.Lock()
    done = False

    def run() -> None:
        nonlocal done
        with lock:
            if done:
                return
            done = True
        work()

    return run
