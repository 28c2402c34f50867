"""Rows about the contents of tables: files, statistics, name mappings, inlined tables."""

from __future__ import annotations

from dataclasses import dataclass

from lakeport.ducklake.metadata.rows.description import CatalogRow

__all__ = [
    "ColumnMappingRow",
    "DataFileRow",
    "DeleteFileRow",
    "FileColumnStatsRow",
    "FilePartitionValueRow",
    "FileVariantStatsRow",
    "InlinedDataTableRow",
    "NameMappingRow",
    "ScheduledFileRow",
    "TableColumnStatsRow",
    "TableStatsRow",
]


@dataclass(frozen=True, slots=True)
class DataFileRow(CatalogRow):
    """A data file of a table."""

    branch = "data_file"
    data_file_id: int
    table_id: int
    begin_snapshot: int
    end_snapshot: int | None
    file_order: int | None
    path: str
    path_is_relative: bool | None
    file_format: str | None
    record_count: int | None
    file_size_bytes: int | None
    footer_size: int | None
    row_id_start: int | None
    partition_id: int | None
    encryption_key: str | None
    mapping_id: int | None
    partial_max: int | None


@dataclass(frozen=True, slots=True)
class DeleteFileRow(CatalogRow):
    """A file with deleted positions of a data file."""

    branch = "delete_file"
    delete_file_id: int
    table_id: int
    begin_snapshot: int
    end_snapshot: int | None
    data_file_id: int
    path: str
    path_is_relative: bool | None
    format: str | None
    delete_count: int | None
    file_size_bytes: int | None
    footer_size: int | None
    encryption_key: str | None
    partial_max: int | None


@dataclass(frozen=True, slots=True)
class FileColumnStatsRow(CatalogRow):
    """The statistics of a column in a data file."""

    branch = "file_column_stats"
    data_file_id: int
    table_id: int
    column_id: int
    column_size_bytes: int | None
    value_count: int | None
    null_count: int | None
    min_value: str | None
    max_value: str | None
    contains_nan: bool | None
    extra_stats: str | None


@dataclass(frozen=True, slots=True)
class FileVariantStatsRow(CatalogRow):
    """The statistics of a shredded path of a variant column in a data file."""

    branch = "file_variant_stats"
    data_file_id: int
    table_id: int
    column_id: int
    variant_path: str
    shredded_type: str
    column_size_bytes: int | None
    value_count: int | None
    null_count: int | None
    min_value: str | None
    max_value: str | None
    contains_nan: bool | None
    extra_stats: str | None


@dataclass(frozen=True, slots=True)
class FilePartitionValueRow(CatalogRow):
    """The value of a partition key in a data file."""

    branch = "file_partition_value"
    data_file_id: int
    table_id: int
    partition_key_index: int
    partition_value: str | None


@dataclass(frozen=True, slots=True)
class TableStatsRow(CatalogRow):
    """The totals of a table; deleted rows are not subtracted."""

    branch = "table_stats"
    table_id: int
    record_count: int | None
    next_row_id: int | None
    file_size_bytes: int | None


@dataclass(frozen=True, slots=True)
class TableColumnStatsRow(CatalogRow):
    """The statistics of a column in all files of a table."""

    branch = "table_column_stats"
    table_id: int
    column_id: int
    contains_null: bool | None
    contains_nan: bool | None
    min_value: str | None
    max_value: str | None
    extra_stats: str | None


@dataclass(frozen=True, slots=True)
class ColumnMappingRow(CatalogRow):
    """A mapping of names in added files to the columns of a table."""

    branch = "column_mapping"
    mapping_id: int
    table_id: int
    type: str


@dataclass(frozen=True, slots=True)
class NameMappingRow(CatalogRow):
    """One name of a mapping."""

    branch = "name_mapping"
    mapping_id: int
    column_id: int
    source_name: str
    target_field_id: int
    parent_column: int | None
    is_partition: bool | None


@dataclass(frozen=True, slots=True)
class InlinedDataTableRow(CatalogRow):
    """A table of the catalog database that holds inlined rows of a schema version of a table."""

    branch = "inlined_data_tables"
    table_id: int
    table_name: str
    schema_version: int


@dataclass(frozen=True, slots=True)
class ScheduledFileRow(CatalogRow):
    """A file that no snapshot needs; its path is relative to the lake's data path."""

    branch = "files_scheduled_for_deletion"
    data_file_id: int
    path: str
    path_is_relative: bool | None
    schedule_start: str
