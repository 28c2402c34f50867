"""Executing one scan task with pyarrow: the rows of a file as the table sees them.

In this order: rows of later snapshots and deleted positions are dropped, the file's columns become
the table's columns, missing ones take their default, and the virtual columns are filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from lakeport.ducklake.model import DataFile, NameMapping
from lakeport.ducklake.reading.alignment import aligner, constant, duckdb_target, find_child
from lakeport.ducklake.reading.delete_files import INTERNAL_SNAPSHOT, Positions
from lakeport.ducklake.reading.parquet import (
    ParquetReader,
    UndecodableError,
    open_parquet,
    open_with_duckdb,
    row_group_filter,
)
from lakeport.ducklake.storage.filesystems import Storage
from lakeport.ducklake.storage.paths import hive_value
from lakeport.errors import CorruptLakeError
from lakeport.filters import Filter
from lakeport.types import Column, Target, field_id

__all__ = [
    "INTERNAL_ROW_ID",
    "INTERNAL_ROW_ID_FIELD",
    "INTERNAL_SNAPSHOT_FIELD",
    "VIRTUAL_COLUMNS",
    "FileReadRequest",
    "read_file",
    "row_count",
]

INTERNAL_ROW_ID: Final = "_ducklake_internal_row_id"
INTERNAL_ROW_ID_FIELD: Final = 2147483540
INTERNAL_SNAPSHOT_FIELD: Final = 2147483539

VIRTUAL_COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "rowid": pa.int64(),
    "snapshot_id": pa.int64(),
    "filename": pa.string(),
    "file_row_number": pa.int64(),
}

Maker = Callable[[pa.RecordBatch, Positions], pa.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReadRequest:
    """What to read of one data file."""

    file: DataFile
    columns: tuple[Column | str, ...]
    """Columns of the table, and names of virtual columns."""
    names: Mapping[int, NameMapping] | None
    layout: tuple[int, ...] = ()
    """The ids of the columns that the table had when the file was committed, in their order."""
    first_snapshot: int | None = None
    last_snapshot: int | None = None
    """Only rows that were written from the first to the last snapshot, both included."""
    filter: Filter
    """Row groups whose statistics exclude it are left out; rows are not filtered."""
    deleted: Positions
    only: Positions | None = None
    """Only these positions, in ascending order."""
    only_snapshots: Positions | None = None
    """What `snapshot_id` is for each of those positions."""
    start: int = 0
    end: int | None = None
    """The row groups that begin in this range of positions."""


def read_file(
    storage: Storage, request: FileReadRequest, batch_rows: int
) -> Iterator[tuple[int, list[pa.Array]]]:
    """Batches of a file: how many rows, and the columns in the order asked for."""
    file = request.file.recorded

    def for_duckdb(schema: pa.Schema) -> dict[int, Target]:
        return _for_duckdb(schema, _named(request, schema))

    with closing(open_parquet(storage, file, for_duckdb=for_duckdb)) as source:
        try:
            yield from _rows_of(source, request, batch_rows)
        except UndecodableError as error:
            left = replace(request, start=error.resume, end=error.end)
        else:
            return
    with closing(open_with_duckdb(storage, file, source.schema, for_duckdb=for_duckdb)) as other:
        yield from _rows_of(other, left, batch_rows)


def row_count(storage: Storage, file: DataFile) -> int:
    """How many rows a file has, from the catalog or else from the file."""
    if file.record_count is not None:
        return file.record_count
    with closing(open_parquet(storage, file.recorded)) as source:
        return sum(batch.num_rows for _, batch in source.batches([], batch_rows=1 << 20))


def _rows_of(
    source: ParquetReader, request: FileReadRequest, batch_rows: int
) -> Iterator[tuple[int, list[pa.Array]]]:
    request = _named(request, source.schema)
    reader = _BatchConverter(source, request)
    where = row_group_filter(request.filter, request.columns, source.schema, request.names)
    for position, batch in source.batches(
        reader.fields,
        batch_rows=batch_rows,
        start=request.start,
        end=request.end,
        where=where,
    ):
        count, arrays = reader.convert(position, batch)
        if count:
            yield count, arrays


def _named(request: FileReadRequest, schema: pa.Schema) -> FileReadRequest:
    """The request with names for a file that has neither field ids nor a name mapping.

    Format 0.3 added such files. As in the real reader their fields are the columns by position;
    but those of the time when the file was added: a dropped column is not taken for another.
    """
    if (
        request.names is not None
        or not len(schema)
        or any(field_id(field) is not None for field in schema)
    ):
        return request
    names = {
        column: NameMapping(field.name, is_partition=False)
        for column, field in zip(request.layout, schema, strict=False)
    }
    for column in request.columns:
        # The real reader gives NULL for every value inside such a column.
        if isinstance(column, Column) and column.id in names and column.children:
            raise CorruptLakeError(
                f"the file {request.file.path!r} has neither field ids nor a name mapping, so that "
                f"what is inside the column {column.name!r} cannot be found: add the file to the "
                "lake with ducklake_add_data_files"
            )
    return replace(request, names=names)


def _for_duckdb(schema: pa.Schema, request: FileReadRequest) -> dict[int, Target]:
    stored = (column for column in request.columns if isinstance(column, Column))
    documents = [c for c in stored if any(node.type in ("json", "variant") for node in c.walk())]
    targets, fields = {}, list(schema)
    for column in documents:
        position = find_child(fields, column, request.names)
        if position is not None:
            target = duckdb_target(fields[position], column, request.names)
            if target is not None:
                targets[position] = target
    return targets


class _BatchConverter:
    """How the batches of one file become columns of the table; compiled once per file."""

    def __init__(self, source: ParquetReader, request: FileReadRequest) -> None:
        self._request = request
        self._schema = source.schema
        self._file_fields = list(source.schema)
        self.fields: list[int] = []
        self._snapshot_field = self._internal(INTERNAL_SNAPSHOT, INTERNAL_SNAPSHOT_FIELD)
        self._row_id_field = self._internal(INTERNAL_ROW_ID, INTERNAL_ROW_ID_FIELD)
        self._filter_column = self._snapshot_filter_column()
        self._makers = [self._maker(column) for column in request.columns]

    def convert(self, position: int, batch: pa.RecordBatch) -> tuple[int, list[pa.Array]]:
        """How many rows of a batch survive, and their columns."""
        keep = self._survivors(position, batch)
        if keep is None:
            positions = np.arange(position, position + batch.num_rows)
        else:
            index = np.flatnonzero(keep)
            if not len(index):
                return 0, []
            positions = index + position
            batch = batch.filter(pa.array(keep)) if batch.num_columns else _rows(len(index))
        return len(positions), [make(batch, positions) for make in self._makers]

    def _survivors(self, position: int, batch: pa.RecordBatch) -> np.ndarray | None:
        """Which rows stay, or None for all of them."""
        request = self._request
        end = position + batch.num_rows
        low, high = np.searchsorted(request.deleted, [position, end])
        keep: np.ndarray | None = None
        if request.only is not None:
            first, last = np.searchsorted(request.only, [position, end])
            keep = np.zeros(batch.num_rows, np.bool_)
            keep[request.only[first:last] - position] = True
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
        """The batch column of row snapshots, when rows must be chosen by it."""
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
                f"the file {file.path!r} mixes snapshots but does not say which row is whose"
            )
        return self._use(self._snapshot_field)

    def _partial_limit(self) -> int | None:
        """Format 0.3 says in the catalog up to which row a file belongs to a snapshot."""
        pairs, last = self._request.file.partial_rows, self._request.last_snapshot
        if not pairs or last is None:
            return None
        return max((rows for snapshot, rows in pairs if snapshot <= last), default=0)

    def _maker(self, column: Column | str) -> Maker:
        if isinstance(column, str):
            return self._virtual(column)
        position = find_child(self._file_fields, column, self._request.names)
        if position is None:
            make = constant(column, self._absent_value(column))
            return lambda _, positions: make(len(positions))
        use = self._use(position)
        align = aligner(self._schema.field(position), column, self._request.names)
        return lambda batch, _: align(batch.column(use))

    def _absent_value(self, column: Column) -> str | None:
        """The text of a column that the file does not hold: from the path, or its default."""
        entry = (self._request.names or {}).get(column.id)
        if entry is None or not entry.is_partition:
            return column.initial_default
        is_text = column.type == "varchar"
        return hive_value(self._request.file.path, entry.source_name, is_text=is_text)

    def _virtual(self, name: str) -> Maker:
        file = self._request.file
        if name == "file_row_number":
            return lambda _, positions: pa.array(positions, pa.int64())
        if name == "filename":
            return lambda _, positions: pa.array([file.path], pa.string()).take(
                pa.array(np.zeros(len(positions), np.int64))
            )
        if name == "rowid":
            if self._row_id_field is not None:
                use = self._use(self._row_id_field)
                return lambda batch, _: batch.column(use).cast(pa.int64())
            first = file.row_id_start
            if first is None:
                raise CorruptLakeError(f"the file {file.path!r} has no row ids")
            return lambda _, positions: pa.array(positions + first, pa.int64())
        only, when = self._request.only, self._request.only_snapshots
        if only is not None and when is not None:
            return lambda _, positions: pa.array(when[np.searchsorted(only, positions)])
        if self._snapshot_field is not None:
            use_snapshot = self._use(self._snapshot_field)
            return lambda batch, _: batch.column(use_snapshot).cast(pa.int64())
        if file.partial_rows:
            ends = np.array([rows for _, rows in file.partial_rows])
            owners = np.array([snapshot for snapshot, _ in file.partial_rows])
            return lambda _, positions: pa.array(
                owners[np.searchsorted(ends, positions, side="right")], pa.int64()
            )
        return lambda _, positions: pa.array(np.full(len(positions), file.begin_snapshot, np.int64))

    def _internal(self, name: str, number: int) -> int | None:
        for index, field in enumerate(self._schema):
            if field_id(field) == number or field.name == name:
                return index
        return None

    def _use(self, field: int) -> int:
        """Read this field too; its place in the batches, which keep the order of the file."""
        if field not in self.fields:
            self.fields.append(field)
        return self.fields.index(field)


def _rows(count: int) -> pa.RecordBatch:
    """A batch without columns but with rows."""
    return pa.record_batch([pa.nulls(count)], names=["nothing"]).select([])
