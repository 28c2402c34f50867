"""The objects of a lake as immutable values. This module uses no database, no files, no Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from lakeport.types import Column, duckdb_identifier

__all__ = [
    "ColumnLife",
    "ColumnStats",
    "DataFile",
    "DeleteFile",
    "InlinedTable",
    "NameMapping",
    "PartitionField",
    "PartitionSpec",
    "RecordedFile",
    "Schema",
    "Snapshot",
    "SortField",
    "TableState",
    "TableStats",
    "View",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One committed version of a lake."""

    id: int
    time: datetime
    schema_version: int
    changes: str = ""
    author: str | None = None
    commit_message: str | None = None
    commit_extra_info: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A schema of the lake at a snapshot."""

    id: int
    name: str
    uuid: str
    comment: str | None = None
    tags: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ColumnLife:
    """The snapshots at which a table had a column at its top level."""

    id: int
    begin_snapshot: int
    end_snapshot: int | None


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One key of a partition spec: a column and a transform such as `year` or `bucket(4)`."""

    column_id: int
    transform: str


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """How rows are divided into files. A spec without fields ends the partitioning of a table."""

    id: int
    fields: tuple[PartitionField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SortField:
    """One key of a sort order."""

    expression: str
    dialect: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStats:
    """Bounds of one column in one file, or in the whole table, as DuckLake's text."""

    min_value: str | None
    max_value: str | None
    value_count: int | None = None
    null_count: int | None = None
    contains_nan: bool | None = None
    contains_null: bool | None = None
    extra: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStats:
    """Totals of a table as its writers record them; deleted rows are not subtracted."""

    record_count: int
    next_row_id: int
    file_size_bytes: int
    columns: Mapping[int, ColumnStats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NameMapping:
    """The name of one column or nested field in an added file that has no field ids."""

    source_name: str
    is_partition: bool
    children: Mapping[int, NameMapping] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class InlinedTable:
    """A table of the catalog database that holds inlined rows of a lake's table."""

    name: str
    schema_version: int
    columns: tuple[Column, ...]
    """The table's columns at that schema version, in the order of the inlined table."""
    physical: tuple[tuple[str, str], ...]
    """Names and database types of its columns: row id, begin and end snapshot, then the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFile:
    """The catalog's record of a Parquet file; None where it records nothing."""

    path: str
    encryption_key: str | None = field(default=None, repr=False)
    rows: int | None = None
    bytes: int | None = None
    footer_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """Positions of one data file that are deleted."""

    id: int
    path: str
    format: str
    delete_count: int | None
    file_size_bytes: int | None
    footer_size: int | None
    begin_snapshot: int
    end_snapshot: int | None = None
    encryption_key: str | None = field(default=None, repr=False)
    partial_max: int | None = None

    @property
    def recorded(self) -> RecordedFile:
        """The properties that the file must have. A recorded 0 stands for an unknown number."""
        return RecordedFile(
            path=self.path,
            encryption_key=self.encryption_key,
            rows=self.delete_count or None,
            bytes=self.file_size_bytes or None,
            footer_bytes=self.footer_size or None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A Parquet file of a table, with the deletes that apply to it at the snapshot."""

    id: int
    path: str
    record_count: int | None
    file_size_bytes: int | None
    footer_size: int | None
    begin_snapshot: int
    end_snapshot: int | None = None
    row_id_start: int | None = None
    partition_id: int | None = None
    partition_values: tuple[str | None, ...] = ()
    mapping_id: int | None = None
    encryption_key: str | None = field(default=None, repr=False)
    partial_max: int | None = None
    partial_rows: tuple[tuple[int, int], ...] = ()
    """Format 0.3: (snapshot, rows up to and including it), for files that mix snapshots."""
    deletes: tuple[DeleteFile, ...] = ()
    without_nan: frozenset[int] = frozenset()
    """Columns of the filter that have no NaN in the file, by the catalog's statistics."""

    @property
    def recorded(self) -> RecordedFile:
        """The properties that the file must have. A size of 0 stands for an unknown size."""
        return RecordedFile(
            path=self.path,
            encryption_key=self.encryption_key,
            rows=self.record_count,
            bytes=self.file_size_bytes or None,
            footer_bytes=self.footer_size,
        )


@dataclass(frozen=True, slots=True)
class MacroDefinition:
    """One of the definitions of a macro, which differ in their parameters."""

    sql: str
    """An expression, or the query of a table macro."""
    is_table: bool
    parameters: tuple[tuple[str, str | None], ...] = ()
    """The names of the parameters, with their default values as SQL."""


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro, which views of the lake may use."""

    schema: str
    name: str
    definitions: tuple[MacroDefinition, ...]

    def create(self, catalog: str) -> str:
        """Return the statement that creates the macro in a catalog."""
        path = ".".join(map(duckdb_identifier, (catalog, self.schema, self.name)))
        definitions = ", ".join(map(_definition, self.definitions))
        definitions = definitions.replace("{DUCKLAKE_CATALOG}", duckdb_identifier(catalog))
        return f"CREATE OR REPLACE MACRO {path}{definitions}"


def _definition(definition: MacroDefinition) -> str:
    parameters = ", ".join(
        duckdb_identifier(name) if default is None else f"{duckdb_identifier(name)} := {default}"
        for name, default in definition.parameters
    )
    return f"({parameters}) AS {'TABLE ' if definition.is_table else ''}{definition.sql}"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view: its SELECT in DuckDB's dialect."""

    id: int
    schema: str
    name: str
    uuid: str
    dialect: str
    sql: str
    """The stored text; `{DUCKLAKE_CATALOG}` stands for the name the lake is attached under."""
    column_aliases: tuple[str, ...] = ()
    comment: str | None = None
    column_comments: Mapping[str, str] = field(default_factory=dict)
    """By the names that the SELECT gives its columns, before `column_aliases` rename them."""
    tags: Mapping[str, str | None] = field(default_factory=dict)
    macros: tuple[Macro, ...] = field(default=(), repr=False)
    """The macros of the lake, some of which the view may use."""

    def select(self, catalog: str) -> str:
        """Return the view's SELECT with the lake's name filled in."""
        return self.sql.replace("{DUCKLAKE_CATALOG}", duckdb_identifier(catalog))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """Everything in the catalog about one table at one snapshot, except its files."""

    id: int
    uuid: str
    schema: str
    name: str
    path: str
    """The table's directory, resolved."""
    columns: tuple[Column, ...]
    comment: str | None
    tags: Mapping[str, str | None]
    partition_specs: Mapping[int, PartitionSpec]
    partition_spec: PartitionSpec | None
    sort_order: tuple[SortField, ...]
    stats: TableStats | None
    inlined_tables: tuple[InlinedTable, ...]
    inlined_delete_table: str | None
    mappings: Mapping[int, Mapping[int, NameMapping]]
    columns_with_older_types: frozenset[int]
    """Columns that had another type in the past: old statistics are in the old type's text."""
    lives: tuple[ColumnLife, ...] = ()
    """The top-level columns of all snapshots, in their order."""

    def name_mapping_of(self, file: DataFile) -> dict[int, NameMapping] | None:
        """Return the names of the columns in an added file; None for a file with field ids."""
        return None if file.mapping_id is None else dict(self.mappings.get(file.mapping_id, {}))
