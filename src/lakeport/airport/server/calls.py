"""The calls that a server is answering: counted, told to its observer, refused while it drains.

A call runs from its headers to its last byte, which is later than its handler returns: the rows of
a scan flow after that.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
from pyarrow import flight

from lakeport.airport.protocol.errors import SHUTTING_DOWN, reason_of, status_name
from lakeport.catalog import RequestNotes
from lakeport.errors import UnavailableError

__all__ = ["CallEnded", "Calls", "NullObserver", "Observer", "RunningCall"]

_VERBS: Final = {
    flight.FlightMethod.LIST_FLIGHTS: "ListFlights",
    flight.FlightMethod.GET_FLIGHT_INFO: "GetFlightInfo",
    flight.FlightMethod.GET_SCHEMA: "GetSchema",
    flight.FlightMethod.DO_GET: "DoGet",
    flight.FlightMethod.DO_PUT: "DoPut",
    flight.FlightMethod.DO_EXCHANGE: "DoExchange",
    flight.FlightMethod.DO_ACTION: "DoAction",
    flight.FlightMethod.LIST_ACTIONS: "ListActions",
}


class Calls:
    """How many calls are running, and whether more are taken."""

    def __init__(self, observer: Observer | None = None) -> None:
        self.observer: Observer = NullObserver() if observer is None else observer
        self._changed = threading.Condition()
        self._running = 0
        self._draining = False
        self._abandoned = False

    def start(self, method: flight.FlightMethod, *, trace_id: str = "") -> RunningCall:
        """A call came in; it must be admitted, and ended in any case."""
        return RunningCall(self, _VERBS.get(method, "Other"), trace_id)

    def drain(self, limit: float) -> bool:
        """Take no more calls and wait for those that run; whether all of them ended."""
        with self._changed:
            self._draining = True
            self._changed.wait_for(lambda: self._abandoned or not self._running, timeout=limit)
            return not self._running

    def stop_waiting(self) -> None:
        """Take no more calls, and wait for none."""
        with self._changed:
            self._draining = self._abandoned = True
            self._changed.notify_all()

    @property
    def draining(self) -> bool:
        """Whether no more calls are taken."""
        return self._draining

    def admit(self) -> None:
        """Count a call, unless the server drains."""
        with self._changed:
            if self._draining:
                raise UnavailableError(SHUTTING_DOWN)
            self._running += 1

    def call_finished(self) -> None:
        """Count an admitted call as finished."""
        with self._changed:
            self._running -= 1
            self._changed.notify_all()


class RunningCall:
    """One call, while it runs."""

    def __init__(self, calls: Calls, verb: str, trace_id: str) -> None:
        self.notes = RequestNotes()
        self.identity = ""
        self.trace_id = trace_id
        self._calls = calls
        self._verb = verb
        self._began = time.monotonic()
        self._admitted = False
        calls.observer.call_started(verb)

    def admit(self) -> None:
        """Let the call in, unless the server drains."""
        self._calls.admit()
        self._admitted = True

    def end(self, error: BaseException | None) -> None:
        """The call is over."""
        notes = self.notes
        if error is None and notes.is_sending:
            # pyarrow 26 completes such a call without an error.
            error = flight.FlightCancelledError("the client went away before the last row was sent")
        try:
            self._calls.observer.call_ended(
                CallEnded(
                    self._verb,
                    status_name(error),
                    seconds=time.monotonic() - self._began,
                    reason="" if error is None else reason_of(error),
                    identity=self.identity,
                    catalog=notes.catalog,
                    table=notes.table,
                    snapshot=notes.snapshot,
                    operation=notes.operation,
                    rows_sent=notes.rows_sent,
                    bytes_sent=notes.bytes_sent,
                    rows_received=notes.rows_received,
                    bytes_received=notes.bytes_received,
                    peer=notes.peer,
                    trace_id=self.trace_id,
                )
            )
        finally:
            if self._admitted:
                self._calls.call_finished()


@dataclass(frozen=True, slots=True)
class CallEnded:
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

    def call_ended(self, call: CallEnded) -> None:
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


class NullObserver:
    """Looks away."""

    def call_started(self, verb: str) -> None:
        """Nothing."""

    def call_ended(self, call: CallEnded) -> None:
        """Nothing."""

    def scan_started(self) -> None:
        """Nothing."""

    def batch_sent(self, batch: pa.RecordBatch) -> None:
        """Nothing."""

    def scan_ended(self, *, complete: bool) -> None:
        """Nothing."""
