"""GetFlightInfo, GetSchema and ListFlights, for plain Flight clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import flight

from lakeport.airport.protocol.addresses import DATABASES, Address, parse_descriptor
from lakeport.airport.protocol.codec import encode, write_schema
from lakeport.airport.protocol.signatures import input_schema
from lakeport.airport.protocol.tickets import ScanTicket
from lakeport.airport.server.headers import Call
from lakeport.airport.server.listing import (
    catalog_version,
    function_infos,
    schema_infos,
    table_info,
    wire_schema,
)
from lakeport.airport.server.routing import AnyFunction, CatalogRoute
from lakeport.airport.server.state import ServerState
from lakeport.airport.server.verbs.scans import (
    TableScan,
    resolve_scan,
    scan_endpoints,
    scan_options,
)
from lakeport.auth import Operation
from lakeport.catalog import ParameterKind, ScalarFunction, Schema, Table

__all__ = ["flight_info", "flight_schema", "list_flights", "scan_info"]


def flight_info(
    host: ServerState, call: Call, descriptor: flight.FlightDescriptor
) -> flight.FlightInfo:
    """Describe a table with its endpoints; an empty descriptor describes the whole catalog."""
    if _is_empty(descriptor):
        return _catalog_info(host.route(call), descriptor)
    ticket = ScanTicket(parse_descriptor(descriptor, limits=host.limits))
    return scan_info(host, call, ticket, descriptor)


def scan_info(
    host: ServerState,
    call: Call,
    ticket: ScanTicket,
    descriptor: flight.FlightDescriptor,
    *,
    route: CatalogRoute | None = None,
) -> flight.FlightInfo:
    """Return the FlightInfo of a table or function call, with endpoints; `route` if it is known."""
    scan = resolve_scan(host, call, ticket, route=route)
    options = scan_options(host, ticket)
    size = scan.size(options)
    rows = -1 if size.rows is None else size.rows
    size_bytes = -1 if size.bytes is None else size.bytes
    if scan.is_empty:
        # Only the JSON descriptor itself expresses that there is nothing to read.
        endpoints = [flight.FlightEndpoint(bytes(descriptor.command), [host.public_location()])]
    else:
        pinned = ticket.pinned(scan.route.name)
        endpoints = scan_endpoints(host, scan, pinned, location=host.public_location())
    if not isinstance(scan, TableScan) or ticket.address.name == DATABASES:
        return flight.FlightInfo(scan.schema, descriptor, endpoints, rows, size_bytes)
    return table_info(
        scan.route,
        ticket.address.schema,
        scan.table,
        schema=scan.schema,
        descriptor=descriptor,
        endpoints=endpoints,
        total_records=rows,
        total_bytes=size_bytes,
    )


def flight_schema(
    host: ServerState, call: Call, descriptor: flight.FlightDescriptor
) -> flight.SchemaResult:
    """Return the columns of a table or of the result of a function."""
    scan = resolve_scan(host, call, ScanTicket(parse_descriptor(descriptor, limits=host.limits)))
    if isinstance(scan, TableScan):
        return flight.SchemaResult(wire_schema(scan.table, scan.schema))
    return flight.SchemaResult(scan.schema)


def list_flights(host: ServerState, call: Call) -> Iterator[flight.FlightInfo]:
    """Yield the FlightInfos of a catalog, or of the schema that the client's headers name."""
    catalog = call.header("airport-list-flights-filter-catalog")
    schema_name = call.header("airport-list-flights-filter-schema")
    for route in [host.route(call, catalog)] if catalog else host.catalogs(call):
        route.require(Operation.LIST)
        is_fixed = catalog_version(route).is_fixed
        if schema_name is not None:
            schema = route.visible_schema(schema_name)
            yield from schema_infos(route, schema, is_fixed=is_fixed)
            continue
        for schema in route.schemas():
            yield from _readable_infos(host, route, schema, is_fixed=is_fixed)


def _readable_infos(
    host: ServerState, route: CatalogRoute, schema: Schema, *, is_fixed: bool
) -> Iterator[flight.FlightInfo]:
    """Yield the FlightInfos of a schema, with endpoints that a plain client can read."""
    for table in schema.tables():
        if route.allows(Operation.LIST, schema.name, table.name):
            address = Address(schema.name, table.name, catalog=route.name)
            ticket = ScanTicket(address).to_bytes()
            yield table_info(
                route,
                schema.name,
                table,
                endpoints=[flight.FlightEndpoint(ticket, [host.public_location()])],
                is_fixed=is_fixed,
            )
    yield from function_infos(route, schema)


def _catalog_info(route: CatalogRoute, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
    route.require(Operation.LIST)
    content = {"schemas": [_schema_entry(route, schema) for schema in route.schemas()]}
    packed = pa.compress(encode(content), codec="zstd", asbytes=True)
    return flight.FlightInfo(pa.schema([]), descriptor, [], -1, -1, app_metadata=packed)


def _schema_entry(route: CatalogRoute, schema: Schema) -> dict[str, Any]:
    def visible(name: str) -> bool:
        return route.allows(Operation.LIST, schema.name, name)

    entry: dict[str, Any] = {
        "name": schema.name,
        "tables": [_table_entry(table) for table in schema.tables() if visible(table.name)],
    }
    if schema.comment:
        entry["comment"] = schema.comment
    functions: dict[str, Sequence[AnyFunction]] = {
        "scalar_functions": schema.scalar_functions(),
        "table_functions": schema.table_functions(),
        "table_functions_in_out": schema.table_functions_in_out(),
    }
    for key, members in functions.items():
        entries = [_function_entry(function) for function in members if visible(function.name)]
        if entries:
            entry[key] = entries
    return entry


def _table_entry(table: Table) -> dict[str, Any]:
    schema = write_schema(wire_schema(table, table.arrow_schema()))
    return _with_comment({"name": table.name, "schema": schema}, table.comment)


def _function_entry(function: AnyFunction) -> dict[str, Any]:
    parameters = [
        {
            "name": field.name,
            "type": "any"
            if field.metadata and b"is_any_type" in field.metadata
            else str(field.type),
            "kind": parameter.kind.value,
        }
        for field, parameter in zip(
            input_schema(function.signature), function.signature.parameters, strict=True
        )
    ]
    for entry in parameters:
        if entry["kind"] == ParameterKind.TABLE.value:
            entry["type"] = "table"
    signature: dict[str, Any] = {"parameters": parameters}
    if isinstance(function, ScalarFunction):
        signature["return_type"] = str(function.signature.returns)
    return _with_comment({"name": function.name, "signature": signature}, function.comment)


def _with_comment(entry: dict[str, Any], comment: str) -> dict[str, Any]:
    return {**entry, "comment": comment} if comment else entry


def _is_empty(descriptor: flight.FlightDescriptor) -> bool:
    if descriptor.descriptor_type == flight.DescriptorType.CMD:
        return not descriptor.command
    return not descriptor.path
