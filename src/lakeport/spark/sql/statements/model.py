"""Statements as values: what the parsers return and what is run.

Conditions and expressions are text in DuckDB's SQL; queries are text in Spark's SQL, except those
of views.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = [
    "AddColumn",
    "Alteration",
    "Assignment",
    "Change",
    "ColumnText",
    "CommentOn",
    "CommentOnColumn",
    "CreateSchema",
    "CreateTable",
    "CreateView",
    "Delete",
    "Drop",
    "DropColumn",
    "Insert",
    "Merge",
    "MergeClause",
    "ObjectName",
    "Query",
    "RenameColumn",
    "RenameTo",
    "SetDefault",
    "SetKeys",
    "SetNullable",
    "SetProperties",
    "SetType",
    "Statement",
    "Truncate",
    "Update",
    "Values",
    "With",
]


@dataclass(frozen=True, slots=True)
class ObjectName:
    """The name of a table or view, with its schema."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class Query:
    """A query that Spark runs."""

    text: str


@dataclass(frozen=True, slots=True)
class Values:
    """Rows of expressions; an expression may be DEFAULT."""

    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """INSERT INTO, INSERT OVERWRITE and INSERT INTO … REPLACE WHERE."""

    table: ObjectName
    source: Query | Values
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    overwrite: bool = False
    where: str | None = None
    """The condition of the rows that are replaced."""
    partition: tuple[tuple[str, str | None], ...] = ()
    """The columns of PARTITION: with the value of all rows, or None."""


Assignment: TypeAlias = tuple[tuple[str, ...], str]
"""The name of a column, which may be qualified by its table, and an expression.

Without a name, the expression is of the column at the same place in the table.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """UPDATE of one table."""

    table: ObjectName
    alias: str | None
    assignments: tuple[Assignment, ...]
    where: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """DELETE from one table."""

    table: ObjectName
    alias: str | None
    where: str | None


@dataclass(frozen=True, slots=True)
class Truncate:
    """Delete all rows of a table."""

    table: ObjectName


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """One WHEN of a MERGE."""

    rows: Literal["matched", "not_matched", "not_matched_by_source"]
    condition: str | None
    values: tuple[Assignment, ...] | Literal["*"] | None
    """Columns and their expressions, `*` for all columns of the source, None for DELETE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """MERGE of a query into a table; also UPDATE with FROM, and DELETE with USING."""

    table: ObjectName
    alias: str | None
    source: Query
    source_name: tuple[str, ...]
    """How expressions name the source: its alias, or the name of the table."""
    on: str
    """The condition; empty if `using` has columns."""
    using: tuple[str, ...]
    clauses: tuple[MergeClause, ...]
    merge_schema: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnText:
    """The definition of a column."""

    path: tuple[str, ...]
    type: str
    default: str | None = None
    nullable: bool = True
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSchema:
    """CREATE SCHEMA."""

    name: str
    if_not_exists: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """CREATE TABLE, with columns, LIKE another table, or AS a query."""

    table: ObjectName
    columns: tuple[ColumnText, ...] = ()
    like: ObjectName | None = None
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    comment: str | None = None
    query: Query | None = None
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView:
    """CREATE VIEW, or ALTER VIEW … AS; the query is DuckDB's SQL."""

    view: ObjectName
    columns: tuple[str, ...]
    query: str
    comment: str | None
    or_replace: bool
    if_not_exists: bool
    must_exist: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """DROP of a schema, table or view."""

    kind: Literal["SCHEMA", "TABLE", "VIEW"]
    name: ObjectName
    if_exists: bool
    cascade: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentOn:
    """COMMENT ON a table, view or column."""

    kind: Literal["TABLE", "VIEW", "COLUMN"]
    name: ObjectName
    column: tuple[str, ...]
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """ADD COLUMN."""

    column: ColumnText
    if_not_exists: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DropColumn:
    """DROP COLUMN."""

    path: tuple[str, ...]
    if_exists: bool


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """RENAME COLUMN."""

    path: tuple[str, ...]
    new_name: str


@dataclass(frozen=True, slots=True)
class RenameTo:
    """RENAME of a table or view."""

    new_name: str


@dataclass(frozen=True, slots=True)
class SetType:
    """ALTER COLUMN … TYPE."""

    path: tuple[str, ...]
    type: str


@dataclass(frozen=True, slots=True)
class SetDefault:
    """ALTER COLUMN … SET DEFAULT or DROP DEFAULT."""

    path: tuple[str, ...]
    default: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetNullable:
    """ALTER COLUMN … SET NOT NULL or DROP NOT NULL."""

    path: tuple[str, ...]
    nullable: bool


@dataclass(frozen=True, slots=True)
class CommentOnColumn:
    """ALTER COLUMN … COMMENT."""

    path: tuple[str, ...]
    comment: str


@dataclass(frozen=True, slots=True)
class SetKeys:
    """SET PARTITIONED BY, SET SORTED BY; without keys RESET."""

    kind: Literal["PARTITIONED", "SORTED"]
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetProperties:
    """SET TBLPROPERTIES: options of the table and their values."""

    values: tuple[tuple[str, str], ...]


Change: TypeAlias = (
    AddColumn
    | DropColumn
    | RenameColumn
    | RenameTo
    | SetType
    | SetDefault
    | SetNullable
    | CommentOnColumn
    | SetKeys
    | SetProperties
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """ALTER TABLE or ALTER VIEW, with one or more changes."""

    kind: Literal["TABLE", "VIEW"]
    name: ObjectName
    changes: tuple[Change, ...]
    if_exists: bool


Statement: TypeAlias = (
    Insert
    | Update
    | Delete
    | Truncate
    | Merge
    | CreateSchema
    | CreateTable
    | CreateView
    | Drop
    | CommentOn
    | Alteration
)


@dataclass(frozen=True, slots=True)
class With:
    """A statement after WITH, whose queries may name those of the WITH."""

    ctes: str
    """WITH and its queries."""
    statement: Statement
