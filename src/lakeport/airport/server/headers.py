"""The headers of a call: the caller, the catalog and the transaction.

A Flight middleware reads them once per call, authenticates the caller, and passes both to the
handler. It also reports the start and the end of each call.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyarrow import flight

from lakeport._tracing import Span
from lakeport.airport.protocol.constants import (
    LIMIT_HEADER,
    NULL_COLUMNS_HEADER,
    ROWS_ONLY_HEADER,
)
from lakeport.airport.protocol.errors import translate_errors
from lakeport.airport.server.calls import Calls, RunningCall
from lakeport.airport.server.transactions import Transactions
from lakeport.auth import (
    ANONYMOUS,
    Authenticator,
    Identity,
    MayDo,
    SubjectAuthenticator,
    authenticate,
    bearer_token,
    identity_of,
)
from lakeport.catalog import Activity, RequestContext, RequestNotes
from lakeport.errors import InvalidArgumentError, UnauthenticatedError

__all__ = ["MIDDLEWARE", "Call", "HeaderMiddlewareFactory", "current_call"]

MIDDLEWARE = "lakeport"

_MAX_HEADER = 16 * 1024
_LIMIT = re.compile(r"[0-9]{1,18}")

_NO_FILTERS_AND_NO_COLUMNS = '{"filters":[],"column_binding_names_by_index":[]}'

# https://www.w3.org/TR/trace-context/: version, trace, span, flags. A trace of zeros is invalid.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*")
_PLAIN_TRACE = re.compile(r"([\w.:-]{1,128})", re.ASCII)


class ClientConnection:
    """The connection of the client of one call."""

    def __init__(self) -> None:
        self.context: flight.ServerCallContext | None = None
        """Flight's call context; None after the call ended, when using it would crash."""
        self.end: Callable[[], None] | None = None
        """The function to call when the call has ended."""

    def at_end(self, work: Callable[[], None]) -> None:
        """Call a function when the call has ended, before those that were given earlier."""
        before = self.end

        def run() -> None:
            work()
            if before is not None:
                before()

        self.end = run

    def is_cancelled(self) -> bool:
        """Return whether the client has cancelled the call or disconnected."""
        context = self.context
        return context is not None and bool(context.is_cancelled())


@dataclass(frozen=True, slots=True)
class Call:
    """The headers of one call, and its caller."""

    headers: Mapping[str, Sequence[str]]
    caller: Identity = ANONYMOUS
    connection: ClientConnection = field(default_factory=ClientConnection, compare=False)
    trace_id: str | None = None
    notes: RequestNotes = field(default_factory=RequestNotes, compare=False)
    span: Span | None = field(default=None, compare=False, repr=False)
    """The span of the call; None without tracing."""

    @property
    def identity(self) -> str:
        """The user of the caller; empty without authentication."""
        return self.caller.user

    def header(self, name: str) -> str | None:
        """Return the first value of a header; None if it is missing or empty."""
        values = self.headers.get(name)
        return values[0] or None if values else None

    @property
    def catalog(self) -> str:
        """The catalog that the client attached, or an empty string."""
        return self.header("airport-catalog") or ""

    @property
    def limit(self) -> int | None:
        """The most rows of a scan that the client will read; None means all."""
        text = self.header(LIMIT_HEADER)
        if text is None:
            return None
        if not _LIMIT.fullmatch(text):
            raise InvalidArgumentError(f"header {LIMIT_HEADER} is not a number of rows")
        return int(text)

    @property
    def accepts_null_columns(self) -> bool:
        """Whether columns that were not requested may have Arrow's null type, which has no bytes.

        DuckDB's client reads the columns that it requested by their positions, and looks neither at
        the others nor at the schema of the stream.
        """
        return self._is_duckdb or self.header(NULL_COLUMNS_HEADER) is not None

    def reads_rows_only(self, column_ids: Sequence[int], filters: str) -> bool:
        """Return whether the client reads no value of the one column that it requests.

        DuckDB names the columns of a statement beside its filters. For `count(*)` there are none,
        and it requests a column only because every scan must have one.
        """
        if len(column_ids) != 1:
            return False
        names_no_column = self._is_duckdb and filters == _NO_FILTERS_AND_NO_COLUMNS
        return names_no_column or self.header(ROWS_ONLY_HEADER) is not None

    @property
    def _is_duckdb(self) -> bool:
        return (self.header("airport-user-agent") or "").startswith("airport/")

    @property
    def owner(self) -> str | None:
        """The owner of transactions that a call belongs to: one DuckDB process of one identity."""
        session = self.header("airport-client-session-id")
        return f"{self.identity}\0{session}" if session else None

    def transaction(self, transactions: Transactions, catalog: str) -> str | None:
        """Return the transaction of the call on the catalog with this registered name, or None."""
        named = self.header("airport-transaction-id")
        return transactions.current(self.owner, catalog, named, identity=self.identity)

    def request(
        self, *, peer: str, may: MayDo, stopping: Callable[[], bool], activity: Activity
    ) -> RequestContext:
        """Return the context for catalog methods; routing sets its transaction and permissions."""
        self.notes.peer = peer
        return RequestContext(
            identity=self.identity,
            caller=self.caller,
            catalog=self.catalog,
            session_id=self.header("airport-client-session-id"),
            trace_id=self.trace_id,
            notes=self.notes,
            peer=peer,
            is_cancelled=lambda: (
                stopping() or bool(self.notes.cancelled) or self.connection.is_cancelled()
            ),
            may=may,
            activity=activity,
        )


