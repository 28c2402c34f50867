"""The actions with which the client lists a catalog and prepares a scan."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyarrow import flight

from lakeport.airport.protocol.addresses import parse_descriptor, table_tag
from lakeport.airport.protocol.codec import Struct, decode_struct, encode, read_schema
from lakeport.airport.protocol.signatures import decode_arguments, result_schema
from lakeport.airport.protocol.statistics import encode_statistics
from lakeport.airport.protocol.tickets import ScanTicket
from lakeport.airport.protocol.type_names import MAX_TYPE_LENGTH, arrow_type_of, is_duckdb_type
from lakeport.airport.server.actions.action_table import ActionTable
from lakeport.airport.server.headers import Call
from lakeport.airport.server.listing import catalog_version, table_info
from lakeport.airport.server.state import ServerState
from lakeport.airport.server.verbs.scans import (
    CatalogScan,
    TableScan,
    column_names,
    resolve_scan,
    scan_endpoints,
    scan_options,
)
from lakeport.arrow import readable_columns
from lakeport.auth import Operation
from lakeport.catalog import ColumnStats, TableFunction, has_statistics
from lakeport.errors import InvalidArgumentError, NotFoundError, UnsupportedError

__all__ = ["METADATA_ACTIONS"]

METADATA_ACTIONS: Final = ActionTable(decode_struct)


@METADATA_ACTIONS.add("list_schemas", "List the schemas of a catalog with all their contents")
def list_schemas(host: ServerState, call: Call, request: Struct) -> bytes:
    route = host.route(call, request.text("catalog_name", ""))
    route.require(Operation.LIST)
    return host.listings.list_schemas(route)


@METADATA_ACTIONS.add("catalog_version", "Return the version of a catalog")
def catalog_version_action(host: ServerState, call: Call, request: Struct) -> bytes:
    route = host.route(call, request.text("catalog_name", ""))
    route.require(Operation.LIST)
    version = catalog_version(route)
    return encode({"catalog_version": int(version.version), "is_fixed": bool(version.is_fixed)})


@METADATA_ACTIONS.add("flight_info", "Describe a table, now or at a time")
def flight_info(host: ServerState, call: Call, request: Struct) -> bytes:
    descriptor = decode_descriptor(request.blob("descriptor"))
    ticket = ScanTicket(
        parse_descriptor(descriptor, limits=host.limits),
        at_unit=request.text("at_unit", ""),
        at_value=request.text("at_value", ""),
    )
    scan = resolve_scan(host, call, ticket)
    if not isinstance(scan, TableScan):
        raise InvalidArgumentError(f"{scan.subject} is not a table")
    size = scan.size(scan_options(host, ticket))
    info = table_info(
        scan.route,
        ticket.address.schema,
        scan.table,
        schema=scan.schema,
        descriptor=descriptor,
        total_records=-1 if size.rows is None else size.rows,
        total_bytes=-1 if size.bytes is None else size.bytes,
    )
    return info.serialize()  # type: ignore[no-any-return]


@METADATA_ACTIONS.add("endpoints", "Return the endpoints of a scan, with columns, filters and time")
def endpoints(host: ServerState, call: Call, request: Struct) -> bytes:
    address = parse_descriptor(decode_descriptor(request.blob("descriptor")), limits=host.limits)
    parameters = request.struct("parameters")
    ticket = ScanTicket(
        address,
        filters=parameters.text("json_filters", ""),
        at_unit=parameters.text("at_unit", ""),
        at_value=parameters.text("at_value", ""),
        arguments=parameters.blob("table_function_parameters", b"") or None,
        limit=call.limit,
    )
    scan = resolve_scan(host, call, ticket)
    _check_time_travel_schema(host, call, ticket, scan)
    ids = parameters.integers("column_ids", [])
    host.limits.check(len(ids), host.limits.columns, "the number of columns")
    ticket = replace(
        ticket.pinned(scan.route.name),
        columns=column_names(scan.schema, ids) if ids else None,
        rows_only=call.reads_rows_only(ids, ticket.filters),
    )
    parts = [] if scan.is_empty else scan_endpoints(host, scan, ticket)
    return encode([endpoint.serialize() for endpoint in parts])


@METADATA_ACTIONS.add("table_function_flight_info", "Describe the result of a table function")
def table_function_flight_info(host: ServerState, call: Call, request: Struct) -> bytes:
    descriptor = decode_descriptor(request.blob("descriptor"))
    address = parse_descriptor(descriptor, limits=host.limits)
    function = host.route(call, address.catalog).table_function(address)
    arguments = decode_arguments(function, request.blob("parameters"), limits=host.limits)
    if isinstance(function, TableFunction):
        schema = function.schema_for(arguments)
    else:
        table_input = request.blob("table_input_schema", b"")
        if not table_input:
            raise InvalidArgumentError(f"function {address} needs a table")
        schema = function.schema_for_input(
            arguments, read_schema(table_input, "the input table", limits=host.limits)
        )
    columns = result_schema(schema, f"function {address}")
    info = flight.FlightInfo(columns, descriptor, [], -1, -1)
    return info.serialize()  # type: ignore[no-any-return]


@METADATA_ACTIONS.add("column_statistics", "Return the bounds of a column")
def column_statistics(host: ServerState, call: Call, request: Struct) -> bytes:
    address = parse_descriptor(
        decode_descriptor(request.blob("flight_descriptor")), limits=host.limits
    )
    table = host.route(call, address.catalog).table(address, Operation.READ)
    if not has_statistics(table):
        raise UnsupportedError(f"table {address} has no statistics")
    name, requested_type = request.text("column_name"), request.text("type", "")
    # Types are cached by name, so the name must be short.
    host.limits.check(len(requested_type), MAX_TYPE_LENGTH, "the name of the type")
    columns = readable_columns(table.arrow_schema())
    position = columns.get_field_index(name)
    if position >= 0 and is_duckdb_type(columns.field(position).type, requested_type):
        stats = table.column_statistics(name, requested_type)
        return encode_statistics(stats, columns.field(position).type)
    if not requested_type:
        raise NotFoundError(f"table {address} has no column {name!r}")
    # A query AT an earlier time may use a column that has another name or type now.
    return encode_statistics(ColumnStats(), arrow_type_of(requested_type))


def _check_time_travel_schema(
    host: ServerState, call: Call, ticket: ScanTicket, scan: CatalogScan
) -> None:
    """Raise `UnsupportedError` if `airport_take_flight` has bound other columns than those AT then.

    It sends the time only with `endpoints`, so it has bound the present columns and would misread
    the rows. A client that has attached the catalog has bound the columns of that time. Such a
    client sends the catalog or a tag, unless the catalog has no name and a fixed version.
    """
    if not ticket.at_unit or ticket.address.tag or call.catalog:
        return
    if not isinstance(scan, TableScan):
        return
    if catalog_version(scan.route).is_fixed:
        return
    present = replace(ticket, at_unit="", at_value="")
    bound = resolve_scan(host, call, present, route=scan.route)
    if table_tag(bound.schema) != table_tag(scan.schema):
        raise UnsupportedError(
            f"{scan.subject} had other columns AT ({ticket.time_point}), which airport_take_flight "
            'cannot read: give the time in the descriptor, {"schema_name": …, "table_name": …, '
            '"ts": …}, or ATTACH the catalog'
        )


def decode_descriptor(raw: bytes) -> flight.FlightDescriptor:
    """Decode a descriptor inside a message."""
    try:
        return flight.FlightDescriptor.deserialize(raw)
    except (pa.ArrowException, OSError, ValueError):
        raise InvalidArgumentError("not a flight descriptor") from None
