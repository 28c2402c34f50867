"""What a server does now and did lately: its calls, which an operator may list and cancel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

__all__ = ["NO_ACTIVITY", "Activity", "CallRecord"]


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


class Activity(Protocol):
    """The calls of a server. Every method is safe to call from several threads."""

    def calls(self) -> Sequence[CallRecord]:
        """Return the running calls, then the recent ones, each newest first."""
        ...

    def cancel(self, call_id: str, reason: str) -> bool:
        """End a running call with an error; return False if there is no such call."""
        ...


class _NoActivity:
    """The activity outside of a server: none."""

    def calls(self) -> Sequence[CallRecord]:
        return ()

    def cancel(self, call_id: str, reason: str) -> bool:  # noqa: ARG002
        return False


NO_ACTIVITY: Final[Activity] = _NoActivity()
