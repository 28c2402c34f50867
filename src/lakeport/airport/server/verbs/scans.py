"""From a request to something that can be read: a table, a table at a time, or a function call.

Used by `endpoints` (to make tickets), by DoGet (to answer them) and by GetFlightInfo.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyarrow import flight

from lakeport.airport.protocol.addresses import DATABASES, Address, table_tag
from lakeport.airport.protocol.codec import encode
from lakeport.airport.protocol.limits import Limits
from lakeport.airport.protocol.signatures import decode_arguments, result_schema
from lakeport.airport.protocol.tickets import ScanTicket
from lakeport.airport.server.headers import Call
from lakeport.airport.server.routing import NO_CATALOG, CatalogRoute
from lakeport.airport.server.state import REUSE_CONNECTION, ServerState
from lakeport.arrow import write_batch
from lakeport.auth import Operation
from lakeport.catalog import (
    ArrowTable,
    Endpoint,
    EndpointTable,
    FileReference,
    FunctionReference,
    Partition,
    ScanOptions,
    SizedTable,
    Table,
    TableFunction,
    TableSize,
    TimePoint,
    TimeTravelTable,
    field_is_rowid,
)
from lakeport.errors import (
    InternalError,
    InvalidArgumentError,
    InvalidInputError,
    MessageTooLargeError,
    NotFoundError,
    UnsupportedError,
)
from lakeport.filters.json import parse_filter

__all__ = [
    "CatalogScan",
    "check_schema_tag",
    "column_names",
    "resolve_scan",
    "scan_endpoints",
    "scan_options",
]

_ROWID_COLUMN = 2**64 - 1
_NO_COLUMN = 2**64 - 2


@dataclass(frozen=True, slots=True)
class CatalogScan:
    """Something that can be read, with the schema that the client has bound."""

    what: str
    """Its name, for errors."""
    routed: CatalogRoute
    schema: pa.Schema
    open: Callable[[ScanOptions], pa.RecordBatchReader]
    endpoints: Callable[[ScanOptions], Sequence[Endpoint]]
    size: Callable[[ScanOptions], TableSize]
    table: Table | None = None
    """The table behind it; None for a function call."""
    is_empty: bool = False
    """Whether there is nothing to read: a time to come, or one before the table existed."""


def resolve_scan(host: ServerState, call: Call, ticket: ScanTicket) -> CatalogScan:
    """Find what a ticket asks for, as far as the caller may read it."""
    address = ticket.address
    if not address.schema and address.name == DATABASES:
        return _scan_of_databases(host)
    routed = host.route(call, address.catalog)
    if ticket.arguments is not None:
        return _scan_of_function(host, routed, address, ticket.arguments)
    table = routed.table(address, Operation.READ)
    if ticket.time_point is not None:
        return _scan_of_history(routed, table, address, ticket.time_point)
    schema = table.arrow_schema()
    check_schema_tag(address, schema)
    return _scan_of_table(routed, table, schema, address)


def scan_options(host: ServerState, ticket: ScanTicket) -> ScanOptions:
    """The options that a table is scanned with."""
    return ScanOptions(
        columns=ticket.columns,
        filter=parse_filter(
            ticket.filters,
            max_bytes=host.limits.json_bytes,
            max_depth=host.limits.json_depth,
        ),
        limit=ticket.limit,
        batch_size=host.batch_rows,
        time_point=ticket.time_point,
        partition=ticket.partition,
    )


def column_names(schema: pa.Schema, ids: Sequence[int]) -> tuple[str, ...]:
    """The names behind DuckDB's column numbers, which count as if the rowid were not there."""
    visible = [field.name for field in schema if not field_is_rowid(field)]
    rowid = next((field.name for field in schema if field_is_rowid(field)), None)
    names: dict[str, None] = {}
    for number in ids:
        if 0 <= number < len(visible):
            names[visible[number]] = None
        elif number == _ROWID_COLUMN:
            if rowid is not None:
                names[rowid] = None
        elif number != _NO_COLUMN:
            raise InvalidArgumentError(f"there is no column number {number}")
    return tuple(names)


def check_schema_tag(address: Address, schema: pa.Schema) -> None:
    """Refuse a client that has bound other columns than the table now has."""
    if address.tag and address.tag != table_tag(schema):
        # Not UNAVAILABLE: the client would try for three seconds, and no trying helps.
        raise InvalidInputError(
            f"the columns of table {address} have changed since this database was attached; "
            "DETACH it and ATTACH it again"
        )


def _scan_of_table(
    routed: CatalogRoute, table: Table, schema: pa.Schema, address: Address
) -> CatalogScan:
    return CatalogScan(
        what=f"table {address}",
        routed=routed,
        schema=schema,
        open=table.scan,
        endpoints=table.endpoints if isinstance(table, EndpointTable) else _one_endpoint,
        size=table.size if isinstance(table, SizedTable) else _unknown_size,
        table=table,
    )


