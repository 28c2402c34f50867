"""The actions with which the client learns about a catalog and prepares a scan."""

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
    column_names,
    resolve_scan,
    scan_endpoints,
    scan_options,
)
from lakeport.auth import Operation
from lakeport.catalog import ColumnStats, StatisticsTable, TableFunction
from lakeport.errors import InvalidArgumentError, NotFoundError, UnsupportedError

__all__ = ["METADATA_ACTIONS"]

METADATA_ACTIONS: Final = ActionTable(decode_struct)


@METADATA_ACTIONS.add("list_schemas", "List the schemas of a catalog with all their contents")
def list_schemas(host: ServerState, call: Call, request: Struct) -> bytes:
    routed = host.route(call, request.text("catalog_name", ""))
    routed.require(Operation.LIST)
    return host.listings.list_schemas(routed)


@METADATA_ACTIONS.add("catalog_version", "Tell the version of a catalog")
def tell_catalog_version(host: ServerState, call: Call, request: Struct) -> bytes:
    routed = host.route(call, request.text("catalog_name", ""))
    routed.require(Operation.LIST)
    version = catalog_version(routed)
    return encode({"catalog_version": int(version.version), "is_fixed": bool(version.is_fixed)})


@METADATA_ACTIONS.add("flight_info", "Describe a table, now or at a time")
def flight_info(host: ServerState, call: Call, request: Struct) -> bytes:
    descriptor = descriptor_of(request.blob("descriptor"))
    ticket = ScanTicket(
        parse_descriptor(descriptor, limits=host.limits),
        at_unit=request.text("at_unit", ""),
        at_value=request.text("at_value", ""),
    )
    scan = resolve_scan(host, call, ticket)
    if scan.table is None:
        raise InvalidArgumentError(f"{scan.what} is not a table")
    size = scan.size(scan_options(host, ticket))
    info = table_info(
        scan.routed,
        ticket.address.schema,
        scan.table,
        schema=scan.schema,
        descriptor=descriptor,
        total_records=-1 if size.rows is None else size.rows,
        total_bytes=-1 if size.bytes is None else size.bytes,
    )
    return info.serialize()  # type: ignore[no-any-return]


@METADATA_ACTIONS.add("endpoints", "Give the endpoints of a scan, with columns, filters and time")
def endpoints(host: ServerState, call: Call, request: Struct) -> bytes:
    address = parse_descriptor(descriptor_of(request.blob("descriptor")), limits=host.limits)
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
    _check_bound(host, call, ticket, scan)
    ids = parameters.integers("column_ids", [])
    host.limits.check(len(ids), host.limits.columns, "the number of columns")
    ticket = replace(
        ticket.pinned(scan.routed.name),
        columns=column_names(scan.schema, ids) if ids else None,
    )
    found = [] if scan.is_empty else scan_endpoints(host, scan, ticket)
    return encode([endpoint.serialize() for endpoint in found])


@METADATA_ACTIONS.add("table_function_flight_info", "Describe the result of a table function")
def table_function_flight_info(host: ServerState, call: Call, request: Struct) -> bytes:
    descriptor = descriptor_of(request.blob("descriptor"))
    address = parse_descriptor(descriptor, limits=host.limits)
    function = host.route(call, address.catalog).table_function(address)
    arguments = decode_arguments(function, request.blob("parameters"), limits=host.limits)
    if isinstance(function, TableFunction):
        schema = function.schema_for(arguments)
    else:
        rows = request.blob("table_input_schema", b"")
        if not rows:
            raise InvalidArgumentError(f"function {address} needs a table")
        schema = function.schema_for_input(
            arguments, read_schema(rows, "the input table", limits=host.limits)
        )
    columns = result_schema(schema, f"function {address}")
    info = flight.FlightInfo(columns, descriptor, [], -1, -1)
    return info.serialize()  # type: ignore[no-any-return]


@METADATA_ACTIONS.add("column_statistics", "Tell the bounds of a column")
def column_statistics(host: ServerState, call: Call, request: Struct) -> bytes:
    address = parse_descriptor(descriptor_of(request.blob("flight_descriptor")), limits=host.limits)
    table = host.route(call, address.catalog).table(address, Operation.READ)
    if not isinstance(table, StatisticsTable):
        raise UnsupportedError(f"table {address} has no statistics")
    name, asked_type = request.text("column_name"), request.text("type", "")
    # Types are remembered by their text, so it must not be large.
    host.limits.check(len(asked_type), MAX_TYPE_LENGTH, "the name of the type")
    columns = table.arrow_schema()
    position = columns.get_field_index(name)
    if position >= 0 and is_duckdb_type(columns.field(position).type, asked_type):
        stats = table.column_statistics(name, asked_type)
        return encode_statistics(stats, columns.field(position).type)
    if not asked_type:
        raise NotFoundError(f"table {address} has no column {name!r}")
    # A query AT an earlier time may ask for a column that has another name or type by now.
    return encode_statistics(ColumnStats(), arrow_type_of(asked_type))


def _check_bound(host: ServerState, call: Call, ticket: ScanTicket, scan: CatalogScan) -> None:
    """Refuse an AT that `airport_take_flight` did not bind: the client would misread the rows.

    It tells the time in `endpoints` only, so that the present columns are bound. Whoever has
    attached the catalog has bound those of then; such a client sends the catalog or a tag, unless
    the catalog is nameless and fixed.
    """
    if not ticket.at_unit or ticket.address.tag or call.catalog or scan.table is None:
        return
    if catalog_version(scan.routed).is_fixed:
        return
    bound = resolve_scan(host, call, replace(ticket, at_unit="", at_value=""))
    if table_tag(bound.schema) != table_tag(scan.schema):
        raise UnsupportedError(
            f"{scan.what} had other columns AT ({ticket.time_point}), which airport_take_flight "
            'cannot read: give the time in the descriptor, {"schema_name": …, "table_name": …, '
            '"ts": …}, or ATTACH the catalog'
        )


def descriptor_of(raw: bytes) -> flight.FlightDescriptor:
    """A descriptor that came inside a message."""
    try:
        return flight.FlightDescriptor.deserialize(raw)
    except (pa.ArrowException, OSError, ValueError):
        raise InvalidArgumentError("not a flight descriptor") from None
