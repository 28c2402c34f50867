"""The state of a catalog at one point in time, as immutable values that share unchanged parts.

    CatalogState ─▶ SchemaState ─▶ TableState ─▶ TableVersion ─▶ Rows ─▶ Chunk

Every change makes a new `CatalogState`. A reader of an old state can continue to read it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

import pyarrow as pa

from lakeport.catalog import rowid_field, with_check_constraints
from lakeport.errors import NotFoundError
from lakeport.memory.rows import Rows
from lakeport.memory.statistics import BoundsAccumulator
from lakeport.types import fold_name

__all__ = [
    "CatalogState",
    "Definition",
    "RowIds",
    "SchemaState",
    "TableState",
    "TableVersion",
    "UniqueKey",
]


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """Columns whose values may not repeat."""

    columns: tuple[str, ...]
    is_primary: bool = False

    def __str__(self) -> str:
        kind = "PRIMARY KEY" if self.is_primary else "UNIQUE"
        return f"{kind} ({', '.join(self.columns)})"


@dataclass(frozen=True, slots=True)
class Definition:
    """The columns and constraints of a table."""

    columns: pa.Schema
    """All columns but the rowid, with nullability, comments and defaults."""
    unique: tuple[UniqueKey, ...] = ()
    checks: tuple[str, ...] = ()
    """SQL expressions that must not be false for any row."""

    def index(self, name: str) -> int | None:
        """Return the position of a column, or None."""
        folded = fold_name(name)
        for index, column in enumerate(self.columns.names):
            if fold_name(column) == folded:
                return index
        return None

    def require(self, name: str, table: str) -> int:
        """Return the position of a column; NotFoundError if there is none."""
        index = self.index(name)
        if index is None:
            raise NotFoundError(f"table {table} has no column {name!r}")
        return index

    def published(self) -> pa.Schema:
        """Return the schema that clients see: the columns, and the rowid last."""
        schema = pa.schema([*self.columns, rowid_field()])
        return with_check_constraints(schema, self.checks) if self.checks else schema


class RowIds:
    """Allocates row ids, each only once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0

    def allocate(self, count: int) -> int:
        """Allocate consecutive row ids and return the first of them."""
        with self._lock:
            first = self._next
            self._next += count
        return first


@dataclass(frozen=True, slots=True, eq=False)
class TableVersion:
    """The columns and rows of a table between two changes."""

    definition: Definition
    rows: Rows
    version: int | None = None
    """1 for the table as created; None before the commit."""
    committed: datetime | None = None
    """The time at which this became the current version, in UTC."""


@dataclass(frozen=True, slots=True, eq=False)
class TableState:
    """A table: its current version and the earlier ones that can still be read."""

    id: int
    schema: str
    name: str
    comment: str
    current: TableVersion
    versions: tuple[TableVersion, ...] = ()
    """The committed versions that are kept, oldest first."""
    rowids: RowIds = field(default_factory=RowIds)
    bounds: BoundsAccumulator = field(default_factory=BoundsAccumulator)
    """Statistics of all values ever written to the table."""

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    def changed(
        self, *, rows: Rows | None = None, definition: Definition | None = None
    ) -> TableState:
        """Return the table with other rows or columns, not committed yet."""
        version = TableVersion(
            definition=self.current.definition if definition is None else definition,
            rows=self.current.rows if rows is None else rows,
        )
        return replace(self, current=version)


@dataclass(frozen=True, slots=True, eq=False)
class SchemaState:
    """A schema and its tables, by folded name."""

    name: str
    comment: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, TableState] = field(default_factory=dict)

    def with_table(self, table: TableState) -> SchemaState:
        """Return the schema with a table, which replaces one of the same name."""
        return replace(self, tables={**self.tables, fold_name(table.name): table})

    def without_table(self, name: str) -> SchemaState:
        """Return the schema without the table of that name."""
        return replace(self, tables={k: t for k, t in self.tables.items() if k != fold_name(name)})


@dataclass(frozen=True, eq=False)
class CatalogState:
    """All schemas, by folded name."""

    ddl_version: int = 1
    """Grows with every change of a schema or of a table's columns, committed or not."""
    schemas: Mapping[str, SchemaState] = field(default_factory=dict)
    ddl_versions: Iterator[int] = field(default_factory=lambda: itertools.count(2))
    """Shared by all states of a catalog, so that each structure has a version of its own."""

    def schema(self, name: str) -> SchemaState | None:
        """Return the schema of that name, or None."""
        return self.schemas.get(fold_name(name))

    def require_schema(self, name: str) -> SchemaState:
        """Return the schema of that name; NotFoundError if there is none."""
        schema = self.schema(name)
        if schema is None:
            raise NotFoundError(f"there is no schema {name!r}")
        return schema

    def tables(self) -> Iterator[TableState]:
        """Yield all tables of all schemas."""
        for schema in self.schemas.values():
            yield from schema.tables.values()

    def table(self, table_id: int) -> TableState | None:
        """Return the table with this id, which does not change with its name, or None."""
        return self._by_id.get(table_id)

    @cached_property
    def _by_id(self) -> Mapping[int, TableState]:
        # A listing looks up every table several times.
        return {table.id: table for table in self.tables()}

    def with_schema(self, schema: SchemaState) -> CatalogState:
        """Return the catalog with a schema, which replaces one of the same name."""
        return replace(self, schemas={**self.schemas, fold_name(schema.name): schema})

    def without_schema(self, name: str) -> CatalogState:
        """Return the catalog without the schema of that name."""
        return replace(
            self, schemas={k: s for k, s in self.schemas.items() if k != fold_name(name)}
        )

    def with_table(self, table: TableState) -> CatalogState:
        """Return the catalog with a table, which replaces one of the same name."""
        return self.with_schema(self.require_schema(table.schema).with_table(table))

    def altered(self) -> CatalogState:
        """Return the catalog with the next version of its structure."""
        return replace(self, ddl_version=next(self.ddl_versions))
