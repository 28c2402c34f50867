"""The table `lakeport.my_access`: what the caller may do with the tables and views of the lake."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from lakeport.auth import Operation
from lakeport.ducklake import View
from lakeport.ducklake.metadata import LakeContents, TableSummary
from lakeport.errors import PermissionDeniedError
from lakeport.lakehouse.permissions import Permissions
from lakeport.lakehouse.policies.visible import visible_columns

__all__ = ["MY_ACCESS_SCHEMA", "my_access"]

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

_VERBS: Final = {
    "select": Operation.READ,
    "insert": Operation.INSERT,
    "update": Operation.UPDATE,
    "delete": Operation.DELETE,
    "alter": Operation.ALTER,
    "drop": Operation.DROP,
}


def my_access(contents: LakeContents, permissions: Permissions) -> pa.Table:
    """Return a row for each table and view that the caller may list."""
    objects: list[TableSummary | View] = [*contents.tables, *contents.views]
    rows = [_row(found, permissions) for found in objects if permissions.sees(found)]
    return pa.Table.from_pylist(rows, schema=MY_ACCESS_SCHEMA)


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
            columns, masked = visible_columns(found, permissions)
            shown["columns"] = [column.name for column in columns]
            shown["masked_columns"] = sorted(masked)
    except PermissionDeniedError:  # its policies do not fit its columns
        shown["permissions"] = []
    return shown
