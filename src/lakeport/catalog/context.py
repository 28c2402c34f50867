"""Who is calling: the request that a catalog method is answering.

The context is a `ContextVar`: every request has its own, whatever the number of threads. A thread
that you start yourself sees none unless you start it with `contextvars.copy_context().run`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lakeport.auth import MayDo, allow_everything

__all__ = [
    "RequestContext",
    "RequestNotes",
    "current_request",
    "note_snapshot",
    "once_per_request",
    "request_scope",
    "set_request",
]

T = TypeVar("T")


def _not_cancelled() -> bool:
    return False


@dataclass(slots=True)
class RequestNotes:
    """What was found out about a request while it was answered, for logs and metrics."""

    catalog: str = ""
    """The name that the catalog is served by; empty until it is found."""
    table: str = ""
    """The table, function or schema, as `schema.name`; the last one that was asked for."""
    snapshot: str = ""
    """The snapshot or version that was read."""
    operation: str = ""
    """The action, or the operation of an exchange."""
    peer: str = ""
    """The network address of the client."""
    is_sending: bool = False
    """Whether a scan has begun and not yet sent its last row."""
    rows_sent: int = 0
    bytes_sent: int = 0
    rows_received: int = 0
    bytes_received: int = 0


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What is known about the request being answered."""

    identity: str = ""
    """Who is calling, as told by the authenticator; empty without authentication."""
    catalog: str = ""
    """The name that the client attached the catalog by."""
    transaction_id: str | None = None
    """The client's transaction, if the catalog has transactions."""
    session_id: str | None = None
    """One per DuckDB process."""
    trace_id: str | None = None
    """Shared by the calls of one scan: that of `traceparent`, DuckDB's own, or a new one."""
    peer: str = field(default="", compare=False)
    """The network address of the client."""
    is_cancelled: Callable[[], bool] = field(default=_not_cancelled, compare=False, repr=False)
    """Whether the client has gone away or the server stops, for work that takes long before it has
    an answer."""
    may: MayDo = field(default=allow_everything, compare=False, repr=False)
    """Whether the caller may do something with an object: asks the authorizer of the server.

    The server asks by itself about the object that a call names. A catalog asks about every other
    object whose rows, columns or name its answer holds, such as the tables that a view reads:
    `current_request().may(Operation.READ, "sales", "orders")`. Everything is allowed outside of a
    request, so ask in the thread that answers it.
    """
    notes: RequestNotes = field(default_factory=RequestNotes, compare=False, repr=False)
    """What the log records of the call."""
    facts: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)
    """Values that `once_per_request` has computed."""


NO_REQUEST = RequestContext()
_current: ContextVar[RequestContext] = ContextVar("lakeport_request", default=NO_REQUEST)


def current_request() -> RequestContext:
    """The request being answered; an empty one outside of any request."""
    return _current.get()


def note_snapshot(snapshot: int | str) -> None:
    """Log the call that is being answered with the snapshot or version that it reads."""
    _current.get().notes.snapshot = str(snapshot)


def once_per_request(key: Hashable, compute: Callable[[], T]) -> T:
    """Return what `compute` returns. Each request computes it once for a key.

    Outside of a request, every call computes it again.
    """
    request = _current.get()
    if request is NO_REQUEST:
        return compute()
    if key not in request.facts:
        request.facts[key] = compute()
    value: T = request.facts[key]
    return value


@contextmanager
def request_scope(request: RequestContext) -> Iterator[RequestContext]:
    """Answer `current_request()` with this request inside the block."""
    token = _current.set(request)
    try:
        yield request
    finally:
        _current.reset(token)


def set_request(request: RequestContext) -> None:
    """Answer `current_request()` with this request for the rest of the present scope."""
    _current.set(request)
