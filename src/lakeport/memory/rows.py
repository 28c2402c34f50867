"""The rows of one version of a table: an immutable sequence of chunks in the order of row ids."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakeport.memory.chunks import Chunk, concat, int64_view, kill, merge, patch, split

__all__ = ["CHUNK_ROWS", "Rows", "Stamps", "cut"]

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
