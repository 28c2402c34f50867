"""The `bucket(N)` partition transform: which bucket a value is in, as DuckLake computes it."""

from __future__ import annotations

import math
import struct

import pyarrow as pa

from lakeport.arrow import combine, thread_connection
from lakeport.types import Column, duckdb_type, find_type

__all__ = ["bucket_of", "murmur3"]


def bucket_of(literal: str, column: Column, buckets: int) -> int | None:
    """Return the bucket of an SQL literal in a column; None if it is not certain."""
    import duckdb

    try:
        value = _bytes(literal, column)
    except (duckdb.Error, pa.ArrowInvalid, struct.error):
        return None
    return None if value is None or buckets <= 0 else (murmur3(value) & 0x7FFFFFFF) % buckets


def murmur3(data: bytes) -> int:
    """Return MurmurHash3 with 32 bits and seed 0."""
    mask = 0xFFFFFFFF

    def mix(k: int) -> int:
        k = (k * 0xCC9E2D51) & mask
        return (((k << 15) | (k >> 17)) * 0x1B873593) & mask

    h = 0
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        h ^= mix(int.from_bytes(data[i : i + 4], "little"))
        h = (((h << 13) | (h >> 19)) * 5 + 0xE6546B64) & mask
    if tail := data[whole:]:
        h ^= mix(int.from_bytes(tail, "little"))
    h ^= len(data)
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & mask
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & mask
    return h ^ (h >> 16)


def _bytes(literal: str, column: Column) -> bytes | None:
    """Return the hashed bytes of a literal: of an integer in the type's unit, or of its text."""
    row = find_type(column.type)
    if row is None or row.bucket_input is None:
        return None
    if not row.is_floating and _value(f"typeof({literal})").as_py() in ("FLOAT", "DOUBLE"):
        return None  # compared as floats: several values of the column may equal the literal
    typed = f"CAST({literal} AS {duckdb_type(column)})"
    match row.bucket_input:
        case "int64":
            number = _ticks(typed) if column.type.startswith(("date", "time")) else _integer(typed)
            return None if number is None else struct.pack("<q", number)
        case "text":
            return _encoded(_value(f"CAST({typed} AS VARCHAR)"))
        case "utf8":
            return _encoded(_value(typed))
        case "float64":
            value = _value(typed).as_py()
            # Zero has two bit patterns that are equal, and NaN many.
            return struct.pack("<d", value) if value and not math.isnan(value) else None
        case "decimal":
            return _decimal(_value(f"CAST({typed} AS VARCHAR)").as_py(), column)


def _decimal(text: str | None, column: Column) -> bytes | None:
    precision, scale = map(int, column.type[8:-1].split(","))
    if text is None or precision > 18:
        return None if text is None else text.encode()
    return struct.pack("<q", int(text.replace(".", "")) if scale else int(text))


def _array(sql: str) -> pa.Array:
    return combine(thread_connection().sql(f"SELECT {sql} AS v").to_arrow_table().column(0))


def _value(sql: str) -> pa.Scalar:
    return _array(sql)[0]


def _integer(sql: str) -> int | None:
    number: int | None = _value(f"CAST({sql} AS BIGINT)").as_py()
    return number


def _ticks(sql: str) -> int | None:
    """Return a date, time or timestamp as an integer in the type's unit."""
    array = _array(sql)
    ticks: int | None = array.view(pa.int32() if pa.types.is_date32(array.type) else pa.int64())[
        0
    ].as_py()
    return ticks


def _encoded(value: pa.Scalar) -> bytes | None:
    text = value.as_py()
    return None if text is None else str(text).encode()
