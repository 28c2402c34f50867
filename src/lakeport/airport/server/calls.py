"""The calls of a server: counted, listed, reported to its observer, rejected while it drains.

A call lasts from its headers to its last byte. That is later than its handler returns, because the
rows of a scan are sent after that.
"""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

from pyarrow import flight

from lakeport._tracing import end_span, start_span
from lakeport.airport.protocol.errors import SHUTTING_DOWN, reason_of, status_name
from lakeport.catalog import CallRecord, RequestNotes
from lakeport.errors import CancelledError, UnavailableError
from lakeport.filters import Filter
from lakeport.filters.encoders import filter_shape

__all__ = [
    "CallEnded",
    "Calls",
    "NullObserver",
    "Observer",
    "RunningCall",
    "check_not_cancelled",
]

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

_MAX_RECENT: Final = 500

# Ids of calls are short, and differ between servers.
_PROCESS: Final = secrets.token_hex(4)
_numbers = itertools.count(1)

# Calls that read or change rows. Of the others, those that failed are kept as well.
_ROW_VERBS: Final = frozenset({"DoGet", "DoExchange"})


class Calls:
    """The running calls, the recent ones, and whether new ones are accepted."""

    def __init__(self, observer: Observer | None = None) -> None:
        self.observer: Observer = NullObserver() if observer is None else observer
        self._changed = threading.Condition()
        self._running: dict[str, RunningCall] = {}
        self._recent: deque[RunningCall] = deque(maxlen=_MAX_RECENT)
        self._draining = False
        self._stopped_waiting = False

    def start(
        self, method: flight.FlightMethod, *, trace_id: str = "", traceparent: str | None = None
    ) -> RunningCall:
        """Return a new call. It must be admitted, and `end` must be called in any case."""
        return RunningCall(self, _VERBS.get(method, "Other"), trace_id, traceparent)

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

    def calls(self) -> list[CallRecord]:
        """Return the running calls, then the recent ones, each newest first."""
        with self._changed:
            running, recent = list(self._running.values()), list(self._recent)
        return [call.record() for call in (*reversed(running), *reversed(recent))]

    def cancel(self, call_id: str, reason: str) -> bool:
        """End a running call with an error; return False if there is no such call."""
        with self._changed:
            call = self._running.get(call_id)
        if call is None or call.status != "RUNNING":
            return False
        call.notes.cancelled = reason
        return True

    def admit(self, call: RunningCall) -> None:
        """Count a call; raise `UnavailableError` if the server drains."""
        with self._changed:
            if self._draining:
                raise UnavailableError(SHUTTING_DOWN)
            self._running[call.id] = call

    def call_finished(self, call: RunningCall) -> None:
        """Count an admitted call as finished."""
        with self._changed:
            del self._running[call.id]
            if call.verb in _ROW_VERBS or call.status != "OK":
                self._recent.append(call)
            if self._draining:
                self._changed.notify_all()


class RunningCall:
    """One running call."""

    def __init__(
        self, calls: Calls, verb: str, trace_id: str, traceparent: str | None = None
    ) -> None:
        self.id = f"{next(_numbers):x}-{_PROCESS}"
        self.notes = RequestNotes()
        self.identity = ""
        self.trace_id = trace_id
        self.verb = verb
        self.status = "RUNNING"
        self._calls = calls
        self._error = ""
        self.span = start_span(verb, traceparent)
        """The span of the call; None without tracing."""
        self._started = time.monotonic()
        self._ended: float | None = None
        self._admitted = False
        calls.observer.call_started(verb)

    def admit(self) -> None:
        """Admit the call; raise `UnavailableError` if the server drains."""
        self._calls.admit(self)
        self._admitted = True

    def end(self, error: BaseException | None) -> None:
        """Report the end of the call to the observer."""
        notes = self.notes
        if error is None and notes.is_sending:
            # pyarrow 26 completes such a call without an error.
            error = flight.FlightCancelledError(
                "the client disconnected before the last row was sent"
            )
        self._ended = time.monotonic()
        # It may refer to what the call has read, and ended calls are kept for a while.
        notes.progress = None
        self.status = status_name(error)
        self._error = "" if error is None else reason_of(error)
        if self.span is not None:
            end_span(self.span, self._error, self._facts())
        try:
            self._calls.observer.call_ended(
                CallEnded(
                    self.verb,
                    self.status,
                    seconds=self._ended - self._started,
                    reason=self._error,
                    identity=self.identity,
                    catalog=notes.catalog,
                    table=notes.table,
                    snapshot=notes.snapshot,
                    operation=notes.operation,
                    columns=notes.columns,
                    filter=notes.filter,
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
                self._calls.call_finished(self)

    def _facts(self) -> dict[str, str | int]:
        """Return the attributes of the call's span."""
        notes = self.notes
        return {
            "status": self.status,
            "identity": self.identity,
            "catalog": notes.catalog,
            "table": notes.table,
            "snapshot": notes.snapshot,
            "operation": notes.operation,
            "rows_sent": notes.rows_sent,
            "bytes_sent": notes.bytes_sent,
            "rows_received": notes.rows_received,
            "bytes_received": notes.bytes_received,
        }

    def record(self) -> CallRecord:
        """Return what is known of the call now."""
        notes = self.notes
        ended, progress = self._ended, notes.progress
        age = time.monotonic() - self._started
        return CallRecord(
            id=self.id,
            state=self.status,
            started=datetime.fromtimestamp(time.time() - age, UTC),
            seconds=age if ended is None else ended - self._started,
            verb=self.verb,
            operation=notes.operation,
            identity=self.identity,
            catalog=notes.catalog,
            table=notes.table,
            snapshot=notes.snapshot,
            columns=notes.columns,
            filter="" if notes.filter is None else filter_shape(notes.filter),
            progress="" if progress is None else progress(),
            rows_sent=notes.rows_sent,
            bytes_sent=notes.bytes_sent,
            rows_received=notes.rows_received,
            bytes_received=notes.bytes_received,
            peer=notes.peer,
            trace_id=self.trace_id,
            error=self._error,
            **asdict(notes.scan),
        )


def check_not_cancelled(notes: RequestNotes) -> None:
    """Raise `CancelledError` if an operator has cancelled the call."""
    if notes.cancelled:
        raise CancelledError(notes.cancelled)


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
    columns: str = ""
    """The columns that a scan reads, separated by commas; empty for all."""
    filter: Filter | None = None
    """The filter of a scan."""
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

    def batch_sent(self, rows: int, size: int) -> None:
        """Receive the rows and the bytes of a batch of a scan that was passed to gRPC."""
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

    def batch_sent(self, rows: int, size: int) -> None:
        """Do nothing."""

    def scan_ended(self, *, complete: bool) -> None:
        """Do nothing."""
