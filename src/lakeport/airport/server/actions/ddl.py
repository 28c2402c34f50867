"""The actions of CREATE, DROP and ALTER."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

import pyarrow as pa

from lakeport.airport.protocol.addresses import Address
from lakeport.airport.protocol.codec import Struct, decode_struct, encode, read_schema
from lakeport.airport.server.actions.action_table import ActionTable
from lakeport.airport.server.headers import Call
from lakeport.airport.server.listing import (
    catalog_version,
    schema_contents,
    schema_infos,
    table_info,
)
from lakeport.airport.server.routing import CatalogRoute
from lakeport.airport.server.state import ServerState
from lakeport.auth import Operation
from lakeport.catalog import (
    AddColumnOptions,
    AddFieldOptions,
    ChangeColumnTypeOptions,
    CreateSchemaOptions,
    CreateTableOptions,
    DropNotNullOptions,
    DropSchemaOptions,
    DropTableOptions,
    DynamicCatalog,
    DynamicSchema,
    DynamicTable,
    OnConflict,
    RemoveColumnOptions,
    RemoveFieldOptions,
    RenameColumnOptions,
    RenameFieldOptions,
    RenameTableOptions,
    Schema,
    SetDefaultOptions,
    SetNotNullOptions,
    StagingCatalog,
    check_columns,
    check_name,
    current_request,
)
from lakeport.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from lakeport.types import fold_name

__all__ = [
    "DDL_ACTIONS",
    "change",
    "create_schema",
    "create_table",
    "drop_table",
    "dynamic_catalog",
    "dynamic_schema",
    "dynamic_table",
]

_log = logging.getLogger("lakeport.airport")

DDL_ACTIONS: Final = ActionTable(decode_struct)


@DDL_ACTIONS.add("create_schema", "Create a schema")
def create_schema_action(host: ServerState, call: Call, request: Struct) -> bytes:
    route = host.route(call, request.text("catalog_name", ""))
    options = CreateSchemaOptions(
        comment=request.text("comment", ""),
        tags=request.text_map("tags"),
        if_not_exists=request.flag("if_not_exists", default=False),
    )
    schema = create_schema(host, route, request.text("schema"), options)
    is_fixed = catalog_version(route).is_fixed
    return encode(schema_contents(list(schema_infos(route, schema, is_fixed=is_fixed))))


@DDL_ACTIONS.add("drop_schema", "Drop a schema")
def drop_schema(host: ServerState, call: Call, request: Struct) -> None:
    route = host.route(call, request.text("catalog_name", ""))
    name = request.text("name")
    options = DropSchemaOptions(
        ignore_not_found=request.flag("ignore_not_found", default=False),
        # DuckDB does not send CASCADE: the catalog decides what that means.
        cascade=request.flag("cascade") if "cascade" in request else None,
    )
    with change(host, route, name, operation=Operation.DROP):
        dynamic_catalog(route).drop_schema(name, options)


@DDL_ACTIONS.add("create_table", "Create a table")
def create_table_action(host: ServerState, call: Call, request: Struct) -> bytes:
    route = host.route(call, request.text("catalog_name", ""))
    schema = read_schema(request.blob("arrow_schema"), "the table", limits=host.limits)
    return create_table(
        host,
        route,
        Address(request.text("schema_name"), request.text("table_name")),
        schema,
        _create_options(request, schema),
    )


@DDL_ACTIONS.add("drop_table", "Drop a table")
def drop_table_action(host: ServerState, call: Call, request: Struct) -> None:
    route = host.route(call, request.text("catalog_name", ""))
    address = Address(request.text("schema_name"), request.text("name"))
    options = DropTableOptions(ignore_not_found=request.flag("ignore_not_found", default=False))
    drop_table(host, route, address, options)


@DDL_ACTIONS.add("rename_table", "Rename a table")
def rename_table(host: ServerState, call: Call, request: Struct) -> bytes | None:
    route = host.route(call, request.text("catalog", ""))
    address = Address(request.text("schema"), request.text("name"))
    new_name = check_name(request.text("new_table_name"), "table")
    options = RenameTableOptions(ignore_not_found=request.flag("ignore_not_found", default=False))
    with change(host, route, address.schema, address.name):
        renamed = Address(address.schema, new_name)
        route.require_table(Operation.CREATE, renamed)
        dynamic_schema(route, address.schema).rename_table(address.name, new_name, options)
        return _table_reply(route, renamed, missing_ok=options.ignore_not_found)


Alteration: TypeAlias = Callable[[DynamicTable, Struct, bool], None]
"""Changes a table as a request describes; the flag is the request's `ignore_not_found`."""


def _alteration(name: str, description: str) -> Callable[[Alteration], Alteration]:
    """Register an ALTER TABLE action, which changes a table and returns its FlightInfo."""

    def register(alter: Alteration) -> Alteration:
        @DDL_ACTIONS.add(name, description)
        def handle(host: ServerState, call: Call, request: Struct) -> bytes | None:
            route = host.route(call, request.text("catalog", ""))
            address = Address(request.text("schema"), request.text("name"))
            missing_ok = request.flag("ignore_not_found", default=False)
            with change(host, route, address.schema, address.name):
                table = dynamic_table(route, address, missing_ok=missing_ok)
                if table is not None:
                    alter(table, request, missing_ok)
                return _table_reply(route, address, missing_ok=missing_ok)

        return alter

    return register


