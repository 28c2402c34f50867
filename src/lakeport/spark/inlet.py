"""Where the batches of one scan arrive in the driver: bounded, in order per task, without repeats.

Spark tasks offer batches numbered from zero; a task that is tried again offers the same ones
again, and what was taken already is dropped. A task is complete when it has said how many batches
it had and all of them were taken. An end without that is a failed attempt, never the end of data.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa

from lakeport.catalog import current_request
from lakeport.errors import CancelledError, InternalError, LakeportError, UnavailableError

__all__ = ["Inlet", "PausedError"]


_POLL_SECONDS: Final = 1.0


class PausedError(UnavailableError):
    """The consumer does not read: the task ends and is run again when there is room."""


class Inlet:
    """The batches of one scan between the tasks that send them and the consumer that takes them."""

    def __init__(self, tasks: int, *, max_bytes: int, patience: float) -> None:
        self.secret = secrets.token_hex(16)
        self.patience = patience
        """How many seconds a task that holds a core waits for room."""
        self._max_bytes = max_bytes
        # Guards everything below; waited on by senders for room and by the consumer for batches.
        self._changed = threading.Condition()
        self._batches: deque[tuple[pa.RecordBatch, int]] = deque()
        self._bytes = 0
        self._next = [0] * tasks
        self._incomplete = set(range(tasks))
        self._reasons: dict[int, str] = {}
        self._error: LakeportError | None = None
        self._finished = False
        self._cancelled = False

    def accepts(self, secret: str) -> bool:
        """Whether a sender knows the secret of this scan."""
        return hmac.compare_digest(self.secret, secret)

    def offer(
        self, task: int, number: int, batch: pa.RecordBatch, *, patience: float | None
    ) -> None:
        """Take a batch of a task, unless it was taken before. Waits so many seconds for room."""
        size = max(1, batch.get_total_buffer_size())
        with self._changed:
            if number > self._next[task]:
                raise InternalError(f"batch {number} of scan task {task} came out of order")
            if number < self._next[task]:
                self._check_open()
                return
            if not self._changed.wait_for(self._has_room, timeout=patience):
                raise PausedError("the consumer is not reading")
            self._check_open()
            # Another attempt of the same task may have been quicker meanwhile.
            if number == self._next[task]:
                self._next[task] += 1
                self._batches.append((batch, size))
                self._bytes += size
                self._changed.notify_all()

    def complete(self, task: int, count: int) -> None:
        """A task has sent all of its batches."""
        with self._changed:
            if self._next[task] != count:
                raise InternalError(
                    f"scan task {task} sent {count} batches, {self._next[task]} arrived"
                )
            self._incomplete.discard(task)
            if not self._incomplete:
                self._finished = True
                self._changed.notify_all()

    def explain(self, task: int, reason: str) -> None:
        """Keep why an attempt of a task failed, in its own words."""
        with self._changed:
            self._reasons[task] = reason

    def reason(self) -> str | None:
        """Why the scan failed: the words of a task that was never completed."""
        with self._changed:
            return next((self._reasons[t] for t in self._incomplete if t in self._reasons), None)

    def incomplete(self) -> list[int]:
        """The tasks that are not complete."""
        with self._changed:
            return sorted(self._incomplete)

    def wait_for_room(self) -> bool:
        """Wait until the consumer has read half of what waits; False when the scan is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._cancelled or self._bytes <= self._max_bytes // 2)
            return not self._cancelled

    def fail(self, error: LakeportError) -> None:
        """No more batches will come: the scan failed, unless all of them are there already."""
        with self._changed:
            if not self._finished:
                self._finished = True
                self._error = error
                self._changed.notify_all()

    def cancel(self) -> bool:
        """Nobody wants the rest; True if some of it is still to come. False when told again."""
        with self._changed:
            if self._cancelled:
                return False
            self._cancelled = True
            self._batches.clear()
            self._bytes = 0
            self._changed.notify_all()
            return bool(self._incomplete)

    @property
    def queued_bytes(self) -> int:
        """How many bytes of batches wait for the consumer."""
        return self._bytes

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants the rest."""
        return self._cancelled

    def take_all(self) -> Iterator[pa.RecordBatch]:
        """The batches as they arrive, until the scan ends or fails."""
        while True:
            with self._changed:
                self._wait_until(lambda: bool(self._batches) or self._finished)
                if not self._batches:
                    if self._error is not None:
                        raise self._error
                    return
                batch, size = self._batches.popleft()
                self._bytes -= size
                self._changed.notify_all()
            yield batch

    def _wait_until(self, ready: Callable[[], bool]) -> None:
        """Wait as the consumer does: as long as the client that it answers is there."""
        while not self._changed.wait_for(lambda: ready() or self._cancelled, timeout=_POLL_SECONDS):
            if current_request().is_cancelled():
                raise CancelledError("the client went away")
        self._check_open()

    def _has_room(self) -> bool:
        return self._cancelled or not self._batches or self._bytes < self._max_bytes

    def _check_open(self) -> None:
        if self._cancelled:
            raise CancelledError("the scan was cancelled")
