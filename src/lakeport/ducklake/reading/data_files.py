"""Read the rows of one data file in the columns of the table.

In this order: drop rows of later snapshots and deleted positions, convert the file's columns to the
table's columns, fill missing columns with their default, and add the virtual columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakeport.arrow import no_columns
from lakeport.ducklake.model import DataFile, NameMapping
from lakeport.ducklake.reading.alignment import (
    column_converter,
    constant_column,
    duckdb_target,
    find_child,
)
from lakeport.ducklake.reading.delete_files import Positions
from lakeport.ducklake.reading.file_shapes import (
    INTERNAL_ROW_ID,
    INTERNAL_SNAPSHOT,
    FileShape,
    StoredColumn,
)
from lakeport.ducklake.reading.footers import row_group_filter
from lakeport.ducklake.reading.parquet import (
    ParquetReader,
    UndecodableError,
    open_parquet,
    open_with_duckdb,
)
from lakeport.ducklake.reading.sparse_rows import FindRows, are_few
from lakeport.ducklake.storage.filesystems import Storage
from lakeport.ducklake.storage.paths import hive_value
from lakeport.errors import CorruptLakeError
from lakeport.filters import Filter
from lakeport.types import Column, Target

__all__ = [
    "INTERNAL_ROW_ID",
    "INTERNAL_ROW_ID_FIELD",
    "INTERNAL_SNAPSHOT_FIELD",
    "VIRTUAL_COLUMNS",
    "FileReadRequest",
    "Probe",
    "read_file",
    "row_count",
]

INTERNAL_ROW_ID_FIELD: Final = 2147483540
INTERNAL_SNAPSHOT_FIELD: Final = 2147483539

VIRTUAL_COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "rowid": pa.int64(),
    "snapshot_id": pa.int64(),
    "filename": pa.string(),
    "file_row_number": pa.int64(),
}

ColumnBuilder = Callable[[pa.RecordBatch, Any], pa.Array]
"""Makes a column of a batch and its positions: numbers, or a range if only its length matters."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The columns of a filter, which are read before the other columns of a row group."""

    columns: tuple[Column | str, ...]
    """Those of the filter, and `file_row_number` as the last one."""
    passing: Callable[[list[pa.Array]], pa.Array]
    """Returns the positions of those rows of a batch of these columns that pass the filter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReadRequest:
    """The columns and rows to read from one data file."""

    file: DataFile
    columns: tuple[Column | str, ...]
    """Columns of the table, and names of virtual columns."""
    name_mapping: Mapping[int, NameMapping] | None
    layout_at: Callable[[int], tuple[int, ...]] = lambda _: ()
    """Returns the ids of the columns that the table had at a snapshot, in their order."""
    has_documents: bool = True
    """Whether a column is JSON or a variant, or contains one."""
    first_snapshot: int | None = None
    last_snapshot: int | None = None
    """Read only rows that were written from the first to the last snapshot, both included."""
    filter: Filter
    """Row groups whose statistics exclude the filter are skipped; rows are not filtered."""
    probe: Probe | None = None
    """Rows that do not pass may be skipped."""
    deleted: Positions
    positions: Positions | None = None
    """Read only these positions, in ascending order."""
    position_snapshots: Positions | None = None
    """The value of `snapshot_id` for each of `positions`."""
    start: int = 0
    end: int | None = None
    """Read the row groups that begin in this range of positions."""
    starts_small: bool = False
    """Yield small batches of the first row group: the consumer may need no more."""


def read_file(
    storage: Storage, request: FileReadRequest, batch_rows: int
) -> Iterator[tuple[int, list[pa.Array]]]:
    """Yield batches of a file: the number of rows, and the columns in the requested order."""
    file = request.file.recorded

    def duckdb_targets(schema: pa.Schema) -> dict[int, Target]:
        if not request.has_documents:
            return {}
        return _duckdb_targets(schema, _named(request, FileShape(schema)))

    with closing(open_parquet(storage, file, duckdb_targets=duckdb_targets)) as source:
        try:
            yield from _rows_of(source, request, batch_rows)
        except UndecodableError as error:
            unread = replace(request, start=error.resume, end=error.end)
        else:
            return
    with closing(
        open_with_duckdb(storage, file, source.shape.schema, duckdb_targets=duckdb_targets)
    ) as other:
        yield from _rows_of(other, unread, batch_rows)


def row_count(storage: Storage, file: DataFile) -> int:
    """Return the number of rows of a file, from the catalog or else from the file."""
    if file.record_count is not None:
        return file.record_count
    with closing(open_parquet(storage, file.recorded)) as source:
        return sum(batch.num_rows for _, batch in source.batches([], batch_rows=1 << 20))


def _rows_of(
    source: ParquetReader, request: FileReadRequest, batch_rows: int
) -> Iterator[tuple[int, list[pa.Array]]]:
    request = _named(request, source.shape)
    converter = _BatchConverter(source.shape, request)
    where = row_group_filter(
        request.filter,
        request.columns,
        source.shape.schema,
        request.name_mapping,
        request.file.without_nan,
    )
    for position, batch in source.batches(
        converter.fields,
        batch_rows=batch_rows,
        start=request.start,
        end=request.end,
        where=where,
        find_rows=_find_rows(source, request),
        starts_small=request.starts_small,
    ):
        count, arrays = converter.convert(position, batch)
        if count:
            yield count, arrays


def _find_rows(source: ParquetReader, request: FileReadRequest) -> FindRows | None:
    """Return how the rows of a row group are found, if not all of them are read."""
    positions = request.positions
    if positions is not None:
        return lambda first, end: positions[slice(*np.searchsorted(positions, [first, end]))]
    return None if request.probe is None else _probing(source, request, request.probe)


# A filter that keeps many rows of all of the first row groups is not worth a look at the others.
_GROUPS_WITHOUT_MISS: Final = 2
_PROBE_ROWS: Final = 65_536


def _probing(source: ParquetReader, request: FileReadRequest, probe: Probe) -> FindRows:
    """Return a function that reads the columns of the filter to find the rows that pass."""
    converter = _BatchConverter(source.shape, replace(request, columns=probe.columns))
    hits = misses = 0

    def find_rows(first: int, end: int) -> Positions | None:
        nonlocal hits, misses
        if not misses and hits >= _GROUPS_WITHOUT_MISS:
            return None
        found: list[Positions] = []
        for position, batch in source.batches(
            converter.fields, batch_rows=_PROBE_ROWS, start=first, end=end
        ):
            count, arrays = converter.convert(position, batch)
            if count:
                found.append(np.asarray(probe.passing(arrays)))
        rows = np.concatenate(found) if found else np.empty(0, np.int64)
        if are_few(rows, end - first):
            misses += 1
        else:
            hits += 1
        return rows

    return find_rows


def _named(request: FileReadRequest, shape: FileShape) -> FileReadRequest:
    """Return the request with names for a file that has neither field ids nor a name mapping.

    Format 0.3 added such files. As in DuckLake their fields are the columns by position. Here these
    are the columns of the snapshot that added the file, so a dropped column does not shift others.
    """
    if request.name_mapping is not None or not shape.fields or shape.has_field_ids:
        return request
    layout = request.layout_at(request.file.begin_snapshot)
    name_mapping = {
        column: NameMapping(field.name, is_partition=False)
        for column, field in zip(layout, shape.fields, strict=False)
    }
    for column in request.columns:
        # DuckLake reads NULL for every value inside such a column.
        if isinstance(column, Column) and column.id in name_mapping and column.children:
            raise CorruptLakeError(
                f"the file {request.file.path!r} has neither field ids nor a name mapping, so the "
                f"fields inside column {column.name!r} cannot be found: add the file to the lake "
                "with ducklake_add_data_files"
            )
    return replace(request, name_mapping=name_mapping)


def _duckdb_targets(schema: pa.Schema, request: FileReadRequest) -> dict[int, Target]:
    stored = (column for column in request.columns if isinstance(column, Column))
    documents = [c for c in stored if any(node.type in ("json", "variant") for node in c.walk())]
    targets, fields = {}, list(schema)
    for column in documents:
        position = find_child(fields, column, request.name_mapping)
        if position is not None:
            target = duckdb_target(fields[position], column, request.name_mapping)
            if target is not None:
                targets[position] = target
    return targets


class _BatchConverter:
    """Converts the batches of one file to columns of the table; made once per file."""

    def __init__(self, shape: FileShape, request: FileReadRequest) -> None:
        self._request = request
        self._shape = shape
        self.fields: list[int] = []
        self._snapshot_field = shape.internal(INTERNAL_SNAPSHOT, INTERNAL_SNAPSHOT_FIELD)
        self._row_id_field = shape.internal(INTERNAL_ROW_ID, INTERNAL_ROW_ID_FIELD)
        self._filter_column = self._snapshot_filter_column()
        self._needs_positions = any(isinstance(column, str) for column in request.columns)
        if self._needs_positions or request.name_mapping is not None or self.fields:
            self._builders = self._column_builders()
        else:
            # Nothing depends on the file, only on its shape.
            self.fields, self._builders = shape.layout(
                request.columns, lambda: (self.fields, self._column_builders())
            )
        self._keeps_all = (
            self._filter_column is None
            and request.positions is None
            and not len(request.deleted)
            and not request.file.partial_rows
        )

    def convert(self, position: int, batch: pa.RecordBatch) -> tuple[int, list[pa.Array]]:
        """Return how many rows of a batch are kept, and their columns."""
        keep = None if self._keeps_all else self._row_mask(position, batch)
        positions: Positions | range
        if keep is None:
            end = position + batch.num_rows
            positions = np.arange(position, end) if self._needs_positions else range(position, end)
        else:
            index = np.flatnonzero(keep)
            if not len(index):
                return 0, []
            positions = index + position
            batch = batch.filter(pa.array(keep)) if batch.num_columns else no_columns(len(index))
        return len(positions), [make(batch, positions) for make in self._builders]

    def _row_mask(self, position: int, batch: pa.RecordBatch) -> np.ndarray | None:
        """Return a mask of the rows that are kept, or None if all rows are kept."""
        request = self._request
        end = position + batch.num_rows
        low, high = np.searchsorted(request.deleted, [position, end])
        keep: np.ndarray | None = None
        if request.positions is not None:
            first, last = np.searchsorted(request.positions, [position, end])
            keep = np.zeros(batch.num_rows, np.bool_)
            keep[request.positions[first:last] - position] = True
        if high > low:
            keep = np.ones(batch.num_rows, np.bool_) if keep is None else keep
            keep[request.deleted[low:high] - position] = False
        limit = self._partial_limit()
        if limit is not None and end > limit:
            keep = np.ones(batch.num_rows, np.bool_) if keep is None else keep
            keep[max(limit - position, 0) :] = False
        if self._filter_column is not None:
            snapshots = np.asarray(batch.column(self._filter_column))
            inside = np.ones(batch.num_rows, np.bool_)
            if request.last_snapshot is not None:
                inside &= snapshots <= request.last_snapshot
            if request.first_snapshot is not None:
                inside &= snapshots >= request.first_snapshot
            keep = inside if keep is None else keep & inside
        return keep

    def _snapshot_filter_column(self) -> int | None:
        """Return the batch column with the snapshot of each row, if rows must be filtered by it."""
        file, first, last = (
            self._request.file,
            self._request.first_snapshot,
            self._request.last_snapshot,
        )
        if file.partial_max is None:
            return None
        inside = (last is None or file.partial_max <= last) and (
            first is None or file.begin_snapshot >= first
        )
        if inside:
            return None
        if self._snapshot_field is None:
            raise CorruptLakeError(
                f"the data file {file.path!r} contains rows of several snapshots but has no column "
                f"{INTERNAL_SNAPSHOT}"
            )
        return self._batch_index(self._snapshot_field)

    def _partial_limit(self) -> int | None:
        """Return how many rows of the file belong to the snapshot, by format 0.3's catalog."""
        pairs, last = self._request.file.partial_rows, self._request.last_snapshot
        if not pairs or last is None:
            return None
        return max((rows for snapshot, rows in pairs if snapshot <= last), default=0)

    def _column_builders(self) -> list[ColumnBuilder]:
        return [self._column_builder(column) for column in self._request.columns]

    def _column_builder(self, column: Column | str) -> ColumnBuilder:
        if isinstance(column, str):
            return self._virtual(column)
        stored = self._stored(column)
        if stored is None:
            make = constant_column(column, self._absent_value(column))
            return lambda _, positions: make(len(positions))
        position, align = stored
        index = self._batch_index(position)
        return lambda batch, _: align(batch.column(index))

    def _stored(self, column: Column) -> StoredColumn:
        names = self._request.name_mapping
        if names is None:
            return self._shape.stored(column)
        position = find_child(self._shape.fields, column, names)
        if position is None:
            return None
        return position, column_converter(self._shape.fields[position], column, names)

    def _absent_value(self, column: Column) -> str | None:
        """Return the text of a column that the file lacks: from its path, or the default."""
        entry = (self._request.name_mapping or {}).get(column.id)
        if entry is None or not entry.is_partition:
            return column.initial_default
        is_text = column.type == "varchar"
        return hive_value(self._request.file.path, entry.source_name, is_text=is_text)

    def _virtual(self, name: str) -> ColumnBuilder:
        file = self._request.file
        if name == "file_row_number":
            return lambda _, positions: pa.array(positions, pa.int64())
        if name == "filename":
            return lambda _, positions: pa.array([file.path], pa.string()).take(
                pa.array(np.zeros(len(positions), np.int64))
            )
        if name == "rowid":
            if self._row_id_field is not None:
                index = self._batch_index(self._row_id_field)
                return lambda batch, _: batch.column(index).cast(pa.int64())
            first = file.row_id_start
            if first is None:
                raise CorruptLakeError(f"the file {file.path!r} has no row ids")
            return lambda _, positions: pa.array(positions + first, pa.int64())
        requested, snapshots = self._request.positions, self._request.position_snapshots
        if requested is not None and snapshots is not None:
            return lambda _, positions: pa.array(snapshots[np.searchsorted(requested, positions)])
        if self._snapshot_field is not None:
            snapshot_index = self._batch_index(self._snapshot_field)
            return lambda batch, _: batch.column(snapshot_index).cast(pa.int64())
        if file.partial_rows:
            ends = np.array([rows for _, rows in file.partial_rows])
            owners = np.array([snapshot for snapshot, _ in file.partial_rows])
            return lambda _, positions: pa.array(
                owners[np.searchsorted(ends, positions, side="right")], pa.int64()
            )
        return lambda _, positions: pa.array(np.full(len(positions), file.begin_snapshot, np.int64))

    def _batch_index(self, field: int) -> int:
        """Add a field to those that are read; return its index in the batches."""
        if field not in self.fields:
            self.fields.append(field)
        return self.fields.index(field)
