"""The work of pages that blocks: calls of the server and queries, each in a thread of its own.

At the end of the console, what still runs is cancelled. A thread that ends late stops no process.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, ParamSpec, Protocol, TypeVar

from lakeport.errors import ResourceExhaustedError, UnavailableError

__all__ = ["Cancellable", "Work"]

P = ParamSpec("P")
T = TypeVar("T")

_MAX_THREADS: Final = 128


class Cancellable(Protocol):
    """Something that runs in one thread and is ended by another."""

    def cancel(self) -> object:
        """End it soon."""
        ...


class Work:
    """The threads of a console, and how they end. Safe for threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._threads = 0
        self._is_ending = False
        self._cancellable: set[Cancellable] = set()

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a function returns that blocks; it runs in a thread."""
        self._begin()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def resolve(value: T | None, error: BaseException | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(value)  # type: ignore[arg-type]
            else:
                answer.set_exception(error)

        def in_thread() -> None:
            value, failure = None, None
            try:
                value = context.run(work, *args, **kwargs)
            except BaseException as error:  # noqa: BLE001
                failure = error
            finally:
                # The loop of a console that has ended is closed.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(resolve, value, failure)
                self._end()

        threading.Thread(target=in_thread, name="lakeport-page", daemon=True).start()
        return await answer

    @contextmanager
    def cancelled_at_end(self, running: Cancellable) -> Iterator[None]:
        """Cancel something if the console ends during the block."""
        with self._changed:
            self._cancellable.add(running)
            is_ending = self._is_ending
        try:
            if is_ending:
                running.cancel()
            yield
        finally:
            with self._changed:
                self._cancellable.discard(running)

    def cancel(self) -> None:
        """Cancel what can be cancelled, and begin nothing more."""
        with self._changed:
            self._is_ending = True
            running = list(self._cancellable)
        for each in running:
            each.cancel()

    def wait(self, seconds: float) -> bool:
        """Wait for the threads; return whether all have ended."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._threads, timeout=seconds)

    def _begin(self) -> None:
        with self._changed:
            if self._is_ending:
                raise UnavailableError("the console is shutting down")
            if self._threads >= _MAX_THREADS:
                raise ResourceExhaustedError("the console is busy: try again in a moment")
            self._threads += 1

    def _end(self) -> None:
        with self._changed:
            self._threads -= 1
            self._changed.notify_all()
