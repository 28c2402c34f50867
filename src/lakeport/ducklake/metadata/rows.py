"""The `ducklake_*` tables, each described once: a frozen dataclass is a table, a field is a column.

Fields have the names and the order of the columns in DuckLake 1.0. Their types are the columns'
types, with `| None` where a valid catalog has NULL or an older format lacks the column. Times and
UUIDs are text. `from_values` makes an instance from a row of the database, and `to_values` returns
the values of an instance in the order of the columns.

The databases do not enforce these types. `soundness` and `table_state` check the values that a
damaged catalog may lack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, ClassVar, Final, Protocol, TypeVar, get_args, get_type_hints

__all__ = [
    "CATALOG_ROWS", "CatalogRow", "ColumnMappingRow", "ColumnRow", "ColumnTagRow", "DataFileRow",
    "DeleteFileRow", "FileColumnStatsRow", "FilePartitionValueRow", "InlinedDataTableRow",
    "MetadataRow", "NameMappingRow", "PartitionColumnRow", "PartitionInfoRow", "QueryRow",
    "SchemaRow", "SchemaVersionRow", "SnapshotChangesRow", "SnapshotRow", "SortExpressionRow",
    "SortInfoRow", "TableColumnStatsRow", "TableRow", "TableStatsRow", "TagRow", "VersionedRow",
    "ViewColumnTagRow", "ViewRow", "column_types", "from_values", "table_name", "to_values",
]  # fmt: skip


class QueryRow:
    """A row of one branch of a query. Subclasses are frozen dataclasses."""

    __slots__ = ()
    branch: ClassVar[str]


class CatalogRow(QueryRow):
    """A row of a catalog table; `branch` is the table's name without `ducklake_`."""

    __slots__ = ()


R = TypeVar("R", bound=QueryRow)


class VersionedRow(Protocol):
    """A row that is valid from a snapshot until another, or until now."""

    @property
    def begin_snapshot(self) -> int:
        """The first snapshot at which the row is valid."""

    @property
    def end_snapshot(self) -> int | None:
        """The first snapshot at which the row is no longer valid; None while it is valid."""


def table_name(row: type[CatalogRow]) -> str:
    """Return the name of a catalog table in the database."""
    return f"ducklake_{row.branch}"


def column_types(row: type[QueryRow]) -> Mapping[str, type]:
    """Return the columns of a table in their order, with their types: int, bool or str."""
    return _description(row)[0]


def from_values(row: type[R], values: Sequence[Any]) -> R:
    """Make an instance from the values of a database row; truth values may be 0 and 1."""
    _, flags = _description(row)
    if not flags:
        return row(*values)
    converted = list(values)
    for position in flags:
        if converted[position] is not None:
            converted[position] = bool(converted[position])
    return row(*converted)


def to_values(row: QueryRow) -> tuple[Any, ...]:
    """Return the values of an instance in the order of the columns."""
    return tuple(getattr(row, name) for name in column_types(type(row)))


_DESCRIPTIONS: dict[type, tuple[Mapping[str, type], tuple[int, ...]]] = {}


def _description(row: type[Any]) -> tuple[Mapping[str, type], tuple[int, ...]]:
    """Return the types of the columns, and the positions of the truth values."""
    description = _DESCRIPTIONS.get(row)
    if description is None:
        hints = get_type_hints(row)
        types = {field.name: _without_none(hints[field.name]) for field in fields(row)}
        flags = tuple(i for i, type in enumerate(types.values()) if type is bool)
        description = _DESCRIPTIONS[row] = (MappingProxyType(types), flags)
    return description


def _without_none(hint: Any) -> type:
    types: list[type] = [type for type in get_args(hint) if type is not None.__class__] or [hint]
    return types[0]


@dataclass(frozen=True, slots=True)
class MetadataRow(CatalogRow):
    """An option of the lake, or of a schema or table of it."""

    branch = "metadata"
    key: str
    value: str
    scope: str | None
    scope_id: int | None


@dataclass(frozen=True, slots=True)
class SnapshotRow(CatalogRow):
    """A committed version of the lake."""

    branch = "snapshot"
    snapshot_id: int
    snapshot_time: str
    schema_version: int
    next_catalog_id: int
    next_file_id: int


@dataclass(frozen=True, slots=True)
class SnapshotChangesRow(CatalogRow):
    """The changes of a snapshot, and the message of its commit."""

    branch = "snapshot_changes"
    snapshot_id: int
    changes_made: str | None
    author: str | None
    commit_message: str | None
    commit_extra_info: str | None


