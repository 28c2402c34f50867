"""An immutable catalog: what `CatalogBuilder.build()` returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakeport.catalog.functions import ScalarFunction, TableFunction, TableFunctionInOut
from lakeport.catalog.model import Table
from lakeport.catalog.results import CatalogVersion

__all__ = ["StaticCatalog", "StaticSchema"]


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
        self._by_name = {table.name.casefold(): table for table in self._tables}
        self._scalar_functions = tuple(scalar_functions)
        self._table_functions = tuple(table_functions)
        self._table_functions_in_out = tuple(table_functions_in_out)

    def tables(self) -> Sequence[Table]:
        """All tables."""
        return self._tables

    def table(self, name: str) -> Table | None:
        """The table of that name, or None."""
        return self._by_name.get(name.casefold())

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
        self._by_name = {schema.name.casefold(): schema for schema in self._schemas}

    def schemas(self) -> Sequence[StaticSchema]:
        """All schemas."""
        return self._schemas

    def schema(self, name: str) -> StaticSchema | None:
        """The schema of that name, or None."""
        return self._by_name.get(name.casefold())

    def catalog_version(self) -> CatalogVersion:
        """A fixed version, so that clients never ask again."""
        return CatalogVersion(version=1, is_fixed=True)
