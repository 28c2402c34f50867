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
    "RowVersions",
    "Rows",
    "delete_rows",
    "int64_view",
    "merge",
    "split",
    "split_into_chunks",
    "update_rows",
]

CHUNK_ROWS = 4096
"""The maximum of rows in a new chunk: an update copies the columns that it sets, by chunk."""

# Smaller chunks are merged with their neighbours, so that single-row inserts stay cheap to read.
_SMALL_ROWS = 1024


@dataclass(frozen=True, slots=True, eq=False)
class RowVersions:
    """Some rows, and the statement that wrote each of them last."""

    rowids: pa.Array
    """Ascending."""
    statement_ids: pa.Array
    """In the order of the row ids."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """All rows of one version. The ranges of row ids of the chunks do not overlap."""

    chunks: tuple[Chunk, ...] = ()
    count: int = 0

    @classmethod
    def of(cls, chunks: Iterable[Chunk]) -> Rows:
        """Return the rows of chunks that are in order."""
        ordered = tuple(chunks)
        return cls(ordered, sum(chunk.count for chunk in ordered))

    def with_chunks(self, new: Sequence[Chunk]) -> Rows:
        """Return these rows and new ones. The row ids of a new chunk are in no other chunk."""
        chunks = list(self.chunks)
        for chunk in new:
            _add(chunks, chunk)
        return Rows(tuple(chunks), self.count + sum(chunk.count for chunk in new))

    def without(self, rowids: pa.Array) -> Rows:
        """Return the rows except those of these ids, which are ascending."""
        chunks: list[Chunk | None] = list(self.chunks)
        for position, ids, _ in self._spans(rowids):
            chunks[position] = delete_rows(self.chunks[position], ids)
        return Rows.of(chunk for chunk in chunks if chunk is not None)

    def updated(self, rowids: pa.Array, values: Mapping[int, pa.Array], statement_id: int) -> Rows:
        """Return the rows with new values for those of these ids, which are ascending."""
        chunks = list(self.chunks)
        for position, ids, start in self._spans(rowids):
            part = {index: array.slice(start, len(ids)) for index, array in values.items()}
            chunks[position] = update_rows(chunks[position], ids, part, statement_id)
        return Rows(tuple(chunks), self.count)

    def row_versions(self, rowids: pa.Array) -> RowVersions:
        """Return the versions of the rows that exist of these ids, which are ascending."""
        existing: list[pa.Array] = []
        statement_ids: list[pa.Array] = []
        for position, ids, _ in self._spans(rowids):
            chunk = self.chunks[position]
            where = chunk.positions(ids)
            existing.append(ids.filter(where.is_valid()) if where.null_count else ids)
            statement_ids.append(chunk.statement_ids.take(where.drop_null()))
        if not existing:
            return RowVersions(pa.array([], pa.int64()), pa.array([], pa.int64()))
        return RowVersions(concat(existing), concat(statement_ids))

    def find(self, rowids: pa.Array) -> Chunk | None:
        """Return the rows that exist of these ids, which are ascending; None if there are none."""
        parts: list[Chunk] = []
        for position, ids, _ in self._spans(rowids):
            chunk = self.chunks[position]
            where = chunk.positions(ids).drop_null()
            if len(where):
                parts.append(
                    Chunk.of(
                        [column.take(where) for column in chunk.columns],
                        chunk.rowids.take(where),
                        chunk.statement_ids.take(where),
                    )
                )
        return merge(parts) if parts else None

    def column(self, index: int, type: pa.DataType) -> pa.ChunkedArray:
        """Return one column of all rows."""
        return pa.chunked_array([chunk.live_values(index) for chunk in self.chunks], type=type)

    def groups(self, rows: int) -> Iterator[tuple[Chunk, ...]]:
        """Yield neighbouring chunks in groups of at most so many rows, or of one chunk."""
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
        """Yield (position of a chunk, row ids in its range, index of the first of them)."""
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


def split_into_chunks(
    columns: Sequence[pa.Array], first: int, rows: int, statement_ids: pa.Array
) -> Iterator[Chunk]:
    """Yield new rows, with row ids from `first` on, in chunks of `len(statement_ids)` rows."""
    for start in range(0, rows, len(statement_ids)):
        length = min(len(statement_ids), rows - start)
        yield Chunk.numbered(
            [column.slice(start, length) for column in columns],
            first + start,
            statement_ids.slice(0, length),
        )


def _add(chunks: list[Chunk], new: Chunk) -> None:
    """Insert a chunk in the order of row ids, which is nearly always at the end."""
    if chunks and chunks[-1].last > new.first:
        position = bisect_right(chunks, new.first, key=_first)
        if position and chunks[position - 1].last > new.first:
            # The row ids lie between those of two chunks that have been merged since.
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
    listed_rowids: pa.Array | None
    """The row ids; None if they are all numbers from the first to the last."""
    statement_ids: pa.Array
    """For each row, the id of the statement that wrote it last."""
    alive: pa.Array | None = None
    """Which rows are not deleted; None means all."""
    count: int = 0
    """The number of rows that are not deleted."""
    first: int = 0
    """The smallest row id, deleted rows included."""
    last: int = -1
    """The greatest row id, deleted rows included."""

    @classmethod
    def of(cls, columns: Sequence[pa.Array], rowids: pa.Array, statement_ids: pa.Array) -> Chunk:
        """Return a chunk of at least one row, none of them deleted."""
        first, last = rowids[0].as_py(), rowids[-1].as_py()
        return cls(
            columns=tuple(columns),
            listed_rowids=None if last - first + 1 == len(rowids) else rowids,
            statement_ids=statement_ids,
            count=len(rowids),
            first=first,
            last=last,
        )

    @classmethod
    def numbered(cls, columns: Sequence[pa.Array], first: int, statement_ids: pa.Array) -> Chunk:
        """Return a chunk of rows whose ids are the numbers from `first` on."""
        count = len(statement_ids)
        return cls(
            columns=tuple(columns),
            listed_rowids=None,
            statement_ids=statement_ids,
            count=count,
            first=first,
            last=first + count - 1,
        )

    @property
    def rowids(self) -> pa.Array:
        """The identifiers of the rows: int64, ascending, without nulls."""
        if self.listed_rowids is None:
            return pa.arange(self.first, self.last + 1)
        return self.listed_rowids

    def __len__(self) -> int:
        return len(self.statement_ids)

    def slice(self, offset: int, length: int) -> Chunk | None:
        """Return some of the rows without a copy; None if all of them are deleted."""
        alive = None if self.alive is None else self.alive.slice(offset, length)
        count = length if alive is None else alive.true_count
        if count == 0:
            return None
        rowids = self.rowids.slice(offset, length)
        return replace(
            self,
            columns=tuple(column.slice(offset, length) for column in self.columns),
            listed_rowids=None if self.listed_rowids is None else rowids,
            statement_ids=self.statement_ids.slice(offset, length),
            alive=None if count == length else alive,
            count=count,
            first=rowids[0].as_py(),
            last=rowids[-1].as_py(),
        )

    def compact(self) -> Chunk:
        """Return the chunk without its deleted rows."""
        if self.alive is None:
            return self
        return Chunk.of(
            [column.filter(self.alive) for column in self.columns],
            self.rowids.filter(self.alive),
            self.statement_ids.filter(self.alive),
        )

    def live_values(self, index: int) -> pa.Array:
        """Return the values of one column without those of deleted rows."""
        column = self.columns[index]
        return column if self.alive is None else column.filter(self.alive)

    def live_row_ids(self) -> pa.Array:
        """Return the row ids without those of deleted rows."""
        return self.rowids if self.alive is None else self.rowids.filter(self.alive)

    def positions(self, rowids: pa.Array) -> pa.Array:
        """Return the positions of rows; null for those that do not exist."""
        positions = pc.index_in(rowids, value_set=self.rowids)
        if self.alive is None:
            return positions
        return pc.if_else(self.alive.take(positions), positions, pa.scalar(None, positions.type))


def delete_rows(chunk: Chunk, rowids: pa.Array) -> Chunk | None:
    """Return the chunk without these rows; None if no row is left."""
    deleted = pc.is_in(chunk.rowids, value_set=rowids)
    alive = pc.invert(deleted) if chunk.alive is None else pc.and_not(chunk.alive, deleted)
    count = alive.true_count
    if count == chunk.count:
        return chunk
    if count == 0:
        return None
    remaining = replace(chunk, alive=alive, count=count)
    return remaining.compact() if 2 * count < len(chunk) else remaining


def update_rows(
    chunk: Chunk, rowids: pa.Array, values: Mapping[int, pa.Array], statement_id: int
) -> Chunk:
    """Return the chunk with new values, by column index, in the rows of these ids."""
    source = pc.index_in(chunk.rowids, value_set=rowids)
    columns = list(chunk.columns)
    if source.null_count == 0:
        statement_ids = pa.repeat(pa.scalar(statement_id, pa.int64()), len(chunk))
        for index, new in values.items():
            columns[index] = new.take(source)
    else:
        size = len(chunk)
        statement_ids = pc.if_else(
            source.is_valid(), pa.scalar(statement_id, pa.int64()), chunk.statement_ids
        )
        positions = pc.coalesce(pc.add(source.cast(pa.int64()), size), pa.arange(0, size))
        for index, new in values.items():
            columns[index] = concat([columns[index], new]).take(positions)
    return replace(chunk, columns=tuple(columns), statement_ids=statement_ids)


def merge(chunks: Sequence[Chunk]) -> Chunk:
    """Return one chunk of several that follow each other."""
    parts = [chunk.compact() for chunk in chunks]
    if len(parts) == 1:
        return parts[0]
    return Chunk.of(
        [concat(column) for column in zip(*(part.columns for part in parts), strict=True)],
        concat([part.rowids for part in parts]),
        concat([part.statement_ids for part in parts]),
    )


def split(chunk: Chunk, rowid: int) -> list[Chunk]:
    """Return the rows before a row id and those from it on, as one or two chunks."""
    before = int(pc.sum(pc.less(chunk.rowids, rowid)).as_py())
    parts = [chunk.slice(0, before), chunk.slice(before, len(chunk) - before)]
    return [part for part in parts if part is not None]


def int64_view(array: pa.Array) -> memoryview[int]:
    """Return the integers of an array without nulls, for bisection, without a copy."""
    if len(array) == 0:
        return memoryview(b"").cast("q")
    values = memoryview(array.buffers()[1]).cast("B").cast("q")
    return values[array.offset : array.offset + len(array)]
