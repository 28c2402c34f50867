"""The statistics of the leaves of a data file, from the footer that the Parquet writer made.

A footer has counts, sizes and most bounds, at no cost. The rest is computed from the rows before
they are encoded: the bounds of long text, the number of geometries, and everything about floats in
files with NaN. Such files have no footer statistics of that column, because DuckDB 1.5.5 skips row
groups by bounds that leave NaN out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeport.ducklake.writing.files.encoding.bounds import (
    MAX_BOUND_BYTES,
    Range,
    comparable,
    geometry_stats,
    texts,
)
from lakeport.ducklake.writing.files.encoding.layout import FileLayout, Leaf, leaf_values
from lakeport.ducklake.writing.written import WrittenColumn
from lakeport.types import Column

__all__ = ["FileStatistics", "nan_leaves"]


class FileStatistics:
    """Collects what the footer of one file lacks, and returns the statistics of its leaves."""

    def __init__(self, layout: FileLayout, omitted: frozenset[int] = frozenset()) -> None:
        """Begin a file; `omitted` are the leaves of which the footer has no statistics."""
        self._layout = layout
        self._omitted = omitted
        self._texts = [
            (index, leaf)
            for index, leaf in enumerate(layout.leaves)
            if leaf.column.type in ("varchar", "json", "blob")
        ]
        self._with_nan: set[int] = set()
        self._bounds: dict[int, Range] = {}
        self._long: dict[tuple[int, int], Range] = {}
        self._present = {
            index: 0
            for index, leaf in enumerate(layout.leaves)
            if leaf.column.type == "geometry" or index in omitted
        }
        self._groups = 0

    def observe(self, table: pa.Table) -> None:
        """Collect what the footer will lack about the rows of the next row group."""
        for index in self._omitted:
            self._observe_floats(index, table)
        for index, leaf in self._texts:
            found = _long_range(table, leaf)
            if found is not None:
                self._long[self._groups, index] = found
        for index in self._present:
            arrays = leaf_values(table, self._layout.leaves[index])
            self._present[index] += sum(len(array) - array.null_count for array in arrays)
        self._groups += 1

    def _observe_floats(self, index: int, table: pa.Table) -> None:
        for array in leaf_values(table, self._layout.leaves[index]):
            is_nan = pc.is_nan(array)
            if pc.any(is_nan).as_py():
                self._with_nan.add(index)
            numbers = array.filter(pc.invert(is_nan))
            if len(numbers):
                found = pc.min_max(numbers).as_py()
                low, high = self._bounds.get(index, (found["min"], found["max"]))
                self._bounds[index] = min(low, found["min"]), max(high, found["max"])

    def contains_nan(self, index: int) -> bool | None:
        """Return whether a leaf holds NaN; None if its type has none."""
        is_float = self._layout.leaves[index].column.type in ("float32", "float64")
        return index in self._with_nan if is_float else None

    def columns(self, footer: pq.FileMetaData) -> tuple[WrittenColumn, ...]:
        """Return the statistics of all leaves of the file."""
        groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
        leaves = self._layout.leaves
        chunks = [[group.column(index) for group in groups] for index in range(len(leaves))]
        ranges = {}
        for index, leaf in enumerate(leaves):
            found = self._range(index, leaf.column, chunks[index])
            if found is not None:
                ranges[index] = leaf.column, found
        bounds = texts(ranges)
        return tuple(
            self._column(index, leaf.column, chunks[index], bounds.get(index, (None, None)))
            for index, leaf in enumerate(leaves)
        )

    def _column(
        self,
        index: int,
        column: Column,
        chunks: Sequence[pq.ColumnChunkMetaData],
        bounds: tuple[str | None, str | None],
    ) -> WrittenColumn:
        values = sum(chunk.num_values for chunk in chunks)
        # pyarrow 26 writes no null count for geometries.
        present = self._present.get(index)
        nulls = sum(_nulls(chunk) for chunk in chunks) if present is None else values - present
        return WrittenColumn(
            column_id=column.id,
            size_bytes=sum(chunk.total_compressed_size for chunk in chunks),
            value_count=values - nulls,
            null_count=nulls,
            min_value=bounds[0],
            max_value=bounds[1],
            contains_nan=self.contains_nan(index),
            extra_stats=geometry_stats(chunks) if column.type == "geometry" else None,
        )

    def _range(
        self, index: int, column: Column, chunks: Sequence[pq.ColumnChunkMetaData]
    ) -> Range | None:
        """Return the least and the greatest value of a leaf; None without values or bounds."""
        if column.type in ("int128", "uint128", "geometry"):
            return None
        if index in self._omitted:
            found = self._bounds.get(index)
            return None if found is None else (found[0] + 0.0, found[1] + 0.0)
        lows: list[Any] = []
        highs: list[Any] = []
        for group, chunk in enumerate(chunks):
            long = self._long.get((group, index))
            if long is not None:
                lows.append(long[0])
                highs.append(long[1])
                continue
            stats = chunk.statistics
            if stats is not None and stats.has_min_max:
                lows.append(comparable(stats.min_raw, column))
                highs.append(comparable(stats.max_raw, column))
            elif _nulls(chunk) != chunk.num_values:
                return None
        return (min(lows), max(highs)) if lows else None


def _nulls(chunk: pq.ColumnChunkMetaData) -> int:
    stats = chunk.statistics
    return int(stats.null_count) if stats is not None and stats.has_null_count else 0


def nan_leaves(layout: FileLayout, table: pa.Table) -> frozenset[int]:
    """Return the leaves that hold NaN."""
    return frozenset(
        index
        for index, leaf in enumerate(layout.leaves)
        if leaf.column.type in ("float32", "float64")
        and any(pc.any(pc.is_nan(values)).as_py() for values in leaf_values(table, leaf))
    )


def _long_range(table: pa.Table, leaf: Leaf) -> Range | None:
    """Return the bounds of a leaf with text that is longer than a bound; None without any."""
    arrays = list(leaf_values(table, leaf))
    longest = (pc.max(pc.binary_length(array)).as_py() or 0 for array in arrays)
    if max(longest, default=0) <= MAX_BOUND_BYTES:
        return None
    found = pc.min_max(pa.chunked_array([array.cast(pa.binary()) for array in arrays])).as_py()
    return found["min"], found["max"]
