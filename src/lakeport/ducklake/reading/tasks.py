"""The tasks of a scan plan: small, immutable, picklable, and independent of each other.

The tasks of a plan share one `ScanContext`. Each task reads a range of row groups of one file, or
contains inlined rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lakeport._cache import LruCache
from lakeport.arrow import no_columns
from lakeport.ducklake.model import ColumnLife, DataFile, NameMapping
from lakeport.ducklake.reading.data_files import FileReadRequest, Probe, read_file, row_count
from lakeport.ducklake.reading.delete_files import Positions, deletes_at, read_delete_file
from lakeport.ducklake.reading.row_filter import row_filter
from lakeport.ducklake.storage.filesystems import Storage
from lakeport.ducklake.storage.paths import is_local
from lakeport.filters import Filter
from lakeport.types import Column

__all__ = [
    "BATCH_ROWS",
    "DeletedRowsTask",
    "FileTask",
    "InlinedTask",
    "ScanContext",
    "ScanTask",
    "column_key",
]

BatchFilter: TypeAlias = Callable[[int, Sequence[pa.Array]], pa.RecordBatch | None]

BATCH_ROWS = 65_536

# In smaller files, reading the columns of the filter first takes longer than reading all columns.
_PROBED_BYTES = 512 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanContext:
    """The properties that all tasks of a plan share."""

    snapshot: int
    schema: pa.Schema
    columns: tuple[Column | str, ...]
    """The table's columns and virtual columns of `schema`, in its order."""
    filter: Filter
    exact: bool
    """Whether only rows that pass the filter are returned."""
    storage: Storage
    read_columns: tuple[Column | str, ...]
    """The columns of the plan, each once, then those that only the filter needs."""
    read_schema: pa.Schema
    lives: tuple[ColumnLife, ...] = field(default=(), repr=False)
    """The table's top-level columns of all snapshots."""
    read_share: float = field(init=False, repr=False, compare=False, default=1.0)
    """About which part of the bytes of a file the columns have that are read."""
    has_documents: bool = field(init=False, repr=False, compare=False, default=True)
    """Whether a column is JSON or a variant, or contains one."""

    def __post_init__(self) -> None:
        kinds = {node.type for column in self._stored for node in column.walk()}
        object.__setattr__(self, "has_documents", not kinds.isdisjoint(("json", "variant")))
        columns = len(self.layout_at(self.snapshot))
        if columns:
            object.__setattr__(self, "read_share", min(1.0, len(self._stored) / columns))

    @property
    def _stored(self) -> list[Column]:
        return [column for column in self.read_columns if isinstance(column, Column)]

    def layout_at(self, snapshot: int) -> tuple[int, ...]:
        """Return the ids of the columns that the table had at a snapshot, in their order."""
        ids = [
            life.id
            for life in self.lives
            if life.begin_snapshot <= snapshot
            and (life.end_snapshot is None or life.end_snapshot > snapshot)
        ]
        return tuple(dict.fromkeys(ids))

    @property
    def has_variants(self) -> bool:
        """Whether a column is a variant or contains one."""
        return any(node.type == "variant" for column in self._stored for node in column.walk())

    def batch_filter(self) -> BatchFilter:
        """Return a function that filters a batch of `read_columns` and selects the plan's columns.

        The filter is translated once for all tasks of a plan. The function returns None if no row
        passes.
        """
        # By identity: the tasks of a plan share their context.
        found = _FILTERS.get(id(self))
        if found is None or found[0] is not self:
            found = self, self._batch_filter()
            _FILTERS.put(id(self), found)
        apply: BatchFilter = found[1]
        return apply

    def probe(self) -> Probe | None:
        """Return what finds row groups without a matching row; None if it would read everything."""
        found = _PROBES.get(id(self))
        if found is None or found[0] is not self:
            found = self, self._probe()
            _PROBES.put(id(self), found)
        probe: Probe | None = found[1]
        return probe

    def _probe(self) -> Probe | None:
        narrow = self.narrowed(self.filter.columns)
        if not narrow.read_columns or len(narrow._stored) == len(self._stored):  # noqa: SLF001
            return None
        number = "file_row_number"
        while number in narrow.read_schema.names:
            number += "_"
        schema = narrow.read_schema.append(pa.field(number, pa.int64()))
        passes = row_filter(self.filter, schema, exact=self.exact)

        def passing(rows: Sequence[pa.Array]) -> pa.Array:
            return passes(pa.RecordBatch.from_arrays(list(rows), schema=schema)).column(number)

        return Probe((*narrow.read_columns, "file_row_number"), passing)

    def narrowed(self, names: Collection[str]) -> ScanContext:
        """Return the context of the same scan with some of the columns that are read."""
        kept = [
            (column, field)
            for column, field in zip(self.read_columns, self.read_schema, strict=True)
            if field.name in names
        ]
        read = tuple(column for column, _ in kept)
        schema = pa.schema([field for _, field in kept])
        return replace(self, schema=schema, columns=read, read_columns=read, read_schema=schema)

    def _batch_filter(self) -> BatchFilter:
        # Rows without columns get a column, so that a filter of constants has rows to filter.
        schema = self.read_schema if self.read_columns else _PLACEHOLDER
        passing = row_filter(self.filter, schema, exact=self.exact)
        positions = {column_key(column): i for i, column in enumerate(self.read_columns)}
        selected = [positions[column_key(column)] for column in self.columns]
        is_all = bool(selected) and selected == list(range(len(schema)))
        is_filtered = bool(self.filter)

        def apply(count: int, arrays: Sequence[pa.Array]) -> pa.RecordBatch | None:
            values = list(arrays) if self.read_columns else [pa.nulls(count)]
            batch = pa.RecordBatch.from_arrays(values, schema=schema)
            if is_filtered:
                batch = passing(batch)
            if not batch.num_rows:
                return None
            return batch if is_all else batch.select(selected)

        return apply


