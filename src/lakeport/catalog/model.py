"""The three protocols of a catalog, and a catalog that never changes.

A `Catalog` contains schemas, a `Schema` contains tables and functions, a `Table` can be scanned.
Further abilities (insert, delete, statistics, time travel) are the small protocols of
`lakeport.catalog.capabilities`. Implement the ones you need; no base class is required.

All methods may be called from several threads at once. `lakeport.current_request()` returns the
identity and the transaction of the current call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from lakeport.catalog.functions import ScalarFunction, TableFunction, TableFunctionInOut
from lakeport.catalog.options import ScanOptions
from lakeport.catalog.results import CatalogVersion
from lakeport.types import fold_name

__all__ = ["Catalog", "Schema", "StaticCatalog", "StaticSchema", "Table"]


@runtime_checkable
class Table(Protocol):
    """A table that can be scanned."""

    @property
    def name(self) -> str:
        """The name, unique within its schema."""
        ...

    @property
    def comment(self) -> str:
        """A description, or an empty string."""
        ...

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns of the table, or only these columns in this order."""
        ...

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        """Read the table.

        The reader may have all columns of the table or only those of `options.columns`, in any
        order. Missing ones are filled with nulls, because the client never reads them. Applying
        `options.filter` is optional: the client drops rows that do not match. All rows that match
        must be returned.
        """
        ...


@runtime_checkable
class Schema(Protocol):
    """A namespace of tables and functions."""

    @property
    def name(self) -> str:
        """The name, unique within its catalog. DuckDB cannot address a schema called `main`."""
        ...

    @property
    def comment(self) -> str:
        """A description, or an empty string."""
        ...

    def tables(self) -> Sequence[Table]:
        """Return all tables of the schema."""
        ...

    def table(self, name: str) -> Table | None:
        """Return the table of that name, or None."""
        ...

    def scalar_functions(self) -> Sequence[ScalarFunction]:
        """Return all scalar functions. A name may repeat with other parameter types."""
        ...

    def table_functions(self) -> Sequence[TableFunction]:
        """Return all functions that return a table."""
        ...

    def table_functions_in_out(self) -> Sequence[TableFunctionInOut]:
        """Return all functions that take a table and return one."""
        ...


@runtime_checkable
class Catalog(Protocol):
    """The root of the objects that a client attaches."""

    def schemas(self) -> Sequence[Schema]:
        """Return all schemas that the caller may see."""
        ...

    def schema(self, name: str) -> Schema | None:
        """Return the schema of that name, or None."""
        ...


class StaticSchema:
    """A schema whose tables and functions never change. Lookups by name ignore case."""

    def __init__(
        self,
        name: str,
        *,
        comment: str = "",
        tags: Mapping[str, str] | None = None,
        tables: Iterable[Table] = (),
        scalar_functions: Iterable[ScalarFunction] = (),
        table_functions: Iterable[TableFunction] = (),
        table_functions_in_out: Iterable[TableFunctionInOut] = (),
    ) -> None:
        self.name = name
        self.comment = comment
        self.tags = dict(tags or {})
        self._tables = tuple(tables)
        self._by_name = {fold_name(table.name): table for table in self._tables}
        self._scalar_functions = tuple(scalar_functions)
        self._table_functions = tuple(table_functions)
        self._table_functions_in_out = tuple(table_functions_in_out)

    def tables(self) -> Sequence[Table]:
        """Return all tables."""
        return self._tables

    def table(self, name: str) -> Table | None:
        """Return the table of that name, or None."""
        return self._by_name.get(fold_name(name))

    def scalar_functions(self) -> Sequence[ScalarFunction]:
        """Return all scalar functions."""
        return self._scalar_functions

    def table_functions(self) -> Sequence[TableFunction]:
        """Return all table functions."""
        return self._table_functions

    def table_functions_in_out(self) -> Sequence[TableFunctionInOut]:
        """Return all table-in table-out functions."""
        return self._table_functions_in_out


class StaticCatalog:
    """A catalog whose schemas never change."""

    def __init__(
        self, schemas: Iterable[StaticSchema], *, name: str = "", comment: str = ""
    ) -> None:
        self.name = name
        self.comment = comment
        self._schemas = tuple(schemas)
        self._by_name = {fold_name(schema.name): schema for schema in self._schemas}

    def schemas(self) -> Sequence[StaticSchema]:
        """Return all schemas."""
        return self._schemas

    def schema(self, name: str) -> StaticSchema | None:
        """Return the schema of that name, or None."""
        return self._by_name.get(fold_name(name))

    def catalog_version(self) -> CatalogVersion:
        """Return a fixed version, so that clients request it only once."""
        return CatalogVersion(version=1, is_fixed=True)
