"""The state that all handlers of a server share: catalogs, limits and settings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pyarrow import ipc

from lakeport.airport.protocol.errors import SHUTTING_DOWN
from lakeport.airport.protocol.limits import Limits
from lakeport.airport.server.admission import Admission
from lakeport.airport.server.calls import Calls
from lakeport.airport.server.connections import Connections, is_loopback
from lakeport.airport.server.headers import Call
from lakeport.airport.server.idle import IdleStreams
from lakeport.airport.server.listing import ListingCache
from lakeport.airport.server.routing import CatalogRegistry, CatalogRoute
from lakeport.airport.server.transactions import Transactions
from lakeport.catalog import Action, current_request, set_request
from lakeport.errors import UnavailableError

__all__ = ["REUSE_CONNECTION", "ServerState"]

REUSE_CONNECTION = "arrow-flight-reuse-connection://?"
"""The location of an endpoint that the client reads over its present connection."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """The state of a server. Everything in it is immutable or thread-safe."""

    registry: CatalogRegistry
    limits: Limits
    batch_rows: int
    """The most rows in a batch of a scan."""
    max_message_size: int
    """The most bytes in a batch that is sent or received."""
    compression: Literal["lz4", "zstd", "auto"] | None
    """How batches are compressed; `auto` is LZ4, except to clients on this machine."""
    public_location: Callable[[], str]
    """Returns the location for plain Flight clients. The port is known once the server listens."""
    actions: Mapping[str, Action] = field(default_factory=dict)
    """Custom actions of the server itself."""
    listings: ListingCache = field(default_factory=ListingCache)
    transactions: Transactions = field(default_factory=Transactions)
    calls: Calls = field(default_factory=Calls)
    """The running calls, and the observer of them."""
    admission: Admission = field(default_factory=Admission)
    """Which calls and scans may run now, by the limits of their callers."""
    connections: Connections = field(default_factory=Connections)
    idle: IdleStreams = field(default_factory=IdleStreams)
    """Streams that wait for their clients."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the server stops: streams end with a retriable error."""

    def write_options(self, call: Call) -> ipc.IpcWriteOptions:
        """Return how the batches for the client of a call are encoded."""
        codec = self.compression
        if codec == "auto":
            codec = None if is_loopback(call.notes.peer) else "lz4"
        return ipc.IpcWriteOptions(compression=codec)

    def route(self, call: Call, *names: str) -> CatalogRoute:
        """Return the catalog of a call, and bind the call to its transaction there."""
        route = self.registry.route(call.catalog, *names)
        call.notes.catalog = route.registered_name
        self._bind_transaction(call, route)
        return route

    def catalogs(self, call: Call) -> Iterator[CatalogRoute]:
        """Yield the catalog that a call names, or all that the caller may list."""
        if call.catalog:
            yield self.route(call)
            return
        for route in self.registry.items():
            self._bind_transaction(call, route)
            yield route

    def _bind_transaction(self, call: Call, route: CatalogRoute) -> None:
        identifier = call.transaction(self.transactions, route.registered_name)
        may = route.permissions(call.caller)
        set_request(
            current_request().bound(
                transaction_id=identifier,
                may=may,
                restriction=route.restrictions(call.caller),
                others=route,
            )
        )

    def check_running(self) -> None:
        """Raise `UnavailableError` if the server is stopping."""
        if self.stopping.is_set():
            raise UnavailableError(SHUTTING_DOWN)
