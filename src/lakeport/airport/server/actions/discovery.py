"""The JSON actions of the endpoint-discovery contract, for clients that are not DuckDB."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import pyarrow as pa
from pyarrow import flight

from lakeport.airport.protocol.addresses import Address, address_from_json, json_text
from lakeport.airport.protocol.codec import decode_json
from lakeport.airport.protocol.signatures import tag_of
from lakeport.airport.protocol.tickets import ScanTicket
from lakeport.airport.server.actions.action_table import ActionTable
from lakeport.airport.server.headers import Call
from lakeport.airport.server.routing import CatalogRoute
from lakeport.airport.server.state import ServerState
from lakeport.airport.server.verbs.flight_info import scan_info
from lakeport.arrow import write_batch
from lakeport.auth import Operation
from lakeport.catalog import AnyType, Parameter, Schema, TableFunction, field_is_rowid
from lakeport.errors import InvalidArgumentError, InvalidInputError, NotFoundError
from lakeport.types import fold_name

__all__ = ["DISCOVERY_ACTIONS"]

DISCOVERY_ACTIONS: Final = ActionTable(decode_json)


@DISCOVERY_ACTIONS.add("GetSchemas", "List all schemas in catalog")
def get_schemas(host: ServerState, call: Call, request: dict[str, Any]) -> bytes:
    route = _route(host, call, request)
    return _reply({"schemas": [_entry("schema_name", s) for s in route.schemas()]})


@DISCOVERY_ACTIONS.add("GetTables", "List all tables in a schema")
def get_tables(host: ServerState, call: Call, request: dict[str, Any]) -> bytes:
    route = _route(host, call, request)
    schema = route.visible_schema(json_text(request, "schema_name"))
    pattern = json_text(request, "table_name_pattern", default="*")
    tables = [
        {
            **_entry("table_name", table),
            "column_count": sum(not field_is_rowid(field) for field in table.arrow_schema()),
        }
        for table in schema.tables()
        if fnmatchcase(table.name, pattern)
        and route.allows(Operation.LIST, schema.name, table.name)
    ]
    return _reply({"tables": tables})


@DISCOVERY_ACTIONS.add("GetFlightInfo", "Get table metadata and endpoints")
def get_flight_info(host: ServerState, call: Call, request: dict[str, Any]) -> bytes:
    command = json.dumps(request).encode()
    ticket = ScanTicket(address_from_json(command, limits=host.limits))
    descriptor = flight.FlightDescriptor.for_command(command)
    return scan_info(host, call, ticket, descriptor).serialize()  # type: ignore[no-any-return]


@DISCOVERY_ACTIONS.add(
    "GetTableFunctionFlightInfo", "Get metadata and endpoints of a table function call"
)
def get_table_function_flight_info(host: ServerState, call: Call, request: dict[str, Any]) -> bytes:
    route = _route(host, call, request)
    parameters = request.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise InvalidArgumentError("parameters must be an object")
    function, address = _find_function(route, request, set(parameters))
    row = write_batch(_one_row(function, parameters))
    descriptor = flight.FlightDescriptor.for_command(json.dumps(request).encode())
    ticket = ScanTicket(address, arguments=row)
    info = scan_info(host, call, ticket, descriptor, route=route)
    return info.serialize()  # type: ignore[no-any-return]


def _route(host: ServerState, call: Call, request: dict[str, Any]) -> CatalogRoute:
    route = host.route(call, json_text(request, "catalog_name", default=""))
    route.require(Operation.LIST)
    return route


def _find_function(
    route: CatalogRoute, request: dict[str, Any], parameters: set[str]
) -> tuple[TableFunction, Address]:
    """Return a table function by name, of the requested schema or of the only one that has it."""
    schema_name, _, name = json_text(request, "function_name").rpartition(".")
    schema_name = json_text(request, "schema_name", default=schema_name)
    if schema_name:
        schema = route.catalog.schema(schema_name)
        candidates = _functions_named(route, [schema] if schema else [], name)
        names = [address.name for _, address in candidates]
        route.require_calls(schema, Address(schema_name, name), names)
    else:
        candidates = [
            (function, address)
            for function, address in _functions_named(route, route.schemas(), name)
            if route.allows(Operation.CALL, address.schema, address.name)
        ]
    if not candidates:
        raise NotFoundError(f"there is no table function {name!r}")
    matches = [
        (function, address)
        for function, address in candidates
        if parameters <= {parameter.name for parameter in function.signature.parameters}
    ]
    if len(matches) != 1:
        raise InvalidArgumentError(
            f"{len(matches)} of {len(candidates)} functions {name!r} take these parameters"
        )
    function, address = matches[0]
    return function, address.with_tag(tag_of(function))


def _functions_named(
    route: CatalogRoute, schemas: Sequence[Schema], name: str
) -> list[tuple[TableFunction, Address]]:
    return [
        (function, Address(schema.name, function.name, catalog=route.name))
        for schema in schemas
        for function in schema.table_functions()
        if fold_name(function.name) == fold_name(name)
    ]


def _one_row(function: TableFunction, values: dict[str, Any]) -> pa.RecordBatch:
    for parameter in function.signature.parameters:
        if parameter.is_required and parameter.name not in values:
            raise InvalidArgumentError(
                f"function {function.name}: parameter {parameter.name!r} is missing"
            )
    arrays = {
        parameter.name: _array(function, parameter, values[parameter.name])
        for parameter in function.signature.parameters
        if parameter.name in values
    }
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _array(function: TableFunction, parameter: Parameter, value: Any) -> pa.Array:
    try:
        if isinstance(parameter.type, AnyType):
            return pa.array([value])
        return pa.array([value], type=parameter.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        expected = "one value" if isinstance(parameter.type, AnyType) else str(parameter.type)
        raise InvalidInputError(
            f"function {function.name}: parameter {parameter.name!r} must be {expected}"
        ) from None


def _entry(key: str, described: Any) -> dict[str, Any]:
    entry = {key: described.name}
    if described.comment:
        entry["comment"] = described.comment
    return entry


def _reply(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode()
