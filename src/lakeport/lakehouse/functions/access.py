"""What callers may do with the tables and views of the lake, and what they see of them.

The table `my_access` is about the caller itself. The functions `access_of` and `readers` are about
others, for callers who administer the lake.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from lakeport.auth import Identity, Operation
from lakeport.catalog import (
    CallableTableFunction,
    Parameter,
    ParameterKind,
    TableFunction,
    current_request,
)
from lakeport.ducklake import Snapshot, View
from lakeport.ducklake.metadata import LakeContents, TableSummary
from lakeport.errors import (
    DefinitionError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
)
from lakeport.lakehouse.names import PublishedNames, parse_table_name
from lakeport.lakehouse.permissions import Permissions
from lakeport.lakehouse.policies.visible import visible_columns
from lakeport.lakehouse.resources import LakeResources
from lakeport.types import fold_name

__all__ = ["MY_ACCESS_SCHEMA", "access_functions", "my_access"]

MY_ACCESS_SCHEMA: Final = pa.schema(
    [
        ("schema_name", pa.string()),
        ("table_name", pa.string()),
        ("permissions", pa.list_(pa.string())),
        ("all_rows", pa.bool_()),
        ("columns", pa.list_(pa.string())),
        ("masked_columns", pa.list_(pa.string())),
    ]
)

ACCESS_SCHEMA: Final = MY_ACCESS_SCHEMA.append(pa.field("row_filter", pa.string()))

READERS_SCHEMA: Final = pa.schema(
    [
        ("identity", pa.string()),
        ("groups", pa.list_(pa.string())),
        *(field for field in ACCESS_SCHEMA if field.name not in ("schema_name", "table_name")),
    ]
)

_VERBS: Final = {
    "select": Operation.READ,
    "insert": Operation.INSERT,
    "update": Operation.UPDATE,
    "delete": Operation.DELETE,
    "alter": Operation.ALTER,
    "drop": Operation.DROP,
    "maintain": Operation.MAINTAIN,
}


def access_functions(
    access: LakeResources, names: PublishedNames, snapshot: Snapshot
) -> Iterator[TableFunction]:
    """Yield the functions about the access of other callers."""

    def access_of(identity: str | None, groups: list[str] | None) -> pa.Table:
        _require_admin()
        own = Permissions.of_request(access, names)
        other = Permissions.of_caller(access, names, _caller(identity, groups))
        return _access(access.contents(snapshot), other, own)

    def readers(table_name: str | None) -> pa.Table:
        _require_admin()
        if table_name is None:
            raise InvalidInputError("the name of the table is NULL")
        schema, name = parse_table_name(names, table_name)
        contents = access.contents(snapshot)
        objects: list[TableSummary | View] = [*contents.tables, *contents.views]
        key = (fold_name(schema), fold_name(name))
        found = [one for one in objects if (fold_name(one.schema), fold_name(one.name)) == key]
        own = Permissions.of_request(access, names)
        # A missing table is refused as an existing one is.
        if not (own.reads(found[0]) if found else own.reads_name(schema, name)):
            raise PermissionDeniedError(f"you may not read {table_name}")
        if not found:
            raise NotFoundError(f"there is no table {names.published(schema)}.{name}")
        return _readers(access, names, found[0])

    yield CallableTableFunction(
        "access_of",
        access_of,
        (
            Parameter("identity", pa.string()),
            Parameter("groups", pa.list_(pa.string()), ParameterKind.NAMED, default=None),
        ),
        ACCESS_SCHEMA,
        comment="What another identity may do and see, for administrators",
    )
    yield CallableTableFunction(
        "readers",
        readers,
        (Parameter("table_name", pa.string()),),
        READERS_SCHEMA,
        comment="Which identities with tokens of the server may read a table, for administrators",
    )


def my_access(contents: LakeContents, permissions: Permissions) -> pa.Table:
    """Return a row for each table and view that the caller may list."""
    # The filters themselves are shown to administrators only.
    return _access(contents, permissions, permissions).select(MY_ACCESS_SCHEMA.names)


def _require_admin() -> None:
    request = current_request()
    if request.identity and not request.may(Operation.ADMIN):
        raise PermissionDeniedError("you may not see the access of others: you see your own only")


def _caller(user: str | None, groups: list[str] | None) -> Identity:
    """Return a caller by name, with the groups and attributes that the server knows of it."""
    if not user:
        raise InvalidInputError("the name of the identity is missing")
    known = [one for one in current_request().others.callers() if one.user == user]
    own = known[0] if known else Identity(user)
    try:
        return Identity(user, own.groups | set(groups or ()), own.attributes)
    except DefinitionError as error:
        raise InvalidInputError(str(error)) from None


def _readers(access: LakeResources, names: PublishedNames, found: TableSummary | View) -> pa.Table:
    rows = []
    for caller in current_request().others.callers():
        permissions = Permissions.of_caller(access, names, caller)
        if permissions.sees(found) and permissions.reads(found):
            shown = {"identity": caller.user, "groups": sorted(caller.groups)}
            rows.append({**_row(found, permissions), **shown})
    return pa.Table.from_pylist(
        [{key: row.get(key) for key in READERS_SCHEMA.names} for row in rows],
        schema=READERS_SCHEMA,
    )


def _access(contents: LakeContents, permissions: Permissions, own: Permissions) -> pa.Table:
    """Return what a caller may do with the objects that it and the asking one may list."""
    objects: list[TableSummary | View] = [*contents.tables, *contents.views]
    rows = [
        _row(found, permissions) for found in objects if permissions.sees(found) and own.sees(found)
    ]
    return pa.Table.from_pylist(rows, schema=ACCESS_SCHEMA)


def _row(found: TableSummary | View, permissions: Permissions) -> dict[str, Any]:
    schema = permissions.names.published(found.schema)
    shown: dict[str, Any] = {
        "schema_name": schema,
        "table_name": found.name,
        "permissions": [
            name for name, verb in _VERBS.items() if permissions.may(verb, schema, found.name)
        ],
    }
    try:
        restriction = permissions.restriction(found)
        if isinstance(found, TableSummary):
            shown["all_rows"] = restriction is None or not restriction.restricts_rows
            shown["row_filter"] = None if restriction is None else restriction.row_filter
            columns, masked = visible_columns(found, permissions)
            shown["columns"] = [column.name for column in columns]
            shown["masked_columns"] = sorted(masked)
    except PermissionDeniedError:  # its policies do not fit its columns
        shown["permissions"] = []
    return shown
