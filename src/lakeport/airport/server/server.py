"""`Server`: catalogs behind a port, and `serve` for scripts."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from functools import cache
from types import TracebackType
from typing import Any, Final, Literal, Self
from urllib.parse import quote, urlsplit

import pyarrow as pa

from lakeport.airport.protocol.addresses import is_header_text
from lakeport.airport.protocol.limits import DEFAULT_LIMITS, Limits
from lakeport.airport.server.admission import Admission
from lakeport.airport.server.calls import Calls, Observer
from lakeport.airport.server.connections import MAX_CONNECTIONS, Connections
from lakeport.airport.server.flight_service import FlightService
from lakeport.airport.server.headers import MIDDLEWARE, HeaderMiddlewareFactory
from lakeport.airport.server.idle import STREAM_TIMEOUT, IdleStreams
from lakeport.airport.server.lifetime import (
    DRAIN_SECONDS,
    check_listening,
    check_location,
    exit_immediately,
    serve_until_signalled,
)
from lakeport.airport.server.routing import CatalogRegistry, CatalogSource
from lakeport.airport.server.state import REUSE_CONNECTION, ServerState
from lakeport.airport.server.transactions import Transactions
from lakeport.auth import (
    Authorizer,
    AuthSource,
    LimitRules,
    SubjectAuthenticator,
    TlsConfig,
    authenticator_of,
)
from lakeport.catalog import Action, Catalog
from lakeport.errors import DefinitionError, UnavailableError
from lakeport.types import duckdb_identifier, duckdb_string

__all__ = ["Server", "attach_statement", "serve"]

_log = logging.getLogger("lakeport")

_WILDCARDS = {"0.0.0.0", "::"}  # noqa: S104
DEFAULT_PORT = 8815

# Seconds for streams to end by themselves, with a status, before the process exits.
_STREAM_END_SECONDS: Final = 3.0


class Server:
    """An Airport server: DuckDB attaches it, any Flight client can read it.

        with Server(catalog) as server:
            print(server.location)

    Args:
        catalogs: One catalog, several by name, or several that have a `name`. Clients can attach a
            single catalog without a name by any name.
        location: Where to listen; port 0 picks a free one. `grpc+tls://` with `tls`.
        auth: An authenticator, a callable that returns the identity of a token (or None), or a
            mapping of tokens to identities. Without it every client may call.
        certificates: The identities of clients' certificates, with mutual TLS. With `auth`, a call
            has a token or is that of its certificate's owner.
        authorize: Decides for each catalog, schema and table what an identity may list and do.
        tls: Certificate and key; with a client CA for mutual TLS.
        advertise: The location for plain Flight clients, such as `grpc://lake.example:8815`.
        actions: Custom Flight actions, which DuckDB users call with `airport_action`.
        batch_rows: The most rows in a batch of a scan.
        max_message_size: The most bytes in a batch that is sent or received.
        compression: Compress batches with `"lz4"` or `"zstd"`; faster on slow networks only.
            `"auto"` is LZ4, except to clients on this machine.
        limits: Limits on requests.
        caller_limits: Limits on what callers use at once: scans, rows, calls a second.
        transaction_timeout: After how many seconds without a call a transaction is rolled back.
        stream_timeout: After how many seconds a stream ends whose client neither reads nor writes.
        max_connections: The most open connections; above it, those without calls are closed.
        observer: Receives the events of calls and scans, for example for metrics.
        log_level: Set the level of the `lakeport` logger, such as `"DEBUG"`.

    """

    def __init__(
        self,
        catalogs: CatalogSource,
        *,
        location: str | None = None,
        auth: AuthSource | None = None,
        certificates: SubjectAuthenticator | None = None,
        authorize: Authorizer | None = None,
        tls: TlsConfig | None = None,
        advertise: str | None = None,
        actions: Iterable[Action] = (),
        batch_rows: int = 64 * 1024,
        max_message_size: int = 64 * 1024 * 1024,
        compression: Literal["lz4", "zstd", "auto"] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        caller_limits: LimitRules | None = None,
        transaction_timeout: float = 600.0,
        stream_timeout: float = STREAM_TIMEOUT,
        max_connections: int = MAX_CONNECTIONS,
        observer: Observer | None = None,
        log_level: int | str | None = None,
    ) -> None:
        if batch_rows < 1 or max_message_size < 1:
            raise DefinitionError("batch_rows and max_message_size must be positive")
        if stream_timeout <= 0 or max_connections < 1:
            raise DefinitionError("stream_timeout and max_connections must be positive")
        if compression not in {None, "lz4", "zstd", "auto"}:
            raise DefinitionError(
                f"compression must be 'lz4', 'zstd' or 'auto', not {compression!r}"
            )
        if certificates is not None and (tls is None or tls.client_ca is None):
            raise DefinitionError(
                "certificates of clients are checked by mutual TLS only: give the client CA"
            )
        self._requested = check_location(location, tls)
        self._tls = tls.load() if tls is not None else None
        self._advertise = advertise
        self._authenticator = authenticator_of(auth)
        self._certificates = certificates
        self._registry = CatalogRegistry(catalogs, authorizer=authorize)
        self._actions = {action.name: action for action in actions}
        self._batch_rows = batch_rows
        self._max_message_size = max_message_size
        self._compression: Literal["lz4", "zstd", "auto"] | None = compression
        self._limits = limits
        self._caller_limits = caller_limits
        self._transaction_timeout = transaction_timeout
        self._stream_timeout = stream_timeout
        self._max_connections = max_connections
        self._observer = observer
        self._lock = threading.Lock()
        self._host: ServerState | None = None
        self._service: FlightService | None = None
        if log_level is not None:
            _log.setLevel(log_level)

    def start(self) -> Self:
        """Start to listen and serve; return at once."""
        with self._lock:
            if self._service is not None:
                raise DefinitionError("the server is already running")
            host = self._new_state()
            try:
                service = FlightService(
                    host,
                    self._requested,
                    middleware={
                        MIDDLEWARE: HeaderMiddlewareFactory(
                            self._authenticator, host.calls, self._certificates
                        )
                    },
                    **self._tls_options(),
                )
            except (OSError, pa.ArrowException) as error:
                check_listening(self._requested)
                raise UnavailableError(f"cannot listen on {self._requested}: {error}") from None
            self._host, self._service = host, service
            host.connections.watch(service.port)
        return self

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return int(self._running().port)

    @property
    def location(self) -> str:
        """The location to attach, as seen from this machine."""
        parts = urlsplit(self._requested)
        hostname = "127.0.0.1" if parts.hostname in _WILDCARDS else parts.hostname
        return f"{parts.scheme}://{_bracketed(hostname or '')}:{self.port}"

    def add_catalog(self, name: str, catalog: Catalog) -> None:
        """Serve one more catalog."""
        self._registry.add(name, catalog)

    def remove_catalog(self, name: str) -> None:
        """Stop serving a catalog. Running scans continue."""
        removed = self._registry.remove(name)
        if self._host is not None:
            self._host.listings.remove(removed)

    def replace_catalogs(self, catalogs: Mapping[str, Catalog]) -> None:
        """Replace all catalogs at once. Running scans continue."""
        for removed in self._registry.replace(catalogs):
            if self._host is not None:
                self._host.listings.remove(removed)

    def catalog_names(self) -> list[str]:
        """Return the names of the served catalogs."""
        return self._registry.names()

    def wait(self) -> None:
        """Block until the server stops."""
        self._running().wait()

    @property
    def state(self) -> Literal["ready", "draining", "stopped"]:
        """Whether the server accepts calls, only finishes running ones, or is stopped."""
        host = self._host
        if host is None:
            return "stopped"
        return "draining" if host.calls.draining else "ready"

    def drain(self, limit: float = DRAIN_SECONDS) -> bool:
        """Accept no more calls, finish the running ones, then stop; return whether all finished.

        New calls fail with UNAVAILABLE, so that clients try again. Calls that still run after
        `limit` seconds, or when another thread calls `stop()`, end with a retriable error.
        """
        host = self._host
        if host is None:
            return True
        deadline = time.monotonic() + limit
        finished = host.calls.drain(limit)
        # A slow client may still be reading the last bytes of a finished call. A handler that waits
        # for rows must notice the end before its source is closed.
        return self.stop(grace=max(_STREAM_END_SECONDS, deadline - time.monotonic())) and finished

    def stop(self, *, grace: float = 5.0) -> bool:
        """Stop serving; running streams end with a retriable error. Safe to call again.

        Waits at most `grace` seconds, so that a client that does not read cannot block the caller.
        Return whether every stream has ended.
        """
        with self._lock:
            host, service = self._host, self._service
            self._host = self._service = None
        if service is not None and host is not None:
            host.stopping.set()
            host.calls.stop_waiting()
            host.connections.close()
            host.idle.close()
            closing = threading.Thread(target=service.shutdown, name="lakeport-stop", daemon=True)
            closing.start()
            closing.join(grace)
            if closing.is_alive():
                _log.warning("a stream is still open; it ends when its client disconnects")
                return False
        return True

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _new_state(self) -> ServerState:
        return ServerState(
            registry=self._registry,
            limits=self._limits,
            batch_rows=self._batch_rows,
            max_message_size=self._max_message_size,
            compression=self._compression,
            public_location=self._public_location,
            actions=self._actions,
            transactions=Transactions(idle_seconds=self._transaction_timeout),
            calls=Calls(self._observer),
            admission=Admission(self._caller_limits),
            connections=Connections(self._max_connections),
            idle=IdleStreams(self._stream_timeout),
        )

    def _tls_options(self) -> dict[str, Any]:
        if self._tls is None:
            return {}
        return {
            "tls_certificates": [(self._tls.certificate, self._tls.key)],
            "verify_client": self._tls.client_ca is not None,
            "root_certificates": self._tls.client_ca,
        }

    def _public_location(self) -> str:
        if self._advertise is not None:
            return self._advertise
        # A client cannot connect to a wildcard address, but it has a connection.
        if self._service is None or urlsplit(self._requested).hostname in _WILDCARDS:
            return REUSE_CONNECTION
        return self.location

    def _running(self) -> FlightService:
        if self._service is None:
            raise UnavailableError("the server is not running: call start() first")
        return self._service


def serve(
    catalogs: CatalogSource,
    *,
    location: str = f"grpc://127.0.0.1:{DEFAULT_PORT}",
    drain: float = DRAIN_SECONDS,
    **options: Any,
) -> None:
    """Serve until interrupted (SIGINT or SIGTERM): the last line of a script.

    Takes the options of `Server`, and prints the ATTACH statements of the catalogs. Calls that run
    when the signal arrives may finish within `drain` seconds; a second signal ends them at once. If
    a client still has an open stream after that, this function ends the process.
    """
    with Server(catalogs, location=location, **options) as server:
        finished = serve_until_signalled(server, ready=lambda: _announce(server), drain=drain)
    if not finished:
        exit_immediately()


def _announce(server: Server) -> None:
    print(f"Lakeport serves {server.location}. In DuckDB:", flush=True)  # noqa: T201
    print("  INSTALL airport FROM community; LOAD airport;")  # noqa: T201
    for name in server.catalog_names():
        print(f"  {attach_statement(name or 'lake', server.location)}", flush=True)  # noqa: T201


def _bracketed(hostname: str) -> str:
    return f"[{hostname}]" if ":" in hostname else hostname


def attach_statement(catalog: str, location: str) -> str:
    """Return the ATTACH statement of a catalog, with the name quoted if necessary.

    DuckDB sends the name in a header, so one that is not ASCII is written with percent signs.
    """
    name = catalog if is_header_text(catalog) else quote(catalog)
    return (
        f"ATTACH {duckdb_string(name)} AS {_identifier(catalog)} "
        f"(TYPE airport, LOCATION {duckdb_string(location)});"
    )


def _identifier(text: str) -> str:
    is_plain = text.isidentifier() and text.isascii() and text.lower() not in _keywords()
    return text if is_plain else duckdb_identifier(text)


@cache
def _keywords() -> frozenset[str]:
    """Return the keywords that DuckDB accepts as a name only in quotes."""
    import duckdb

    with duckdb.connect() as connection:
        rows = connection.sql(
            "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
        ).fetchall()
    return frozenset(name for (name,) in rows)
