"""The JSON actions of the discovery contract that change a catalog."""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa

from lakeport.airport.protocol.addresses import Address, json_text
from lakeport.airport.protocol.codec import decode_json
from lakeport.airport.protocol.type_names import field_from_json, schema_from_json
from lakeport.airport.server.actions.action_table import ActionTable
from lakeport.airport.server.actions.ddl import (
    change,
    create_schema,
    create_table,
    drop_table,
    dynamic_catalog,
    dynamic_table,
)
from lakeport.airport.server.headers import Call
from lakeport.airport.server.routing import CatalogRoute
from lakeport.airport.server.state import ServerState
from lakeport.auth import Operation
from lakeport.catalog import (
    AddColumnOptions,
    CreateSchemaOptions,
    CreateTableOptions,
    DeletableBatchTable,
    DeletableTable,
    DMLOptions,
    DropSchemaOptions,
    DropTableOptions,
    OnConflict,
    RemoveColumnOptions,
    check_columns,
    field_is_rowid,
    rowid_field,
)
from lakeport.errors import InvalidArgumentError, NullRowIdError, UnsupportedError

__all__ = ["DISCOVERY_WRITES"]

DISCOVERY_WRITES: Final = ActionTable(decode_json)


@DISCOVERY_WRITES.add("CreateSchema", "Create a new schema")
def create_schema_action(host: ServerState, call: Call, request: dict[str, Any]) -> bytes:
    route, name = _route(host, call, request), json_text(request, "schema_name")
    options = CreateSchemaOptions(
        comment=json_text(request, "comment", default=""),
        if_not_exists=_flag(request, "if_not_exists"),
    )
    create_schema(host, route, name, options)
    return _reply(schema_name=name)


@DISCOVERY_WRITES.add("DropSchema", "Drop an existing schema")
def drop_schema(host: ServerState, call: Call, request: dict[str, Any]) -> bytes:
    route, name = _route(host, call, request), json_text(request, "schema_name")
    options = DropSchemaOptions(
        ignore_not_found=_flag(request, "if_exists"), cascade=_flag(request, "cascade")
    )
    with change(host, route, name, operation=Operation.DROP):
        dynamic_catalog(route).drop_schema(name, options)
    return _reply(schema_name=name)


@DISCOVERY_WRITES.add("CreateTable", "Create a new table with Arrow schema")
def create_table_action(host: ServerState, call: Call, request: dict[str, Any]) -> bytes:
    columns = request.get("schema")
    if not isinstance(columns, dict):
        raise InvalidArgumentError("schema must be an object with fields")
    schema = schema_from_json(columns)
    options = CreateTableOptions(
        on_conflict=OnConflict.IGNORE if _flag(request, "if_not_exists") else OnConflict.ERROR,
        comment=json_text(request, "comment", default=""),
        not_null_columns=tuple(field.name for field in schema if not field.nullable),
    )
    address = _address(request)
    create_table(host, _route(host, call, request), address, schema, options)
    return _reply(schema_name=address.schema, table_name=address.name)


@DISCOVERY_WRITES.add("DropTable", "Drop an existing table")
def drop_table_action(host: ServerState, call: Call, request: dict[str, Any]) -> bytes:
    address = _address(request)
    options = DropTableOptions(ignore_not_found=_flag(request, "if_exists"))
    drop_table(host, _route(host, call, request), address, options)
    return _reply(schema_name=address.schema, table_name=address.name)


@DISCOVERY_WRITES.add("AlterTableAddColumn", "Add a column to a table")
def add_column(host: ServerState, call: Call, request: dict[str, Any]) -> bytes:
    route, address = _route(host, call, request), _address(request)
    column = pa.schema([field_from_json(request.get("column"))])
    check_columns(column, f"table {address}")
    options = AddColumnOptions(if_column_not_exists=_flag(request, "if_not_exists"))
    with change(host, route, address.schema, address.name):
        table = dynamic_table(route, address)
        if table is not None:
            table.add_column(column, options)
    return _reply(schema_name=address.schema, table_name=address.name)


@DISCOVERY_WRITES.add("AlterTableDropColumn", "Drop a column from a table")
def drop_column(host: ServerState, call: Call, request: dict[str, Any]) -> bytes:
    route, address = _route(host, call, request), _address(request)
    column = json_text(request, "column_name")
    options = RemoveColumnOptions(if_column_exists=_flag(request, "if_exists"))
    with change(host, route, address.schema, address.name):
        table = dynamic_table(route, address)
        if table is not None:
            table.remove_column(column, options)
    return _reply(schema_name=address.schema, table_name=address.name)


@DISCOVERY_WRITES.add("Delete", "Delete rows by rowid")
def delete(host: ServerState, call: Call, request: dict[str, Any]) -> bytes:
    route, address = _route(host, call, request), _address(request)
    table = route.table(address, Operation.DELETE)
    rowid = next((field for field in table.arrow_schema() if field_is_rowid(field)), None)
    if rowid is None or not isinstance(table, DeletableTable | DeletableBatchTable):
        raise UnsupportedError(f"the rows of table {address} cannot be deleted")
    row_ids = request.get("row_ids")
    if not isinstance(row_ids, list):
        raise InvalidArgumentError("row_ids must be a list")
    try:
        ids = pa.array(row_ids, type=rowid.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise InvalidArgumentError(f"row_ids must be of type {rowid.type}") from None
    if ids.null_count:
        raise NullRowIdError
    with host.transactions.statement(route.catalog, route.registered_name):
        if isinstance(table, DeletableBatchTable):
            schema = pa.schema([rowid_field(type=rowid.type)])
            batch = pa.RecordBatch.from_arrays([ids], schema=schema)
            reader = pa.RecordBatchReader.from_batches(schema, [batch])
            result = table.delete_rows(reader, DMLOptions())
        else:
            result = table.delete(ids, DMLOptions())
    return _reply(affected_rows=result.affected_rows)


def _route(host: ServerState, call: Call, request: dict[str, Any]) -> CatalogRoute:
    return host.route(call, json_text(request, "catalog_name", default=""))


def _address(request: dict[str, Any]) -> Address:
    return Address(json_text(request, "schema_name"), json_text(request, "table_name"))


def _flag(request: dict[str, Any], name: str) -> bool:
    value = request.get(name, False)
    if not isinstance(value, bool):
        raise InvalidArgumentError(f"{name} must be true or false")
    return value


def _reply(**content: Any) -> bytes:
    return json.dumps(content).encode()
