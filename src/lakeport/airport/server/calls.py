"""The running calls of a server: counted, reported to its observer, rejected while it drains.

A call lasts from its headers to its last byte. That is later than its handler returns, because the
rows of a scan are sent after that.
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
    """The number of running calls, and whether new ones are accepted."""

    def __init__(self, observer: Observer | None = None) -> None:
        self.observer: Observer = NullObserver() if observer is None else observer
        self._changed = threading.Condition()
        self._running = 0
        self._draining = False
        self._stopped_waiting = False

    def start(self, method: flight.FlightMethod, *, trace_id: str = "") -> RunningCall:
        """Return a new call. It must be admitted, and `end` must be called in any case."""
        return RunningCall(self, _VERBS.get(method, "Other"), trace_id)

    def drain(self, limit: float) -> bool:
        """Accept no more calls, wait for the running ones, and return whether all ended."""
        with self._changed:
            self._draining = True
            self._changed.wait_for(
                lambda: self._stopped_waiting or not self._running, timeout=limit
            )
            return not self._running

    def stop_waiting(self) -> None:
        """Accept no more calls, and end the wait of `drain`."""
        with self._changed:
            self._draining = self._stopped_waiting = True
            self._changed.notify_all()

    @property
    def draining(self) -> bool:
        """Whether no more calls are accepted."""
        return self._draining

    def admit(self) -> None:
        """Count a call; raise `UnavailableError` if the server drains."""
        with self._changed:
            if self._draining:
                raise UnavailableError(SHUTTING_DOWN)
            self._running += 1

    def call_finished(self) -> None:
        """Count an admitted call as finished."""
        with self._changed:
            self._running -= 1
            if self._draining:
                self._changed.notify_all()


class RunningCall:
    """One running call."""

    def __init__(self, calls: Calls, verb: str, trace_id: str) -> None:
        self.notes = RequestNotes()
        self.identity = ""
        self.trace_id = trace_id
        self._calls = calls
        self._verb = verb
        self._started = time.monotonic()
        self._admitted = False
        calls.observer.call_started(verb)

    def admit(self) -> None:
        """Admit the call; raise `UnavailableError` if the server drains."""
        self._calls.admit()
        self._admitted = True

    def end(self, error: BaseException | None) -> None:
        """Report the end of the call to the observer."""
        notes = self.notes
        if error is None and notes.is_sending:
            # pyarrow 26 completes such a call without an error.
            error = flight.FlightCancelledError(
                "the client disconnected before the last row was sent"
            )
        try:
            self._calls.observer.call_ended(
                CallEnded(
                    self._verb,
                    status_name(error),
                    seconds=time.monotonic() - self._started,
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
    """The gRPC code that the client received: `OK`, `NOT_FOUND`, `UNAVAILABLE` …"""
    seconds: float
    """From its headers to its end, including the time that a slow client takes to read."""
    reason: str = ""
    """The error message that the client received; empty for `OK`."""
    identity: str = ""
    """The identity of the caller; empty without authentication, and for a rejected token."""
    catalog: str = ""
    """The registered name of the catalog; empty if the call names no existing one."""
    table: str = ""
    """The table, function or schema as `schema.name`, even if it is missing or not permitted."""
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
    """The network address of the client; empty for a call that was rejected before its handler."""
    trace_id: str = ""
    """The trace of the header `traceparent`, or of `airport-trace-id`, or a new one."""


class Observer(Protocol):
    """Receives the events of a server.

    The methods are called from several threads. They must return quickly and must not raise.
    """

    def call_started(self, verb: str) -> None:
        """Receive the start of a call."""
        ...

    def call_ended(self, call: CallEnded) -> None:
        """Receive the end of a call that succeeded, failed, was rejected or was cancelled."""
        ...

    def scan_started(self) -> None:
        """Receive the start of a scan, before its rows are read."""
        ...

    def batch_sent(self, batch: pa.RecordBatch) -> None:
        """Receive a batch of a scan that was passed to gRPC."""
        ...

    def scan_ended(self, *, complete: bool) -> None:
        """Receive the end of a scan; `complete` if all of its rows were sent."""
        ...


class NullObserver:
    """Ignores every event."""

    def call_started(self, verb: str) -> None:
        """Do nothing."""

    def call_ended(self, call: CallEnded) -> None:
        """Do nothing."""

    def scan_started(self) -> None:
        """Do nothing."""

    def batch_sent(self, batch: pa.RecordBatch) -> None:
        """Do nothing."""

    def scan_ended(self, *, complete: bool) -> None:
        """Do nothing."""
