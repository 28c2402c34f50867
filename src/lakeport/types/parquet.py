"""The fields of a Parquet file: names, field ids and DuckLake types.

Types that Spark's reader does not read as DuckDB does are `unknown`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lakeport.types.columns import Column, arrow_type

__all__ = ["ParquetField", "field_id", "with_field_ids"]

UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class ParquetField:
    """A field of a file: a column, struct field, list element, map key or value."""

    name: str
    id: int | None
    type: str
    """A DuckLake type, or `unknown`."""
    children: tuple[ParquetField, ...] = ()


def _node(field: pa.Field, leaves: Iterator[Any]) -> ParquetField:
    type = field.type
    if isinstance(type, pa.BaseExtensionType):
        type = type.storage_type
    if pa.types.is_struct(type):
        kind, inner = "struct", list(type)
    elif pa.types.is_map(type):
        kind, inner = "map", [type.key_field, type.item_field]
    elif pa.types.is_list(type) or pa.types.is_large_list(type):
        kind, inner = "list", [type.value_field]
    else:
        leaf = next(leaves, None)
        return ParquetField(
            field.name, field_id(field), UNKNOWN if leaf is None else _leaf_type(leaf)
        )
    return ParquetField(
        field.name, field_id(field), kind, tuple(_node(child, leaves) for child in inner)
    )


def _leaf_type(leaf: Any) -> str:
    """Return the DuckLake type whose values Spark reads from a leaf without a change."""
    logical = json.loads(leaf.logical_type.to_json())
    match leaf.physical_type, logical:
        case "BOOLEAN", {"Type": "None"}:
            return "boolean"
        case "INT32", {"Type": "None"}:
            return "int32"
        case "INT64", {"Type": "None"}:
            return "int64"
        case "INT32" | "INT64", {"Type": "Int", "bitWidth": width, "isSigned": signed}:
            return f"{'' if signed else 'u'}int{width}"
        case "FLOAT", {"Type": "None"}:
            return "float32"
        case "DOUBLE", {"Type": "None"}:
            return "float64"
        case "INT32", {"Type": "Date"}:
            return "date"
        case "INT64", {"Type": "Timestamp", "timeUnit": "microseconds", "isAdjustedToUTC": utc}:
            return "timestamptz" if utc else "timestamp"
        case "INT32" | "INT64" | "FIXED_LEN_BYTE_ARRAY", {
            "Type": "Decimal",
            "precision": precision,
            "scale": scale,
        }:
            return f"decimal({precision},{scale})"
        case "BYTE_ARRAY", {"Type": "String" | "JSON" | "Enum"}:
            return "varchar"
        case "BYTE_ARRAY", {"Type": "None"}:
            return "blob"
    return UNKNOWN


def field_id(field: pa.Field) -> int | None:
    """Return the Parquet field id that Arrow carries in a field's metadata."""
    value = (field.metadata or {}).get(b"PARQUET:field_id")
    return None if value is None or int(value) < 0 else int(value)


def with_field_ids(column: Column) -> pa.Field:
    """Return a field with the column id of every node, as a Parquet file has it."""
    type = arrow_type(column)
    if column.type == "struct":
        type = pa.struct([with_field_ids(child) for child in column.children])
    elif column.type == "list":
        type = pa.list_(with_field_ids(column.children[0]))
    elif column.type == "map":
        key, value = (with_field_ids(child) for child in column.children)
        type = pa.map_(key.with_nullable(nullable=False), value)
    return pa.field(column.name, type, metadata={b"PARQUET:field_id": str(column.id).encode()})


def _with_ids(field: pa.Field, delivered: pa.DataType) -> pa.Field:
    """Return the type that DuckDB delivers, with the names and field ids of the file."""
    type = delivered
    if pa.types.is_struct(delivered) and pa.types.is_struct(field.type):
        children = range(delivered.num_fields)
        type = pa.struct(
            [_with_ids(field.type.field(i), delivered.field(i).type) for i in children]
        )
    elif pa.types.is_map(delivered) and pa.types.is_map(field.type):
        type = pa.map_(
            _with_ids(field.type.key_field, delivered.key_type).with_nullable(nullable=False),
            _with_ids(field.type.item_field, delivered.item_type),
        )
    elif pa.types.is_list(delivered) and pa.types.is_list(field.type):
        type = pa.list_(_with_ids(field.type.value_field, delivered.value_type))
    return pa.field(field.name, type, metadata=field.metadata)
