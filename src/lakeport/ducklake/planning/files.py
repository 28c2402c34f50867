"""The catalog's rows about the files of a table, as Arrow columns; objects only for chosen files.

Statistics and partition values come with a row for each value. They are joined with their files
here, by positions in the sorted file ids.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.arrow import combine
from lakeport.ducklake.metadata.queries import ColumnsResult
from lakeport.ducklake.metadata.rows import DeleteFileRow, InlinedDataTableRow, SnapshotRow
from lakeport.ducklake.metadata.statements import (
    FileCountRow,
    FileQuery,
    InlinedDeleteRow,
    PartitionExcludedRow,
)
from lakeport.ducklake.model import DataFile, DeleteFile, TableState
from lakeport.ducklake.storage.paths import as_directory, resolve
from lakeport.errors import CorruptLakeError

__all__ = ["FileColumns", "Mask"]

Mask = npt.NDArray[np.bool_]
_Positions = npt.NDArray[np.int64]

_STATISTICS = ("value_count", "null_count", "min_value", "max_value", "contains_nan")
# Relative paths that `resolve` may refuse.
_LEADS_OUT = r"^[/\\]|(^|[/\\])\.\.([/\\]|$)|\x00"
_NO_DELETES = pa.schema(
    [("file_id", pa.int64()), ("row_id", pa.int64()), ("begin_snapshot", pa.int64())]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """The data files of a table, by ascending id, with everything that the catalog has on them."""

    data_files: pa.Table
    delete_files: pa.Table
    inlined_deletes: pa.Table
    statistics: pa.Table
    """A row for each file and column: `data_file_id`, `column_id`, `value_count`, …"""
    partition_values: pa.Table
    """A row for each file and key: `data_file_id`, `partition_key_index`, `partition_value`."""
    inlined_tables: frozenset[str]
    has_snapshot: bool
    files: int
    """The number of files, with those that the database excluded."""
    excluded_by_partition: int
    """The number of files that the database excluded by their partition values."""

    @classmethod
    def of(cls, result: ColumnsResult, wanted: FileQuery) -> FileColumns:
        """Return the columns of a query."""
        files = result["data_file"].sort_by("data_file_id")
        has_deletes = wanted.inlined_delete_table is not None
        total, by_partition = files.num_rows, 0
        if wanted.exclusions:
            total = pc.sum(result[FileCountRow]["files"]).as_py() or 0
        if wanted.exclusions.partition:
            by_partition = pc.sum(result[PartitionExcludedRow]["files"]).as_py() or 0
        return cls(
            data_files=files,
            delete_files=result[DeleteFileRow],
            inlined_deletes=result[InlinedDeleteRow] if has_deletes else _NO_DELETES.empty_table(),
            statistics=result["file_statistics"],
            partition_values=result["partition_value"],
            inlined_tables=frozenset(result[InlinedDataTableRow]["table_name"].to_pylist()),
            has_snapshot=result[SnapshotRow].num_rows > 0,
            files=total,
            excluded_by_partition=by_partition,
        )

    def __len__(self) -> int:
        return int(self.data_files.num_rows)

    @property
    def ids(self) -> list[int]:
        """The ids of the files."""
        return [int(id) for id in self._ids()]

    def take(self, keep: Mask) -> FileColumns:
        """Return the files where `keep` is true; `statistics` and deletes still have the others."""
        if keep.all():
            return self
        return replace(self, data_files=self.data_files.filter(pa.array(keep)))

    def with_statistics(self, columns: Sequence[int], keys: int) -> pa.Table:
        """Return a row for each file: `s1_min_value` …, `p0` …, and columns of the file itself.

        A value that the catalog lacks is null, and one that it has more than once.
        """
        arrays: dict[str, Any] = {
            name: self.data_files[name] for name in ("partition_id", "mapping_id", "record_count")
        }
        for column in columns:
            rows = self.statistics.filter(pc.equal(self.statistics["column_id"], column))
            found = self._rows_of_files(rows)
            arrays |= {f"s{column}_{name}": combine(rows[name]).take(found) for name in _STATISTICS}
        for key in range(keys):
            arrays[f"p{key}"] = self._partition_key(key)
        return pa.table(arrays)

    def data_file_objects(self, state: TableState) -> list[DataFile]:
        """Return the data files, by id, with the deletes that apply to them."""
        return list(self._objects(state))

    def without_nan(self) -> dict[int, frozenset[int]]:
        """Return the columns that have no NaN, of those with statistics, by file."""
        found: dict[int, set[int]] = defaultdict(set)
        ids = self._ids()
        for column in pc.unique(self.statistics["column_id"]).to_pylist():
            rows = self.statistics.filter(pc.equal(self.statistics["column_id"], column))
            flags = combine(rows["contains_nan"]).take(self._rows_of_files(rows))
            is_absent = pc.fill_null(pc.equal(pc.cast(flags, pa.int64()), 0), fill_value=False)
            for id in ids[is_absent.to_numpy(zero_copy_only=False)]:
                found[int(id)].add(column)
        return {id: frozenset(columns) for id, columns in found.items()}

    def deleted_positions(self) -> dict[int, bytes]:
        """Return the positions of inlined deletes by data file, as ascending 64-bit integers."""
        ids, positions = self._own_inlined_deletes("file_id", "row_id")
        order = np.lexsort((positions, ids))
        ids, positions = ids[order], positions[order]
        starts = np.flatnonzero(np.diff(ids, prepend=-1))
        return {
            int(ids[start]): np.unique(part).tobytes()
            for start, part in zip(starts, np.split(positions, starts[1:]), strict=False)
            if len(part)
        }

    def deleted_pairs(self) -> dict[int, bytes]:
        """Return pairs of a position and the snapshot that deleted it, by data file."""
        ids, positions, snapshots = self._own_inlined_deletes("file_id", "row_id", "begin_snapshot")
        order = np.argsort(ids, kind="stable")
        ids, pairs = ids[order], np.stack([positions, snapshots], axis=1)[order]
        starts = np.flatnonzero(np.diff(ids, prepend=-1))
        return {
            int(ids[start]): np.ascontiguousarray(part).tobytes()
            for start, part in zip(starts, np.split(pairs, starts[1:]), strict=False)
            if len(part)
        }

    def _own_inlined_deletes(self, *names: str) -> list[_Positions]:
        rows = self.inlined_deletes
        if rows.num_rows:
            rows = rows.filter(pa.array(np.isin(_numbers(rows["file_id"]), self._ids())))
        return [_numbers(rows[name]) for name in names]

    def _ids(self) -> _Positions:
        return _numbers(self.data_files["data_file_id"])

    def _rows_of_files(self, rows: pa.Table) -> pa.Array:
        """Return for each file the position of its only row; null if it has none or several."""
        ids = self._ids()
        positions = np.full(len(ids), -1, np.int64)
        if len(ids) and rows.num_rows:
            of_rows = _numbers(rows["data_file_id"])
            slots = np.minimum(np.searchsorted(ids, of_rows), len(ids) - 1)
            own = np.flatnonzero(ids[slots] == of_rows)
            positions[slots[own]] = own
            positions[np.bincount(slots[own], minlength=len(ids)) > 1] = -1
        return pa.array(positions, mask=positions < 0)

    def _partition_key(self, key: int) -> pa.Array:
        values = self.partition_values
        values = values.filter(pc.equal(values["partition_key_index"], key))
        return combine(values["partition_value"]).take(self._rows_of_files(values))

    def _objects(self, state: TableState) -> Iterator[DataFile]:
        rows = self.data_files
        other = pc.unique(rows["file_format"].fill_null("parquet")).to_pylist()
        for wrong in set(other) - {"parquet", ""}:
            path = rows.filter(pc.equal(rows["file_format"], wrong))["path"][0].as_py()
            raise CorruptLakeError(f"the file {path!r} has the format {wrong!r}")
        deletes, without_nan = self._deletes(state), self.without_nan()
        specs = state.partition_specs
        keys = max((len(spec.fields) for spec in specs.values()), default=0)
        # The values of a file that has fewer keys than others are cut off below.
        values: Iterable[tuple[str | None, ...]] = (
            zip(*(self._partition_key(key).to_pylist() for key in range(keys)), strict=True)
            if keys
            else [()] * rows.num_rows
        )
        paths = _paths(rows, state.path)
        columns = zip(values, paths, _rows(rows, _FILE_COLUMNS), strict=True)
        for partition_values, path, row in columns:
            id, partition_id, key, info, partial_max, *rest = row
            spec = specs.get(-1 if partition_id is None else partition_id)
            partial_rows: tuple[tuple[int, int], ...] = ()
            if info and partial_max is None:
                partial_max, partial_rows = _partial(info)
            records, size, footer, begin, end, row_id_start, mapping_id = rest
            yield DataFile(
                id=id,
                path=path,
                record_count=records,
                file_size_bytes=size,
                footer_size=footer,
                begin_snapshot=begin,
                end_snapshot=end,
                row_id_start=row_id_start,
                partition_id=partition_id,
                partition_values=partition_values[: len(spec.fields)] if spec else (),
                mapping_id=mapping_id,
                encryption_key=key or None,
                partial_max=partial_max,
                partial_rows=partial_rows,
                deletes=deletes.get(id, ()),
                without_nan=without_nan.get(id, frozenset()),
            )

    def _deletes(self, state: TableState) -> Mapping[int, tuple[DeleteFile, ...]]:
        """Return the delete files of the data files, by id."""
        rows = self.delete_files
        if not rows.num_rows:
            return {}
        rows = rows.filter(pa.array(np.isin(_numbers(rows["data_file_id"]), self._ids())))
        found: dict[int, tuple[DeleteFile, ...]] = defaultdict(tuple)
        rows = rows.sort_by("delete_file_id")
        paths = _paths(rows, state.path)
        for path, row in zip(paths, _rows(rows, _DELETE_COLUMNS), strict=True):
            id, data_file, file_format, count, size, footer, begin, end, key, most = row
            found[data_file] += (
                DeleteFile(
                    id=id,
                    path=path,
                    format=file_format or "parquet",
                    delete_count=count,
                    file_size_bytes=size,
                    footer_size=footer,
                    begin_snapshot=begin,
                    end_snapshot=end,
                    encryption_key=key or None,
                    partial_max=most,
                ),
            )
        return found


_FILE_COLUMNS = (
    "data_file_id", "partition_id", "encryption_key", "partial_file_info", "partial_max",
    "record_count", "file_size_bytes", "footer_size", "begin_snapshot", "end_snapshot",
    "row_id_start", "mapping_id",
)  # fmt: skip
_DELETE_COLUMNS = (
    "delete_file_id", "data_file_id", "format", "delete_count",
    "file_size_bytes", "footer_size", "begin_snapshot", "end_snapshot", "encryption_key",
    "partial_max",
)  # fmt: skip


def _rows(table: pa.Table, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield rows of some columns; a column of nulls makes no objects."""
    columns = (
        [None] * table.num_rows
        if table[name].null_count == table.num_rows
        else table[name].to_pylist()
        for name in names
    )
    return zip(*columns, strict=True)


def _paths(rows: pa.Table, root: str) -> list[str]:
    """Return the resolved paths of files, by kernels; `resolve` raises the error of a bad one."""
    paths, relative = rows["path"], pc.equal(rows["path_is_relative"].fill_null(0), 1)
    suspect = pc.and_(relative, pc.match_substring_regex(paths, _LEADS_OUT))
    for path in paths.filter(suspect).to_pylist():
        resolve(root, path, relative=True)
    prefix = pa.scalar(as_directory(root), pa.string())
    below = pc.binary_join_element_wise(prefix, paths, "")
    resolved: list[str] = pc.if_else(relative, below, paths).to_pylist()
    return resolved


def _numbers(column: pa.ChunkedArray) -> _Positions:
    """Return the numbers of a column; the catalog's ids are never negative, and -1 is for null."""
    return np.asarray(combine(column).fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def _partial(info: str) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    """Return the newest snapshot in a file of several, or format 0.3's rows of each snapshot."""
    if info.startswith("partial_max:"):
        return int(info.removeprefix("partial_max:")), ()
    pairs = [pair.split(":") for pair in info.split("|")]
    return None, tuple((int(snapshot), int(rows)) for snapshot, rows in pairs)
