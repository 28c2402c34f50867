"""Changes of the catalog database as values: the rows of a commit are computed before it begins.

`CatalogWriter` runs them. Every statement names its columns, because the columns of a migrated
catalog have another order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from lakeport.ducklake.metadata.rows import CatalogRow
from lakeport.types import Column

__all__ = [
    "CreateInlinedDeleteTable",
    "CreateInlinedTable",
    "Delete",
    "DeleteDeadInlinedRows",
    "DeleteInlinedDeletes",
    "DeleteInlinedRows",
    "DropTable",
    "EndInlinedRows",
    "EndRows",
    "Insert",
    "InsertInlinedDeletes",
    "InsertInlinedRows",
    "Statement",
    "Update",
]


@dataclass(frozen=True, slots=True)
class Insert:
    """Insert rows of one catalog table."""

    rows: tuple[CatalogRow, ...]


@dataclass(frozen=True, slots=True)
class EndRows:
    """Set `end_snapshot` of rows that are valid now and have one of the keys."""

    table: type[CatalogRow]
    columns: tuple[str, ...]
    keys: tuple[tuple[Any, ...], ...]
    snapshot: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete rows that have one of the keys."""

    table: type[CatalogRow]
    columns: tuple[str, ...]
    keys: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class Update:
    """Set columns of the rows with a key."""

    table: type[CatalogRow]
    values: Mapping[str, Any]
    where: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CreateInlinedTable:
    """Create the table for inlined rows of one schema version of a table."""

    name: str
    columns: tuple[Column, ...]
    has_prefix: bool = False
    """The names of its own columns begin with `_ducklake_`, as in format 1.1."""


@dataclass(frozen=True, slots=True)
class InsertInlinedRows:
    """Insert rows into a table for inlined rows."""

    table: str
    columns: tuple[Column, ...]
    row_ids: pa.Int64Array
    snapshot: int
    rows: pa.Table = field(repr=False)


@dataclass(frozen=True, slots=True)
class EndInlinedRows:
    """Set the end of inlined rows that are valid now, by their row ids."""

    table: str
    row_ids: pa.Int64Array
    snapshot: int


@dataclass(frozen=True, slots=True)
class CreateInlinedDeleteTable:
    """Create the table for the inlined deletes of a table, if it does not exist."""

    table_id: int


@dataclass(frozen=True, slots=True)
class InsertInlinedDeletes:
    """Insert deleted positions of data files."""

    table_id: int
    data_file_id: int
    positions: pa.Int64Array
    snapshot: int


@dataclass(frozen=True, slots=True)
class DeleteInlinedRows:
    """Delete the rows of a table for inlined rows that began up to a snapshot."""

    table: str
    snapshot: int


@dataclass(frozen=True, slots=True)
class DeleteInlinedDeletes:
    """Delete the inlined deletes of data files that were recorded up to a snapshot."""

    table_id: int
    data_files: tuple[int, ...]
    snapshot: int


@dataclass(frozen=True, slots=True)
class DeleteDeadInlinedRows:
    """Delete the rows of a table for inlined rows that no snapshot sees any more."""

    table: str


@dataclass(frozen=True, slots=True)
class DropTable:
    """Drop a table for inlined rows or deletes, if it exists."""

    name: str


Statement: TypeAlias = (
    Insert
    | EndRows
    | Delete
    | Update
    | CreateInlinedTable
    | InsertInlinedRows
    | EndInlinedRows
    | CreateInlinedDeleteTable
    | InsertInlinedDeletes
    | DeleteInlinedRows
    | DeleteInlinedDeletes
    | DeleteDeadInlinedRows
    | DropTable
)
