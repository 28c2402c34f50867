"""The TCP connections of a server: counted, and closed where there are too many.

pyarrow's Flight server has no option for it (as of pyarrow 26), nor for gRPC's own ones. So the
sockets of the process are looked up by the port of the server, which works on Linux; elsewhere
connections are not bounded.
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
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote

from lakeport.ducklake.storage import reserve, usage

__all__ = ["MAX_CONNECTIONS", "Connections"]

_log = logging.getLogger("lakeport")

MAX_CONNECTIONS: Final = 1000

_FOLDER: Final = "/proc/self/fd"
_INTERVAL: Final = 1.0

# Connections are closed when so much of all descriptors is in use, until less is.
_FULL: Final = 0.9
_RELAXED: Final = 0.75

Peer: TypeAlias = tuple[str, int]


class Connections:
    """Which connections have calls; those that have none are closed when there are too many."""

    def __init__(self, most: int = MAX_CONNECTIONS) -> None:
        self._most = most
        # Guards the calls.
        self._lock = threading.Lock()
        self._calls: Counter[Peer] = Counter()
        self._used: dict[Peer, float] = {}
        self._port: int | None = None
        self._closing = threading.Event()

    def watch(self, port: int) -> None:
        """Look after the connections to a port, until `close`."""
        self._port = port
        if Path(_FOLDER).is_dir():
            threading.Thread(target=self._run, name="lakeport-connections", daemon=True).start()

    def close(self) -> None:
        """Look after them no more."""
        self._closing.set()

    def begin(self, peer: str) -> Callable[[], None]:
        """A call came over a connection; returns what is called at its end."""
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
        """Close the connection of a client, and with it all of its calls."""
        key = _parse(peer)
        descriptor = self._descriptors().get(key)
        if descriptor is not None:
            self._shut(key, descriptor)

    def _run(self) -> None:
        while not self._closing.wait(_INTERVAL):
            try:
                self._close_idle()
            except OSError as error:
                _log.warning("the connections cannot be counted: %s", error)

    def _close_idle(self) -> None:
        short = _short()
        if not short and self._is_few():
            return
        found = self._descriptors()
        excess = max(short, len(found) - self._most)
        now = time.monotonic()
        with self._lock:
            self._used = {key: self._used.get(key, now) for key in found}
            idle = [key for key in found if key not in self._calls]
        if excess <= 0 or not idle:
            return
        idle.sort(key=lambda key: self._used[key])
        for key in idle[:excess]:
            self._shut(key, found[key])
        _log.warning(
            "too many connections: closed %d without a call",
            len(idle[:excess]),
            extra={"connections": len(found), "allowed": self._most},
        )

    def _is_few(self) -> bool:
        """Whether there cannot be too many connections, which is quickly known."""
        known = usage()
        return known is None or known[0] <= self._most

    def _descriptors(self) -> dict[Peer, int]:
        """The descriptors of the connections to the port, by the address of the client."""
        try:
            with reserve():
                names = os.listdir(_FOLDER)  # noqa: PTH208 (no object for each)
        except OSError:
            return {}
        found: dict[Peer, int] = {}
        for name in names:
            with self._opened(int(name)) as opened:
                if opened is not None:
                    found[opened[0]] = int(name)
        return found

    def _shut(self, key: Peer, descriptor: int) -> None:
        with self._opened(descriptor) as opened:
            # The client may have gone, and another one have got the descriptor.
            if opened is not None and opened[0] == key:
                with suppress(OSError):
                    opened[1].shutdown(socket.SHUT_RDWR)

    @contextmanager
    def _opened(self, descriptor: int) -> Iterator[tuple[Peer, socket.socket] | None]:
        """A connection to the port and its client, or None for another descriptor."""
        with ExitStack() as stack:
            stack.enter_context(reserve())
            found: tuple[Peer, socket.socket] | None = None
            with suppress(OSError):
                opened = _duplicate(descriptor)
                if opened is not None:
                    stack.enter_context(opened)
                    peer = opened.getpeername()
                    if opened.getsockname()[1] == self._port:
                        found = (_host(peer[0]), peer[1]), opened
            yield found


def _short() -> int:
    """How many descriptors have to be closed, if nearly all are in use."""
    known = usage()
    if known is None or known[0] <= known[1] * _FULL:
        return 0
    return known[0] - int(known[1] * _RELAXED)


def _duplicate(descriptor: int) -> socket.socket | None:
    """A socket for a descriptor that another thread may close at any time; None if it is none."""
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return None
    found = socket.socket(fileno=os.dup(descriptor))
    if found.family in {socket.AF_INET, socket.AF_INET6}:
        return found
    found.close()
    return None


def _parse(peer: str) -> Peer:
    """The address and port of gRPC's `ipv4:10.0.0.1:5555` and `ipv6:%5B::1%5D:5555`."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return _host(host.strip("[]")), int(port) if port.isdigit() else 0


def _host(text: str) -> str:
    """One spelling for an address, however it arrived."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
