"""The lifetime of a server process: check the location, serve, drain on a signal, exit."""

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
    "remembered_hangup",
    "serve_until_signalled",
]

_log = logging.getLogger("lakeport")

DRAIN_SECONDS: Final = 30.0
"""Seconds that running calls may take to finish after the first signal."""

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Drainable(Protocol):
    """A server that can finish its running calls and stop."""

    def drain(self, limit: float) -> bool:
        """Accept no more calls, finish the running ones, then stop; return whether all finished."""
        ...


def serve_until_signalled(
    server: Drainable,
    *,
    ready: Callable[[], None],
    drain: float = DRAIN_SECONDS,
    on_hangup: Callable[[], None] | None = None,
    has_hung_up: Callable[[], bool] = lambda: False,
) -> bool:
    """Serve until SIGINT or SIGTERM, then drain; a second signal ends the process at once.

    `ready` is called after the signal handlers are installed, `on_hangup` at every SIGHUP, and once
    if `has_hung_up` returns that one has arrived before. Return whether all running calls have
    finished.
    """
    signals = [*_STOP_SIGNALS, *([signal.SIGHUP] if on_hangup is not None else [])]
    with _handled(signals) as next_signal:
        ready()
        if on_hangup is not None and has_hung_up():
            on_hangup()
        while (number := next_signal()) not in _STOP_SIGNALS:
            if number == signal.SIGHUP and on_hangup is not None:
                on_hangup()
        for stop in _STOP_SIGNALS:
            signal.signal(stop, signal.SIG_DFL)
        _log.info("draining: running calls have %g seconds to finish", drain)
        return server.drain(drain)


@contextmanager
def remembered_hangup() -> Iterator[Callable[[], bool]]:
    """Remember a SIGHUP while a server starts; yield a function that returns whether one came.

    Without a handler, the signal would end the process, or be ignored below `nohup`. Processes that
    are started meanwhile do not inherit the handler.
    """
    arrived = False

    def remember(*_: object) -> None:
        nonlocal arrived
        arrived = True

    previous = signal.signal(signal.SIGHUP, remember)
    try:
        yield lambda: arrived
    finally:
        signal.signal(signal.SIGHUP, previous)


@contextmanager
def _handled(signals: Iterable[signal.Signals]) -> Iterator[Callable[[], int]]:
    """Handle these signals inside the block; yield a function that waits for the next one.

    The number of a signal is written to a socket, in whichever thread it arrives. No Python code
    has to run before the waiting thread continues.
    """
    with ExitStack() as stack:
        read_socket, write_socket = socket.socketpair()
        stack.enter_context(read_socket)
        stack.enter_context(write_socket)
        write_socket.settimeout(0)
        stack.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(write_socket.fileno()))
        for number in signals:
            stack.callback(signal.signal, number, signal.signal(number, lambda *_: None))
        # The parent process may have blocked the signals.
        previous_mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        stack.callback(signal.pthread_sigmask, signal.SIG_SETMASK, previous_mask)
        yield lambda: read_socket.recv(1)[0]


def exit_immediately() -> None:
    """End the process without waiting for open streams, as Flight would."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)


def check_location(location: str | None, tls: TlsConfig | None = None) -> str:
    """Return a valid location; by default, a free port of this machine."""
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
    """Raise `UnavailableError` if the port is in use or the address is not of this machine."""
    parts = urlsplit(location)
    try:
        addresses = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = addresses[0]
        with socket.socket(family, kind, protocol) as probe:
            # As gRPC does: a port whose last connections are still closing is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        in_use = error.errno == errno.EADDRINUSE
        reason = "the port is in use" if in_use else error.strerror
        raise UnavailableError(f"cannot listen on {location}: {reason}") from None
