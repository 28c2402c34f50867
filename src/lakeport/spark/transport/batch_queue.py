"""Where the batches of one scan arrive in the driver: bounded, in order per task, without repeats.

Spark tasks send batches numbered from zero. An attempt that follows another one begins where that
one ended; what the driver has is not sent again. A task is complete when its sender has reported
how many batches and rows it had, all of them were taken, and Spark has confirmed the same as the
result of its job. Anything that arrives out of this order fails the whole scan.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

import pyarrow as pa

from lakeport.catalog import current_request
from lakeport.errors import (
    CancelledError,
    InternalError,
    LakeportError,
    UnauthenticatedError,
    UnavailableError,
)
from lakeport.spark.transport.grants import Claim, Grant, ScanKey

__all__ = ["DIRECT", "BatchQueue", "ConsumerTooSlowError", "Progress"]

DIRECT: Final = -1
"""The attempt of what comes as results of Spark itself, without a stream."""

_POLL_SECONDS: Final = 1.0
# How often a sender that waits for room looks whether another scan needs its core.
_YIELD_SECONDS: Final = 0.02


class ConsumerTooSlowError(UnavailableError):
    """The consumer does not read: the task ends and is run again when there is room."""


@dataclass(slots=True)
class Progress:
    """What has arrived of one scan task."""

    batches: int = 0
    rows: int = 0
    attempt: int = DIRECT
    """The attempt that may send the next batch."""
    has_ended: bool = False
    """Whether its sender has reported the end, which Spark has yet to confirm."""


class BatchQueue:
    """The batches of one scan between the tasks that send them and the consumer that takes them."""

    def __init__(self, tasks: int, *, max_bytes: int, patience: float) -> None:
        self.patience = patience
        """How many seconds a task that holds a core waits for room."""
        self._key = ScanKey()
        self._max_bytes = max_bytes
        # Guards everything below; waited on by senders for room and by the consumer for batches.
        self._changed = threading.Condition()
        self._batches: deque[tuple[pa.RecordBatch, int]] = deque()
        self._bytes = 0
        self._progress = [Progress() for _ in range(tasks)]
        self._incomplete = set(range(tasks))
        self._reasons: dict[int, str] = {}
        self._error: LakeportError | None = None
        self._finished = False
        self._cancelled = False
        self._paused = False
        self._interrupted = False
        self.is_core_wanted: Callable[[], bool] = lambda: False
        """Asked after each batch: whether its sender is to leave its core to another scan."""
        self.on_pause: Callable[[], None] = lambda: None
        """Called when the scan is paused, while the inlet is locked."""

    def begin(self) -> None:
        """Let senders in, for a run of the tasks that are not complete."""
        with self._changed:
            self._paused = self._interrupted = False

    @property
    def was_interrupted(self) -> bool:
        """Whether senders were sent away since the last `begin`."""
        return self._interrupted

    def grant(self, scan: str, tasks: Sequence[int]) -> Grant:
        """Return what lets a Spark task send the batches of these scan tasks."""
        return self._key.grant(scan, tasks)

    def open(self, claim: Claim) -> list[Progress]:
        """Let an attempt send its tasks from now on, alone; return what has arrived of each.

        Raises:
            UnauthenticatedError: It has no grant for them, or a later attempt has begun.
        """
        self._key.check(claim)
        with self._changed:
            self._check_open()
            if self._paused:
                raise ConsumerTooSlowError("the consumer is not reading")
            holders = [self._progress[task].attempt for task in claim.tasks]
            if claim.attempt <= max(holders, default=DIRECT):
                raise UnauthenticatedError("another attempt of this task is sending")
            for task in claim.tasks:
                self._progress[task].attempt = claim.attempt
            return [self._progress[task] for task in claim.tasks]

    def covers(self, claim: Claim, task: int) -> bool:
        """Return whether a stream with this claim may send a task."""
        return task in claim.tasks

    def offer(
        self,
        task: int,
        number: int,
        batch: pa.RecordBatch,
        *,
        patience: float | None,
        attempt: int = DIRECT,
    ) -> None:
        """Take the next batch of a task. Waits so many seconds for room."""
        size = max(1, batch.get_total_buffer_size())
        with self._changed:
            progress = self._checked(task, attempt)
            if progress.has_ended or number != progress.batches:
                self._disturbed(f"batch {number} of scan task {task} came out of order")
            if not self._wait_for_room(patience):
                self._pause()
            # Another attempt of the same task may have begun meanwhile.
            self._checked(task, attempt)
            progress.batches += 1
            progress.rows += batch.num_rows
            self._batches.append((batch, size))
            self._bytes += size
            self._changed.notify_all()
            if patience is not None and self.is_core_wanted():
                self._interrupted = True
                raise ConsumerTooSlowError("another scan needs the core")

    def complete(self, task: int, batches: int, rows: int, *, attempt: int = DIRECT) -> None:
        """Take the report of a sender that it has sent all batches of a task."""
        with self._changed:
            progress = self._checked(task, attempt)
            if (batches, rows) != (progress.batches, progress.rows):
                self._disturbed(
                    f"scan task {task} sent {batches} batches, {progress.batches} arrived"
                    if batches != progress.batches
                    else f"scan task {task} sent {rows} rows, {progress.rows} arrived"
                )
            progress.has_ended = True

    def confirm(self, task: int, batches: int, rows: int) -> None:
        """Take what Spark returns as the result of a task: the same must have arrived."""
        with self._changed:
            progress = self._progress[task]
            if not progress.has_ended or (batches, rows) != (progress.batches, progress.rows):
                self._disturbed(
                    f"Spark read {rows} rows of scan task {task}, {progress.rows} arrived"
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
            self._changed.wait_for(
                lambda: (
                    self._cancelled
                    or self._finished
                    or not self._paused
                    or self._bytes <= self._max_bytes // 2
                )
            )
            return not self._cancelled and not self._finished

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
    def paused(self) -> bool:
        """Whether all senders are sent away until the consumer has read."""
        return self._paused

    @property
    def finished(self) -> bool:
        """Whether no more batches will come."""
        return self._finished

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

    def _wait_for_room(self, patience: float | None) -> bool:
        """Wait so many seconds for room; False if there is none, or if another scan needs the core.

        Without patience, no core is held and there is no hurry.
        """
        if patience is None:
            return self._changed.wait_for(self._has_room)
        deadline = time.monotonic() + patience
        while not self._has_room():
            left = deadline - time.monotonic()
            if self._paused or left <= 0 or self.is_core_wanted():
                return False
            self._changed.wait_for(
                lambda: self._has_room() or self._paused, timeout=min(left, _YIELD_SECONDS)
            )
        return not self._paused

    def _pause(self) -> NoReturn:
        """Send all senders away, until the consumer has read."""
        if not self._paused:
            self._paused = self._interrupted = True
            self._changed.notify_all()
            self.on_pause()
        raise ConsumerTooSlowError("the consumer is not reading")

    def _has_room(self) -> bool:
        is_over = self._cancelled or self._error is not None
        return is_over or not self._batches or self._bytes < self._max_bytes

    def _checked(self, task: int, attempt: int) -> Progress:
        """Return the progress of a task, if an attempt may still send it."""
        self._check_open()
        if self._error is not None:
            raise self._error
        progress = self._progress[task]
        if progress.attempt != attempt:
            raise InternalError(f"another attempt of scan task {task} has begun")
        return progress

    def _disturbed(self, how: str) -> NoReturn:
        """Fail the scan: what has arrived cannot be trusted."""
        error = InternalError(f"the batches of the scan were disturbed: {how}")
        self._finished, self._error = True, error
        self._changed.notify_all()
        raise error

    def _check_open(self) -> None:
        if self._cancelled:
            raise CancelledError("the scan was cancelled")
