"""The texts of bounds in DuckLake's catalog, from the values that a Parquet footer holds.

Bounds are `0` and `1` for booleans, upper-case hexadecimal for blobs, and otherwise DuckDB's text.
Long text is cut so that the bounds still contain every value.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.arrow import thread_connection
from lakeport.types import (
    TIMESTAMP_UNITS,
    Column,
    arrow_type,
    date_text,
    find_type,
    time_text,
    timestamp_text,
)

__all__ = [
    "MAX_BOUND_BYTES",
    "Range",
    "before_null_byte",
    "box_json",
    "comparable",
    "cut",
    "geometry_stats",
    "texts",
]

Range = tuple[Any, Any]
"""The least and the greatest value of a leaf, as `comparable` returns them."""

MAX_BOUND_BYTES: Final = 256

_GEOMETRY_TYPES: Final = {
    1: "point",
    2: "linestring",
    3: "polygon",
    4: "multipoint",
    5: "multilinestring",
    6: "multipolygon",
    7: "geometrycollection",
}
_DIMENSIONS: Final = {0: "", 1: "_z", 2: "_m", 3: "_zm"}
_DECIMALS: Final = 10**6
_INFINITE_TIMESTAMP: Final = 2**63 - 1


def comparable(value: Any, column: Column) -> Any:
    """Return a value of a footer's statistics so that Python's order is the column's order."""
    if column.type.startswith("uint") and isinstance(value, int):
        # Parquet stores unsigned integers as signed integers of 32 or 64 bits.
        return value % (1 << 64 if column.type == "uint64" else 1 << 32)
    if column.type.startswith("decimal(") and isinstance(value, bytes):
        return int.from_bytes(value, "big", signed=True)
    if isinstance(value, float):
        # A writer of Parquet stores zero as -0.0 if it is the least value; DuckDB has one zero.
        return value + 0.0
    return value


def texts(ranges: Mapping[int, tuple[Column, Range]]) -> dict[int, tuple[str | None, str | None]]:
    """Return the texts of the bounds of leaves, by the leaves' keys; None for an unknown bound."""
    result: dict[int, tuple[str | None, str | None]] = {}
    by_duckdb: dict[int, tuple[Column, Range]] = {}
    for key, (column, (low, high)) in ranges.items():
        if column.type in ("varchar", "json", "blob"):
            result[key] = _cut_texts(low, high, is_text=column.type != "blob")
            continue
        pair = _text(low, column), _text(high, column)
        if None in pair:
            by_duckdb[key] = column, (low, high)
        else:
            result[key] = pair
    if by_duckdb:
        result.update(_duckdb_texts(by_duckdb))
    return result


def cut(low: bytes, high: bytes, *, is_text: bool) -> tuple[bytes, bytes] | None:
    """Return bounds of at most 256 bytes that contain the given ones; None if there are none."""
    limit = 0x7F if is_text else 0xFF
    if len(high) > MAX_BOUND_BYTES:
        end = MAX_BOUND_BYTES
        while end and high[end - 1] >= limit:
            end -= 1
        if not end:
            return None
        high = high[: end - 1] + bytes([high[end - 1] + 1])
    if len(low) > MAX_BOUND_BYTES:
        low = low[:MAX_BOUND_BYTES]
        if is_text:
            low = low.decode("utf-8", "ignore").encode()
    return low, high