@dataclass(frozen=True, slots=True)
class SchemaVersionRow(CatalogRow):
    """The first snapshot of a schema version of a table."""

    branch = "schema_versions"
    begin_snapshot: int
    schema_version: int
    table_id: int | None


@dataclass(frozen=True, slots=True)
class SchemaRow(CatalogRow):
    """A schema."""

    branch = "schema"
    schema_id: int
    schema_uuid: str | None
    begin_snapshot: int
    end_snapshot: int | None
    schema_name: str
    path: str | None
    path_is_relative: bool | None


@dataclass(frozen=True, slots=True)
class TableRow(CatalogRow):
    """A table under one name."""

    branch = "table"
    table_id: int
    table_uuid: str | None
    begin_snapshot: int
    end_snapshot: int | None
    schema_id: int
    table_name: str
    path: str | None
    path_is_relative: bool | None


@dataclass(frozen=True, slots=True)
class ViewRow(CatalogRow):
    """A view."""

    branch = "view"
    view_id: int
    view_uuid: str | None
    begin_snapshot: int
    end_snapshot: int | None
    schema_id: int
    view_name: str
    dialect: str | None
    sql: str
    column_aliases: str | None


@dataclass(frozen=True, slots=True)
class ColumnRow(CatalogRow):
    """One version of a column of a table, or of a field inside a column."""

    branch = "column"
    column_id: int
    begin_snapshot: int
    end_snapshot: int | None
    table_id: int
    column_order: int | None
    column_name: str
    column_type: str
    initial_default: str | None
    default_value: str | None
    nulls_allowed: bool | None
    parent_column: int | None
    default_value_type: str | None
    default_value_dialect: str | None


@dataclass(frozen=True, slots=True)
class TagRow(CatalogRow):
    """A tag of a schema, table or view."""

    branch = "tag"
    object_id: int
    begin_snapshot: int
    end_snapshot: int | None
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ColumnTagRow(CatalogRow):
    """A tag of a column."""

    branch = "column_tag"
    table_id: int
    column_id: int
    begin_snapshot: int
    end_snapshot: int | None
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ViewColumnTagRow(CatalogRow):
    """A tag of a column of a view. DuckLake 1.1 writes it."""

    branch = "view_column_tag"
    view_id: int
    column_name: str
    begin_snapshot: int
    end_snapshot: int | None
    key: str
    value: str | None


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
class PartitionInfoRow(CatalogRow):
    """A partition spec of a table."""

    branch = "partition_info"
    partition_id: int
    table_id: int
    begin_snapshot: int
    end_snapshot: int | None


@dataclass(frozen=True, slots=True)
class PartitionColumnRow(CatalogRow):
    """A key of a partition spec. In format 0.1 `column_id` is the position of the column."""

    branch = "partition_column"
    partition_id: int
    table_id: int
    partition_key_index: int
    column_id: int
    transform: str


@dataclass(frozen=True, slots=True)
class SortInfoRow(CatalogRow):
    """A sort order of a table."""

    branch = "sort_info"
    sort_id: int
    table_id: int
    begin_snapshot: int
    end_snapshot: int | None


@dataclass(frozen=True, slots=True)
class SortExpressionRow(CatalogRow):
    """A key of a sort order."""

    branch = "sort_expression"
    sort_id: int
    table_id: int
    sort_key_index: int
    expression: str
    dialect: str
    sort_direction: str
    null_order: str


@dataclass(frozen=True, slots=True)
class InlinedDataTableRow(CatalogRow):
    """A table of the catalog database that holds inlined rows of a schema version of a table."""

    branch = "inlined_data_tables"
    table_id: int
    table_name: str
    schema_version: int


CATALOG_ROWS: Final[tuple[type[CatalogRow], ...]] = (
    MetadataRow, SnapshotRow, SnapshotChangesRow, SchemaVersionRow, SchemaRow, TableRow, ViewRow,
    ColumnRow, TagRow, ColumnTagRow, ViewColumnTagRow, DataFileRow, DeleteFileRow,
    FileColumnStatsRow, FilePartitionValueRow, TableStatsRow, TableColumnStatsRow,
    ColumnMappingRow, NameMappingRow, PartitionInfoRow, PartitionColumnRow, SortInfoRow,
    SortExpressionRow, InlinedDataTableRow,
)  # fmt: skip
