"""Functions that DuckDB can call: scalar, table, and table-in table-out."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import pyarrow as pa

from lakeport.catalog.options import ScanOptions

__all__ = [
    "ANY",
    "REQUIRED",
    "AnyType",
    "Arguments",
    "FunctionSignature",
    "Parameter",
    "ParameterKind",
    "ScalarFunction",
    "Stability",
    "TableFunction",
    "TableFunctionInOut",
]


class AnyType(enum.Enum):
    """The type of a parameter that accepts every type."""

    ANY = "any"


ANY: Final = AnyType.ANY


class _Required(enum.Enum):
    REQUIRED = "required"


REQUIRED: Final = _Required.REQUIRED
"""The default of a parameter that has none."""


class ParameterKind(enum.Enum):
    """How an argument is passed."""

    POSITIONAL = "positional"
    NAMED = "named"
    TABLE = "table"


class Stability(enum.Enum):
    """Whether DuckDB may call a scalar function less often than there are rows."""

    CONSISTENT = "consistent"
    """The same arguments always give the same result: constant calls are folded."""
    VOLATILE = "volatile"
    """Every call counts."""
    CONSISTENT_WITHIN_QUERY = "consistent_within_query"
    """The same arguments give the same result within one query."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a function."""

    name: str
    """Its name, which a user writes for named parameters: `f(1, label := 'a')`."""
    type: pa.DataType | AnyType
    """Its Arrow type, or `ANY`."""
    kind: ParameterKind = ParameterKind.POSITIONAL
    """Positional, named, or the input table of an in-out function."""
    default: Any = REQUIRED
    """The value used when the caller leaves the parameter out."""

    @property
    def is_required(self) -> bool:
        """Whether a caller must give the argument."""
        return self.default is REQUIRED


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """What a function takes and, for scalar functions, what it returns."""

    parameters: tuple[Parameter, ...] = ()
    """The parameters in order; the input table of an in-out function comes last."""
    returns: pa.DataType | None = None
    """The type of the result; None for functions that return tables."""


class Arguments(Mapping[str, Any]):
    """The arguments of one call by name, as Python values; `scalar()` gives the Arrow value."""

    __slots__ = ("_scalars",)

    def __init__(self, scalars: Mapping[str, pa.Scalar]) -> None:
        self._scalars = dict(scalars)

    def __getitem__(self, name: str) -> Any:
        return self._scalars[name].as_py()

    def __iter__(self) -> Iterator[str]:
        return iter(self._scalars)

    def __len__(self) -> int:
        return len(self._scalars)

    def __repr__(self) -> str:
        return f"Arguments({dict(self)!r})"

    def scalar(self, name: str) -> pa.Scalar:
        """The Arrow value of an argument, exact for every type."""
        return self._scalars[name]


class _Function(Protocol):
    @property
    def name(self) -> str:
        """The name, as written in SQL."""
        ...

    @property
    def comment(self) -> str:
        """A description for people, or an empty string."""
        ...

    @property
    def signature(self) -> FunctionSignature:
        """Parameters and result type."""
        ...


@runtime_checkable
class ScalarFunction(_Function, Protocol):
    """A function of the values of one row."""

    @property
    def stability(self) -> Stability:
        """Whether DuckDB may save calls."""
        ...

    def execute(self, rows: pa.RecordBatch) -> pa.Array:
        """One result for every row. The columns are the arguments, in order."""
        ...


@runtime_checkable
class TableFunction(_Function, Protocol):
    """A function that returns a table."""

    def schema_for(self, arguments: Arguments) -> pa.Schema:
        """The columns of the result for these arguments."""
        ...

    def execute_table(self, arguments: Arguments, options: ScanOptions) -> pa.RecordBatchReader:
        """The rows for these arguments; columns and filter are hints as in `Table.scan`."""
        ...


@runtime_checkable
class TableFunctionInOut(_Function, Protocol):
    """A function that takes rows and returns rows."""

    def schema_for_input(self, arguments: Arguments, input_schema: pa.Schema) -> pa.Schema:
        """The columns of the result for these arguments and this input."""
        ...

    def execute_in_out(
        self, arguments: Arguments, rows: pa.RecordBatchReader, options: ScanOptions
    ) -> pa.RecordBatchReader:
        """Turn the input rows into output rows, batch by batch: the input arrives as it is read."""
        ...
