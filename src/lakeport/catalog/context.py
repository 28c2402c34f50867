"""The current request: identity, catalog and transaction of the call that a method handles.

The context is a `ContextVar`, so every request has its own. A thread that you start yourself has
none, unless you start it with `contextvars.copy_context().run`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from lakeport._sharing import CALLER
from lakeport.auth import (
    ANONYMOUS,
    NO_OTHERS,
    Identity,
    MayDo,
    OtherCallers,
    RestrictionOf,
    allow_everything,
    no_restriction,
)
from lakeport.catalog.activity import NO_ACTIVITY, NO_SCAN, Activity, ScanNotes
from lakeport.filters import Filter

__all__ = [
    "RequestContext",
    "RequestNotes",
    "current_request",
    "forget_fact",
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
    """Facts about a request that are recorded while it is handled, for logs and metrics."""

    catalog: str = ""
    """The registered name of the catalog; empty until the request is routed."""
    table: str = ""
    """The table, function or schema, as `schema.name`; the last one that was requested."""
    snapshot: str = ""
    """The snapshot or version that was read."""
    operation: str = ""
    """The action, or the operation of an exchange."""
    columns: str = ""
    """The columns that a scan reads, separated by commas; empty for all."""
    filter: Filter | None = None
    """The filter of a scan."""
    cancelled: str = ""
    """Why an operator has cancelled the call; empty if none has."""
    peer: str = ""
    """The network address of the client."""
    scan: ScanNotes = NO_SCAN
    """What a scan of a lake reads and leaves out."""
    progress: Callable[[], str] | None = None
    """Returns what the call does now or waits for; called by other threads, until it ends."""
    is_sending: bool = False
    """Whether a scan has begun and not yet sent its last row."""
    rows_sent: int = 0
    bytes_sent: int = 0
    rows_received: int = 0
    bytes_received: int = 0


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The request that is being handled."""

    identity: str = ""
    """The user that the authenticator returned; empty without authentication."""
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
    """Return whether the client has disconnected or the server stops. Long work should check it."""
    may: MayDo = field(default=allow_everything, compare=False, repr=False)
    """Return whether the caller may do something with an object. Calls the server's authorizer.

    The server checks the object that a call names. A catalog must check every other object whose
    rows, columns or name it returns, such as the tables that a view reads:
    `current_request().may(Operation.READ, "sales", "orders")`. Outside of a request everything is
    allowed, so call it in the thread that handles the request.
    """
    restriction: RestrictionOf = field(default=no_restriction, compare=False, repr=False)
    """Return which rows and columns of a table the caller sees; None if all.

    A catalog that is no `PolicyCatalog` never sees another value than None: the server refuses the
    tables of other catalogs to callers with a restriction.
    """
    others: OtherCallers = field(default=NO_OTHERS, compare=False, repr=False)
    """What other callers may do, for administrators."""
    activity: Activity = field(default=NO_ACTIVITY, compare=False, repr=False)
    """The calls of the server, running and recent."""
    caller: Identity = field(default=ANONYMOUS, compare=False)
    """The caller, with groups and attributes."""
    notes: RequestNotes = field(default_factory=RequestNotes, compare=False, repr=False)
    """Facts about the call for the log."""
    facts: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)
    """Values that `once_per_request` has computed."""

    @property
    def owner(self) -> str | None:
        """The owner of transactions of several statements: one DuckDB process of one identity."""
        return f"{self.identity}\0{self.session_id}" if self.session_id else None

    def bound(
        self,
        *,
        transaction_id: str | None,
        may: MayDo,
        restriction: RestrictionOf = no_restriction,
        others: OtherCallers = NO_OTHERS,
    ) -> RequestContext:
        """Return the request in a transaction, with permissions of the catalog that it names."""
        if (
            transaction_id == self.transaction_id
            and may is self.may
            and restriction is self.restriction
        ):
            return self
        return replace(
            self,
            transaction_id=transaction_id,
            may=may,
            restriction=restriction,
            others=others,
        )


NO_REQUEST = RequestContext()
_current: ContextVar[RequestContext] = ContextVar("lakeport_request", default=NO_REQUEST)


def current_request() -> RequestContext:
    """Return the request that is being handled; an empty one outside of a request."""
    return _current.get()


def note_snapshot(snapshot: int | str) -> None:
    """Record the snapshot or version that the current call reads, for the log."""
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


def forget_fact(key: Hashable) -> None:
    """Let `once_per_request` compute a value of the current request again."""
    request = _current.get()
    if request is not NO_REQUEST:
        request.facts.pop(key, None)


class request_scope:  # noqa: N801 (used like a function; quicker than a generator)
    """Make `current_request()` return this request inside the block."""

    __slots__ = ("_caller", "_request", "_token")

    def __init__(self, request: RequestContext) -> None:
        self._request = request

    def __enter__(self) -> RequestContext:
        self._token = _current.set(self._request)
        self._caller = CALLER.set(self._request.identity)
        return self._request

    def __exit__(self, *_: object) -> None:
        CALLER.reset(self._caller)
        _current.reset(self._token)


def set_request(request: RequestContext) -> None:
    """Make `current_request()` return this request for the rest of the current scope."""
    _current.set(request)
