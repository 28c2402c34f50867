"""What a server does now and did lately: its calls, which an operator may list and cancel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

__all__ = ["NO_ACTIVITY", "NO_SCAN", "Activity", "CallRecord", "ScanNotes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One call of a client that reads or changes something, as far as it has come."""

    id: str
    state: str
    """`RUNNING`, or the gRPC code that the client received: `OK`, `CANCELLED` …"""
    started: datetime
    seconds: float
    """Until now, or until the last byte."""
    verb: str
    """The Flight verb: `DoGet`, `DoExchange`, `DoAction` …"""
    operation: str = ""
    """The action, or the operation of an exchange."""
    identity: str = ""
    catalog: str = ""
    table: str = ""
    snapshot: str = ""
    columns: str = ""
    """The requested columns, separated by commas; empty for all."""
    filter: str = ""
    """The shape of the filter, with `?` in place of values."""
    engine: str = ""
    """Which engine reads the rows of a lake: `local` or `spark`."""
    files: int = 0
    """The live files of the scanned table."""
    files_pruned_by_partition: int = 0
    """How many of them are not read, because their partition values do not match the filter."""
    files_pruned_by_statistics: int = 0
    """How many are not read, because their bounds do not match the filter."""
    tasks: int = 0
    """The tasks that read the rows of this call."""
    bytes_to_read: int = 0
    """The bytes of files and inlined rows that these tasks read."""
    progress: str = ""
    """What a running call does or waits for, where it is known."""
    rows_sent: int = 0
    bytes_sent: int = 0
    rows_received: int = 0
    bytes_received: int = 0
    peer: str = ""
    trace_id: str = ""
    error: str = ""
    """The error message that the client received."""

    @property
    def is_running(self) -> bool:
        """Whether the call has not ended."""
        return self.state == "RUNNING"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanNotes:
    """What a scan of a lake reads and leaves out; see the fields of `CallRecord`."""

    engine: str = ""
    files: int = 0
    files_pruned_by_partition: int = 0
    files_pruned_by_statistics: int = 0
    tasks: int = 0
    bytes_to_read: int = 0


NO_SCAN: Final = ScanNotes()


class Activity(Protocol):
    """The calls of a server. Every method is safe to call from several threads."""

    @property
    def draining(self) -> bool:
        """Whether the server ends as soon as the running calls have ended."""
        ...

    def calls(self) -> Sequence[CallRecord]:
        """Return the running calls, then the recent ones, each newest first."""
        ...

    def cancel(self, call_id: str, reason: str) -> bool:
        """End a running call with an error; return False if there is no such call."""
        ...


class _NoActivity:
    """The activity outside of a server: none."""

    draining: Final = False

    def calls(self) -> Sequence[CallRecord]:
        return ()

    def cancel(self, call_id: str, reason: str) -> bool:  # noqa: ARG002
        return False


NO_ACTIVITY: Final[Activity] = _NoActivity()
