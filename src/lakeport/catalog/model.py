"""What can be attached: the three protocols every catalog is made of.

A `Catalog` holds schemas, a `Schema` holds tables and functions, a `Table` can be scanned.
What else an object can do (insert, delete, answer statistics, travel in time) is said by the
small protocols of `lakeport.catalog.capabilities`; implement the ones you need, inherit nothing.

All methods may be called from several threads at once. Who is calling, and in which transaction,
is told by `lakeport.current_request()`.
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
        """A description for people, or an empty string."""
        ...

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """The columns of the table, or those named, in the order named."""
        ...

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        """Read the table.

        The reader may have all columns of the table or only those of `options.columns`, in any
        order; missing ones are filled with nulls, because the client never reads them. Applying
        `options.filter` is optional: rows that do not match are dropped by the client, rows that
        match must be there.
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
        """A description for people, or an empty string."""
        ...

    def tables(self) -> Sequence[Table]:
        """All tables of the schema."""
        ...

    def table(self, name: str) -> Table | None:
        """The table of that name, or None."""
        ...

    def scalar_functions(self) -> Sequence[ScalarFunction]:
        """All scalar functions; the same name may repeat with other parameter types."""
        ...

    def table_functions(self) -> Sequence[TableFunction]:
        """All functions that return a table."""
        ...

    def table_functions_in_out(self) -> Sequence[TableFunctionInOut]:
        """All functions that take a table and return one."""
        ...


@runtime_checkable
class Catalog(Protocol):
    """The root of what a client attaches."""

    def schemas(self) -> Sequence[Schema]:
        """All schemas that the caller may see."""
        ...

    def schema(self, name: str) -> Schema | None:
        """The schema of that name, or None."""
        ...


class StaticSchema:
    """A schema whose tables and functions never change. Names are found whatever their case."""

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
        """All tables."""
        return self._tables

    def table(self, name: str) -> Table | None:
        """The table of that name, or None."""
        return self._by_name.get(fold_name(name))

    def scalar_functions(self) -> Sequence[ScalarFunction]:
        """All scalar functions."""
        return self._scalar_functions

    def table_functions(self) -> Sequence[TableFunction]:
        """All table functions."""
        return self._table_functions

    def table_functions_in_out(self) -> Sequence[TableFunctionInOut]:
        """All table-in table-out functions."""
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
        """All schemas."""
        return self._schemas

    def schema(self, name: str) -> StaticSchema | None:
        """The schema of that name, or None."""
        return self._by_name.get(fold_name(name))

    def catalog_version(self) -> CatalogVersion:
        """A fixed version, so that clients never ask again."""
        return CatalogVersion(version=1, is_fixed=True)
