"""Order rows on the way to new files: by sort keys, or along a curve through several columns.

A Z-order or Hilbert curve visits rows that are near in all of its columns one after the other, so
the bounds of row groups and files are narrow in each of them. Spark workers import this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.ducklake.model import SortField
from lakeport.ducklake.writing.files import sorted_batches
from lakeport.errors import InvalidArgumentError, InvalidInputError, first_line

__all__ = ["Curve", "RowOrder", "curve_keys", "hilbert_keys", "in_order", "z_order_keys"]

Curve: TypeAlias = Literal["z_order", "hilbert"]
Numbers: TypeAlias = npt.NDArray[np.uint64]
Batches: TypeAlias = Callable[[Sequence[str] | None], Iterator[pa.RecordBatch]]
"""Reads the rows again each time: all columns, or those with these names."""

_KEY: Final = "_lakeport_order"
_KEY_BITS: Final = 62
_MOST_BITS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """The order of rows in new files: sort keys, or a curve through columns."""

    keys: tuple[SortField, ...] = ()
    curve: Curve | None = None
    columns: tuple[str, ...] = ()
    """The columns of the curve."""


def in_order(
    read: Batches, schema: pa.Schema, order: RowOrder, ties: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield rows in an order; columns of integers decide between rows that are equal in it."""
    last = [_field(name) for name in ties]
    if order.curve is None:
        yield from sorted_batches(read(None), schema, [*order.keys, *last])
        return
    chosen = [batch.select(list(order.columns)) for batch in read(order.columns)]
    narrow = pa.schema([schema.field(name) for name in order.columns])
    keys = curve_keys(pa.Table.from_batches(chosen, narrow), order.curve)
    wide = schema.append(pa.field(_KEY, pa.int64()))
    for batch in sorted_batches(_with_keys(read, keys, wide), wide, [_field(_KEY), *last]):
        yield pa.RecordBatch.from_arrays(batch.columns[:-1], schema=schema)


def _with_keys(
    read: Batches, keys: npt.NDArray[np.int64], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    position = 0
    for batch in read(None):
        own = pa.array(keys[position : position + batch.num_rows])
        position += batch.num_rows
        yield pa.RecordBatch.from_arrays([*batch.columns, own], schema=schema)


def _field(name: str) -> SortField:
    return SortField(expression=f'"{name}"', dialect="duckdb", descending=False, nulls_first=False)


def curve_keys(columns: pa.Table, curve: Curve) -> npt.NDArray[np.int64]:
    """Return the place of each row on a curve; each column counts by the rank of its values."""
    if not columns.num_columns:
        raise InvalidArgumentError("a curve needs at least one column")
    bits = min(_KEY_BITS // columns.num_columns, _MOST_BITS)
    ranks = [_ranks(columns[name], name, bits) for name in columns.column_names]
    keys = z_order_keys(ranks, bits) if curve == "z_order" else hilbert_keys(ranks, bits)
    return keys.astype(np.int64)


def _ranks(values: pa.ChunkedArray, name: str, bits: int) -> Numbers:
    """Return the rank of each value among the different values, as a number of some bits."""
    if not len(values):
        return np.empty(0, np.uint64)
    try:
        ranked = pc.rank(values.combine_chunks(), tiebreaker="dense")
    except pa.ArrowNotImplementedError as error:
        raise InvalidInputError(
            f"rows cannot be ordered along the column {name!r}: {first_line(error)}"
        ) from None
    ranks = ranked.to_numpy().astype(np.float64) - 1
    most = ranks.max()
    scale = (2**bits - 1) / most if most else 0.0
    return np.asarray(ranks * scale, np.uint64)


def z_order_keys(axes: Sequence[Numbers], bits: int) -> Numbers:
    """Return numbers whose bits are those of the axes in turn, the highest first."""
    keys = np.zeros_like(axes[0])
    for bit in range(bits - 1, -1, -1):
        for axis in axes:
            keys = (keys << np.uint64(1)) | ((axis >> np.uint64(bit)) & np.uint64(1))
    return keys


def hilbert_keys(axes: Sequence[Numbers], bits: int) -> Numbers:
    """Return the places of points on a Hilbert curve, by Skilling's transformation."""
    point = [axis.copy() for axis in axes]
    for bit in range(bits - 1, 0, -1):
        high, low = np.uint64(1 << bit), np.uint64((1 << bit) - 1)
        for axis in point:
            is_set = (axis & high) != 0
            swapped = np.where(is_set, np.uint64(0), (point[0] ^ axis) & low)
            # The first axis is inverted where the bit is set, and else exchanged with this one.
            if axis is point[0]:
                axis ^= np.where(is_set, low, np.uint64(0))  # noqa: PLW2901 (in place)
                continue
            point[0] ^= np.where(is_set, low, swapped)
            axis ^= swapped  # noqa: PLW2901 (in place)
    for before, axis in pairwise(point):
        axis ^= before  # noqa: PLW2901 (in place)
    flips = np.zeros_like(point[0])
    for bit in range(bits - 1, 0, -1):
        is_set = (point[-1] & np.uint64(1 << bit)) != 0
        flips ^= np.where(is_set, np.uint64((1 << bit) - 1), np.uint64(0))
    return z_order_keys([axis ^ flips for axis in point], bits)
