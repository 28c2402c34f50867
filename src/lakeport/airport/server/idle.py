"""Streams whose client does nothing: they are ended after some minutes, and free what they hold.

A handler that waits for its client waits inside gRPC, where Python cannot reach it. So a thread of
the server looks at the clock, and ends what the stream holds from outside.
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

_LONGEST_LOOK: Final = 5.0


class IdleStreams:
    """The streams that may wait for their clients, and for how long."""

    def __init__(self, seconds: float = STREAM_TIMEOUT) -> None:
        self._seconds = seconds
        # Guards the streams.
        self._lock = threading.Lock()
        self._streams: set[Waiting] = set()
        self._closing = threading.Event()
        self._is_watched = False

    def stream(self, what: str, end: Callable[[], None]) -> Waiting:
        """A stream that `end` frees when its client does nothing for too long."""
        stream = Waiting(self, what, end)
        with self._lock:
            self._streams.add(stream)
            if not self._is_watched:
                self._is_watched = True
                threading.Thread(target=self._watch, name="lakeport-idle", daemon=True).start()
        return stream

    def forget(self, stream: Waiting) -> None:
        """A stream is over."""
        with self._lock:
            self._streams.discard(stream)

    def close(self) -> None:
        """Look at the clock no more."""
        self._closing.set()

    def _watch(self) -> None:
        while not self._closing.wait(min(_LONGEST_LOOK, self._seconds / 4)):
            with self._lock:
                streams = list(self._streams)
            for stream in streams:
                stream.end_if_idle(self._seconds)


class Waiting:
    """One stream. Entered where its handler waits for the client, and left when it goes on."""

    def __init__(self, streams: IdleStreams, what: str, end: Callable[[], None]) -> None:
        self._streams = streams
        self._what = what
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
        """The stream is over."""
        self._streams.forget(self)

    def end_if_idle(self, seconds: float) -> None:
        """End the stream if it has waited for so long."""
        with self._lock:
            if self._since is None or self._error is not None:
                return
            if time.monotonic() - self._since < seconds:
                return
            self._error = UnavailableError(
                f"{self._what} was ended, because its client did nothing for {seconds:g} seconds"
            )
            _log.warning("%s", self._error)
            self._end()
