"""The values that the tasks of a write return; the catalog rows of a commit are computed from them.

These values hold no snapshot ids, file ids or row ids of the commit: the commit kernel assigns
them, and assigns others when it tries again. They can be pickled, because Spark tasks return them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

__all__ = [
    "CompactedFile",
    "InlinedDeletes",
    "InlinedRowDeletes",
    "InlinedRowInserts",
    "MappedColumn",
    "WrittenColumn",
    "WrittenDeleteFile",
    "WrittenFile",
    "WrittenVariantPath",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenVariantPath:
    """The statistics of one path of a variant column whose values have a type of their own."""

    path: str
    shredded_type: str
    size_bytes: int
    value_count: int | None
    null_count: int | None
    min_value: str | None = None
    max_value: str | None = None
    contains_nan: bool | None = None
    extra_stats: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenColumn:
    """The statistics of one leaf column in a written file, in the text forms of the catalog."""

    column_id: int
    size_bytes: int
    value_count: int | None
    null_count: int | None
    min_value: str | None = None
    max_value: str | None = None
    contains_nan: bool | None = None
    extra_stats: str | None = None
    variant_paths: tuple[WrittenVariantPath, ...] = ()
    """The rows of `ducklake_file_variant_stats`; empty for all other types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedColumn:
    """Where a column of the table is in an added file that has no field ids.

    The catalog numbers the nodes of a name mapping in pre-order, from 0.
    """

    source_name: str
    target_field_id: int
    is_partition: bool = False
    """The value is in the path of the file."""
    children: tuple[MappedColumn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A data file that was written and is not yet part of the lake."""

    path: str
    """Relative to the directory of the table, or absolute."""
    path_is_relative: bool = True
    record_count: int
    file_size_bytes: int
    footer_size: int
    columns: tuple[WrittenColumn, ...]
    partition_id: int | None = None
    partition_values: tuple[str | None, ...] = ()
    encryption_key: str | None = field(default=None, repr=False)
    """In base64; None if the file is not encrypted."""
    carries_row_ids: bool = False
    """The rows have their ids in a column of their own: updated rows, or rows that were moved."""
    name_mapping: tuple[MappedColumn, ...] | None = None
    """The columns of an added file by name; None for a file with field ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenDeleteFile:
    """A file with all deleted positions of a data file; it replaces the one that applied before."""

    data_file_id: int
    replaces: int | None
    """The id of the delete file from which this one was built; None if the file had none."""
    path: str
    path_is_relative: bool = True
    format: str = "parquet"
    delete_count: int
    file_size_bytes: int
    footer_size: int
    encryption_key: str | None = field(default=None, repr=False)
    begin_snapshot: int | None = None
    """The smallest snapshot in the file; None for the snapshot of the commit."""
    embedded_snapshot: int | None = None
    """The id of this commit that the file contains; None if it contains no snapshot ids."""
    last_snapshot: int | None = None
    """The largest snapshot in a file whose positions were all deleted by earlier commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InlinedRowInserts:
    """Rows for the catalog database, in the table's column order and Arrow types."""

    rows: pa.Table
    row_ids: pa.Int64Array | None = None
    """The ids of updated rows; None for new rows, whose ids the commit assigns."""
    columns: tuple[WrittenColumn, ...] = ()
    """The statistics of the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InlinedDeletes:
    """Deleted positions of a data file that the catalog database holds."""

    data_file_id: int
    positions: pa.Int64Array


@dataclass(frozen=True, slots=True, kw_only=True)
class InlinedRowDeletes:
    """Deleted rows of an inlined table, by their row ids."""

    inlined_table: str
    row_ids: pa.Int64Array


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedFile:
    """A data file with rows that the lake had before, in other files or in the database."""

    file: WrittenFile
    begin_snapshot: int | None = None
    """The smallest snapshot of its rows; None for the snapshot of the commit."""
    partial_max: int | None = None
    """The largest snapshot of its rows; None if the file has no column of snapshots."""
    row_id_start: int | None = None
    """The id of the first row; None if all ids are in a column of the file."""
    deletes: WrittenDeleteFile | None = None
    """Rows of the file that are deleted already."""
