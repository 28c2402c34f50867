"""Who looks at the console: a token for each browser, and clients of the server with it.

Tokens are kept in memory only. A browser has a random id in a signed cookie, never the token.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Final

from lakeport._cache import LruCache
from lakeport.airport.client import Client, connect
from lakeport.console.work import Work
from lakeport.errors import UnauthenticatedError

__all__ = ["ServerAddress", "Visitors"]

_MAX_VISITORS: Final = 1000
_MAX_CLIENTS: Final = 64
_MAX_FACTS: Final = 1000
_IDLE_SECONDS: Final = 12 * 3600.0
_CALL_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """The server behind a console."""

    location: str
    needs_token: bool = False
    tls_root_certs: bytes | None = field(default=None, repr=False)
    trusts_any_certificate: bool = False
    """For a console in the server's own process: the loopback address is in few certificates."""


class Visitors:
    """The tokens of browsers, and one client for each token and catalog. Safe for threads."""

    def __init__(self, server: ServerAddress) -> None:
        self.server = server
        self.work = Work()
        """The threads of all pages."""
        self._lock = threading.Lock()
        self._tokens: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._facts = LruCache(_MAX_FACTS)
        self._clients: OrderedDict[tuple[str | None, str], Client] = OrderedDict()

    def is_known(self, browser: str) -> bool:
        """Return whether the browser may see pages: it has a token, or the server needs none."""
        return not self.server.needs_token or self._token(browser) is not None

    def enter(self, browser: str, token: str) -> None:
        """Remember a token if the server accepts it; raise `UnauthenticatedError` otherwise."""
        with self._connect(token, "") as client:
            client.databases()
        with self._lock:
            self._tokens[browser] = (token, time.monotonic())
            while len(self._tokens) > _MAX_VISITORS:
                self._tokens.popitem(last=False)

    def leave(self, browser: str) -> None:
        """Forget the token of a browser."""
        with self._lock:
            self._tokens.pop(browser, None)

    def client(self, browser: str, catalog: str = "") -> Client:
        """Return a client with the token of the browser."""
        token = self._token(browser)
        if token is None and self.server.needs_token:
            raise UnauthenticatedError("sign in with a token first")
        key = (token, catalog)
        with self._lock:
            client = self._clients.get(key)
            if client is None:
                client = self._clients[key] = self._connect(token, catalog)
            self._clients.move_to_end(key)
            # A client that is still in use is closed by the garbage collector.
            while len(self._clients) > _MAX_CLIENTS:
                self._clients.popitem(last=False)
        return client

    def remember(self, browser: str, key: Hashable, fact: Any) -> None:
        """Keep a fact for all browsers with the same token; the oldest facts are forgotten."""
        self._facts.put((self._token(browser), key), fact)

    def remembered(self, browser: str, key: Hashable) -> Any:
        """Return what was kept for the token of a browser; None if there is nothing."""
        return self._facts.get((self._token(browser), key))

    def close(self) -> None:
        """Forget all tokens, and close all clients."""
        with self._lock:
            clients = list(self._clients.values())
            self._clients.clear()
            self._tokens.clear()
        for client in clients:
            client.close()

    def _token(self, browser: str) -> str | None:
        now = time.monotonic()
        with self._lock:
            token, used = self._tokens.get(browser, (None, now))
            if token is None or now - used > _IDLE_SECONDS:
                self._tokens.pop(browser, None)
                return None
            self._tokens[browser] = (token, now)
            return token

    def _connect(self, token: str | None, catalog: str) -> Client:
        return connect(
            self.server.location,
            catalog=catalog,
            token=token,
            tls_root_certs=self.server.tls_root_certs,
            disable_server_verification=self.server.trusts_any_certificate,
            timeout=_CALL_SECONDS,
        )
