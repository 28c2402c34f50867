"""From ready to stopped: what the signals of a server process do."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from queue import SimpleQueue
from types import FrameType
from typing import Final, Protocol

__all__ = ["DRAIN", "leave", "serve_until_signalled"]

_log = logging.getLogger("lakeport")

DRAIN: Final = 30.0
"""Seconds that running calls may take to finish after the first signal."""

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Drainable(Protocol):
    """A server that can be asked to finish."""

    def drain(self, limit: float) -> bool:
        """Take no more calls, let the running ones finish, then stop; whether all of them did."""
        ...


def serve_until_signalled(
    server: Drainable,
    *,
    ready: Callable[[], None],
    drain: float = DRAIN,
    on_hangup: Callable[[], None] | None = None,
) -> bool:
    """Serve until SIGINT or SIGTERM, then drain; a second signal ends the process at once.

    `ready` is called when signals are heeded, `on_hangup` at every SIGHUP. Gives whether all
    running calls have finished.
    """
    # A handler may interrupt any code; this queue is the one structure that it may safely touch.
    signals: SimpleQueue[int] = SimpleQueue()

    def note(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        signals.put(number)

    with ExitStack() as before:
        heeded = [*_STOP_SIGNALS, *([signal.SIGHUP] if on_hangup is not None else [])]
        for number in heeded:
            before.callback(signal.signal, number, signal.signal(number, note))
        ready()
        while signals.get() not in _STOP_SIGNALS:
            if on_hangup is not None:
                on_hangup()
        for number in _STOP_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        _log.info("draining: running calls have %g seconds to finish", drain)
        return server.drain(drain)


def leave() -> None:
    """End the process although a client holds a stream, which Flight would wait for."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)
