"""DuckDB's names of types and their Arrow types, as DuckDB itself converts them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from lakeport.airport.protocol.addresses import json_text
from lakeport.errors import InvalidArgumentError

__all__ = [
    "MAX_TYPE_LENGTH",
    "arrow_type_of",
    "field_from_json",
    "is_duckdb_type",
    "schema_from_json",
]

MAX_TYPE_LENGTH: Final = 4096
"""The longest name of a type. Types are cached by name."""


@lru_cache(maxsize=4096)
def is_duckdb_type(type: pa.DataType, name: str) -> bool:
    """Return whether DuckDB names an Arrow type like this; an empty name matches every type."""
    import duckdb

    if not name:
        return True
    with duckdb.connect() as connection:
        return str(connection.from_arrow(pa.table({"c": pa.nulls(0, type)})).types[0]) == name


@lru_cache(maxsize=1024)
def arrow_type_of(name: str) -> pa.DataType:
    """Return the Arrow type that DuckDB reads as the named type; not an extension if possible."""
    import duckdb

    try:
        type = duckdb.dtype(name)
        plain = _exported(type, lossless=False)
        if is_duckdb_type(plain, str(type)):
            return plain
        return _exported(type, lossless=True)
    except duckdb.Error:
        raise InvalidArgumentError(f"unknown type {name[:80]!r}") from None


def _exported(type: object, *, lossless: bool) -> pa.DataType:
    import duckdb

    # The type is passed as a value and never becomes part of a SQL text.
    null = duckdb.ConstantExpression(None).cast(type)
    with duckdb.connect() as connection:
        connection.execute(f"SET arrow_lossless_conversion = {lossless}; SET TimeZone = 'UTC'")
        return connection.sql("SELECT 1").select(null).to_arrow_table().schema.types[0]


def schema_from_json(request: dict[str, Any]) -> pa.Schema:
    """Return the columns of `{"fields": [{"name": …, "type": …, "nullable": …}]}`."""
    fields = request.get("fields")
    if not isinstance(fields, list) or not fields:
        raise InvalidArgumentError("schema.fields must be a list of columns")
    return pa.schema([field_from_json(field) for field in fields])


def field_from_json(request: Any) -> pa.Field:
    """Return one column of a JSON request."""
    if not isinstance(request, dict):
        raise InvalidArgumentError("a column must be an object with name and type")
    nullable = request.get("nullable", True)
    if not isinstance(nullable, bool):
        raise InvalidArgumentError("nullable must be true or false")
    return pa.field(
        json_text(request, "name"), _type(json_text(request, "type")), nullable=nullable
    )


def _type(text: str) -> pa.DataType:
    name = text.strip()
    try:
        return pa.type_for_alias(name.lower())
    except ValueError:
        pass
    unknown = InvalidArgumentError(f"unknown column type {text[:80]!r}")
    if not name or len(name) > MAX_TYPE_LENGTH:
        raise unknown
    try:
        type = arrow_type_of(name)
    except InvalidArgumentError:
        raise unknown from None
    # Without GEOMETRY in Arrow, the column would become a BLOB.
    if "GEOMETRY" in name.upper():
        raise unknown
    return type
