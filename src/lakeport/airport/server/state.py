"""What every handler of a server shares: its catalogs, bounds and settings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pyarrow import ipc

from lakeport.airport.protocol.errors import SHUTTING_DOWN
from lakeport.airport.protocol.limits import Limits
from lakeport.airport.server.calls import Calls
from lakeport.airport.server.connections import Connections
from lakeport.airport.server.headers import Call
from lakeport.airport.server.idle import IdleStreams
from lakeport.airport.server.listing import ListingCache
from lakeport.airport.server.routing import CatalogRegistry, CatalogRoute
from lakeport.airport.server.transactions import Transactions
from lakeport.catalog import Action, current_request, set_request
from lakeport.errors import UnavailableError

__all__ = ["REUSE_CONNECTION", "ServerState"]

REUSE_CONNECTION = "arrow-flight-reuse-connection://?"
"""The location that tells a client to fetch an endpoint over the connection it has."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """The state behind a server. Everything in it is immutable or guards itself."""

    registry: CatalogRegistry
    limits: Limits
    batch_rows: int
    """The most rows in a batch of a scan."""
    max_message_size: int
    """The most bytes in a batch, either way."""
    write_options: ipc.IpcWriteOptions
    """How batches are encoded: plain, or compressed."""
    public_location: Callable[[], str]
    """Tells where plain Flight clients find this server; the port is known once it listens."""
    actions: Mapping[str, Action] = field(default_factory=dict)
    """Custom actions of the server itself."""
    listings: ListingCache = field(default_factory=ListingCache)
    transactions: Transactions = field(default_factory=Transactions)
    calls: Calls = field(default_factory=Calls)
    """The calls that are running, and who is told about them."""
    connections: Connections = field(default_factory=Connections)
    idle: IdleStreams = field(default_factory=IdleStreams)
    """Streams that wait for their clients."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the server stops: streams end with a retriable error."""

    def route(self, call: Call, *names: str) -> CatalogRoute:
        """The catalog that a call is about; the rest of the call is part of its transaction."""
        route = self.registry.route(call.catalog, *names)
        call.notes.catalog = route.registered_name
        self._bind_transaction(call, route)
        return route

    def catalogs(self, call: Call) -> Iterator[CatalogRoute]:
        """The catalog that a call names, or all that the caller may see, one after the other."""
        if call.catalog:
            yield self.route(call)
            return
        for route in self.registry.items():
            self._bind_transaction(call, route)
            yield route

    def _bind_transaction(self, call: Call, route: CatalogRoute) -> None:
        identifier = call.transaction(self.transactions, route.registered_name)
        may = route.permissions(call.identity)
        set_request(replace(current_request(), transaction_id=identifier, may=may))

    def check_running(self) -> None:
        """Refuse to go on when the server stops."""
        if self.stopping.is_set():
            raise UnavailableError(SHUTTING_DOWN)