def _scan_of_history(
    routed: CatalogRoute, table: Table, address: Address, time_point: TimePoint
) -> CatalogScan:
    if address.in_future:
        return _empty_scan(routed, table, address)
    if not isinstance(table, TimeTravelTable):
        raise UnsupportedError(f"table {address} has no history: AT ({time_point}) is not possible")
    try:
        schema = table.schema_at(time_point)
    except NotFoundError:
        if address.time_point is None:
            raise
        # The JSON contract answers a time before the table existed with no rows.
        return _empty_scan(routed, table, address)
    return _scan_of_table(routed, table, schema, address)


def _scan_of_function(
    host: ServerState, routed: CatalogRoute, address: Address, arguments: bytes
) -> CatalogScan:
    function = routed.table_function(address)
    if not isinstance(function, TableFunction):
        raise InvalidArgumentError(f"function {address} takes a table and is called by an exchange")
    values = decode_arguments(function, arguments, limits=host.limits)
    what = f"function {address}"
    return CatalogScan(
        what=what,
        routed=routed,
        schema=result_schema(function.schema_for(values), what),
        open=lambda options: function.execute_table(values, options),
        endpoints=_one_endpoint,
        size=_unknown_size,
    )


def _scan_of_databases(host: ServerState) -> CatalogScan:
    catalogs = host.registry.items()
    data = pa.table(
        {
            "name": pa.array([routed.name for routed in catalogs], pa.string()),
            "comment": pa.array(
                [str(getattr(routed.catalog, "comment", "")) for routed in catalogs], pa.string()
            ),
            "location": pa.array([host.public_location()] * len(catalogs), pa.string()),
        }
    )
    table = ArrowTable(DATABASES, data)
    return _scan_of_table(CatalogRoute("", NO_CATALOG), table, data.schema, Address("", DATABASES))


def _empty_scan(routed: CatalogRoute, table: Table, address: Address) -> CatalogScan:
    rows = pa.Table.from_batches([], table.arrow_schema())
    empty = ArrowTable(table.name, rows, comment=table.comment)
    return replace(_scan_of_table(routed, empty, empty.arrow_schema(), address), is_empty=True)


def _one_endpoint(options: ScanOptions) -> Sequence[Endpoint]:  # noqa: ARG001
    return [Partition(b"")]


def _unknown_size(options: ScanOptions) -> TableSize:  # noqa: ARG001
    return TableSize()


_FUNCTION_CALL = "application/x-msgpack-duckdb-function-call"
_FILE = "application/msgpack"


def scan_endpoints(
    host: ServerState, scan: CatalogScan, ticket: ScanTicket, *, location: str = REUSE_CONNECTION
) -> list[flight.FlightEndpoint]:
    """The endpoints of a scan; `location` is where the tickets are to be presented.

    A filter is a hint, which the client applies again: one that is beyond the bounds, or that makes
    a ticket too large, is left out. Then the limit is left out, too: it counts rows that pass.
    """
    try:
        return _endpoints(host, scan, ticket, location)
    except MessageTooLargeError:
        if not ticket.filters:
            raise
        return _endpoints(host, scan, replace(ticket, filters="", limit=None), location)


def _endpoints(
    host: ServerState, scan: CatalogScan, ticket: ScanTicket, location: str
) -> list[flight.FlightEndpoint]:
    return [
        _endpoint(endpoint, ticket, location, host.limits)
        for endpoint in scan.endpoints(scan_options(host, ticket))
    ]


def _endpoint(
    endpoint: Endpoint, ticket: ScanTicket, location: str, limits: Limits
) -> flight.FlightEndpoint:
    match endpoint:
        case Partition(token, elsewhere):
            part = replace(ticket, partition=token or None).to_bytes()
            limits.check(len(part), limits.ticket_bytes, "the ticket")
            return flight.FlightEndpoint(part, [elsewhere or location])
        case FunctionReference():
            return flight.FlightEndpoint(b"", [_function_uri(endpoint)])
        case FileReference(uri, format):
            reference = {"format": format.value, "uri": uri}
            return flight.FlightEndpoint(b"", [_data_uri(_FILE, reference)])
    raise InternalError(f"{type(endpoint).__name__} is not an endpoint")


def _function_uri(reference: FunctionReference) -> str:
    row: dict[str, Any] = {f"arg_{i}": value for i, value in enumerate(reference.arguments)}
    row.update(reference.named)
    call = {"function_name": reference.function, "data": write_batch(_one_row(row))}
    return _data_uri(_FUNCTION_CALL, call)


def _one_row(values: Mapping[str, Any]) -> pa.RecordBatch:
    arrays: Sequence[pa.Array] = [
        pa.repeat(value, 1) if isinstance(value, pa.Scalar) else pa.array([value])
        for value in values.values()
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(values))


def _data_uri(media_type: str, content: Mapping[str, Any]) -> str:
    return f"data:{media_type};base64,{base64.b64encode(encode(content)).decode()}"
