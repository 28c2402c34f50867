"""Column types in JSON requests: Arrow's names (`int8` has eight bits), or DuckDB's."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakeport.airport.addresses import json_text
from lakeport.airport.duckdb_types import MAX_TYPE_LENGTH, arrow_type_of
from lakeport.errors import InvalidArgumentError

__all__ = ["field_from_json", "schema_from_json"]


def schema_from_json(request: dict[str, Any]) -> pa.Schema:
    """The columns of `{"fields": [{"name": …, "type": …, "nullable": …}]}`."""
    fields = request.get("fields")
    if not isinstance(fields, list) or not fields:
        raise InvalidArgumentError("schema.fields must be a list of columns")
    return pa.schema([field_from_json(field) for field in fields])


def field_from_json(request: Any) -> pa.Field:
    """One column."""
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
    # A GEOMETRY would become a BLOB: Arrow has no type that says what it is.
    if "GEOMETRY" in name.upper():
        raise unknown
    return type
