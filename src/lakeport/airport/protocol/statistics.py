"""Column statistics as the client reads them: one row, with bounds in the column's own type."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from lakeport._cache import LruCache
from lakeport.airport.protocol.limits import MIB
from lakeport.arrow import write_batch
from lakeport.catalog import ColumnStats

__all__ = ["encode_statistics"]

# The client keeps the first eight bytes of a text's bounds; no valid UTF-8 is greater than these.
_GREATEST_TEXT = "\U0010ffff\U0010ffff"
_GREATEST_BLOB = b"\xff" * 8


_MAX_ENCODED_BYTES: Final = 8 * MIB
_encoded = LruCache(_MAX_ENCODED_BYTES, weigh=len)
# By the id of the object, whose hash takes longer: the object, its type and the reply.
_recent = LruCache(4096)


def encode_statistics(stats: ColumnStats, type: pa.DataType) -> bytes:
    """Return the reply to `column_statistics`; unknown values become the widest valid ones.

    DuckDB requests the same twice for each column of a statement, so replies are cached.
    """
    recent: tuple[ColumnStats, pa.DataType, bytes] | None = _recent.get(id(stats))
    if recent is not None and recent[0] is stats and recent[1] == type:
        return recent[2]
    reply = _cached(stats, type)
    _recent.put(id(stats), (stats, type, reply))
    return reply


def _cached(stats: ColumnStats, type: pa.DataType) -> bytes:
    key = (stats, type)
    try:
        reply: bytes | None = _encoded.get(key)
    except TypeError:  # a bound that cannot be hashed
        return _encode(stats, type)
    if reply is None:
        reply = _encode(stats, type)
        _encoded.put(key, reply)
    return reply


def _encode(stats: ColumnStats, type: pa.DataType) -> bytes:
    columns: dict[str, pa.Array] = {
        "min": _bound(stats.min, type, unknown=_least(type)),
        "max": _bound(stats.max, type, unknown=_greatest(type)),
        "has_not_null": pa.array([stats.has_not_null is not False]),
        "has_null": pa.array([stats.has_null is not False]),
        "distinct_count": pa.array([stats.distinct_count or 0], pa.uint64()),
    }
    if _is_text(type) or _is_blob(type):
        if stats.max_string_length:
            columns["max_string_length"] = pa.array([stats.max_string_length], pa.uint64())
        if stats.contains_unicode is not None:
            columns["contains_unicode"] = pa.array([stats.contains_unicode])
    return write_batch(pa.RecordBatch.from_pydict(columns))


def _bound(value: Any, type: pa.DataType, *, unknown: Any) -> pa.Array:
    if isinstance(value, pa.Scalar):
        value = value if value.is_valid else None
    if value is None:
        value = unknown
    if value is None or type.num_fields:
        return pa.nulls(1, type)
    if isinstance(value, pa.Scalar):
        array = pa.repeat(value, 1)
        return array if value.type == type else array.cast(type)
    return pa.array([value], type=type)


def _least(type: pa.DataType) -> Any:
    if pt.is_fixed_size_binary(type):
        return bytes(type.byte_width)
    return "" if _is_text(type) else b"" if _is_blob(type) else None


def _greatest(type: pa.DataType) -> Any:
    if pt.is_fixed_size_binary(type):
        return b"\xff" * type.byte_width
    return _GREATEST_TEXT if _is_text(type) else _GREATEST_BLOB if _is_blob(type) else None


def _is_text(type: pa.DataType) -> bool:
    if isinstance(type, pa.BaseExtensionType):
        return type.extension_name == "arrow.json"  # type: ignore[no-any-return]
    return bool(pt.is_string(type) or pt.is_large_string(type) or pt.is_string_view(type))


def _is_blob(type: pa.DataType) -> bool:
    return bool(
        pt.is_binary(type)
        or pt.is_large_binary(type)
        or pt.is_binary_view(type)
        or pt.is_fixed_size_binary(type)
    )
