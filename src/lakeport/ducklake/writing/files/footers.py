"""The fields and the statistics in the footer of a Parquet file that another program wrote."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.ducklake.writing.files.encoding.bounds import (
    Range,
    comparable,
    geometry_stats,
    texts,
)
from lakeport.ducklake.writing.written import WrittenColumn
from lakeport.types import Column, find_type

__all__ = ["FooterField", "footer_fields", "leaf_statistics"]


_PHYSICAL: Final = {
    "BOOLEAN": "boolean",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "INT96": "timestamp",
    "BYTE_ARRAY": "blob",
}
_UNITS: Final = {"milliseconds": "_ms", "nanoseconds": "_ns"}


@dataclass(frozen=True, slots=True)
class FooterField:
    """A field of a file: a column, struct field, list element, map key or value."""

    name: str
    type: str
    """A DuckLake type, for times with their unit; or the Parquet type if DuckLake has none."""
    children: tuple[FooterField, ...] = ()
    leaf: int | None = None
    """The position of a field without children among all such fields of the file."""


def footer_fields(footer: pq.FileMetaData) -> tuple[FooterField, ...]:
    """Return the top-level fields of a file."""
    schema = footer.schema
    leaves = iter(range(len(schema)))
    return tuple(_field(field, schema, leaves) for field in schema.to_arrow_schema())


def _field(field: pa.Field, schema: pq.ParquetSchema, leaves: Iterator[int]) -> FooterField:
    type = field.type
    if isinstance(type, pa.BaseExtensionType):
        type = type.storage_type
    if pa.types.is_struct(type):
        kind, inner = "struct", list(type)
    elif pa.types.is_map(type):
        kind, inner = "map", [type.key_field, type.item_field]
    elif pa.types.is_nested(type) and hasattr(type, "value_field"):
        kind, inner = "list", [type.value_field]
    else:
        leaf = next(leaves)
        return FooterField(field.name, _leaf_type(schema.column(leaf)), leaf=leaf)
    children = tuple(_field(child, schema, leaves) for child in inner)
    return FooterField(field.name, kind, children)


def _leaf_type(leaf: Any) -> str:
    """Return the DuckLake type that DuckDB reads from a leaf."""
    logical = json.loads(leaf.logical_type.to_json())
    physical = str(leaf.physical_type)
    if physical in _PHYSICAL and (physical != "BYTE_ARRAY" or logical["Type"] == "None"):
        return _PHYSICAL[physical]
    match physical, logical:
        case "INT32" | "INT64", {"Type": "Int", "bitWidth": width, "isSigned": signed}:
            return f"{'' if signed else 'u'}int{width}"
        case "INT32" | "INT64", {"Type": "None"}:
            return physical.lower()
        case _, {"Type": "Decimal", "precision": precision, "scale": scale}:
            return f"decimal({precision},{scale})"
        case _, {"Type": "Timestamp", "timeUnit": unit, "isAdjustedToUTC": utc}:
            return ("timestamptz" if utc else "timestamp") + _UNITS.get(unit, "")
        case _, {"Type": "Time", "timeUnit": unit, "isAdjustedToUTC": utc}:
            return ("timetz" if utc else "time") + _UNITS.get(unit, "")
        case _, {"Type": "String" | "Enum"}:
            return "varchar"
        case _, {"Type": "JSON" | "UUID" | "Interval" | "Geometry" | "Date" as name}:
            return str(name).lower()
    return str(logical["Type"])


def leaf_statistics(footer: pq.FileMetaData, field: FooterField, column: Column) -> WrittenColumn:
    """Return the statistics of a leaf, as texts of the table's column."""
    groups = range(footer.num_row_groups)
    chunks = [footer.row_group(group).column(field.leaf) for group in groups]
    stats = [chunk.statistics for chunk in chunks]
    is_counted = all(s is not None and s.has_null_count for s in stats)
    if column.type in ("interval", "timetz") or not is_counted:
        values = nulls = None
    else:
        nulls = sum(s.null_count for s in stats if s is not None)
        values = sum(chunk.num_values for chunk in chunks) - nulls
    bounds = _bounds(chunks, field, column)
    low, high = texts({0: (column, bounds)})[0] if bounds is not None else (None, None)
    return WrittenColumn(
        column_id=column.id,
        size_bytes=sum(chunk.total_compressed_size for chunk in chunks),
        value_count=values,
        null_count=nulls,
        min_value=low,
        max_value=high,
        extra_stats=geometry_stats(chunks) if column.type == "geometry" else None,
    )


def _bounds(
    chunks: list[pq.ColumnChunkMetaData], field: FooterField, column: Column
) -> Range | None:
    """Return the least and the greatest value in the column's type; None if one is unknown."""
    row = find_type(column.type)
    is_ordered = column.type in ("varchar", "json", "blob", "uuid") or (
        row is not None and row.bounds != "none"
    )
    # A writer may have left NaN out of the statistics or not, and INT96 has no order.
    if not is_ordered or any(chunk.physical_type == "INT96" for chunk in chunks):
        return None
    lows, highs = [], []
    for chunk in chunks:
        stats = chunk.statistics
        if stats is None or not stats.has_min_max:
            if stats is not None and stats.has_null_count and stats.null_count == chunk.num_values:
                continue
            return None
        lows.append(comparable(stats.min_raw, _as_column(field, column)))
        highs.append(comparable(stats.max_raw, _as_column(field, column)))
    if not lows:
        return None
    low, high = min(lows), max(highs)
    if isinstance(low, float) and (math.isnan(low) or math.isnan(high)):
        return None
    return _converted(low, field, column, up=False), _converted(high, field, column, up=True)


def _as_column(field: FooterField, column: Column) -> Column:
    return Column(id=column.id, name=column.name, type=field.type)


def _converted(value: Any, field: FooterField, column: Column, *, up: bool) -> Any:
    """Return a value of the file in the unit of the column, rounded outwards."""
    if column.type.startswith("decimal("):
        scale, own = (int(text[8:-1].split(",")[1]) for text in (column.type, field.type))
        return value * 10 ** (scale - own)
    if not field.type.startswith("time"):
        return value
    per_second = {"_ms": 10**3, "_ns": 10**9}
    own_units = per_second.get(field.type[-3:], 10**6)
    # The text of timestamps with seconds is made from microseconds, as files store them.
    units = per_second.get(column.type[-3:], 10**6)
    if units >= own_units:
        return value * (units // own_units)
    divisor = own_units // units
    return -(-value // divisor) if up else value // divisor
