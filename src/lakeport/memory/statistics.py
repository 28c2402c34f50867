"""Statistics that are true for whatever a client may read: every version, every transaction.

DuckDB asks without saying which state it will read, and trusts the answer. So a table has one
envelope that widens with everything that is written to it, before anyone can see it, and never
narrows. Values are looked at when somebody asks, not when they are written.
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

# Written chunks wait to be looked at; beyond this many statements they no longer wait.
_MAX_WAITING = 256


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What is known of the values that had one name and one type."""

    has_not_null: bool = False
    has_null: bool = False
    has_bounds: bool = True
    """False when some value cannot be put in order."""
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
        self._waiting: list[tuple[pa.Schema, tuple[Chunk, ...]]] = []
        self._known: dict[str, dict[pa.DataType, _Bounds]] = {}

    def note(self, columns: pa.Schema, chunks: Iterable[Chunk]) -> None:
        """Widen by rows that will be visible soon."""
        written = tuple(chunks)
        if not written:
            return
        with self._lock:
            self._waiting.append((columns, written))
            if len(self._waiting) > _MAX_WAITING:
                self._look()

    def note_column(self, field: pa.Field, arrays: Sequence[pa.Array]) -> None:
        """Widen by values of a single column."""
        with self._lock:
            self._widen(field.name, field.type, pa.chunked_array(arrays, type=field.type))

    def settle(self) -> None:
        """Let go of the rows that wait to be looked at."""
        with self._lock:
            self._look()

    def column(self, name: str) -> ColumnStats | None:
        """What holds for a column of that name in every version; None when there never was one."""
        with self._lock:
            self._look()
            by_type = dict(self._known.get(name, {}))
        if not by_type:
            return None
        if len(by_type) > 1:
            # The name had several types, and the request does not say which version is meant.
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

    def _look(self) -> None:
        waiting, self._waiting = self._waiting, []
        for columns, chunks in waiting:
            for index, field in enumerate(columns):
                arrays = [chunk.columns[index] for chunk in chunks]
                self._widen(field.name, field.type, pa.chunked_array(arrays, type=field.type))

    def _widen(self, name: str, type: pa.DataType, values: pa.ChunkedArray) -> None:
        by_type = self._known.setdefault(name, {})
        by_type[type] = by_type.get(type, _Bounds()).union(_bounds_of(values))


def _bounds_of(values: pa.ChunkedArray) -> _Bounds:
    type = values.type
    nulls = null_count(values)
    has_not_null, has_null = nulls < len(values), nulls > 0
    if not has_not_null:
        return _Bounds(has_null=has_null)
    if not _is_ordered(type) or (pt.is_floating(type) and pc.any(pc.is_nan(values)).as_py()):
        # NaN is the greatest value for DuckDB and is left out by Arrow.
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
    """Whether Arrow puts values of a type in the order that DuckDB does."""
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
