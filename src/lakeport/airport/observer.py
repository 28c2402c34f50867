"""What a server tells an observer: calls and streams, for metrics and logs of any kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

__all__ = ["EndedCall", "NoObserver", "Observer"]


@dataclass(frozen=True, slots=True)
class EndedCall:
    """One call of a client, after its last byte."""

    verb: str
    """The Flight verb in its usual spelling: `DoGet`, `DoExchange`, `DoAction` …"""
    status: str
    """The gRPC code that the client got: `OK`, `NOT_FOUND`, `UNAVAILABLE` …"""
    seconds: float
    """From its headers to its end, the time of a slow reader included."""
    reason: str = ""
    """The error that the client got, in one sentence; empty for `OK`."""
    identity: str = ""
    """Who called; empty without authentication, and for a token that was refused."""
    catalog: str = ""
    """The name that the catalog is served by; empty if the call names none that there is."""
    table: str = ""
    """The table, function or schema as `schema.name`, also one that is missing or was refused."""
    snapshot: str = ""
    """The snapshot of a lake, or the version of a table, that was read."""
    operation: str = ""
    """The action (`endpoints`, `create_table` …) or the operation of an exchange (`insert` …)."""
    rows_sent: int = 0
    bytes_sent: int = 0
    """The size of those rows in Arrow."""
    rows_received: int = 0
    bytes_received: int = 0
    peer: str = ""
    """The network address of the client; empty for a call that was refused before its handler."""
    trace_id: str = ""
    """The trace of the header `traceparent`, or of `airport-trace-id`, or a new one."""


class Observer(Protocol):
    """Is told what a server does, from many threads at once. Must be quick, and must not raise."""

    def call_started(self, verb: str) -> None:
        """A call came in."""
        ...

    def call_ended(self, call: EndedCall) -> None:
        """A call is over: answered, failed, refused, or its client went away."""
        ...

    def scan_started(self) -> None:
        """The rows of a ticket are about to be read."""
        ...

    def batch_sent(self, batch: pa.RecordBatch) -> None:
        """A batch of a scan was handed to the network."""
        ...

    def scan_ended(self, *, complete: bool) -> None:
        """A scan is over; `complete` when all of its rows were sent."""
        ...


class NoObserver:
    """Looks away."""

    def call_started(self, verb: str) -> None:
        """Nothing."""

    def call_ended(self, call: EndedCall) -> None:
        """Nothing."""

    def scan_started(self) -> None:
        """Nothing."""

    def batch_sent(self, batch: pa.RecordBatch) -> None:
        """Nothing."""

    def scan_ended(self, *, complete: bool) -> None:
        """Nothing."""
