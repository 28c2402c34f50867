"""From ready to stopped: what the signals of a server process do."""

from __future__ import annotations

import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, Protocol
from urllib.parse import urlsplit

from lakeport.auth import TlsConfig
from lakeport.errors import DefinitionError, UnavailableError

__all__ = [
    "DRAIN_SECONDS",
    "check_listening",
    "check_location",
    "exit_immediately",
    "serve_until_signalled",
]

_log = logging.getLogger("lakeport")

DRAIN_SECONDS: Final = 30.0
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
    drain: float = DRAIN_SECONDS,
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


def exit_immediately() -> None:
    """End the process although a client holds a stream, which Flight would wait for."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)


def check_location(location: str | None, tls: TlsConfig | None = None) -> str:
    """The location itself; a free port of this machine by default."""
    if location is None:
        return f"{'grpc' if tls is None else 'grpc+tls'}://127.0.0.1:0"
    try:
        parts = urlsplit(location)
        port = parts.port
    except ValueError:
        raise DefinitionError(f"{location!r} is not a location") from None
    if parts.scheme not in {"grpc", "grpc+tcp", "grpc+tls"} or not parts.hostname or port is None:
        raise DefinitionError(f"{location!r} is not a location such as grpc://127.0.0.1:8815")
    if parts.scheme == "grpc+tls" and tls is None:
        raise DefinitionError(f"{location} needs tls=TlsConfig(certificate=…, key=…)")
    if parts.scheme != "grpc+tls" and tls is not None:
        raise DefinitionError(
            f"with tls=… the location must start with grpc+tls://, not {location}"
        )
    return location


def check_listening(location: str) -> None:
    """Refuse a location whose port is in use, or whose address is not of this machine."""
    parts = urlsplit(location)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as probe:
            # As gRPC does: a port whose last connections are still closing is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        in_use = error.errno == errno.EADDRINUSE
        reason = "the port is in use" if in_use else error.strerror
        raise UnavailableError(f"cannot listen on {location}: {reason}") from None
