"""DDL: send the actions of CREATE, DROP and ALTER, and update the listing from their replies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from lakeport.airport.client.catalog import AttachedCatalog
from lakeport.airport.client.connection import pack
from lakeport.airport.client.entries import RemoteSchema, TableEntry
from lakeport.airport.client.replies import read_contents_ref, read_flight_description
from lakeport.airport.client.statements.statement import Statement
from lakeport.airport.client.statements.writes import wire_schema
from lakeport.airport.protocol.codec import write_schema
from lakeport.catalog import OnConflict, field_is_rowid
from lakeport.errors import InvalidArgumentError, NotFoundError
from lakeport.types import duckdb_identifier, fold_name

__all__ = [
    "alter",
    "conflict_mode",
    "create_schema",
    "create_table",
    "drop_schema",
    "drop_table",
    "one_field",
]

ColumnSets: TypeAlias = Sequence[str | Sequence[str]]
"""Columns by name, and sets of columns."""


def create_schema(
    catalog: AttachedCatalog,
    name: str,
    *,
    comment: str | None,
    tags: Mapping[str, str],
    if_not_exists: bool,
) -> RemoteSchema:
    """Create a schema."""
    statement = catalog.begin_schema_change()
    request: dict[str, Any] = {
        "catalog_name": catalog.name,
        "schema": name,
        "comment": comment,
        "tags": dict(tags),
    }
    if if_not_exists:
        # DuckDB has no such field. A server that ignores it raises an error if the schema exists.
        request["if_not_exists"] = True
    body = catalog.connection.request("create_schema", request, statement.headers())
    return catalog.cache_schema(name, comment or "", tags, read_contents_ref(body))


def drop_schema(catalog: AttachedCatalog, name: str, *, if_exists: bool, cascade: bool) -> None:
    """Drop a schema."""
    statement = catalog.begin_schema_change()
    request = {
        "type": "schema",
        "catalog_name": catalog.name,
        "schema_name": "",
        "name": name,
        "ignore_not_found": if_exists,
        "cascade": cascade,
    }
    catalog.connection.action("drop_schema", pack(request), statement.headers())
    catalog.remove_schema(name)


def create_table(
    catalog: AttachedCatalog,
    statement: Statement,
    schema: str,
    name: str,
    columns: pa.Schema,
    *,
    on_conflict: OnConflict | str = OnConflict.ERROR,
    not_null: Iterable[str] = (),
    unique: ColumnSets = (),
    primary_key: str | Sequence[str] = (),
    check: Sequence[str] = (),
) -> TableEntry:
    """Create a table."""
    schema_name = catalog.schema(schema).name
    fields = [field for field in columns if not field_is_rowid(field)]
    key = [primary_key] if isinstance(primary_key, str) else list(primary_key)
    sets = [[each] if isinstance(each, str) else list(each) for each in unique]
    if not all(sets):
        raise InvalidArgumentError("a UNIQUE constraint needs columns")
    required = {*not_null, *key, *(field.name for field in fields if not field.nullable)}
    request = {
        "catalog_name": catalog.name,
        "schema_name": schema_name,
        "table_name": name,
        "arrow_schema": write_schema(wire_schema(fields)),
        "on_conflict": conflict_mode(on_conflict).value,
        "not_null_constraints": sorted({_position(fields, each) for each in required}),
        "unique_constraints": [],
        "check_constraints": list(check),
        "primary_key_columns": key if len(key) == 1 else [],
        "unique_columns": [each[0] for each in sets if len(each) == 1],
        "multi_key_primary_keys": key if len(key) > 1 else [],
        "extra_constraints": [_unique_constraint(each) for each in sets if len(each) > 1],
    }
    body = catalog.connection.request("create_table", request, statement.headers())
    return catalog.cache_table(read_flight_description(body), schema_name)


def drop_table(catalog: AttachedCatalog, entry: TableEntry, *, if_exists: bool) -> None:
    """Drop a table."""
    statement = catalog.begin()
    request = {
        "type": "table",
        "catalog_name": catalog.name,
        "schema_name": entry.schema_name,
        "name": entry.name,
        "ignore_not_found": if_exists,
    }
    catalog.connection.action("drop_table", pack(request), statement.headers())
    catalog.remove_table(entry)


def alter(catalog: AttachedCatalog, entry: TableEntry, action: str, **fields: Any) -> TableEntry:
    """Run an action that alters a table, and return the altered table."""
    statement = catalog.begin()
    request = {
        "catalog": catalog.name,
        "schema": entry.schema_name,
        "name": entry.name,
        "ignore_not_found": False,
        **fields,
    }
    # DuckDB sends the name of these actions twice.
    headers = [*statement.headers(), ("airport-action-name", action)]
    body = catalog.connection.request(action, request, headers)
    return catalog.cache_table(
        read_flight_description(body), entry.schema_name, instead_of=entry.name
    )


def conflict_mode(on_conflict: OnConflict | str) -> OnConflict:
    """Return the conflict mode of CREATE TABLE with this name."""
    try:
        return OnConflict(on_conflict)
    except ValueError:
        raise InvalidArgumentError(
            f"on_conflict must be error, ignore or replace, not {on_conflict!r}"
        ) from None


def one_field(name: str, type: pa.DataType) -> bytes:
    """Encode a column as the actions of ALTER TABLE expect it."""
    return write_schema(pa.schema([pa.field(name, type)]))


def _position(fields: Sequence[pa.Field], name: str) -> int:
    for position, field in enumerate(fields):
        if fold_name(field.name) == fold_name(name):
            return position
    raise NotFoundError(f"there is no column {name!r} to constrain")


def _unique_constraint(columns: Sequence[str]) -> str:
    return f"UNIQUE({', '.join(duckdb_identifier(column) for column in columns)})"
