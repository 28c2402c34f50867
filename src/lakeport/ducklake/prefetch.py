"""Items of several sources, read by threads ahead of their consumer."""

from __future__ import annotations

import atexit
import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from lakeport._sharing import ONE_CORE
from lakeport.ducklake.turns import LOCAL_TURNS, ScanTurns, Turns

__all__ = ["Prefetch"]

# How soon a thread notices that its reader was dropped.
_POLL_SECONDS: Final = 0.1
_EXIT_TIMEOUT_SECONDS: Final = 5.0

# How many bytes wait for the first item to be taken; each item that is taken doubles it.
_FIRST_WINDOW_BYTES: Final = 1024 * 1024

Source: TypeAlias = Callable[[], Iterable[Any]]


class Prefetch:
    """Reads the items of sources in threads, and yields them in the order of the sources.

    Without threads, the consumer reads them itself. The threads pause while `max_bytes` wait; at
    first, while fewer wait, because a consumer that stops after some rows needs no more. The source
    that the consumer waits for may always add an item, so the ones after it cannot take its room.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        threads: int,
        max_bytes: int,
        turns: Turns = LOCAL_TURNS,
        *,
        bytes_to_read: int = 0,
    ) -> None:
        self._sources = sources
        self._turns = turns
        self._own_turns = ScanTurns(bytes_to_read)
        self._threads = threads
        self._max_bytes = max_bytes
        self._window = min(max_bytes, _FIRST_WINDOW_BYTES)
        # Guards what follows, and is notified of every change.
        self._changed = threading.Condition()
        self._queues: list[deque[Any]] = [deque() for _ in sources]
        self._done = [False] * len(sources)
        self._numbers = itertools.count()
        self._current = 0
        self._waiting_bytes = 0
        self._error: BaseException | None = None
        self._ended = False
        self._running: list[threading.Thread] = []

    def items(self) -> Generator[Any]:
        """Yield the items of all sources, one source after the other."""
        try:
            yield from self._here() if not self._threads else self._from_threads()
        finally:
            self.end()

    def end(self) -> None:
        """Stop reading, from any thread; may be called again."""
        # The garbage collector calls this when a reader is dropped, in any line of any thread, also
        # of one that holds the lock. So it takes no lock, and the threads look for it.
        self._ended = True

    def join(self, seconds: float) -> None:
        """Wait until the threads have ended."""
        for thread in self._running:
            thread.join(seconds)

    def _here(self) -> Iterator[Any]:
        for source in self._sources:
            items = iter(source())
            while (item := self._read_next(items)) is not _END:
                if self._ended:
                    return
                yield item

    def _from_threads(self) -> Iterator[Any]:
        _reading.add(self)
        for number in range(self._threads):
            thread = threading.Thread(
                target=self._work, name=f"lakeport-local-{number}", daemon=True
            )
            self._running.append(thread)
            thread.start()
        while (item := self._take()) is not _END:
            yield item

    def _take(self) -> Any:
        """Wait for the next item, or for the end."""
        with self._changed:
            while True:
                if self._error is not None:
                    raise self._error
                if self._ended or self._current == len(self._sources):
                    return _END
                queue = self._queues[self._current]
                if queue:
                    item = queue.popleft()
                    self._waiting_bytes -= _size(item)
                    self._window = min(self._max_bytes, 2 * self._window)
                    self._changed.notify_all()
                    return item
                if self._done[self._current]:
                    self._current += 1
                    self._changed.notify_all()
                    continue
                self._changed.wait(_POLL_SECONDS)

    def _work(self) -> None:
        try:
            while not self._ended and (number := next(self._numbers)) < len(self._sources):
                items = iter(self._sources[number]())
                while (item := self._read_next(items)) is not _END:
                    if not self._put(number, item):
                        return
                with self._changed:
                    self._done[number] = True
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001
            # The consumer raises it.
            with self._changed:
                self._error = self._error or error
                self._changed.notify_all()

    def _read_next(self, items: Iterator[Any]) -> Any:
        """Return the next item of a source, or the end, when it is this scan's turn."""
        if not self._turns.take(self._own_turns, lambda: self._ended):
            return _END
        one_core = ONE_CORE.set(self._turns.leaves_room(self._own_turns))
        try:
            return _END if self._ended else next(items, _END)
        finally:
            ONE_CORE.reset(one_core)
            self._turns.give_back()

    def _put(self, number: int, item: Any) -> bool:
        """Add an item when there is room for it; return whether more are wanted."""
        with self._changed:
            while not self._ended and self._error is None:
                is_awaited = number == self._current and not self._queues[number]
                if is_awaited or self._waiting_bytes < self._window:
                    self._queues[number].append(item)
                    self._waiting_bytes += _size(item)
                    self._changed.notify_all()
                    return True
                self._changed.wait(_POLL_SECONDS)
        return False


_END: Final = object()


def _size(item: Any) -> int:
    return item.nbytes if isinstance(item, pa.RecordBatch) else 1


_reading: Final[weakref.WeakSet[Prefetch]] = weakref.WeakSet()


@atexit.register
def _end_reads_at_exit() -> None:
    """End the threads of readers that were left open, before the interpreter is taken apart."""
    reads = tuple(_reading)
    for read in reads:
        read.end()
    for read in reads:
        read.join(_EXIT_TIMEOUT_SECONDS)