@_alteration("add_column", "Add a column to a table")
def _add_column(table: DynamicTable, request: Struct, missing_ok: bool) -> None:  # noqa: FBT001
    column = _one_field(request)
    exists_ok = request.flag("if_column_not_exists", default=False)
    table.add_column(
        column, AddColumnOptions(if_column_not_exists=exists_ok, ignore_not_found=missing_ok)
    )


@_alteration("remove_column", "Remove a column from a table")
def _remove_column(table: DynamicTable, request: Struct, missing_ok: bool) -> None:  # noqa: FBT001
    options = RemoveColumnOptions(
        if_column_exists=request.flag("if_column_exists", default=False),
        ignore_not_found=missing_ok,
        cascade=request.flag("cascade", default=False),
    )
    table.remove_column(request.text("removed_column"), options)


@_alteration("rename_column", "Rename a column")
def _rename_column(table: DynamicTable, request: Struct, missing_ok: bool) -> None:  # noqa: FBT001
    new_name = check_name(request.text("new_name"), "column")
    table.rename_column(request.text("old_name"), new_name, RenameColumnOptions(missing_ok))


@_alteration("change_column_type", "Change the type of a column")
def _change_column_type(table: DynamicTable, request: Struct, missing_ok: bool) -> None:  # noqa: FBT001
    expression = request.text("expression", "")
    table.change_column_type(_one_field(request), expression, ChangeColumnTypeOptions(missing_ok))


@_alteration("set_default", "Set the default of a column")
def _set_default(table: DynamicTable, request: Struct, missing_ok: bool) -> None:  # noqa: FBT001
    column, expression = request.text("column_name"), request.text("expression")
    table.set_default(column, expression, SetDefaultOptions(missing_ok))


@_alteration("set_not_null", "Make a column reject nulls")
def _set_not_null(table: DynamicTable, request: Struct, missing_ok: bool) -> None:  # noqa: FBT001
    table.set_not_null(request.text("column_name"), SetNotNullOptions(missing_ok))


@_alteration("drop_not_null", "Make a column accept nulls")
def _drop_not_null(table: DynamicTable, request: Struct, missing_ok: bool) -> None:  # noqa: FBT001
    table.drop_not_null(request.text("column_name"), DropNotNullOptions(missing_ok))


@_alteration("add_field", "Add a field to a struct column")
def _add_field(table: DynamicTable, request: Struct, missing_ok: bool) -> None:  # noqa: FBT001
    path, field = request.texts("column_path"), _one_field(request)
    # DuckDB's client sends the name of the column, because it has no field for the real name.
    if path and field.names[0] == path[0]:
        raise UnsupportedError(
            "DuckDB's airport client does not transmit the name of a new struct field; "
            "add a column with the new struct type, or use Lakeport's Python client"
        )
    options = AddFieldOptions(
        if_field_not_exists=request.flag("if_field_not_exists", default=False),
        ignore_not_found=missing_ok,
    )
    table.add_field(path, field, options)


@_alteration("rename_field", "Rename a field of a struct column")
def _rename_field(table: DynamicTable, request: Struct, missing_ok: bool) -> None:  # noqa: FBT001
    new_name = check_name(request.text("new_name"), "field")
    table.rename_field(request.texts("column_path"), new_name, RenameFieldOptions(missing_ok))


@_alteration("remove_field", "Remove a field from a struct column")
def _remove_field(table: DynamicTable, request: Struct, missing_ok: bool) -> None:  # noqa: FBT001
    options = RemoveFieldOptions(
        if_field_exists=request.flag("if_column_exists", default=False),
        ignore_not_found=missing_ok,
        cascade=request.flag("cascade", default=False),
    )
    table.remove_field(request.texts("column_path"), options)


def create_schema(
    host: ServerState, route: CatalogRoute, name: str, options: CreateSchemaOptions
) -> Schema:
    """Create a schema."""
    check_name(name, "schema")
    with change(host, route, name, operation=Operation.CREATE):
        schema = dynamic_catalog(route).create_schema(name, options)
    if fold_name(name) == "main":
        _log.warning("a schema 'main' was created; DuckDB's client lists it but cannot use it")
    return schema


def create_table(
    host: ServerState,
    route: CatalogRoute,
    address: Address,
    schema: pa.Schema,
    options: CreateTableOptions,
) -> bytes:
    """Create a table and return its serialized FlightInfo."""
    check_name(address.name, "table")
    check_columns(schema, f"table {address}")
    with change(host, route, address.schema, address.name, operation=Operation.CREATE):
        if options.on_conflict is OnConflict.REPLACE:
            route.require_table(Operation.DROP, address)
        dynamic_schema(route, address.schema).create_table(address.name, schema, options)
        return _required_reply(route, address)


