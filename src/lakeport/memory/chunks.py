"""Chunks: a few thousand rows as Arrow arrays, and the operations that make new chunks of them.

A chunk is never changed. Deleting sets bits aside, updating replaces the columns that were set;
everything else is shared with the chunk it came from. This module knows neither tables nor names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

__all__ = [
    "Chunk",
    "arrays_of",
    "concat",
    "int64_view",
    "kill",
    "merge",
    "null_count",
    "patch",
    "split",
]


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Rows in ascending order of their row ids."""

    columns: tuple[pa.Array, ...]
    """The values, one array for each column of the table."""
    rowids: pa.Array
    """The identifiers of the rows: int64, ascending, without nulls."""
    writes: pa.Array
    """For each row the number of the statement that wrote it last."""
    alive: pa.Array | None = None
    """Which rows are there; None means all."""
    count: int = 0
    """How many rows are there."""
    first: int = 0
    """The least row id, of rows that are gone, too."""
    last: int = -1
    """The greatest row id, of rows that are gone, too."""

    @classmethod
    def of(cls, columns: Sequence[pa.Array], rowids: pa.Array, writes: pa.Array) -> Chunk:
        """A chunk of at least one row, all of them there."""
        return cls(
            columns=tuple(columns),
            rowids=rowids,
            writes=writes,
            count=len(rowids),
            first=rowids[0].as_py(),
            last=rowids[-1].as_py(),
        )

    def __len__(self) -> int:
        return len(self.rowids)

    def slice(self, offset: int, length: int) -> Chunk | None:
        """Some of the rows, sharing memory; None when none of them is there."""
        alive = None if self.alive is None else self.alive.slice(offset, length)
        count = length if alive is None else alive.true_count
        if count == 0:
            return None
        rowids = self.rowids.slice(offset, length)
        return replace(
            self,
            columns=tuple(column.slice(offset, length) for column in self.columns),
            rowids=rowids,
            writes=self.writes.slice(offset, length),
            alive=None if count == length else alive,
            count=count,
            first=rowids[0].as_py(),
            last=rowids[-1].as_py(),
        )

    def compact(self) -> Chunk:
        """The same rows without those that are gone."""
        if self.alive is None:
            return self
        return Chunk.of(
            [column.filter(self.alive) for column in self.columns],
            self.rowids.filter(self.alive),
            self.writes.filter(self.alive),
        )

    def living(self, index: int) -> pa.Array:
        """The values of one column, of the rows that are there."""
        column = self.columns[index]
        return column if self.alive is None else column.filter(self.alive)

    def living_rowids(self) -> pa.Array:
        """The row ids that are there."""
        return self.rowids if self.alive is None else self.rowids.filter(self.alive)

    def positions(self, rowids: pa.Array) -> pa.Array:
        """Where rows are; null for those that are not there."""
        found = pc.index_in(rowids, value_set=self.rowids)
        if self.alive is None:
            return found
        return pc.if_else(self.alive.take(found), found, pa.scalar(None, found.type))


def kill(chunk: Chunk, rowids: pa.Array) -> Chunk | None:
    """The chunk without these rows; None when nothing is left."""
    gone = pc.is_in(chunk.rowids, value_set=rowids)
    alive = pc.invert(gone) if chunk.alive is None else pc.and_not(chunk.alive, gone)
    count = alive.true_count
    if count == chunk.count:
        return chunk
    if count == 0:
        return None
    remaining = replace(chunk, alive=alive, count=count)
    return remaining.compact() if 2 * count < len(chunk) else remaining


def patch(chunk: Chunk, rowids: pa.Array, values: Mapping[int, pa.Array], write: int) -> Chunk:
    """The chunk with new values in the rows of these ids, column by column."""
    source = pc.index_in(chunk.rowids, value_set=rowids)
    columns = list(chunk.columns)
    if source.null_count == 0:
        writes = pa.repeat(pa.scalar(write, pa.int64()), len(chunk))
        for index, new in values.items():
            columns[index] = new.take(source)
    else:
        size = len(chunk)
        writes = pc.if_else(source.is_valid(), pa.scalar(write, pa.int64()), chunk.writes)
        chosen = pc.coalesce(pc.add(source.cast(pa.int64()), size), pa.arange(0, size))
        for index, new in values.items():
            columns[index] = concat([columns[index], new]).take(chosen)
    return replace(chunk, columns=tuple(columns), writes=writes)


def merge(chunks: Sequence[Chunk]) -> Chunk:
    """One chunk of several that follow each other."""
    parts = [chunk.compact() for chunk in chunks]
    if len(parts) == 1:
        return parts[0]
    return Chunk.of(
        [concat(column) for column in zip(*(part.columns for part in parts), strict=True)],
        concat([part.rowids for part in parts]),
        concat([part.writes for part in parts]),
    )


def split(chunk: Chunk, rowid: int) -> list[Chunk]:
    """The rows before a row id and those from it on, as far as there are any."""
    before = int(pc.sum(pc.less(chunk.rowids, rowid)).as_py())
    parts = [chunk.slice(0, before), chunk.slice(before, len(chunk) - before)]
    return [part for part in parts if part is not None]


def concat(arrays: Sequence[pa.Array]) -> pa.Array:
    """One array of several of the same type."""
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def arrays_of(column: pa.ChunkedArray) -> pa.Array:
    """A chunked array in one piece."""
    return concat(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def null_count(values: pa.Array | pa.ChunkedArray) -> int:
    """How many values are null, also where the nulls are in the children or the dictionary."""
    if pt.is_union(values.type) or pt.is_dictionary(values.type):
        return int(pc.sum(pc.is_null(values)).as_py() or 0)
    return int(values.null_count)


def int64_view(array: pa.Array) -> memoryview[int]:
    """The integers of an array without nulls, for bisection, without a copy."""
    if len(array) == 0:
        return memoryview(b"").cast("q")
    values = memoryview(array.buffers()[1]).cast("B").cast("q")
    return values[array.offset : array.offset + len(array)]
