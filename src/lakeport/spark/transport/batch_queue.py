"""The queue of the batches of one scan: bounded, in order per task, without repeats.

Spark tasks send batches numbered from zero. An attempt that follows another one begins where that
one ended; batches that have arrived are not sent again. A task is finished when its sender has
reported how many batches and rows it had, all of them have arrived, and Spark has confirmed the
same as the result of its job. A batch out of this order fails the whole scan.
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
"""The attempt number of batches that arrive as results of Spark, without a stream."""

_POLL_SECONDS: Final = 1.0
# How often a sender that waits for space checks whether another scan needs its core.
_YIELD_SECONDS: Final = 0.02


class ConsumerTooSlowError(UnavailableError):
    """The consumer does not read: the task ends and is run again when there is space."""


@dataclass(slots=True)
class Progress:
    """The batches and rows of one scan task that have arrived."""

    batches: int = 0
    rows: int = 0
    attempt: int = DIRECT
    """The attempt that may send the next batch."""
    is_finished: bool = False
    """Whether its sender has reported the end, which Spark has yet to confirm."""


class BatchQueue:
    """The batches of one scan, between the tasks that send them and the consumer."""

    def __init__(self, tasks: int, *, max_bytes: int, timeout: float) -> None:
        self.timeout = timeout
        """How many seconds a task that holds a core waits for space."""
        self._key = ScanKey()
        self._max_bytes = max_bytes
        # Guards everything below; waited on by senders for space and by the consumer for batches.
        self._changed = threading.Condition()
        self._batches: deque[tuple[pa.RecordBatch, int]] = deque()
        self._bytes = 0
        self._progress = [Progress() for _ in range(tasks)]
        self._unfinished = set(range(tasks))
        self._reasons: dict[int, str] = {}
        self._error: LakeportError | None = None
        self._finished = False
        self._cancelled = False
        self._paused = False
        self._interrupted = False
        self.is_core_wanted: Callable[[], bool] = lambda: False
        """Called after each batch: returns whether its sender must release its core."""
        self.on_pause: Callable[[], None] = lambda: None
        """Called when the scan is paused, while the queue is locked."""

    def begin(self) -> None:
        """Accept senders again, for a run of the unfinished tasks."""
        with self._changed:
            self._paused = self._interrupted = False

    @property
    def was_interrupted(self) -> bool:
        """Whether senders were stopped since the last `begin`."""
        return self._interrupted

    def grant(self, scan: str, tasks: Sequence[int]) -> Grant:
        """Return the grant to send the batches of these scan tasks."""
        return self._key.grant(scan, tasks)

    def open(self, claim: Claim) -> list[Progress]:
        """Make an attempt the only sender of its tasks; return the progress of each task.

        Raises:
            UnauthenticatedError: It has no grant for them, or a later attempt has begun.
        """
        self._key.check(claim)
        with self._changed:
            self._raise_if_cancelled()
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
        return task in claim.task_set

    def put(
        self,
        task: int,
        number: int,
        batch: pa.RecordBatch,
        *,
        timeout: float | None,
        attempt: int = DIRECT,
    ) -> None:
        """Append the next batch of a task; wait up to `timeout` seconds for space.

        Raises:
            ConsumerTooSlowError: There is no space, or another scan needs the core.
        """
        size = max(1, batch.get_total_buffer_size())
        with self._changed:
            progress = self._checked(task, attempt)
            if progress.is_finished or number != progress.batches:
                self._fail_scan(f"batch {number} of scan task {task} came out of order")
            if not self._wait_for_space(timeout):
                self._pause()
            # Another attempt of the same task may have begun during the wait.
            self._checked(task, attempt)
            progress.batches += 1
            progress.rows += batch.num_rows
            self._batches.append((batch, size))
            self._bytes += size
            self._changed.notify_all()
            if timeout is not None and self.is_core_wanted():
                self._interrupted = True
                raise ConsumerTooSlowError("another scan needs the core")

    def finish_task(self, task: int, batches: int, rows: int, *, attempt: int = DIRECT) -> None:
        """Record that a sender has sent all batches of a task, and check their number."""
        with self._changed:
            progress = self._checked(task, attempt)
            if (batches, rows) != (progress.batches, progress.rows):
                self._fail_scan(
                    f"scan task {task} sent {batches} batches, {progress.batches} arrived"
                    if batches != progress.batches
                    else f"scan task {task} sent {rows} rows, {progress.rows} arrived"
                )
            progress.is_finished = True

    def confirm(self, task: int, batches: int, rows: int) -> None:
        """Check the result that Spark returned for a task, and mark the task finished."""
        with self._changed:
            progress = self._progress[task]
            if not progress.is_finished or (batches, rows) != (progress.batches, progress.rows):
                self._fail_scan(
                    f"Spark read {rows} rows of scan task {task}, {progress.rows} arrived"
                )
            self._unfinished.discard(task)
            if not self._unfinished:
                self._finished = True
                self._changed.notify_all()

    def record_failure(self, task: int, reason: str) -> None:
        """Record the error message of a failed task attempt."""
        with self._changed:
            self._reasons[task] = reason

    def failure_reason(self) -> str | None:
        """Return the error message of a task that was never finished, if there is one."""
        with self._changed:
            return next((self._reasons[t] for t in self._unfinished if t in self._reasons), None)

    def unfinished_tasks(self) -> list[int]:
        """Return the numbers of the unfinished tasks."""
        with self._changed:
            return sorted(self._unfinished)

    def wait_for_space(self) -> bool:
        """Wait until half of the queue was read; return False when the scan is over."""
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
        """End the scan with an error, unless all batches have arrived."""
        with self._changed:
            if not self._finished:
                self._finished = True
                self._error = error
                self._changed.notify_all()

    def cancel(self) -> bool:
        """Cancel the scan.

        Return whether unfinished tasks remained; False if the scan was already cancelled.
        """
        with self._changed:
            if self._cancelled:
                return False
            self._cancelled = True
            self._batches.clear()
            self._bytes = 0
            self._changed.notify_all()
            return bool(self._unfinished)

    @property
    def queued_bytes(self) -> int:
        """How many bytes of batches are in the queue."""
        return self._bytes

    @property
    def paused(self) -> bool:
        """Whether senders are refused until the consumer has read."""
        return self._paused

    @property
    def finished(self) -> bool:
        """Whether all batches have arrived, or the scan failed."""
        return self._finished

    @property
    def cancelled(self) -> bool:
        """Whether the scan was cancelled."""
        return self._cancelled

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches as they arrive, until the scan ends or fails."""
        while True:
            with self._changed:
                self._wait_for(lambda: bool(self._batches) or self._finished)
                if not self._batches:
                    if self._error is not None:
                        raise self._error
                    return
                batch, size = self._batches.popleft()
                self._bytes -= size
                self._changed.notify_all()
            yield batch

    def _wait_for(self, ready: Callable[[], bool]) -> None:
        """Wait for a condition; raise CancelledError if the client disconnects."""
        while not self._changed.wait_for(lambda: ready() or self._cancelled, timeout=_POLL_SECONDS):
            if current_request().is_cancelled():
                raise CancelledError("the client disconnected")
        self._raise_if_cancelled()

    def _wait_for_space(self, timeout: float | None) -> bool:
        """Wait for space; return False after the time-out, or if another scan needs the core.

        Without a time-out the sender holds no core, and waits as long as necessary.
        """
        if timeout is None:
            return self._changed.wait_for(self._has_space)
        deadline = time.monotonic() + timeout
        while not self._has_space():
            left = deadline - time.monotonic()
            if self._paused or left <= 0 or self.is_core_wanted():
                return False
            self._changed.wait_for(
                lambda: self._has_space() or self._paused, timeout=min(left, _YIELD_SECONDS)
            )
        return not self._paused

    def _pause(self) -> NoReturn:
        """Refuse all senders until the consumer has read."""
        if not self._paused:
            self._paused = self._interrupted = True
            self._changed.notify_all()
            self.on_pause()
        raise ConsumerTooSlowError("the consumer is not reading")

    def _has_space(self) -> bool:
        is_over = self._cancelled or self._error is not None
        return is_over or not self._batches or self._bytes < self._max_bytes

    def _checked(self, task: int, attempt: int) -> Progress:
        """Return the progress of a task; raise an error if an attempt may not send it."""
        self._raise_if_cancelled()
        if self._error is not None:
            raise self._error
        progress = self._progress[task]
        if progress.attempt != attempt:
            raise InternalError(f"another attempt of scan task {task} has begun")
        return progress

    def _fail_scan(self, how: str) -> NoReturn:
        """Fail the scan: the batches that have arrived cannot be trusted."""
        error = InternalError(f"the batches of the scan were disturbed: {how}")
        self._finished, self._error = True, error
        self._changed.notify_all()
        raise error

    def _raise_if_cancelled(self) -> None:
        if self._cancelled:
            raise CancelledError("the scan was cancelled")
