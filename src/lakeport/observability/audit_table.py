"""Events of the audit trail as rows of a table of a lake, written by the lake's own write path.

Events wait in a bounded queue and are written by a thread, many with one snapshot. A caller never
waits for it. The thread writes to the lake directly and not by a server, so that writing events
makes no events.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from lakeport.ducklake import Lake
from lakeport.errors import DefinitionError, NotFoundError, first_line

__all__ = ["AuditTable"]

_log = logging.getLogger("lakeport.audit")

_MAX_EVENTS: Final = 10_000
_TEXTS: Final = (
    *("event", "user", "status", "verb", "operation", "catalog", "table"),
    *("snapshot", "columns", "filter", "peer", "trace_id", "reason"),
)
_NUMBERS: Final = ("rows", "bytes", "events_lost")
_SCHEMA: Final = pa.schema(
    [
        pa.field("time", pa.timestamp("us", "UTC")),
        *(pa.field(name, pa.string()) for name in _TEXTS),
        *(pa.field(name, pa.int64()) for name in _NUMBERS),
        pa.field("seconds", pa.float64()),
        pa.field("more", pa.string()),
    ]
)


class AuditTable:
    """Writes events to a table of a lake, which is created if it is missing.

    Args:
        lake: The lake; it is closed with the table.
        name: The table, as `schema.table` in the names of the lake.
        seconds: How long events wait for others before they are written.
        max_events: How many events wait at most; more are lost, and counted.
    """

    def __init__(
        self, lake: Lake, name: str, *, seconds: float = 5.0, max_events: int = _MAX_EVENTS
    ) -> None:
        schema, separator, table = name.partition(".")
        if not schema or not separator or not table:
            raise DefinitionError(f"the table of the audit trail is schema.table, not {name!r}")
        self._lake, self._schema, self._table = lake, schema, table
        self._seconds, self._max_events = seconds, max_events
        self._condition = threading.Condition()
        # Guarded by the condition.
        self._waiting: list[Mapping[str, Any]] = []
        self._lost = 0
        self._is_failing = False
        self._is_closed = False
        self._create()
        self._thread = threading.Thread(target=self._run, name="lakeport-audit", daemon=True)
        self._thread.start()

    @property
    def is_failing(self) -> bool:
        """Whether the last events could not be written, or had to be left out."""
        return self._is_failing or self._lost > 0

    def add(self, event: Mapping[str, Any]) -> None:
        """Queue an event; count it as lost if too many wait."""
        with self._condition:
            if self._is_closed or len(self._waiting) >= self._max_events:
                self._lose(1)
                return
            self._waiting.append(event)
            self._condition.notify_all()

    def close(self) -> None:
        """Write the events that wait, and close the lake."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()
        self._thread.join()
        self._lake.close()

    def _create(self) -> None:
        lake = self._lake
        if self._schema.lower() not in {each.name.lower() for each in lake.schemas()}:
            lake.create_schema(self._schema)
        try:
            found = lake.table(self._table, self._schema)
        except NotFoundError:
            lake.create_table(self._table, _SCHEMA, self._schema)
            return
        missing = sorted({*_SCHEMA.names} - {*found.schema.names})
        if missing:
            raise DefinitionError(
                f"the table {self._schema}.{self._table} cannot hold the audit trail: it has no "
                f"column {missing[0]!r}"
            )

    def _run(self) -> None:
        is_closed = False
        while not is_closed:
            with self._condition:
                self._condition.wait_for(lambda: self._waiting or self._is_closed)
                # More events may come soon, and are written with the same snapshot.
                self._condition.wait_for(lambda: self._is_closed, timeout=self._seconds)
                is_closed = self._is_closed
            self._write()

    def _write(self) -> None:
        with self._condition:
            events, self._waiting = self._waiting, []
            lost = self._lost
        if lost:
            gap = {"time": datetime.now(UTC), "event": "gap", "events_lost": lost}
            events = [gap, *events]
        if not events:
            return
        try:
            self._lake.table(self._table, self._schema).append(_rows(events))
        except Exception as error:  # noqa: BLE001 (the thread must go on)
            self._failed(events[1:] if lost else events, error)
            return
        with self._condition:
            self._lost -= lost
            self._is_failing = False

    def _failed(self, events: list[Mapping[str, Any]], error: Exception) -> None:
        """Keep the events for the next attempt, as far as there is room."""
        with self._condition:
            if not self._is_failing:
                _log.error("the audit table cannot be written: %s", first_line(error))
            self._is_failing = True
            together = [*events, *self._waiting]
            self._waiting = together[: self._max_events]
            left_out = len(together) - len(self._waiting)
            if self._is_closed:
                left_out, self._waiting = len(together), []
            if left_out:
                self._lose(left_out)

    def _lose(self, count: int) -> None:
        if not self._lost:
            _log.error("the audit table takes too long, events are lost")
        self._lost += count


def _rows(events: list[Mapping[str, Any]]) -> pa.Table:
    rows = []
    for event in events:
        row = {name: event[name] for name in _SCHEMA.names if name in event}
        row |= {name: str(row[name]) for name in _TEXTS if name in row}
        more = {name: value for name, value in event.items() if name not in row}
        rows.append({**row, "more": json.dumps(more) if more else None})
    return pa.Table.from_pylist(rows, schema=_SCHEMA)
