"""`CatalogBuilder`: builds a catalog by chained calls or decorators.

    builder = CatalogBuilder()
    shop = builder.schema("shop", comment="What we sell")
    shop.table("orders", orders)

    @shop.scalar_function(parameters={"price": pa.float64()}, returns=pa.float64())
    def with_tax(price):
        return pc.multiply(price, 1.2)

    catalog = builder.build()

Declarations are only collected. `build()` checks all of them and raises the first error.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar, overload

import pyarrow as pa

from lakeport.catalog._declarations import (
    DataTable,
    Declaration,
    ExistingFunction,
    ExistingTable,
    InOut,
    ReferencedTable,
    Scalar,
    SchemaObjects,
    TableValued,
    check_overloads,
)
from lakeport.catalog.functions import (
    ParameterTypes,
    ScalarFunction,
    SchemaSource,
    Stability,
    TableFunction,
    TableFunctionInOut,
)
from lakeport.catalog.model import StaticCatalog, StaticSchema, Table
from lakeport.catalog.options import ScanOptions
from lakeport.catalog.results import Endpoint
from lakeport.catalog.validation import check_declared_name, check_unique
from lakeport.errors import DefinitionError
from lakeport.types import fold_name

__all__ = ["CatalogBuilder", "SchemaBuilder"]

F = TypeVar("F", bound=Callable[..., Any])


class CatalogBuilder:
    """Collects schemas, tables and functions, and builds an immutable catalog of them."""

    def __init__(self, name: str = "", *, comment: str = "") -> None:
        self._name = name
        self._comment = comment
        self._schemas: list[SchemaBuilder] = []

    def schema(
        self, name: str, *, comment: str = "", tags: Mapping[str, str] | None = None
    ) -> SchemaBuilder:
        """Start a schema. DuckDB cannot address one called `main`."""
        schema = SchemaBuilder(self, name, comment=comment, tags=tags)
        self._schemas.append(schema)
        return schema

    def build(self) -> StaticCatalog:
        """Check every declaration and return the catalog."""
        for schema in self._schemas:
            check_declared_name(schema.name, "schema")
        check_unique([schema.name for schema in self._schemas], "schema", "the catalog")
        if any(fold_name(schema.name) == "main" for schema in self._schemas):
            warnings.warn(
                "DuckDB's airport client cannot address a schema named 'main'; "
                "its tables are reachable by other Flight clients only",
                stacklevel=2,
            )
        return StaticCatalog(
            [schema._build() for schema in self._schemas],  # noqa: SLF001
            name=self._name,
            comment=self._comment,
        )


class SchemaBuilder:
    """Collects the tables and functions of one schema. Every method can be chained."""

    def __init__(
        self,
        catalog: CatalogBuilder,
        name: str,
        *,
        comment: str = "",
        tags: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._catalog = catalog
        self._comment = comment
        self._tags = dict(tags or {})
        self._declarations: list[Declaration] = []

    @overload
    def table(self, name: Table) -> Self: ...

    @overload
    def table(
        self,
        name: str,
        source: Any,
        *,
        schema: pa.Schema | None = None,
        comment: str = "",
        endpoints: int | None = None,
        statistics: bool = False,
    ) -> Self: ...

    @overload
    def table(
        self, name: str | None = None, *, schema: pa.Schema, comment: str = ""
    ) -> Callable[[F], F]: ...

    def table(
        self,
        name: str | Table | None = None,
        source: Any = None,
        *,
        schema: pa.Schema | None = None,
        comment: str = "",
        endpoints: int | None = None,
        statistics: bool = False,
    ) -> Self | Callable[[F], F]:
        """Add a table.

        `source` is an Arrow table, a pandas or polars frame, a callable that takes `ScanOptions`
        (or nothing) and returns rows, or a `lakeport.spark.SparkTable`; or pass one object with the
        `Table` protocol. Without a source this is a decorator for a scan callable.

        Args:
            name: The name of the table; a decorated callable's own name by default.
            source: The data, or a callable that returns it.
            schema: The columns; required for scan callables, a cast for data.
            comment: A description.
            endpoints: The number of parts that DuckDB reads in parallel; by default up to eight
                for data of 262,144 rows or more. With 1, the rows keep their order.
            statistics: Whether to send the exact bounds of each column of the data to DuckDB.

        """

        def add(source: Any, own_name: str) -> None:
            self._declarations.append(
                DataTable(own_name, source, schema, comment, endpoints, statistics)
            )

        if name is not None and not isinstance(name, str):
            self._declarations.append(ExistingTable(name))
            return self
        return self._chain_or_decorate(name, source, add)

    def reference_table(
        self,
        name: str,
        references: Endpoint | Sequence[Endpoint] | Callable[[ScanOptions], Sequence[Endpoint]],
        *,
        schema: pa.Schema,
        comment: str = "",
    ) -> Self:
        """Add a table that the client reads itself: DuckDB functions, files, or both.

        Every reference must provide all columns of `schema`, by name and type.
        """
        self._declarations.append(ReferencedTable(name, references, schema, comment))
        return self

    @overload
    def scalar_function(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        parameters: ParameterTypes,
        returns: pa.DataType,
        comment: str = "",
        stability: Stability = Stability.VOLATILE,
    ) -> Self: ...

    @overload
    def scalar_function(
        self,
        name: str | None = None,
        *,
        parameters: ParameterTypes,
        returns: pa.DataType,
        comment: str = "",
        stability: Stability = Stability.VOLATILE,
    ) -> Callable[[F], F]: ...

    def scalar_function(
        self,
        name: str | None = None,
        function: Callable[..., Any] | None = None,
        *,
        parameters: ParameterTypes,
        returns: pa.DataType,
        comment: str = "",
        stability: Stability = Stability.VOLATILE,
    ) -> Self | Callable[[F], F]:
        """Add a function of the values of a row.

        The callable takes one Arrow array per parameter and returns an array of as many rows (or
        one value for all of them). Parameters with a Python default may be left out in SQL: each
        such form is published as an overload. Repeat the name to add overloads of your own.

        Args:
            name: The name in SQL; the callable's own by default.
            function: The callable; without it this is a decorator.
            parameters: Name and Arrow type (or `ANY`) of each parameter.
            returns: The type of the result.
            comment: A description.
            stability: `CONSISTENT` lets DuckDB fold calls with constant arguments.

        """

        def add(function: Callable[..., Any], own_name: str) -> None:
            self._declarations.append(
                Scalar(own_name, function, parameters, returns, comment, stability)
            )

        return self._chain_or_decorate(name, function, add)

    @overload
    def table_function(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        parameters: ParameterTypes,
        schema: SchemaSource,
        comment: str = "",
    ) -> Self: ...

    @overload
    def table_function(
        self,
        name: str | None = None,
        *,
        parameters: ParameterTypes,
        schema: SchemaSource,
        comment: str = "",
    ) -> Callable[[F], F]: ...

    def table_function(
        self,
        name: str | None = None,
        function: Callable[..., Any] | None = None,
        *,
        parameters: ParameterTypes,
        schema: SchemaSource,
        comment: str = "",
    ) -> Self | Callable[[F], F]:
        """Add a function that returns a table.

        The callable takes its arguments by name as Python values, and the `ScanOptions` if it has
        a parameter `options`. Parameters with a Python default are named ones in SQL:
        `f(3, label := 'a')`.

        Args:
            name: The name in SQL; the callable's own by default.
            function: The callable; without it this is a decorator.
            parameters: Name and Arrow type (or `ANY`) of each parameter.
            schema: The columns of the result, or a callable that derives them from the arguments.
            comment: A description.

        """

        def add(function: Callable[..., Any], own_name: str) -> None:
            self._declarations.append(TableValued(own_name, function, parameters, schema, comment))

        return self._chain_or_decorate(name, function, add)

    @overload
    def table_function_in_out(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        schema: SchemaSource,
        parameters: ParameterTypes = (),
        comment: str = "",
    ) -> Self: ...

    @overload
    def table_function_in_out(
        self,
        name: str | None = None,
        *,
        schema: SchemaSource,
        parameters: ParameterTypes = (),
        comment: str = "",
    ) -> Callable[[F], F]: ...

    def table_function_in_out(
        self,
        name: str | None = None,
        function: Callable[..., Any] | None = None,
        *,
        schema: SchemaSource,
        parameters: ParameterTypes = (),
        comment: str = "",
    ) -> Self | Callable[[F], F]:
        """Add a function that takes a table and returns one: `f('x', (SELECT …))`.

        The callable takes a `RecordBatchReader` of the input first, then its other arguments by
        name. It may be a generator: the server sends its rows while the input still arrives.

        Args:
            name: The name in SQL; the callable's own by default.
            function: The callable; without it this is a decorator.
            schema: The columns of the result, or a callable that derives them from the input
                schema and the arguments.
            parameters: Name and Arrow type (or `ANY`) of each parameter before the table.
            comment: A description.

        """

        def add(function: Callable[..., Any], own_name: str) -> None:
            self._declarations.append(InOut(own_name, function, parameters, schema, comment))

        return self._chain_or_decorate(name, function, add)

    def function(self, function: ScalarFunction | TableFunction | TableFunctionInOut) -> Self:
        """Add an object with one of the function protocols."""
        self._declarations.append(ExistingFunction(function))
        return self

    def schema(
        self, name: str, *, comment: str = "", tags: Mapping[str, str] | None = None
    ) -> SchemaBuilder:
        """Start the next schema of the same catalog."""
        return self._catalog.schema(name, comment=comment, tags=tags)

    def build(self) -> StaticCatalog:
        """Check every declaration and return the catalog."""
        return self._catalog.build()

    def _chain_or_decorate(
        self, name: str | None, target: Any, add: Callable[[Any, str], None]
    ) -> Self | Callable[[F], F]:
        if target is not None:
            if name is None:
                raise DefinitionError(f"schema {self.name!r}: a name is missing")
            add(target, name)
            return self

        def decorate(function: F) -> F:
            add(function, name or function.__name__)
            return function

        return decorate

    def _build(self) -> StaticSchema:
        objects = SchemaObjects()
        for declaration in self._declarations:
            declaration.make(self.name, objects)
        check_unique([table.name for table in objects.tables], "table", f"schema {self.name!r}")
        check_overloads(objects, self.name)
        return StaticSchema(
            self.name,
            comment=self._comment,
            tags=self._tags,
            tables=objects.tables,
            scalar_functions=objects.scalar_functions,
            table_functions=objects.table_functions,
            table_functions_in_out=objects.table_functions_in_out,
        )
