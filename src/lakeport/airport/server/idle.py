"""End streams whose client neither reads nor writes for some minutes, and release their resources.

A handler that waits for its client is blocked inside gRPC, where Python cannot interrupt it. So a
thread of the server checks the time, and closes the reader or the connection of the stream.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from lakeport.errors import UnavailableError

__all__ = ["STREAM_TIMEOUT", "IdleStreams", "Waiting"]

_log = logging.getLogger("lakeport")

STREAM_TIMEOUT: Final = 900.0
"""Seconds that a stream may wait for its client."""

_MAX_INTERVAL: Final = 5.0


class IdleStreams:
    """The streams that may wait for their clients, with one timeout for all."""

    def __init__(self, seconds: float = STREAM_TIMEOUT) -> None:
        self._seconds = seconds
        # Guards the streams.
        self._lock = threading.Lock()
        self._streams: set[Waiting] = set()
        self._closing = threading.Event()
        self._is_watched = False

    def stream(self, subject: str, end: Callable[[], None]) -> Waiting:
        """Return a new stream. `end` is called if its client does nothing for too long."""
        stream = Waiting(self, subject, end)
        with self._lock:
            self._streams.add(stream)
            if not self._is_watched:
                self._is_watched = True
                threading.Thread(target=self._watch, name="lakeport-idle", daemon=True).start()
        return stream

    def remove(self, stream: Waiting) -> None:
        """Remove a stream that has ended."""
        with self._lock:
            self._streams.discard(stream)

    def close(self) -> None:
        """Stop the thread that checks the time."""
        self._closing.set()

    def _watch(self) -> None:
        while not self._closing.wait(min(_MAX_INTERVAL, self._seconds / 4)):
            with self._lock:
                streams = list(self._streams)
            for stream in streams:
                stream.end_if_idle(self._seconds)


class Waiting:
    """One stream. Its handler waits for the client inside a `with` block of this object."""

    def __init__(self, streams: IdleStreams, subject: str, end: Callable[[], None]) -> None:
        self._streams = streams
        self._subject = subject
        self._end = end
        self._lock = threading.Lock()
        self._since: float | None = None
        self._error: UnavailableError | None = None

    def __enter__(self) -> Self:
        self._since = time.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._since = None
        if self._error is not None and not isinstance(error, GeneratorExit):
            raise self._error from None

    def close(self) -> None:
        """Stop the timeout of the stream."""
        self._streams.remove(self)

    def end_if_idle(self, seconds: float) -> None:
        """End the stream if it has waited for its client for this many seconds."""
        with self._lock:
            if self._since is None or self._error is not None:
                return
            if time.monotonic() - self._since < seconds:
                return
            self._error = UnavailableError(
                f"{self._subject} was ended because its client did nothing for {seconds:g} seconds"
            )
            _log.warning("%s", self._error)
            self._end()
