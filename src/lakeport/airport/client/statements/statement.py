"""Statements and transactions: the headers that the calls of one statement share.

Like DuckDB, this client creates a transaction for every statement outside of BEGIN. The statements
of an explicit transaction take effect together when it is committed, or not at all.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from pyarrow import flight

from lakeport.airport.client.connection import Headers, flight_path

__all__ = ["Statement", "Transaction"]


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction that is open in a `with client.transaction()` block."""

    id: str | None
    """The identifier that the server returned; None if it has no transactions."""
    is_explicit: bool = False
    """Whether its changes take effect at the end of the block."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement on a catalog, or on the server itself if the catalog is empty."""

    catalog: str = ""
    transaction: Transaction = Transaction(None)
    trace_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def headers(self) -> Headers:
        """Return the headers of DDL and listings, which only an explicit transaction includes."""
        return [*self._catalog(), *(self._transaction() if self.transaction.is_explicit else ())]

    def stream_headers(
        self, descriptor: flight.FlightDescriptor, *, transactional: bool = True
    ) -> Headers:
        """Return the headers of the calls of a scan or an exchange."""
        is_covered = transactional or self.transaction.is_explicit
        return [
            *self._catalog(),
            ("airport-trace-id", self.trace_id),
            *flight_path(descriptor),
            *(self._transaction() if is_covered else ()),
        ]

    def statistics_headers(self) -> Headers:
        """Return the headers of `column_statistics`, which have no path."""
        return [*self._catalog(), ("airport-trace-id", self.trace_id), *self._transaction()]

    def _catalog(self) -> Headers:
        return [("airport-catalog", self.catalog)] if self.catalog else []

    def _transaction(self) -> Headers:
        return [("airport-transaction-id", self.transaction.id)] if self.transaction.id else []
