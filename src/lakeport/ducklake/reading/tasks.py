"""The tasks of a scan plan: small, immutable, picklable, and independent of each other.

The tasks of a plan share one `ScanContext`. Each task reads a range of row groups of one file, or
contains inlined rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakeport.ducklake.model import ColumnLife, DataFile, NameMapping
from lakeport.ducklake.reading.data_files import FileReadRequest, read_file, row_count
from lakeport.ducklake.reading.delete_files import Positions, deletes_at, read_delete_file
from lakeport.ducklake.reading.row_filter import row_filter
from lakeport.ducklake.storage.filesystems import Storage
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

BATCH_ROWS = 65_536


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
        stored = (column for column in self.read_columns if isinstance(column, Column))
        return any(node.type == "variant" for column in stored for node in column.walk())

    def batch_filter(self) -> Callable[[int, Sequence[pa.Array]], pa.RecordBatch | None]:
        """Return a function that filters a batch of `read_columns` and selects the plan's columns.

        The filter is translated once for all batches. The function returns None if no row passes.
        """
        # Rows without columns get a column, so that a filter of constants has rows to filter.
        schema = self.read_schema if self.read_columns else _PLACEHOLDER
        passing = row_filter(self.filter, schema, exact=self.exact)
        positions = {column_key(column): i for i, column in enumerate(self.read_columns)}
        selected = [positions[column_key(column)] for column in self.columns]

        def apply(count: int, arrays: Sequence[pa.Array]) -> pa.RecordBatch | None:
            values = list(arrays) if self.read_columns else [pa.nulls(count)]
            batch = passing(pa.RecordBatch.from_arrays(values, schema=schema))
            return batch.select(selected) if batch.num_rows else None

        return apply


def column_key(column: Column | str) -> int | str:
    """Return the key of a column in a scan: its id, or the name of a virtual column."""
    return column if isinstance(column, str) else column.id


_PLACEHOLDER = pa.schema([("row", pa.null())])


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
        return max(self.estimated_bytes, 1)

    def read(self, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches of at most `batch_rows`."""
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

    def read(self, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the file in the table's columns, as of the plan's snapshot."""
        request = FileReadRequest(
            file=self.file,
            columns=self.context.read_columns,
            name_mapping=self.name_mapping,
            layout=self.context.layout_at(self.file.begin_snapshot),
            filter=self.context.filter,
            first_snapshot=self.first_snapshot,
            last_snapshot=self.context.snapshot,
            deleted=self.deleted(),
            start=self.start,
            end=self.end,
        )
        apply_filter = self.context.batch_filter()
        for count, arrays in read_file(self.context.storage, request, batch_rows):
            batch = apply_filter(count, arrays)
            if batch is not None:
                yield batch

    def deleted(self) -> Positions:
        """Return the positions of the file that are deleted at the plan's snapshot, ascending."""
        if not self.apply_deletes:
            return np.empty(0, np.int64)
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
            layout=self.context.layout_at(self.file.begin_snapshot),
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
