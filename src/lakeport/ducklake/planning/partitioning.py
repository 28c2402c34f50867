"""The `bucket(N)` partition transform: which bucket a value is in, as DuckLake computes it."""

from __future__ import annotations

import math
import struct

import pyarrow as pa

from lakeport.arrow import combine, thread_connection
from lakeport.types import Column, duckdb_type

__all__ = ["bucket_of", "murmur3"]

_AS_INT64 = frozenset(
    {
        "boolean", "int8", "int16", "int32", "int64", "date", "time",
        "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz",
    }
)  # fmt: skip
_FLOATS = frozenset({"float32", "float64"})
_AS_TEXT = frozenset({"uint8", "uint16", "uint32", "uint64", "int128", "uint128", "uuid"})


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
    if column.type not in _FLOATS and _value(f"typeof({literal})").as_py() in ("FLOAT", "DOUBLE"):
        return None  # compared as floats: several values of the column may equal the literal
    if column.type in _AS_INT64:
        typed = f"CAST({literal} AS {duckdb_type(column)})"
        number = _ticks(typed) if column.type.startswith(("date", "time")) else _integer(typed)
        return None if number is None else struct.pack("<q", number)
    if column.type in _AS_TEXT:
        return _encoded(_value(f"CAST(CAST({literal} AS {duckdb_type(column)}) AS VARCHAR)"))
    if column.type in _FLOATS:
        number = _value(f"CAST({literal} AS {duckdb_type(column)})").as_py()
        # Zero has two bit patterns that are equal, and NaN many.
        return struct.pack("<d", number) if number and not math.isnan(number) else None
    if column.type.startswith("decimal("):
        precision, scale = map(int, column.type[8:-1].split(","))
        text = _value(f"CAST(CAST({literal} AS {duckdb_type(column)}) AS VARCHAR)").as_py()
        if text is None or precision > 18:
            return None if text is None else str(text).encode()
        return struct.pack("<q", int(text.replace(".", "")) if scale else int(text))
    if column.type == "varchar":
        return _encoded(_value(f"CAST({literal} AS VARCHAR)"))
    return None


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
