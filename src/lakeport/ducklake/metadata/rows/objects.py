"""Rows about the lake itself: snapshots, schemas, tables, columns, views, macros, tags, specs."""

from __future__ import annotations

from dataclasses import dataclass

from lakeport.ducklake.metadata.rows.description import CatalogRow

__all__ = [
    "ColumnRow",
    "ColumnTagRow",
    "MacroImplRow",
    "MacroParameterRow",
    "MacroRow",
    "MetadataRow",
    "PartitionColumnRow",
    "PartitionInfoRow",
    "SchemaRow",
    "SchemaVersionRow",
    "SnapshotChangesRow",
    "SnapshotRow",
    "SortExpressionRow",
    "SortInfoRow",
    "TableRow",
    "TagRow",
    "ViewColumnTagRow",
    "ViewRow",
]


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
class MacroRow(CatalogRow):
    """A macro."""

    branch = "macro"
    schema_id: int
    macro_id: int
    macro_name: str
    begin_snapshot: int
    end_snapshot: int | None


@dataclass(frozen=True, slots=True)
class MacroImplRow(CatalogRow):
    """One of the definitions of a macro, which differ in their parameters."""

    branch = "macro_impl"
    macro_id: int
    impl_id: int
    dialect: str
    sql: str
    type: str


@dataclass(frozen=True, slots=True)
class MacroParameterRow(CatalogRow):
    """A parameter of a definition of a macro."""

    branch = "macro_parameters"
    macro_id: int
    impl_id: int
    column_id: int
    parameter_name: str
    parameter_type: str
    default_value: str
    default_value_type: str
