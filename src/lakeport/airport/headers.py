"""The headers of a call: who calls, for which catalog, in which transaction.

A Flight middleware reads them once per call, authenticates the caller, and keeps both for the
handler. It also tells when a call begins and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyarrow import flight

from lakeport.airport.calls import Calls, RunningCall
from lakeport.airport.status import answering
from lakeport.airport.transactions import Transactions
from lakeport.auth import Authenticator, bearer_token, identify
from lakeport.catalog import RequestContext
from lakeport.errors import InvalidArgumentError, UnauthenticatedError

__all__ = ["MIDDLEWARE", "Call", "HeaderMiddlewareFactory", "call_of"]

MIDDLEWARE = "lakeport"

_MAX_HEADER = 16 * 1024


class Presence:
    """Whether the client of a call has gone away."""

    def __init__(self) -> None:
        self.context: flight.ServerCallContext | None = None
        """Flight's own context; None once the call has ended, when nobody may touch it."""
        self.end: Callable[[], None] | None = None
        """Is called when the call has ended."""

    def is_cancelled(self) -> bool:
        """Whether nobody waits for the answer any more."""
        context = self.context
        return context is not None and bool(context.is_cancelled())


@dataclass(frozen=True, slots=True)
class Call:
    """The headers of one call, and the identity behind its token."""

    headers: Mapping[str, Sequence[str]]
    identity: str
    presence: Presence = field(default_factory=Presence, compare=False)

    def header(self, name: str) -> str | None:
        """The first value of a header, or None; an empty value counts as none."""
        values = self.headers.get(name)
        return values[0] or None if values else None

    @property
    def catalog(self) -> str:
        """The catalog that the client attached, or an empty string."""
        return self.header("airport-catalog") or ""

    @property
    def owner(self) -> str | None:
        """Whose transactions a call may join: one DuckDB process of one identity."""
        session = self.header("airport-client-session-id")
        return f"{self.identity}\0{session}" if session else None

    def transaction(self, transactions: Transactions, catalog: str) -> str | None:
        """The transaction that the call belongs to on a catalog, by the server's name of it."""
        given = self.header("airport-transaction-id")
        return transactions.current(self.owner, catalog, given, identity=self.identity)

    def request(self, *, peer: str, stopping: Callable[[], bool]) -> RequestContext:
        """The context that catalog methods see; the transaction depends on the catalog."""
        return RequestContext(
            identity=self.identity,
            catalog=self.catalog,
            session_id=self.header("airport-client-session-id"),
            trace_id=self.header("airport-trace-id"),
            peer=peer,
            is_cancelled=lambda: stopping() or self.presence.is_cancelled(),
        )


class _HeaderMiddleware(flight.ServerMiddleware):  # type: ignore[misc]
    def __init__(self, call: Call, running: RunningCall) -> None:
        self.call = call
        self._running = running

    def call_completed(self, exception: BaseException | None) -> None:
        presence = self.call.presence
        presence.context = None
        if presence.end is not None:
            presence.end()
        self._running.end(exception)


class HeaderMiddlewareFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Reads and checks the headers of every call before its handler runs."""

    def __init__(self, authenticator: Authenticator | None, calls: Calls) -> None:
        self._authenticator = authenticator
        self._calls = calls

    def start_call(self, info: Any, headers: Mapping[str, Sequence[Any]]) -> _HeaderMiddleware:
        """Let the call in, authenticate the caller and keep the headers."""
        running = self._calls.start(info.method)
        try:
            with answering("authentication", typed=False):
                running.admit()
                call = Call(_texts(headers), self._identity(headers))
        except BaseException as error:
            # Flight does not complete a call that its middleware refused.
            running.end(error)
            raise
        return _HeaderMiddleware(call, running)

    def _identity(self, headers: Mapping[str, Sequence[Any]]) -> str:
        if self._authenticator is None:
            return ""
        token = bearer_token(next(iter(headers.get("authorization", ())), None))
        if token is None:
            raise UnauthenticatedError(
                "this server needs a bearer token: CREATE SECRET (TYPE airport, AUTH_TOKEN '…', "
                "SCOPE '<location>') makes DuckDB send one on every call"
            )
        return identify(self._authenticator.authenticate, token)


def call_of(context: flight.ServerCallContext) -> Call:
    """The call that a handler is answering."""
    middleware = context.get_middleware(MIDDLEWARE)
    if middleware is None:
        return Call({}, "")
    call: Call = middleware.call
    call.presence.context = context
    return call


def _texts(headers: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    kept = {
        name: [value for value in values if isinstance(value, str)]
        for name, values in headers.items()
        if name != "authorization"
    }
    for name, values in kept.items():
        if any(len(value) > _MAX_HEADER for value in values):
            raise InvalidArgumentError(f"header {name[:80]!r} is too long")
    return kept
