"""Column statistics that hold for every version and every transaction that a client may read.

DuckDB requests statistics without a version and relies on them. A table therefore has one set of
bounds. Every write widens them before its rows are visible, and nothing narrows them. Bounds are
computed when a client requests them, not when the rows are written.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lakeport.arrow import null_count
from lakeport.catalog import ColumnStats
from lakeport.memory.rows import Chunk

__all__ = ["BoundsAccumulator"]

# Beyond this many statements, the bounds of their rows are computed at once.
_MAX_PENDING = 256


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The bounds of all values of columns with one name and one type."""

    has_not_null: bool = False
    has_null: bool = False
    has_bounds: bool = True
    """False if some value has no place in the order."""
    min: pa.Scalar | None = None
    max: pa.Scalar | None = None
    max_length: int = 0
    has_unicode: bool = False

    def union(self, other: _Bounds) -> _Bounds:
        has_bounds = self.has_bounds and other.has_bounds
        low = [b.min for b in (self, other) if b.min is not None] if has_bounds else []
        high = [b.max for b in (self, other) if b.max is not None] if has_bounds else []
        return _Bounds(
            has_not_null=self.has_not_null or other.has_not_null,
            has_null=self.has_null or other.has_null,
            has_bounds=has_bounds,
            min=pc.min(_scalars(low)) if low else None,
            max=pc.max(_scalars(high)) if high else None,
            max_length=max(self.max_length, other.max_length),
            has_unicode=self.has_unicode or other.has_unicode,
        )


class BoundsAccumulator:
    """The widest bounds of every column of a table, by name and type."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[tuple[pa.Schema, tuple[Chunk, ...]]] = []
        self._bounds: dict[str, dict[pa.DataType, _Bounds]] = {}

    def add(self, columns: pa.Schema, chunks: Iterable[Chunk]) -> None:
        """Widen the bounds by rows before they are visible."""
        written = tuple(chunks)
        if not written:
            return
        with self._lock:
            self._pending.append((columns, written))
            if len(self._pending) > _MAX_PENDING:
                self._process_pending()

    def add_column(self, field: pa.Field, arrays: Sequence[pa.Array]) -> None:
        """Widen the bounds of one column by its new values."""
        with self._lock:
            self._widen(field.name, field.type, pa.chunked_array(arrays, type=field.type))

    def flush(self) -> None:
        """Compute the bounds of pending rows and release the rows."""
        with self._lock:
            self._process_pending()

    def column(self, name: str) -> ColumnStats | None:
        """Return statistics of a column that hold in every version; None if it never existed."""
        with self._lock:
            self._process_pending()
            by_type = dict(self._bounds.get(name, {}))
        if not by_type:
            return None
        if len(by_type) > 1:
            # The name had several types, and the request names no version.
            return ColumnStats(
                has_not_null=any(bounds.has_not_null for bounds in by_type.values()),
                has_null=any(bounds.has_null for bounds in by_type.values()),
            )
        ((type, bounds),) = by_type.items()
        is_text = _is_text(type)
        return ColumnStats(
            has_not_null=bounds.has_not_null,
            has_null=bounds.has_null,
            min=bounds.min,
            max=bounds.max,
            max_string_length=bounds.max_length if is_text or _is_blob(type) else None,
            contains_unicode=bounds.has_unicode if is_text else None,
        )

    def _process_pending(self) -> None:
        pending, self._pending = self._pending, []
        for columns, chunks in pending:
            for index, field in enumerate(columns):
                arrays = [chunk.columns[index] for chunk in chunks]
                self._widen(field.name, field.type, pa.chunked_array(arrays, type=field.type))

    def _widen(self, name: str, type: pa.DataType, values: pa.ChunkedArray) -> None:
        by_type = self._bounds.setdefault(name, {})
        by_type[type] = by_type.get(type, _Bounds()).union(_bounds_of(values))


def _bounds_of(values: pa.ChunkedArray) -> _Bounds:
    type = values.type
    nulls = null_count(values)
    has_not_null, has_null = nulls < len(values), nulls > 0
    if not has_not_null:
        return _Bounds(has_null=has_null)
    if not _is_ordered(type) or (pt.is_floating(type) and pc.any(pc.is_nan(values)).as_py()):
        # NaN is the greatest value for DuckDB; Arrow ignores it.
        return _Bounds(has_not_null=True, has_null=has_null, has_bounds=False)
    bounds = pc.min_max(values)
    is_text = _is_text(type)
    return _Bounds(
        has_not_null=True,
        has_null=has_null,
        min=bounds["min"],
        max=bounds["max"],
        max_length=pc.max(pc.binary_length(values)).as_py() if is_text or _is_blob(type) else 0,
        has_unicode=is_text and pc.all(pc.string_is_ascii(values)).as_py() is False,
    )


def _scalars(values: Sequence[pa.Scalar]) -> pa.Array:
    return pa.concat_arrays([pa.repeat(value, 1) for value in values])


def _is_ordered(type: pa.DataType) -> bool:
    """Return whether Arrow and DuckDB order values of this type in the same way."""
    return (
        pt.is_boolean(type)
        or pt.is_integer(type)
        or pt.is_float32(type)
        or pt.is_float64(type)
        or pt.is_decimal128(type)
        or pt.is_date(type)
        or pt.is_time(type)
        or pt.is_timestamp(type)
        or _is_text(type)
        or _is_blob(type)
    )


def _is_text(type: pa.DataType) -> bool:
    return bool(pt.is_string(type) or pt.is_large_string(type))


def _is_blob(type: pa.DataType) -> bool:
    return bool(pt.is_binary(type) or pt.is_large_binary(type) or pt.is_fixed_size_binary(type))