def column_key(column: Column | str) -> int | str:
    """Return the key of a column in a scan: its id, or the name of a virtual column."""
    return column if isinstance(column, str) else column.id


_PLACEHOLDER = pa.schema([("row", pa.null())])
_FILTERS = LruCache(64)
_PROBES = LruCache(64)
_NO_POSITIONS = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """The smallest unit of work of a scan."""

    context: ScanContext = field(repr=False)
    estimated_rows: int
    estimated_bytes: int

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        return self.context.schema

    @property
    def bytes_to_read(self) -> int:
        """About how many bytes are read from storage; at least one if anything is."""
        return max(int(self.estimated_bytes * self.context.read_share), 1)

    @property
    def is_remote(self) -> bool:
        """Whether the bytes come from an object store, where readers wait more than they work."""
        return False

    def read(self, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches of at most `batch_rows`, or of more if they have no columns."""
        raise NotImplementedError

    def to_table(self) -> pa.Table:
        """Return all rows of the task."""
        return pa.Table.from_batches(list(self.read()), self.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask(ScanTask):
    """The row groups of one data file that begin in a range of positions."""

    file: DataFile
    start: int = 0
    end: int | None = None
    name_mapping: dict[int, NameMapping] | None = field(default=None, repr=False)
    inlined_deletes: bytes = field(default=b"", repr=False)
    """Positions deleted by the catalog database, ascending 64-bit integers."""
    apply_deletes: bool = True
    first_snapshot: int | None = None
    """For a change feed: read only rows written at this snapshot or later."""
    starts_small: bool = field(default=False, compare=False)
    """Whether the first batches have few rows, for a consumer that may need no more."""

    @property
    def bytes_to_read(self) -> int:
        """About how many bytes are read from storage; none if the catalog has the number of rows.

        Only the delete files are read where the rows are counted but not the deletes.
        """
        if not self._is_counted:
            return max(int(self.estimated_bytes * self.context.read_share), 1)
        if self.start or not self._reads_deletes:
            return 0
        return max(sum(delete.file_size_bytes or 0 for delete in self.file.deletes), 1)

    @property
    def is_remote(self) -> bool:
        """Whether the bytes come from an object store, where readers wait more than they work."""
        return not is_local(self.file.path)

    def read(
        self, *, batch_rows: int = BATCH_ROWS, positions: Positions | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the file in the table's columns, as of the plan's snapshot.

        With `positions`, ascending, only those rows: other row groups are not read. Rows without
        columns and without a filter are counted by the catalog: the file is not read.
        """
        if self._is_counted and positions is None:
            count = self._counted_rows()
            if count:
                yield no_columns(count)
            return
        request = FileReadRequest(
            file=self.file,
            columns=self.context.read_columns,
            name_mapping=self.name_mapping,
            layout_at=self.context.layout_at,
            has_documents=self.context.has_documents,
            filter=self.context.filter,
            probe=self.context.probe() if self.bytes_to_read >= _PROBED_BYTES else None,
            first_snapshot=self.first_snapshot,
            last_snapshot=self.context.snapshot,
            deleted=self.deleted(),
            positions=positions,
            start=self.start,
            end=self.end,
            starts_small=self.starts_small,
        )
        apply_filter = self.context.batch_filter()
        for count, arrays in read_file(self.context.storage, request, batch_rows):
            batch = apply_filter(count, arrays)
            if batch is not None:
                yield batch

    @property
    def _is_counted(self) -> bool:
        """Whether the catalog has the number of rows, deleted or not, and nothing else is read."""
        file, context = self.file, self.context
        if context.read_columns or context.filter or file.record_count is None or file.partial_rows:
            return False
        first = self.first_snapshot
        return file.partial_max is None or (
            file.partial_max <= context.snapshot and (first is None or file.begin_snapshot >= first)
        )

    @property
    def _reads_deletes(self) -> bool:
        """Whether the deleted rows can be counted only by reading the delete files."""
        if not self.apply_deletes or not self.file.deletes:
            return False
        delete, *others = self.file.deletes
        last = delete.partial_max
        # A flush leaves delete files that mix snapshots without a record of the last one.
        is_mixed = last is None and self.file.partial_max is not None
        is_partial = last is not None and last > self.context.snapshot
        return bool(
            others or self.inlined_deletes or is_mixed or is_partial or not delete.delete_count
        )

    def _counted_rows(self) -> int:
        """Return the rows of the file that are not deleted, by the catalog's numbers.

        Where row groups begin is in the file. So the first task of a file counts all of its rows,
        and the others none.
        """
        rows = self.file.record_count or 0
        if self.start:
            return 0
        if self.apply_deletes and self.file.deletes and not self._reads_deletes:
            return max(0, rows - (self.file.deletes[0].delete_count or 0))
        deleted = self.deleted()
        return rows - int(np.searchsorted(deleted, rows))

    def deleted(self) -> Positions:
        """Return the positions of the file that are deleted at the plan's snapshot, ascending."""
        if not self.apply_deletes or not (self.file.deletes or self.inlined_deletes):
            return _NO_POSITIONS
        inlined = np.frombuffer(self.inlined_deletes, np.int64)
        positions = deletes_at(self.context.storage, self.file.deletes, self.context.snapshot)
        if not len(inlined):
            return positions
        return np.union1d(positions, inlined)


@dataclass(frozen=True, slots=True, kw_only=True)
class InlinedTask(ScanTask):
    """Inlined rows of the catalog database, contained in the task as an Arrow stream."""

    data: bytes = field(repr=False)
    rows: int
    table: str = ""
    """The name of the inlined table."""

    @property
    def bytes_to_read(self) -> int:
        """None: the rows are in the task."""
        return 0

    def read(self, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the task contains."""
        apply_filter = self.context.batch_filter()
        table = pa.ipc.open_stream(self.data).read_all()
        if not table.num_columns:
            batch = apply_filter(self.rows, [])
            if batch is not None:
                yield batch
            return
        for stored in table.to_batches(max_chunksize=batch_rows):
            batch = apply_filter(stored.num_rows, stored.columns)
            if batch is not None:
                yield batch


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRowsTask(ScanTask):
    """The rows of one data file that were deleted in a range of snapshots."""

    file: DataFile
    first_snapshot: int
    name_mapping: dict[int, NameMapping] | None = field(default=None, repr=False)
    inlined_deletes: bytes = field(default=b"", repr=False)
    """Pairs of a position and the snapshot that deleted it, as 64-bit integers."""

    def read(self, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows before their deletion, with the snapshot that deleted each."""
        positions, snapshots = self._deleted()
        if not len(positions):
            return
        request = FileReadRequest(
            file=self.file,
            columns=self.context.read_columns,
            name_mapping=self.name_mapping,
            layout_at=self.context.layout_at,
            has_documents=self.context.has_documents,
            filter=self.context.filter,
            deleted=np.empty(0, np.int64),
            positions=positions,
            position_snapshots=snapshots,
        )
        apply_filter = self.context.batch_filter()
        for count, arrays in read_file(self.context.storage, request, batch_rows):
            batch = apply_filter(count, arrays)
            if batch is not None:
                yield batch

    def _deleted(self) -> tuple[Positions, Positions]:
        """Return the positions deleted in the range, ascending, with their snapshots."""
        pairs = np.frombuffer(self.inlined_deletes, np.int64).reshape(-1, 2)
        all_positions, all_snapshots = [pairs[:, 0]], [pairs[:, 1]]
        for delete in self.file.deletes:
            positions, snapshots = read_delete_file(self.context.storage, delete)
            all_positions.append(positions)
            all_snapshots.append(
                np.full(len(positions), delete.begin_snapshot) if snapshots is None else snapshots
            )
        end = self.file.end_snapshot
        if end is not None and end <= self.context.snapshot:
            # Dropping the file deleted the rows that were left in it.
            rows = row_count(self.context.storage, self.file)
            all_positions.append(np.arange(rows))
            all_snapshots.append(np.full(rows, end))
        positions, snapshots = np.concatenate(all_positions), np.concatenate(all_snapshots)
        order = np.lexsort((snapshots, positions))
        positions, snapshots = positions[order], snapshots[order]
        first = np.ones(len(positions), np.bool_)
        first[1:] = positions[1:] != positions[:-1]
        inside = first & (snapshots >= self.first_snapshot) & (snapshots <= self.context.snapshot)
        return positions[inside], snapshots[inside]
