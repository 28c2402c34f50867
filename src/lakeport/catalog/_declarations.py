"""The declarations that a builder collects: each checks itself and makes its objects.

Part of `lakeport.catalog.builder`; not public.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol

import pyarrow as pa

from lakeport.catalog.functions import (
    ANY,
    REQUIRED,
    CallableInOutFunction,
    CallableScalarFunction,
    CallableTableFunction,
    FunctionSignature,
    Parameter,
    ParameterKind,
    ParameterTypes,
    ScalarFunction,
    SchemaSource,
    Stability,
    TableFunction,
    TableFunctionInOut,
    default_scalar,
    parameters_of,
)
from lakeport.catalog.model import Table
from lakeport.catalog.options import ScanOptions
from lakeport.catalog.results import Endpoint, FileReference, FunctionReference, Partition
from lakeport.catalog.schemas import field_is_rowid
from lakeport.catalog.tables import ReferenceTable, table_from
from lakeport.catalog.validation import (
    check_callable,
    check_columns,
    check_declared_name,
    check_scalar_signature,
    check_signature,
)
from lakeport.errors import DefinitionError
from lakeport.types import fold_name

__all__ = [
    "DataTable",
    "Declaration",
    "ExistingFunction",
    "ExistingTable",
    "InOut",
    "ReferencedTable",
    "Scalar",
    "SchemaObjects",
    "TableValued",
    "check_overloads",
]


@dataclass
class SchemaObjects:
    """The objects of a schema under construction."""

    tables: list[Table] = field(default_factory=list)
    scalar_functions: list[ScalarFunction] = field(default_factory=list)
    table_functions: list[TableFunction] = field(default_factory=list)
    table_functions_in_out: list[TableFunctionInOut] = field(default_factory=list)


class Declaration(Protocol):
    """One call of a builder method."""

    def make(self, schema_name: str, objects: SchemaObjects) -> None:
        """Check the declaration and add its objects."""
        ...


@dataclass(frozen=True)
class DataTable:
    """A table of data or of a scan callable."""

    name: str
    source: Any
    schema: pa.Schema | None
    comment: str
    endpoints: int | None
    statistics: bool

    def make(self, schema_name: str, objects: SchemaObjects) -> None:
        """Check the declaration and add its table."""
        check_declared_name(self.name, "table")
        where = f"table {schema_name}.{self.name}"
        if self.schema is not None:
            check_columns(self.schema, where)
        table = table_from(
            self.name,
            self.source,
            schema=self.schema,
            comment=self.comment,
            endpoints=self.endpoints,
            statistics=self.statistics,
        )
        check_columns(table.arrow_schema(), where)
        objects.tables.append(table)


@dataclass(frozen=True)
class ExistingTable:
    """An object with the `Table` protocol."""

    table: Table

    def make(self, schema_name: str, objects: SchemaObjects) -> None:
        """Check the object and add it."""
        if not isinstance(self.table, Table):
            raise DefinitionError(
                f"schema {schema_name!r}: {type(self.table).__name__} lacks the Table protocol "
                "(name, comment, arrow_schema, scan)"
            )
        check_declared_name(self.table.name, "table")
        check_columns(self.table.arrow_schema(), f"table {schema_name}.{self.table.name}")
        objects.tables.append(self.table)


@dataclass(frozen=True)
class ReferencedTable:
    """A table that the client reads itself."""

    name: str
    references: Endpoint | Sequence[Endpoint] | Callable[[ScanOptions], Sequence[Endpoint]]
    schema: pa.Schema
    comment: str

    def make(self, schema_name: str, objects: SchemaObjects) -> None:
        """Check the references and add the table."""
        check_declared_name(self.name, "table")
        where = f"table {schema_name}.{self.name}"
        check_columns(self.schema, where)
        if any(field_is_rowid(field) for field in self.schema):
            raise DefinitionError(
                f"{where}: a table that the client reads itself cannot have a rowid"
            )
        references = self.references
        if not callable(references):
            if isinstance(references, Partition | FunctionReference | FileReference):
                references = [references]
            for reference in references:
                self._check(reference, where)
        objects.tables.append(
            ReferenceTable(self.name, self.schema, references, comment=self.comment)
        )

    @staticmethod
    def _check(reference: Endpoint, where: str) -> None:
        if not isinstance(reference, FunctionReference | FileReference):
            raise DefinitionError(
                f"{where}: {type(reference).__name__} is not a FunctionReference or FileReference"
            )
        if isinstance(reference, FunctionReference):
            for name in reference.named:
                if name.startswith("arg_"):
                    raise DefinitionError(
                        f"{where}: {reference.function}: the named argument {name!r} must not "
                        "start with 'arg_'"
                    )


@dataclass(frozen=True)
class Scalar:
    """A scalar function of a callable."""

    name: str
    function: Callable[..., Any]
    parameters: ParameterTypes
    returns: pa.DataType
    comment: str
    stability: Stability

    def make(self, schema_name: str, objects: SchemaObjects) -> None:
        """Check the declaration and add one function for each number of arguments."""
        check_declared_name(self.name, "function")
        where = f"function {schema_name}.{self.name}"
        parameters = parameters_of(
            self.parameters, self.function, defaulted=ParameterKind.POSITIONAL
        )
        check_scalar_signature(FunctionSignature(parameters, self.returns), where)
        offered = "" if any(p.name == "num_rows" for p in parameters) else "num_rows"
        check_callable(self.function, where, positional=len(parameters), offered=offered)
        _check_defaults(parameters, where)
        required = sum(parameter.is_required for parameter in parameters)
        for before, parameter in pairwise(parameters):
            if parameter.is_required and not before.is_required:
                raise DefinitionError(
                    f"{where}: parameter {parameter.name!r} has no default but follows "
                    "a parameter that has one"
                )
        for count in range(len(parameters), required - 1, -1):
            objects.scalar_functions.append(
                CallableScalarFunction(
                    self.name,
                    self.function,
                    [replace(parameter, default=REQUIRED) for parameter in parameters[:count]],
                    self.returns,
                    comment=self.comment,
                    stability=self.stability,
                    defaults=parameters[count:],
                )
            )


@dataclass(frozen=True)
class _ReturnsRows:
    """A function of a callable that returns rows."""

    name: str
    function: Callable[..., Any]
    parameters: ParameterTypes
    schema: SchemaSource
    comment: str


@dataclass(frozen=True)
class TableValued(_ReturnsRows):
    """A table function of a callable."""

    def make(self, schema_name: str, objects: SchemaObjects) -> None:
        """Check the declaration and add the function."""
        check_declared_name(self.name, "function")
        where = f"function {schema_name}.{self.name}"
        parameters = parameters_of(self.parameters, self.function, defaulted=ParameterKind.NAMED)
        check_signature(FunctionSignature(parameters), where)
        if any(parameter.kind is ParameterKind.TABLE for parameter in parameters):
            raise DefinitionError(f"{where} takes a table: declare it with table_function_in_out")
        _check_table_valued(self.function, self.schema, parameters, where, leading=0)
        objects.table_functions.append(
            CallableTableFunction(
                self.name, self.function, parameters, self.schema, comment=self.comment
            )
        )


@dataclass(frozen=True)
class InOut(_ReturnsRows):
    """A table-in table-out function of a callable."""

    def make(self, schema_name: str, objects: SchemaObjects) -> None:
        """Check the declaration and add the function."""
        check_declared_name(self.name, "function")
        where = f"function {schema_name}.{self.name}"
        parameters = parameters_of(self.parameters, self.function, defaulted=ParameterKind.NAMED)
        scalars = [p for p in parameters if p.kind is not ParameterKind.TABLE]
        if len(scalars) == len(parameters):
            parameters = (*parameters, Parameter("rows", ANY, ParameterKind.TABLE))
        check_signature(FunctionSignature(parameters), where)
        _check_table_valued(self.function, self.schema, scalars, where, leading=1)
        objects.table_functions_in_out.append(
            CallableInOutFunction(
                self.name, self.function, parameters, self.schema, comment=self.comment
            )
        )


@dataclass(frozen=True)
class ExistingFunction:
    """An object with one of the function protocols."""

    function: ScalarFunction | TableFunction | TableFunctionInOut

    def make(self, schema_name: str, objects: SchemaObjects) -> None:
        """Check the object and add it to the list of its kind."""
        function = self.function
        where = f"function {schema_name}.{getattr(function, 'name', type(function).__name__)}"
        if isinstance(function, TableFunctionInOut):
            check_signature(function.signature, where)
            objects.table_functions_in_out.append(function)
        elif isinstance(function, TableFunction):
            check_signature(function.signature, where)
            objects.table_functions.append(function)
        elif isinstance(function, ScalarFunction):
            check_scalar_signature(function.signature, where)
            objects.scalar_functions.append(function)
        else:
            raise DefinitionError(f"{where} has none of the function protocols")
        check_declared_name(function.name, "function")


def check_overloads(objects: SchemaObjects, schema_name: str) -> None:
    """Raise DefinitionError for two functions of one name with the same parameter types."""
    kinds: Iterable[Iterable[ScalarFunction | TableFunction | TableFunctionInOut]] = (
        objects.scalar_functions,
        [*objects.table_functions, *objects.table_functions_in_out],
    )
    for functions in kinds:
        seen: set[tuple[Any, ...]] = set()
        for function in functions:
            types = tuple(
                str(parameter.type)
                for parameter in function.signature.parameters
                if parameter.kind is not ParameterKind.NAMED
            )
            key = (fold_name(function.name), types)
            if key in seen:
                raise DefinitionError(
                    f"schema {schema_name!r} has two functions {function.name}({', '.join(types)})"
                )
            seen.add(key)


def _check_defaults(parameters: Sequence[Parameter], where: str) -> None:
    for parameter in parameters:
        if not parameter.is_required:
            try:
                default_scalar(parameter)
            except DefinitionError as error:
                raise DefinitionError(f"{where}: {error}") from None


def _check_table_valued(
    function: Callable[..., Any],
    schema: SchemaSource,
    parameters: Sequence[Parameter],
    where: str,
    *,
    leading: int,
) -> None:
    named = [parameter.name for parameter in parameters]
    _check_defaults(parameters, where)
    check_callable(function, where, positional=leading, named=named, offered="options")
    if isinstance(schema, pa.Schema):
        check_columns(schema, where)
    else:
        check_callable(schema, f"{where}: schema", positional=leading, named=named)