def drop_table(
    host: ServerState, route: CatalogRoute, address: Address, options: DropTableOptions
) -> None:
    """Drop a table."""
    with change(host, route, address.schema, address.name, operation=Operation.DROP):
        dynamic_schema(route, address.schema).drop_table(address.name, options)


def dynamic_catalog(route: CatalogRoute) -> DynamicCatalog:
    """Return the catalog; raise `UnsupportedError` if its schemas cannot change."""
    if not isinstance(route.catalog, DynamicCatalog):
        raise UnsupportedError("the schemas of this catalog cannot be changed")
    return route.catalog


def dynamic_schema(route: CatalogRoute, name: str) -> DynamicSchema:
    """Return a schema; raise `UnsupportedError` if its tables cannot change."""
    schema = route.schema(name)
    if not isinstance(schema, DynamicSchema):
        raise UnsupportedError(f"the tables of schema {name!r} cannot be changed")
    return schema


def dynamic_table(
    route: CatalogRoute, address: Address, *, missing_ok: bool = False
) -> DynamicTable | None:
    """Return a table; raise `UnsupportedError` if its columns cannot change.

    With `missing_ok`, None is returned for a missing table.
    """
    table = route.schema(address.schema).table(address.name)
    if table is None:
        if missing_ok:
            return None
        raise NotFoundError(f"there is no table {address}")
    if not isinstance(table, DynamicTable):
        raise UnsupportedError(f"the columns of table {address} cannot be changed")
    return table


@contextmanager
def change(
    host: ServerState,
    route: CatalogRoute,
    schema: str,
    name: str | None = None,
    *,
    operation: Operation = Operation.ALTER,
) -> Iterator[None]:
    """Check that the caller may change an object; run the block in the caller's transaction."""
    if name is None:
        route.require_schema(operation, schema)
    else:
        route.require_table(operation, Address(schema, name))
    stages = isinstance(route.catalog, StagingCatalog) and route.catalog.stages_writes
    if current_request().transaction_id is None and not stages:
        yield
        return
    with host.transactions.statement(route.catalog, route.registered_name):
        yield


def _table_reply(route: CatalogRoute, address: Address, *, missing_ok: bool) -> bytes | None:
    table = route.schema(address.schema).table(address.name)
    if table is None:
        if missing_ok:
            return None
        raise NotFoundError(f"there is no table {address}")
    return table_info(route, address.schema, table).serialize()  # type: ignore[no-any-return]


def _required_reply(route: CatalogRoute, address: Address) -> bytes:
    reply = _table_reply(route, address, missing_ok=False)
    assert reply is not None  # noqa: S101
    return reply


def _create_options(request: Struct, schema: pa.Schema) -> CreateTableOptions:
    try:
        on_conflict = OnConflict(request.text("on_conflict", "error"))
    except ValueError:
        raise InvalidArgumentError("on_conflict must be error, ignore or replace") from None
    primary_key = [
        *request.texts("primary_key_columns", []),
        *request.texts("multi_key_primary_keys", []),
    ]
    unique: list[tuple[str, ...]] = [(column,) for column in request.texts("unique_columns", [])]
    unique += [(_column_at(schema, p),) for p in request.integers("unique_constraints", [])]
    unique += [_unique_columns(text) for text in request.texts("extra_constraints", [])]
    return CreateTableOptions(
        on_conflict=on_conflict,
        not_null_columns=tuple(
            _column_at(schema, position)
            for position in request.integers("not_null_constraints", [])
        ),
        unique_constraints=tuple(unique),
        check_constraints=tuple(request.texts("check_constraints", [])),
        primary_key=tuple(primary_key),
    )


def _column_at(schema: pa.Schema, position: int) -> str:
    if not 0 <= position < len(schema):
        raise InvalidArgumentError(f"there is no column number {position}")
    name: str = schema.field(position).name
    return name


_UNIQUE = re.compile(r"\s*UNIQUE\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)
_IDENTIFIER = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\s",]+))\s*(,|$)')


def _unique_columns(text: str) -> tuple[str, ...]:
    """Return the columns of a constraint in SQL: `UNIQUE(a, "b c")`."""
    match = _UNIQUE.fullmatch(text)
    if match is None:
        raise UnsupportedError(f"the constraint {text[:200]!r} is not supported")
    rest, columns, position = match.group(1), [], 0
    while position < len(rest):
        item = _IDENTIFIER.match(rest, position)
        if item is None:
            raise InvalidArgumentError(f"the constraint {text[:200]!r} cannot be read")
        columns.append(item.group(1).replace('""', '"') if item.group(1) else item.group(2))
        position = item.end()
    return tuple(columns)


def _one_field(request: Struct) -> pa.Schema:
    schema = read_schema(request.blob("column_schema"), "the column")
    if len(schema) != 1:
        raise InvalidArgumentError(f"expected one column, not {len(schema)}")
    check_columns(schema, f"{request.text('schema')}.{request.text('name')}")
    return schema