class _HeaderMiddleware(flight.ServerMiddleware):  # type: ignore[misc]
    def __init__(
        self, call: Call, running: RunningCall, certificates: SubjectAuthenticator | None
    ) -> None:
        self.call = call
        self._running = running
        self._certificates = certificates

    def identify(self, context: flight.ServerCallContext) -> Call:
        """Return the call; if it has no token, its caller is the owner of the certificate.

        Flight passes the certificate to handlers only, so this is the first chance to read it.
        """
        if self._certificates is not None and self.call.caller is ANONYMOUS:
            subject = context.peer_identity() or b""
            caller = self._certificates.authenticate_subject(subject.decode("utf-8", "replace"))
            self.call = replace(self.call, caller=caller)
            self._running.identity = caller.user
        return self.call

    def call_completed(self, exception: BaseException | None) -> None:
        connection = self.call.connection
        connection.context = None
        if connection.end is not None:
            connection.end()
        self._running.end(exception)


class HeaderMiddlewareFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Reads and checks the headers of every call before its handler runs."""

    def __init__(
        self,
        authenticator: Authenticator | None,
        calls: Calls,
        certificates: SubjectAuthenticator | None = None,
    ) -> None:
        self._authenticator = authenticator
        self._calls = calls
        self._certificates = certificates

    def start_call(self, info: Any, headers: Mapping[str, Sequence[Any]]) -> _HeaderMiddleware:
        """Admit the call, authenticate the caller and return both with the headers."""
        running = self._calls.start(
            info.method,
            trace_id=_trace_id(headers),
            traceparent=_first_text(headers, "traceparent"),
        )
        try:
            with translate_errors("authentication", typed=False):
                running.admit()
                caller = self._caller(headers)
                running.identity = caller.user
                call = Call(
                    _texts(headers),
                    caller,
                    trace_id=running.trace_id,
                    notes=running.notes,
                    span=running.span,
                )
        except BaseException as error:
            # Flight does not call `call_completed` if `start_call` raises.
            running.end(error)
            raise
        return _HeaderMiddleware(call, running, self._certificates)

    def _caller(self, headers: Mapping[str, Sequence[Any]]) -> Identity:
        if self._authenticator is None:
            return ANONYMOUS
        token = bearer_token(next(iter(headers.get("authorization", ())), None))
        if token is None and self._certificates is not None:
            return ANONYMOUS
        if token is None:
            raise UnauthenticatedError(
                "this server needs a bearer token: CREATE SECRET (TYPE airport, AUTH_TOKEN '…', "
                "SCOPE '<location>') makes DuckDB send one on every call"
            )
        return identity_of(authenticate(self._authenticator.authenticate, token))


def current_call(context: flight.ServerCallContext) -> Call:
    """Return the call of a handler's context."""
    middleware = context.get_middleware(MIDDLEWARE)
    if middleware is None:
        return Call({})
    call: Call = middleware.identify(context)
    call.connection.context = context
    return call


def _trace_id(headers: Mapping[str, Sequence[Any]]) -> str:
    """Return the trace id that the client sent, or a new one if there is no valid one."""
    for name, form in (("traceparent", _TRACEPARENT), ("airport-trace-id", _PLAIN_TRACE)):
        for value in headers.get(name, ()):
            match = form.fullmatch(value) if isinstance(value, str) else None
            if match is not None:
                return str(match[1])
    return uuid.uuid4().hex


def _first_text(headers: Mapping[str, Sequence[Any]], name: str) -> str | None:
    value = next(iter(headers.get(name, ())), None)
    return value if isinstance(value, str) else None


def _texts(headers: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for name, values in headers.items():
        if name != "authorization":
            texts[name] = kept = [value for value in values if isinstance(value, str)]
            for value in kept:
                if len(value) > _MAX_HEADER:
                    raise InvalidArgumentError(f"header {name[:80]!r} is too long")
    return texts
