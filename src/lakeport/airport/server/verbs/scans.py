"""From a request to a scan: of a table, of a table at an earlier time, or of a function call.

Used by `endpoints` (to make tickets), by DoGet (to read them) and by GetFlightInfo.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow import flight

from lakeport._cache import cached_by_identity
from lakeport.airport.protocol.addresses import DATABASES, Address, table_tag
from lakeport.airport.protocol.codec import encode
from lakeport.airport.protocol.limits import Limits
from lakeport.airport.protocol.signatures import decode_arguments, result_schema
from lakeport.airport.protocol.tickets import ScanTicket
from lakeport.airport.server.headers import Call
from lakeport.airport.server.routing import NO_CATALOG, CatalogRoute
from lakeport.airport.server.state import REUSE_CONNECTION, ServerState
from lakeport.arrow import readable_columns, write_batch
from lakeport.auth import Operation
from lakeport.catalog import (
    Arguments,
    ArrowTable,
    ChangingTableFunction,
    Endpoint,
    FileReference,
    FunctionReference,
    Partition,
    ScanOptions,
    Table,
    TableFunction,
    TableSize,
    TimePoint,
    TimeTravelTable,
    field_is_rowid,
    has_endpoints,
    has_open_scan,
    has_size,
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
    "FunctionScan",
    "TableScan",
    "check_schema_tag",
    "column_names",
    "resolve_scan",
    "scan_endpoints",
    "scan_options",
]

_ROWID_COLUMN = 2**64 - 1
_NO_COLUMN = 2**64 - 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogScan(ABC):
    """Something that can be read, with the schema that the client has bound."""

    subject: str
    """The name of the table or function, for error messages."""
    route: CatalogRoute
    schema: pa.Schema
    is_empty: bool = False
    """Whether there is nothing to read: a future time, or one before the table existed."""
    is_immediate: bool = False
    """Whether it starts at once, and counts for no limit of the caller."""

    @abstractmethod
    def open(self, options: ScanOptions) -> tuple[TableSize, pa.RecordBatchReader]:
        """Return the size of a scan before its filter, empty if it is unknown, and its rows."""

    def size(self, options: ScanOptions) -> TableSize:  # noqa: ARG002
        """Return the estimated size of a scan; an empty one if it is unknown."""
        return TableSize()

    def endpoints(self, options: ScanOptions) -> Sequence[Endpoint]:  # noqa: ARG002
        """Return the parts in which the rows can be read."""
        return [Partition(b"")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableScan(CatalogScan):
    """A scan of a table, at the present or at an earlier time."""

    table: Table

    def open(self, options: ScanOptions) -> tuple[TableSize, pa.RecordBatchReader]:
        """Return the size of a scan before its filter, empty if it is unknown, and its rows."""
        if has_open_scan(self.table):
            return self.table.open_scan(options)
        # With a filter, computing the size may be expensive.
        size = TableSize() if options.filter else self.size(options)
        return size, self.table.scan(options)

    def size(self, options: ScanOptions) -> TableSize:
        """Return the estimated size of a scan; an empty one if the table does not report it."""
        if has_size(self.table):
            return self.table.size(options)
        return TableSize()

    def endpoints(self, options: ScanOptions) -> Sequence[Endpoint]:
        """Return the parts in which the rows can be read."""
        if has_endpoints(self.table):
            return self.table.endpoints(options)
        return [Partition(b"")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionScan(CatalogScan):
    """A call of a table function."""

    function: TableFunction
    arguments: Arguments
    statement: Callable[[], AbstractContextManager[None]]
    """Runs a block as a statement of the caller's transaction."""

    def open(self, options: ScanOptions) -> tuple[TableSize, pa.RecordBatchReader]:
        """Return an unknown size, and a reader of the rows that the function returns."""
        function = self.function
        if not (isinstance(function, ChangingTableFunction) and function.changes_catalog):
            return TableSize(), function.execute_table(self.arguments, options)
        with self.statement():
            rows = function.execute_table(self.arguments, options).read_all()
        return TableSize(rows.num_rows), rows.to_reader()


def resolve_scan(
    host: ServerState, call: Call, ticket: ScanTicket, *, route: CatalogRoute | None = None
) -> CatalogScan:
    """Return the scan that a ticket describes, if the caller may read it.

    `route` is the catalog of the ticket, if the caller of this function has route the call.
    """
    address = ticket.address
    if not address.schema and address.name == DATABASES:
        return _scan_of_databases(host)
    if route is None:
        route = host.route(call, address.catalog)
    if ticket.arguments is not None:
        return _scan_of_function(host, route, address, ticket.arguments)
    table = route.table(address, Operation.READ)
    if ticket.time_point is not None:
        return _scan_of_history(route, table, address, ticket.time_point)
    schema = table.arrow_schema()
    check_schema_tag(address, schema)
    return _scan_of_table(route, table, schema, address)


