"""The Flight verbs: each method finds the call of a request and runs its handler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyarrow import flight

from lakeport._tracing import inside
from lakeport.airport.protocol.addresses import ACTIONS, check_not_flight_sql, flight_sql_error
from lakeport.airport.protocol.errors import translate_errors
from lakeport.airport.server.actions.action_table import BoundAction
from lakeport.airport.server.actions.ddl import DDL_ACTIONS
from lakeport.airport.server.actions.discovery import DISCOVERY_ACTIONS
from lakeport.airport.server.actions.discovery_writes import DISCOVERY_WRITES
from lakeport.airport.server.actions.metadata import METADATA_ACTIONS
from lakeport.airport.server.actions.transactions import TRANSACTION_ACTIONS
from lakeport.airport.server.headers import Call, current_call
from lakeport.airport.server.routing import CatalogRoute
from lakeport.airport.server.state import ServerState
from lakeport.airport.server.verbs.do_exchange import OperationHandler, run_exchange
from lakeport.airport.server.verbs.do_get import open_stream
from lakeport.airport.server.verbs.exchange_dml import delete, insert, update
from lakeport.airport.server.verbs.exchange_functions import (
    call_in_out_function,
    call_scalar_function,
)
from lakeport.airport.server.verbs.flight_info import flight_info, flight_schema, list_flights
from lakeport.auth import Operation
from lakeport.catalog import Action, ActionCatalog, request_scope
from lakeport.errors import NotFoundError, PermissionDeniedError, UnsupportedError

__all__ = ["FlightService"]

_ACTIONS: Final[dict[str, BoundAction]] = {
    action.name: action
    for table in (
        METADATA_ACTIONS,
        DDL_ACTIONS,
        TRANSACTION_ACTIONS,
        DISCOVERY_ACTIONS,
        DISCOVERY_WRITES,
    )
    for action in table
}

_OPERATIONS: Final[dict[str, OperationHandler]] = {
    "insert": insert,
    "update": update,
    "delete": delete,
    "scalar_function": call_scalar_function,
    "table_function_in_out": call_in_out_function,
}


class FlightService(flight.FlightServerBase):  # type: ignore[misc]
    """A Flight server for the catalogs of a `ServerState`."""

    def __init__(self, host: ServerState, location: str, **options: Any) -> None:
        self._host = host
        super().__init__(location, **options)

    def list_flights(self, context: Any, criteria: bytes) -> list[flight.FlightInfo]:  # noqa: ARG002
        """List everything that can be read."""
        with self._answer(context, "ListFlights", typed=True) as call:
            return list(list_flights(self._host, call))

    def get_flight_info(
        self, context: Any, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        """Describe a table, a function or the whole catalog."""
        with self._answer(context, "GetFlightInfo", typed=True) as call:
            return flight_info(self._host, call, descriptor)

    def get_schema(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        """Return the columns of a table."""
        with self._answer(context, "GetSchema", typed=False, flight_errors=False) as call:
            return flight_schema(self._host, call, descriptor)

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        """Stream the rows that a ticket describes."""
        with self._answer(context, "DoGet", typed=True) as call:
            return open_stream(self._host, call, ticket.ticket)

    def do_put(self, context: Any, descriptor: flight.FlightDescriptor, *_: Any) -> None:
        """Raise `UnsupportedError`: rows are written by DoExchange."""
        with self._answer(context, "DoPut", typed=False):
            check_not_flight_sql(bytes(descriptor.command or b""))
            raise UnsupportedError("rows are written by DoExchange, not by DoPut")

    def do_exchange(
        self, context: Any, descriptor: flight.FlightDescriptor, reader: Any, writer: Any
    ) -> None:
        """Call a function, or change rows."""
        with self._answer(context, "DoExchange", typed=True) as call:
            run_exchange(self._host, call, context, descriptor, reader, writer, _OPERATIONS)

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        """Return the name and the description of every action."""
        with self._answer(context, "ListActions", typed=False) as call:
            builtin = [(action.name, action.description) for action in _ACTIONS.values()]
            custom = [(a.name, a.description) for a in self._custom_actions(call)]
            return builtin + custom

    def do_action(self, context: Any, action: flight.Action) -> list[bytes]:
        """Run an action."""
        with self._answer(context, action.type, typed=False) as call:
            call.notes.operation = action.type[:80]
            body = action.body.to_pybytes() if action.body is not None else b""
            self._host.limits.check(len(body), self._host.limits.action_bytes, action.type)
            builtin = _ACTIONS.get(action.type)
            if builtin is not None:
                return self._run(builtin, call, body)
            for custom in self._custom_actions(call):
                if custom.name == action.type:
                    return _results(custom.handler(body))
            if action.type in ACTIONS:
                raise flight_sql_error()
            raise UnsupportedError(f"there is no action {action.type[:80]!r}")

    def _run(self, action: BoundAction, call: Call, body: bytes) -> list[bytes]:
        reply = action.call(self._host, call, body)
        return [] if reply is None else [reply]

    def _custom_actions(self, call: Call) -> Iterator[Action]:
        # If the call has a catalog, the server's own actions also run in its transaction.
        route: CatalogRoute | None = None
        is_denied = False
        try:
            route = self._host.route(call)
        except NotFoundError:
            pass
        except PermissionDeniedError:
            is_denied = True
        for action in self._host.actions.values():
            if self._host.registry.allows_action(action.name):
                yield action
        if is_denied:  # the same reply as for a catalog whose actions the caller may not call
            return
        for each in [route] if call.catalog and route is not None else self._host.catalogs(call):
            if isinstance(each.catalog, ActionCatalog):
                for action in each.catalog.actions():
                    if each.allows(Operation.CALL, None, action.name):
                        yield action

    @contextmanager
    def _answer(
        self, context: Any, subject: str, *, typed: bool, flight_errors: bool = True
    ) -> Iterator[Call]:
        with translate_errors("authentication", typed=False, flight_errors=flight_errors):
            call = current_call(context)
        stopping = self._host.stopping.is_set
        peer = context.peer()
        if call.connection.end is None:
            call.connection.end = self._host.connections.begin(peer)
        # Until the call is routed, permissions are those of objects outside of any catalog.
        may = self._host.registry.permissions(call.caller)
        request = call.request(peer=peer, may=may, stopping=stopping, activity=self._host.calls)
        errors = translate_errors(
            subject, typed=typed, flight_errors=flight_errors, stopping=stopping
        )
        with errors, request_scope(request), inside(call.span):
            self._host.check_running()
            self._host.admission.check_call(call.caller)
            self._host.admission.check_connection(call.caller, peer, self._host.connections)
            yield call


def _results(reply: bytes | str | Iterable[bytes | str] | None) -> list[bytes]:
    if reply is None:
        return []
    is_one = isinstance(reply, bytes | bytearray | memoryview | str)
    parts: Iterable[Any] = [reply] if is_one else reply
    # memoryview() raises for a number, of which bytes() would make as many zeros.
    return [part.encode() if isinstance(part, str) else bytes(memoryview(part)) for part in parts]
