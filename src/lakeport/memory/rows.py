"""The rows of one version of a table: an immutable sequence of chunks in the order of row ids."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.arrow import concat

__all__ = [
    "CHUNK_ROWS",
    "Chunk",
    "Rows",
    "Stamps",
    "cut",
    "int64_view",
    "kill",
    "merge",
    "patch",
    "split",
]

CHUNK_ROWS = 4096
"""The most rows that are put into a chunk: an update copies the columns it sets, chunk by chunk."""

# Smaller chunks are merged with their neighbours, so that single-row inserts stay cheap to read.
_SMALL_ROWS = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Stamps:
    """Some rows, and which statement wrote each of them last."""

    rowids: pa.Array
    """Ascending."""
    writes: pa.Array
    """In the order of the row ids."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """All rows of a table at one moment. The ranges of row ids of its chunks do not overlap."""

    chunks: tuple[Chunk, ...] = ()
    count: int = 0

    @classmethod
    def of(cls, chunks: Iterable[Chunk]) -> Rows:
        """Rows of chunks that are in order."""
        kept = tuple(chunks)
        return cls(kept, sum(chunk.count for chunk in kept))

    def with_chunks(self, new: Sequence[Chunk]) -> Rows:
        """These rows and new ones. Each new chunk has a range of row ids to itself."""
        chunks = list(self.chunks)
        for chunk in new:
            _add(chunks, chunk)
        return Rows(tuple(chunks), self.count + sum(chunk.count for chunk in new))

    def without(self, rowids: pa.Array) -> Rows:
        """The rows but those of these ids, which are ascending."""
        chunks: list[Chunk | None] = list(self.chunks)
        for position, ids, _ in self._spans(rowids):
            chunks[position] = kill(self.chunks[position], ids)
        return Rows.of(chunk for chunk in chunks if chunk is not None)

    def patched(self, rowids: pa.Array, values: Mapping[int, pa.Array], write: int) -> Rows:
        """The rows with new values for those of these ids, which are ascending."""
        chunks = list(self.chunks)
        for position, ids, start in self._spans(rowids):
            part = {index: array.slice(start, len(ids)) for index, array in values.items()}
            chunks[position] = patch(chunks[position], ids, part, write)
        return Rows(tuple(chunks), self.count)

    def stamps(self, rowids: pa.Array) -> Stamps:
        """Those of these rows that are there; the ids are ascending."""
        found: list[pa.Array] = []
        writes: list[pa.Array] = []
        for position, ids, _ in self._spans(rowids):
            chunk = self.chunks[position]
            where = chunk.positions(ids)
            found.append(ids.filter(where.is_valid()) if where.null_count else ids)
            writes.append(chunk.writes.take(where.drop_null()))
        if not found:
            return Stamps(pa.array([], pa.int64()), pa.array([], pa.int64()))
        return Stamps(concat(found), concat(writes))

    def find(self, rowids: pa.Array) -> Chunk | None:
        """Those of these rows that are there, with their values; the ids are ascending."""
        parts: list[Chunk] = []
        for position, ids, _ in self._spans(rowids):
            chunk = self.chunks[position]
            where = chunk.positions(ids).drop_null()
            if len(where):
                parts.append(
                    Chunk.of(
                        [column.take(where) for column in chunk.columns],
                        chunk.rowids.take(where),
                        chunk.writes.take(where),
                    )
                )
        return merge(parts) if parts else None

    def column(self, index: int, type: pa.DataType) -> pa.ChunkedArray:
        """One column of all rows."""
        return pa.chunked_array([chunk.living(index) for chunk in self.chunks], type=type)

    def groups(self, rows: int) -> Iterator[tuple[Chunk, ...]]:
        """Neighbouring chunks, in groups of about so many rows."""
        group: list[Chunk] = []
        count = 0
        for chunk in self.chunks:
            if group and count + chunk.count > rows:
                yield tuple(group)
                group, count = [], 0
            group.append(chunk)
            count += chunk.count
        if group:
            yield tuple(group)

    def _spans(self, rowids: pa.Array) -> Iterator[tuple[int, pa.Array, int]]:
        """Which of the ascending row ids, from which on, fall into the range of which chunk."""
        ids = int64_view(rowids)
        chunks = self.chunks
        start, position = 0, -1
        while start < len(ids) and chunks:
            position = bisect_right(chunks, ids[start], lo=max(position, 0), key=_first) - 1
            if position >= 0 and ids[start] <= chunks[position].last:
                stop = bisect_right(ids, chunks[position].last, lo=start)
                yield position, rowids.slice(start, stop - start), start
                start = stop
            elif position + 1 < len(chunks):
                start = bisect_left(ids, chunks[position + 1].first, lo=start)
            else:
                return


def cut(columns: Sequence[pa.Array], rowids: pa.Array, writes: pa.Array) -> Iterator[Chunk]:
    """New rows as chunks of at most as many rows as there are in `writes`."""
    size = len(rowids)
    for start in range(0, size, len(writes)):
        length = min(len(writes), size - start)
        yield Chunk.of(
            [column.slice(start, length) for column in columns],
            rowids.slice(start, length),
            writes.slice(0, length),
        )


def _add(chunks: list[Chunk], new: Chunk) -> None:
    """Put a chunk in its place, which is nearly always the end."""
    if chunks and chunks[-1].last > new.first:
        position = bisect_right(chunks, new.first, key=_first)
        if position and chunks[position - 1].last > new.first:
            # Another statement got row ids between those of a chunk that was merged since.
            parts = split(chunks[position - 1], new.first)
            chunks[position - 1 : position] = parts
            position = bisect_right(chunks, new.first, key=_first)
        chunks.insert(position, new)
        return
    while chunks and len(new) < _SMALL_ROWS and len(chunks[-1]) <= min(_SMALL_ROWS, 2 * len(new)):
        new = merge([chunks.pop(), new])
    chunks.append(new)


def _first(chunk: Chunk) -> int:
    return chunk.first


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


def int64_view(array: pa.Array) -> memoryview[int]:
    """The integers of an array without nulls, for bisection, without a copy."""
    if len(array) == 0:
        return memoryview(b"").cast("q")
    values = memoryview(array.buffers()[1]).cast("B").cast("q")
    return values[array.offset : array.offset + len(array)]