def geometry_stats(chunks: Sequence[pq.ColumnChunkMetaData]) -> str | None:
    """Return the box and the types of geometries as DuckLake's JSON; None if they are unknown.

    DuckLake has six decimals. They are rounded outwards, so that the box contains every point.
    """
    boxes: dict[str, tuple[float, float]] = {}
    types: set[str] = set()
    for chunk in chunks:
        found = chunk.geo_statistics
        if found is None:
            if chunk.statistics is not None and chunk.num_values == chunk.statistics.null_count:
                continue
            return None
        for code in found.geospatial_types or ():
            types.add(_GEOMETRY_TYPES.get(code % 1000, "unknown") + _DIMENSIONS[code // 1000 % 4])
        for axis in "xyzm":
            low, high = getattr(found, f"{axis}min"), getattr(found, f"{axis}max")
            if low is not None and high is not None and not math.isfinite(low - high):
                return None
            if low is not None and high is not None and low <= high:
                before = boxes.get(axis, (low, high))
                boxes[axis] = min(before[0], low), max(before[1], high)
    return box_json(boxes, types)


def box_json(boxes: Mapping[str, tuple[float, float]], types: Iterable[str]) -> str:
    """Return DuckLake's JSON of the bounds by axis (`x`, `y`, `z`, `m`) and of geometry types."""
    bounds = []
    for axis in "xyzm":
        low, high = boxes.get(axis, (None, None))
        bounds.append(f'"{axis}min": {_decimal(low, math.floor)}')
        bounds.append(f'"{axis}max": {_decimal(high, math.ceil)}')
    names = ", ".join(f'"{name}"' for name in sorted(types))
    return f'{{"bbox": {{{", ".join(bounds)}}}, "types": [{names}]}}'


def _decimal(value: float | None, round_to: Any) -> str:
    if value is None:
        return "null"
    exact = f"{value:.6f}"
    if float(exact) == value:
        return exact
    scaled = value * _DECIMALS
    if not math.isfinite(scaled) or abs(scaled) >= 1 << 53:
        return exact
    whole = round_to(scaled)
    # The product may have been rounded across the value.
    if round_to is math.floor and whole / _DECIMALS > value:
        whole -= 1
    if round_to is math.ceil and whole / _DECIMALS < value:
        whole += 1
    return f"{whole / _DECIMALS:.6f}"


def _cut_texts(low: bytes, high: bytes, *, is_text: bool) -> tuple[str | None, str | None]:
    pair = cut(low, high, is_text=is_text)
    if pair is None:
        return None, None
    if not is_text:
        return pair[0].hex().upper(), pair[1].hex().upper()
    try:
        found = pair[0].decode(), pair[1].decode()
    except UnicodeDecodeError:
        return None, None
    return before_null_byte(found[0]), before_null_byte(found[1], ending="\x01")


def before_null_byte(bound: str, *, ending: str = "") -> str:
    """Return a bound without a null byte, which PostgreSQL cannot hold."""
    return bound.partition("\0")[0] + ending if "\0" in bound else bound


def _text(value: Any, column: Column) -> str | None:
    """Return the text of a value; None if DuckDB must write it."""
    match column.type:
        case "boolean":
            return "1" if value else "0"
        case "uuid":
            return str(uuid.UUID(bytes=value))
        case "date":
            return date_text(value)
        case "time":
            return _shortened(time_text(value, per_second=10**6))
        case "time_ns":
            return _shortened(time_text(value, per_second=10**9))
        case "timestamp_s":
            return _timestamp(value, 10**6, zoned=False)
        case "float64":
            # DuckDB's own text, except that 1.5.5 prints a few numbers wrongly, such as 2^81.
            return repr(float(value))
        case "float32":
            return _float32_text(np.float32(value))
    if column.type.startswith("decimal("):
        type = arrow_type(column)
        return _decimal_text(value, type.precision, type.scale)
    row = find_type(column.type)
    if row is not None and row.id in TIMESTAMP_UNITS:
        return _timestamp(value, TIMESTAMP_UNITS[row.id], zoned=row.family == "timestamptz")
    return str(value)


def _float32_text(value: np.float32) -> str:
    """Return the shortest text that is read as the same float, with exponents like DuckDB's."""
    if not np.isfinite(value):
        return repr(float(value))
    digits, _, exponent = np.format_float_scientific(value, trim="-").partition("e")
    if -5 < int(exponent) < 16:
        return np.format_float_positional(value, trim="0")
    return f"{digits}e{int(exponent):+03d}"


def _decimal_text(unscaled: int, precision: int, scale: int) -> str:
    if not scale:
        return str(unscaled)
    whole, fraction = divmod(abs(unscaled), 10**scale)
    # DuckDB writes no zero before the point if the type has no digit there.
    digits = str(whole) if precision > scale else ""
    return f"{'-' if unscaled < 0 else ''}{digits}.{fraction:0{scale}d}"


def _timestamp(value: int, per_second: int, *, zoned: bool) -> str | None:
    if abs(value) == _INFINITE_TIMESTAMP:
        # As a number of nanoseconds it is in the year 2262, a text that DuckDB does not cast back.
        return "infinity" if value > 0 else "-infinity"
    text = timestamp_text(value, per_second=per_second)
    return None if text is None else _shortened(text) + ("+00" if zoned else "")


def _shortened(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _duckdb_texts(
    ranges: Mapping[int, tuple[Column, Range]],
) -> dict[int, tuple[str | None, str | None]]:
    """Return texts of dates and times that are infinite or far away, as DuckDB writes them."""
    arrays = [_array(column, values) for column, values in ranges.values()]
    table = pa.table(arrays, names=[f"c{key}" for key in ranges])
    projection = ", ".join(f"CAST(c{key} AS VARCHAR)" for key in ranges)
    low, high = thread_connection().from_arrow(table).project(projection).fetchall()
    return {key: (low[i], high[i]) for i, key in enumerate(ranges)}


def _array(column: Column, values: Range) -> pa.Array:
    type = pa.timestamp("us") if column.type == "timestamp_s" else arrow_type(column)
    storage = pa.int32() if type.bit_width == 32 else pa.int64()
    return pa.array(values, storage).view(type)
