"""The actions that begin and end transactions, and return their state."""

from __future__ import annotations

from typing import Final

from lakeport.airport.protocol.codec import Struct, decode_struct, encode
from lakeport.airport.protocol.limits import DEFAULT_LIMITS, Limits
from lakeport.airport.server.actions.action_table import ActionTable
from lakeport.airport.server.headers import Call
from lakeport.airport.server.state import ServerState
from lakeport.auth import Operation
from lakeport.catalog import TransactionManager, TransactionState
from lakeport.errors import InvalidArgumentError

__all__ = ["TRANSACTION_ACTIONS"]


def _decode(body: bytes, subject: str, *, limits: Limits = DEFAULT_LIMITS) -> Struct:
    """Decode a msgpack map, or the plain text of `airport_action`: the name of a catalog."""
    is_map = body[:1] and (body[0] & 0xF0 == 0x80 or body[0] in (0xDE, 0xDF))
    if is_map or not body:
        return decode_struct(body, subject, limits=limits)
    return Struct({"catalog_name": body}, subject)


TRANSACTION_ACTIONS: Final = ActionTable(_decode)


@TRANSACTION_ACTIONS.add("create_transaction", "Start a transaction")
def create_transaction(host: ServerState, call: Call, request: Struct) -> bytes:
    route = host.route(call, request.text("catalog_name", ""))
    route.require(Operation.LIST)
    explicit = request.flag("explicit", default=False)
    if explicit:
        _check_limit(host, call)
    identifier = host.transactions.begin(route.catalog, route.registered_name, explicit=explicit)
    return encode({"identifier": identifier})


@TRANSACTION_ACTIONS.add("get_transaction_status", "Return the state of a transaction")
def get_transaction_status(host: ServerState, call: Call, request: Struct) -> bytes:
    route = host.route(call, request.text("catalog_name", ""))
    route.require(Operation.LIST)
    state: TransactionState | None = None
    if isinstance(route.catalog, TransactionManager):
        identifier = request.text("transaction_id")
        host.transactions.check_identity(route.registered_name, identifier)
        state = route.catalog.transaction_status(identifier)
    return encode({"status": state.value if state else "", "exists": state is not None})


@TRANSACTION_ACTIONS.add(
    "begin_transaction",
    "Make all later calls of this DuckDB process on a catalog one transaction",
)
def begin_transaction(host: ServerState, call: Call, request: Struct) -> bytes:
    route = host.route(call, request.text("catalog_name", ""))
    route.require(Operation.LIST)
    if call.owner is None:
        raise InvalidArgumentError("begin_transaction needs the airport-client-session-id header")
    _check_limit(host, call)
    identifier = host.transactions.begin(
        route.catalog, route.registered_name, explicit=True, owner=call.owner
    )
    return (identifier or "").encode()


@TRANSACTION_ACTIONS.add("commit_transaction", "Make the changes of a transaction durable")
def commit_transaction(host: ServerState, call: Call, request: Struct) -> bytes:
    host.transactions.commit(*_named(host, call, request))
    return b"committed"


@TRANSACTION_ACTIONS.add("rollback_transaction", "Drop the changes of a transaction")
def rollback_transaction(host: ServerState, call: Call, request: Struct) -> bytes:
    host.transactions.rollback(*_named(host, call, request))
    return b"rolled back"


def _check_limit(host: ServerState, call: Call) -> None:
    host.admission.check_transactions(call.caller, *host.transactions.open_counts(call.identity))


def _named(host: ServerState, call: Call, request: Struct) -> tuple[str, str | None]:
    """Return the transaction that a request names, or the one that its DuckDB process began."""
    name = request.text("catalog_name", "") or call.catalog
    catalog = host.registry.registered_name(name) if name else None
    if "transaction_id" in request:
        return request.text("transaction_id"), catalog
    return host.transactions.bound_to(call.owner, catalog)