def scan_options(host: ServerState, ticket: ScanTicket) -> ScanOptions:
    """Return the options with which a table is scanned."""
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
        rows_only=ticket.rows_only,
    )


def column_names(schema: pa.Schema, ids: Sequence[int]) -> tuple[str, ...]:
    """Return the column names for DuckDB's column numbers, which do not count the rowid."""
    visible, rowid = _visible_names(schema)
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


@cached_by_identity
def _visible_names(schema: pa.Schema) -> tuple[list[str], str | None]:
    """Return the names of the columns, and that of the rowid."""
    rowids = [field.name for field in schema if field_is_rowid(field)]
    return [field.name for field in schema if not field_is_rowid(field)], next(iter(rowids), None)


def check_schema_tag(address: Address, schema: pa.Schema) -> None:
    """Raise `InvalidInputError` if the client has bound other columns than the table now has."""
    if address.tag and address.tag != table_tag(schema):
        # Not UNAVAILABLE: the client would retry for three seconds without success.
        raise InvalidInputError(
            f"the columns of table {address} have changed since this database was attached; "
            "DETACH it and ATTACH it again"
        )


def _scan_of_table(
    route: CatalogRoute, table: Table, schema: pa.Schema, address: Address
) -> TableScan:
    columns = readable_columns(schema)
    return TableScan(
        subject=f"table {address}",
        route=route,
        schema=columns,
        is_immediate=getattr(table, "is_immediate", False),
        table=table,
    )


def _scan_of_history(
    route: CatalogRoute, table: Table, address: Address, time_point: TimePoint
) -> TableScan:
    if address.in_future:
        return _empty_scan(route, table, address)
    if not isinstance(table, TimeTravelTable):
        raise UnsupportedError(f"table {address} has no history: AT ({time_point}) is not possible")
    try:
        schema = table.schema_at(time_point)
    except NotFoundError:
        if address.time_point is None:
            raise
        # The JSON contract requires no rows for a time before the table existed.
        return _empty_scan(route, table, address)
    return _scan_of_table(route, table, schema, address)


def _scan_of_function(
    host: ServerState, route: CatalogRoute, address: Address, row: bytes
) -> FunctionScan:
    function = route.table_function(address)
    if not isinstance(function, TableFunction):
        raise InvalidArgumentError(
            f"function {address} takes a table: call it with DoExchange instead of a scan"
        )
    arguments = decode_arguments(function, row, limits=host.limits)
    subject = f"function {address}"
    return FunctionScan(
        subject=subject,
        route=route,
        schema=result_schema(function.schema_for(arguments), subject),
        is_immediate=getattr(function, "is_immediate", False),
        function=function,
        arguments=arguments,
        statement=partial(host.transactions.statement, route.catalog, route.registered_name),
    )


def _scan_of_databases(host: ServerState) -> TableScan:
    routes = host.registry.items()
    data = pa.table(
        {
            "name": pa.array([route.name for route in routes], pa.string()),
            "comment": pa.array(
                [str(getattr(route.catalog, "comment", "")) for route in routes], pa.string()
            ),
            "location": pa.array([host.public_location()] * len(routes), pa.string()),
        }
    )
    table = ArrowTable(DATABASES, data)
    return _scan_of_table(CatalogRoute("", NO_CATALOG), table, data.schema, Address("", DATABASES))


def _empty_scan(route: CatalogRoute, table: Table, address: Address) -> TableScan:
    rows = pa.Table.from_batches([], table.arrow_schema())
    empty = ArrowTable(table.name, rows, comment=table.comment)
    return replace(_scan_of_table(route, empty, empty.arrow_schema(), address), is_empty=True)


_FUNCTION_CALL = "application/x-msgpack-duckdb-function-call"
_FILE = "application/msgpack"


def scan_endpoints(
    host: ServerState, scan: CatalogScan, ticket: ScanTicket, *, location: str = REUSE_CONNECTION
) -> list[flight.FlightEndpoint]:
    """Return the endpoints of a scan; `location` is the server that reads their tickets.

    A filter is a hint, and the client applies it again. So a filter that exceeds a limit, or that
    makes a ticket too large, is left out. The row limit is then left out too, because it counts the
    rows that pass the filter.
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
        case Partition(token, other_location):
            part = replace(ticket, partition=token or None).to_bytes()
            limits.check(len(part), limits.ticket_bytes, "the ticket")
            return flight.FlightEndpoint(part, [other_location or location])
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
