"""Definitions of schemas, tables, views and macros, as a transaction changes them.

The columns of a table are the rows of the catalog, one for each node of the column tree. Rows that
the transaction has added begin at no snapshot yet (`UNCOMMITTED`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from lakeport.ducklake.metadata.queries import QueryResult
from lakeport.ducklake.metadata.rows import (
    ColumnRow,
    ColumnTagRow,
    PartitionColumnRow,
    PartitionInfoRow,
    SchemaRow,
    SortExpressionRow,
    SortInfoRow,
    TableRow,
    TagRow,
)
from lakeport.ducklake.metadata.table_state import column_tree, visible
from lakeport.types import Column

__all__ = [
    "UNCOMMITTED",
    "MacroDefinition",
    "MacroImplementation",
    "MacroParameter",
    "PartitionKey",
    "SchemaDefinition",
    "SortKey",
    "TableDefinition",
    "ViewDefinition",
    "same_column",
    "table_definition",
]

UNCOMMITTED: Final = 0
"""The begin of rows that the transaction adds; every snapshot sees them while it is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDefinition:
    """A schema."""

    id: int
    uuid: str
    name: str
    path: str
    path_is_relative: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionKey:
    """One key of a partition spec."""

    column_id: int
    transform: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SortKey:
    """One key of a sort order."""

    expression: str
    direction: str = "ASC"
    null_order: str = "NULLS_LAST"
    dialect: str = "duckdb"


@dataclass(frozen=True, kw_only=True)
class TableDefinition:
    """Everything about a table that DDL statements change."""

    id: int
    uuid: str
    schema: SchemaDefinition
    name: str
    path: str
    path_is_relative: bool = True
    begin_snapshot: int = UNCOMMITTED
    columns: tuple[ColumnRow, ...]
    """One row for each node of the column tree, in the order of their ids."""
    next_column_id: int
    partition_id: int | None = None
    partition_keys: tuple[PartitionKey, ...] = ()
    sort_id: int | None = None
    sort_keys: tuple[SortKey, ...] = ()
    tags: Mapping[str, str | None] = field(default_factory=dict)
    column_tags: Mapping[int, Mapping[str, str | None]] = field(default_factory=dict)

    @cached_property
    def tree(self) -> tuple[Column, ...]:
        """The columns as a tree."""
        now = max((row.begin_snapshot for row in self.columns), default=0)
        comments = {id: tags.get("comment") for id, tags in self.column_tags.items()}
        return column_tree(self.columns, now, comments)

    def column(self, column_id: int) -> ColumnRow:
        """Return the row of a column by its id."""
        return next(row for row in self.columns if row.column_id == column_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewDefinition:
    """A view."""

    id: int
    uuid: str
    schema: SchemaDefinition
    name: str
    sql: str
    dialect: str = "duckdb"
    column_aliases: str = ""
    tags: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MacroParameter:
    """A parameter of a macro."""

    name: str
    type: str = "unknown"
    default: str = "NULL"
    default_type: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class MacroImplementation:
    """One definition of a macro."""

    sql: str
    parameters: tuple[MacroParameter, ...] = ()
    dialect: str = "duckdb"


@dataclass(frozen=True, slots=True, kw_only=True)
class MacroDefinition:
    """A macro, which returns a value (`scalar`) or rows (`table`)."""

    id: int
    schema: SchemaDefinition
    name: str
    type: str
    implementations: tuple[MacroImplementation, ...] = ()


def same_column(left: ColumnRow, right: ColumnRow) -> bool:
    """Return whether two rows define the same column, whenever they began."""
    return replace(left, begin_snapshot=0, end_snapshot=None) == replace(
        right, begin_snapshot=0, end_snapshot=None
    )


def schema_definition(row: SchemaRow) -> SchemaDefinition:
    """Return the definition of a schema from its row."""
    return SchemaDefinition(
        id=row.schema_id,
        uuid=row.schema_uuid or "",
        name=row.schema_name,
        path=row.path or "",
        path_is_relative=row.path_is_relative is not False,
    )


def table_definition(
    rows: QueryResult, table: TableRow, schema: SchemaRow, snapshot: int
) -> TableDefinition:
    """Return the definition of a table at a snapshot, from the rows of its lookup."""
    columns = _newest(row for row in rows[ColumnRow] if visible(row, snapshot))
    partition = max(
        (row.partition_id for row in rows[PartitionInfoRow] if visible(row, snapshot)),
        default=None,
    )
    sort = max((r.sort_id for r in rows[SortInfoRow] if visible(r, snapshot)), default=None)
    partition_columns = [r for r in rows[PartitionColumnRow] if r.partition_id == partition]
    sort_expressions = [r for r in rows[SortExpressionRow] if r.sort_id == sort]
    column_tags: dict[int, dict[str, str | None]] = {}
    for tag in rows[ColumnTagRow]:
        if visible(tag, snapshot):
            column_tags.setdefault(tag.column_id, {})[tag.key] = tag.value
    return TableDefinition(
        id=table.table_id,
        uuid=table.table_uuid or "",
        schema=schema_definition(schema),
        name=table.table_name,
        path=table.path or "",
        path_is_relative=table.path_is_relative is not False,
        begin_snapshot=table.begin_snapshot,
        columns=columns,
        next_column_id=max((row.column_id for row in rows[ColumnRow]), default=0) + 1,
        partition_id=partition,
        partition_keys=tuple(
            PartitionKey(column_id=row.column_id, transform=row.transform)
            for row in sorted(partition_columns, key=lambda row: row.partition_key_index)
        ),
        sort_id=sort,
        sort_keys=tuple(
            SortKey(
                expression=row.expression,
                direction=row.sort_direction,
                null_order=row.null_order,
                dialect=row.dialect,
            )
            for row in sorted(sort_expressions, key=lambda row: row.sort_key_index)
        ),
        tags={tag.key: tag.value for tag in rows[TagRow] if visible(tag, snapshot)},
        column_tags=column_tags,
    )


def _newest(rows: Iterable[ColumnRow]) -> tuple[ColumnRow, ...]:
    found: dict[int, ColumnRow] = {}
    for row in rows:
        other = found.get(row.column_id)
        if other is None or other.begin_snapshot < row.begin_snapshot:
            found[row.column_id] = row
    return tuple(found[id] for id in sorted(found))
