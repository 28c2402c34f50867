"""Limit the TCP connections of a server: if there are too many, idle ones are closed.

pyarrow 26 has no option for this in its Flight server, and none to pass options to gRPC. So the
sockets of the process are found by the port of the server. That works on Linux only; elsewhere the
number of connections is not limited. The caller of a connection is known from its first call on.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote

from lakeport._files import reserve, usage
from lakeport._wording import counted
from lakeport.errors import ResourceExhaustedError

__all__ = ["MAX_CONNECTIONS", "Connections", "is_loopback"]

_log = logging.getLogger("lakeport")

MAX_CONNECTIONS: Final = 1000

_FOLDER: Final = "/proc/self/fd"
_INTERVAL: Final = 1.0

# Connections are closed above the first share of used file descriptors, down to the second one.
_FULL: Final = 0.9
_RELAXED: Final = 0.75

# As many callers of connections are kept before those of closed connections are forgotten.
_MANY_CALLERS: Final = 10_000
_ALL: Final = "of all callers"

Peer: TypeAlias = tuple[str, int]


class Connections:
    """Counts the calls of each connection. Closes idle connections if there are too many."""

    def __init__(self, max_connections: int = MAX_CONNECTIONS) -> None:
        self._max_connections = max_connections
        # Guards the calls.
        self._lock = threading.Lock()
        self._calls: Counter[Peer] = Counter()
        self._used: dict[Peer, float] = {}
        # Connections and their callers; some may be closed.
        self._callers: set[tuple[Peer, str]] = set()
        self._port: int | None = None
        self._closing = threading.Event()

    def watch(self, port: int) -> None:
        """Limit the connections to a port, until `close` is called."""
        self._port = port
        if Path(_FOLDER).is_dir():
            threading.Thread(target=self._run, name="lakeport-connections", daemon=True).start()

    def close(self) -> None:
        """Stop limiting the connections."""
        self._closing.set()

    def check(self, peer: str, user: str, *, own: int | None, together: int | None) -> None:
        """Raise `ResourceExhaustedError` for the first call of one connection too many."""
        key = _parse(peer)
        # Without a port, such as on a Unix socket, connections cannot be distinguished.
        if not key[1] or (key, user) in self._callers:
            return
        with self._lock:
            if self._excess(key, user, own, together) or len(self._callers) > _MANY_CALLERS:
                # It takes some time to find those that are still open.
                open_now = self._descriptors()
                self._callers = {pair for pair in self._callers if pair[0] in open_now}
            excess = self._excess(key, user, own, together)
            if excess:
                raise ResourceExhaustedError(excess)
            self._callers.add((key, user))

    def _excess(self, key: Peer, user: str, own: int | None, together: int | None) -> str:
        """Return which limit one more connection exceeds, as a sentence; nothing if none."""
        mine = {peer for peer, caller in self._callers if caller == user} | {key}
        every = {peer for peer, _ in self._callers} | {key}
        for count, limit, whose in ((len(mine), own, "yours"), (len(every), together, _ALL)):
            if limit is not None and count > limit:
                return (
                    f"the limit of {counted(limit, 'connection')} ({whose}) is reached; try again "
                    "when one is closed"
                )
        return ""

    def begin(self, peer: str) -> Callable[[], None]:
        """Count a call of a connection; return the function to call at its end."""
        key = _parse(peer)
        with self._lock:
            self._calls[key] += 1

        def end() -> None:
            with self._lock:
                self._calls[key] -= 1
                if not self._calls[key]:
                    del self._calls[key]
                    self._used[key] = time.monotonic()

        return end

    def cut(self, peer: str) -> None:
        """Close the connection of a client, which ends all of its calls."""
        key = _parse(peer)
        descriptor = self._descriptors().get(key)
        if descriptor is not None:
            self._shut(key, descriptor)

    def _run(self) -> None:
        while not self._closing.wait(_INTERVAL):
            try:
                self._close_idle()
            except OSError as error:
                _log.warning("cannot count the connections: %s", error)

    def _close_idle(self) -> None:
        shortage = _descriptor_shortage()
        if not shortage and self._are_few():
            return
        descriptors = self._descriptors()
        excess = max(shortage, len(descriptors) - self._max_connections)
        now = time.monotonic()
        with self._lock:
            self._used = {key: self._used.get(key, now) for key in descriptors}
            idle = [key for key in descriptors if key not in self._calls]
        if excess <= 0 or not idle:
            return
        idle.sort(key=lambda key: self._used[key])
        for key in idle[:excess]:
            self._shut(key, descriptors[key])
        _log.warning(
            "too many connections: closed %d without a call",
            len(idle[:excess]),
            extra={"connections": len(descriptors), "allowed": self._max_connections},
        )

    def _are_few(self) -> bool:
        """Return whether the process has fewer descriptors than connections are allowed."""
        used = usage()
        return used is None or used[0] <= self._max_connections

    def _descriptors(self) -> dict[Peer, int]:
        """Return the file descriptors of the connections to the port, by the client's address."""
        try:
            with reserve():
                names = os.listdir(_FOLDER)  # noqa: PTH208 (no object for each)
        except OSError:
            return {}
        descriptors: dict[Peer, int] = {}
        for name in names:
            with self._opened(int(name)) as opened:
                if opened is not None:
                    descriptors[opened[0]] = int(name)
        return descriptors

    def _shut(self, key: Peer, descriptor: int) -> None:
        with self._opened(descriptor) as opened:
            # The client may have disconnected, and the descriptor may belong to another one.
            if opened is not None and opened[0] == key:
                with suppress(OSError):
                    opened[1].shutdown(socket.SHUT_RDWR)

    @contextmanager
    def _opened(self, descriptor: int) -> Iterator[tuple[Peer, socket.socket] | None]:
        """Yield the client and the socket of a connection to the port; None if it is not one."""
        with ExitStack() as stack:
            stack.enter_context(reserve())
            connection: tuple[Peer, socket.socket] | None = None
            with suppress(OSError):
                opened = _duplicate(descriptor)
                if opened is not None:
                    stack.enter_context(opened)
                    peer = opened.getpeername()
                    if opened.getsockname()[1] == self._port:
                        connection = (_host(peer[0]), peer[1]), opened
            yield connection


def _descriptor_shortage() -> int:
    """Return how many file descriptors to close; 0 unless nearly all are in use."""
    used = usage()
    if used is None or used[0] <= used[1] * _FULL:
        return 0
    return used[0] - int(used[1] * _RELAXED)


def _duplicate(descriptor: int) -> socket.socket | None:
    """Return a new socket for a descriptor, which may be closed elsewhere; None if not TCP."""
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return None
    duplicate = socket.socket(fileno=os.dup(descriptor))
    if duplicate.family in {socket.AF_INET, socket.AF_INET6}:
        return duplicate
    duplicate.close()
    return None


def is_loopback(peer: str) -> bool:
    """Return whether a peer, as gRPC writes it, is on this machine."""
    if peer.startswith("unix"):
        return True
    try:
        return ipaddress.ip_address(_parse(peer)[0]).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=4096)
def _parse(peer: str) -> Peer:
    """Return the address and port of gRPC's `ipv4:10.0.0.1:5555` or `ipv6:%5B::1%5D:5555`."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return _host(host.strip("[]")), int(port) if port.isdigit() else 0


def _host(text: str) -> str:
    """Return the canonical text of an address; an IPv4 address mapped to IPv6 becomes IPv4."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
