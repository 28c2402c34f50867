"""From ready to stopped: what the signals of a server process do."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
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
    heeded = [*_STOP_SIGNALS, *([signal.SIGHUP] if on_hangup is not None else [])]
    with _signals(heeded) as next_signal:
        ready()
        while (number := next_signal()) not in _STOP_SIGNALS:
            if number == signal.SIGHUP and on_hangup is not None:
                on_hangup()
        for stop in _STOP_SIGNALS:
            signal.signal(stop, signal.SIG_DFL)
        _log.info("draining: running calls have %g seconds to finish", drain)
        return server.drain(drain)


@contextmanager
def _signals(heeded: Iterable[signal.Signals]) -> Iterator[Callable[[], int]]:
    """Gives a call that waits for the next of these signals.

    Whichever thread gets a signal, its number comes through a socket: nothing of Python has to run
    before the waiting thread wakes up.
    """
    with ExitStack() as before:
        waiting, noting = socket.socketpair()
        before.enter_context(waiting)
        before.enter_context(noting)
        noting.settimeout(0)
        before.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(noting.fileno()))
        for number in heeded:
            before.callback(signal.signal, number, signal.signal(number, lambda *_: None))
        # Whoever started this process may have held its signals back.
        held_back = signal.pthread_sigmask(signal.SIG_UNBLOCK, heeded)
        before.callback(signal.pthread_sigmask, signal.SIG_SETMASK, held_back)
        yield lambda: waiting.recv(1)[0]


def leave() -> None:
    """End the process although a client holds a stream, which Flight would wait for."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)
