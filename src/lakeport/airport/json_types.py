"""Column types in JSON requests: DuckDB's names, or Arrow's."""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa

from lakeport.airport.addresses import json_text
from lakeport.errors import InvalidArgumentError

__all__ = ["field_from_json", "schema_from_json"]

_DUCKDB_TYPES: Final[dict[str, pa.DataType]] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "REAL": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "TEXT": pa.string(),
    "BLOB": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP_S": pa.timestamp("s"),
    "TIMESTAMP_MS": pa.timestamp("ms"),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMPTZ": pa.timestamp("us", tz="UTC"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", tz="UTC"),
    "INTERVAL": pa.month_day_nano_interval(),
    "UUID": pa.uuid(),
    "JSON": pa.json_(),
}

_DECIMAL = re.compile(r"DECIMAL\((\d{1,2}),\s*(\d{1,2})\)")


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
    spelled = text.strip().upper()
    known = _DUCKDB_TYPES.get(spelled)
    if known is not None:
        return known
    decimal = _DECIMAL.fullmatch(spelled)
    try:
        if decimal is not None:
            return pa.decimal128(int(decimal.group(1)), int(decimal.group(2)))
        return pa.type_for_alias(text.strip().lower())
    except (ValueError, pa.ArrowException):
        raise InvalidArgumentError(f"unknown column type {text[:80]!r}") from None
