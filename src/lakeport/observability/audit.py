"""The audit trail: who did what, one JSON object a line.

Events have names, numbers and shapes, never values of rows, tokens or texts of filters. A full disk
ends no call: the trail reports once that events are lost, and writes how many when it can again.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from lakeport.airport.server import CallEnded
from lakeport.errors import DefinitionError
from lakeport.filters.encoders import filter_shape
from lakeport.observability.audit_table import AuditTable

__all__ = ["AuditTrail"]

_log = logging.getLogger("lakeport.audit")

_REFUSALS: Final = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED"})
_WRITES: Final = frozenset({"insert", "update", "delete"})
_STATEMENTS: Final = frozenset({"endpoints", "GetFlightInfo", "GetTableFunctionFlightInfo"})
_READING: Final = frozenset(
    {
        *("catalog_version", "flight_info", "column_statistics", "table_function_flight_info"),
        *("create_transaction", "get_transaction_status", "begin_transaction"),
        *("GetSchemas", "GetTables"),
    }
)


class AuditTrail:
    """Writes an event for each attach, statement, scan, write and refusal. An observer of calls.

    Args:
        target: A file, to which events are appended; `-` for standard output; None for no file.
        table: A table of a lake for the same events; it is closed with the trail.
    """

    def __init__(self, target: Path | str | None, *, table: AuditTable | None = None) -> None:
        self._lock = threading.Lock()
        self._lost = 0
        self._is_torn = False
        self._table = table
        self._descriptor: int | None = None
        self._owns_descriptor = target is not None and str(target) != "-"
        if target is None:
            return
        try:
            self._descriptor = (
                os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                if self._owns_descriptor
                else sys.stdout.fileno()
            )
        except OSError as error:
            raise DefinitionError(
                f"the audit trail {target} cannot be written: {error.strerror}"
            ) from None

    @property
    def is_failing(self) -> bool:
        """Whether the last event could not be written."""
        return self._lost > 0 or (self._table is not None and self._table.is_failing)

    def record(self, event: str, **facts: Any) -> None:
        """Write an event; facts that are empty are left out."""
        known = {name: value for name, value in facts.items() if value not in ("", None)}
        now = datetime.now(UTC)
        if self._table is not None:
            self._table.add({"time": now, "event": event, **known})
        time = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with self._lock:
            if self._lost:
                gap = {"time": time, "event": "gap", "events_lost": self._lost}
                if not self._write(gap):
                    self._lost += 1
                    return
                self._lost = 0
            if not self._write({"time": time, "event": event, **known}):
                self._lost = 1

    def close(self) -> None:
        """Close the file, and the table when its events are written."""
        with self._lock:
            if self._owns_descriptor and self._descriptor is not None:
                os.close(self._descriptor)
            self._descriptor = None
        if self._table is not None:
            self._table.close()

    def call_started(self, verb: str) -> None:
        """Ignore the event: a call is written when it has ended."""

    def call_ended(self, call: CallEnded) -> None:
        """Write the event of a call, if it is one of those that are written."""
        event = _event_of(call)
        if event is None:
            return
        self.record(
            event,
            user=call.identity,
            status=call.status,
            verb=call.verb,
            operation=call.operation,
            catalog=call.catalog,
            table=call.table,
            snapshot=call.snapshot,
            columns=call.columns,
            filter="" if call.filter is None else filter_shape(call.filter),
            rows=call.rows_sent or call.rows_received or None,
            bytes=call.bytes_sent or call.bytes_received or None,
            seconds=round(call.seconds, 6),
            peer=call.peer,
            trace_id=call.trace_id,
            # The reasons of other errors may contain values.
            reason=call.reason if event == "refusal" else "",
        )

    def scan_started(self) -> None:
        """Ignore the event: the end of the call is written."""

    def batch_sent(self, rows: int, size: int) -> None:
        """Ignore the event: rows are counted in the event of the call."""

    def scan_ended(self, *, complete: bool) -> None:
        """Ignore the event: the end of the call is written."""

    def _write(self, event: dict[str, Any]) -> bool:
        """Write a line; return whether all of it was written."""
        descriptor = self._descriptor
        if descriptor is None:
            return True
        line = (json.dumps(event) + "\n").encode()
        # A line of which a full disk took a part must not join the next.
        data = b"\n" + line if self._is_torn else line
        try:
            written = os.write(descriptor, data)
        except OSError as error:
            written, reason = 0, error.strerror or type(error).__name__
        else:
            reason = "the disk took only a part of a line"
        if written == len(data):
            self._is_torn = False
            return True
        self._is_torn = self._is_torn or written > 0
        if not self._lost:
            _log.error("the audit trail cannot be written, events are lost: %s", reason)
        return False


def _event_of(call: CallEnded) -> str | None:
    """Return the kind of event that a call is; None for calls that are not written."""
    if call.status in _REFUSALS:
        return "refusal"
    if call.verb == "DoGet":
        return "scan"
    if call.verb == "DoExchange":
        return "write" if call.operation in _WRITES else "statement"
    if call.operation == "list_schemas" or call.verb == "ListFlights":
        return "attach"
    if call.operation in _STATEMENTS or call.verb == "GetFlightInfo":
        return "statement"
    if call.verb != "DoAction" or call.operation in _READING:
        return None
    return "write"
