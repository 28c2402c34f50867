"""Functions that DuckDB can call: scalar, table, and table-in table-out."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from lakeport.arrow import RowsLike, as_reader, convert
from lakeport.catalog.options import ScanOptions
from lakeport.errors import DefinitionError, InternalError, InvalidInputError, first_line

__all__ = [
    "ANY",
    "REQUIRED",
    "AnyType",
    "Arguments",
    "CallableInOutFunction",
    "CallableScalarFunction",
    "CallableTableFunction",
    "ChangingTableFunction",
    "FunctionSignature",
    "Parameter",
    "ParameterKind",
    "ParameterTypes",
    "ScalarFunction",
    "SchemaSource",
    "Stability",
    "TableFunction",
    "TableFunctionInOut",
    "default_scalar",
    "parameters_of",
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
    """Whether DuckDB may call a scalar function for fewer rows than there are."""

    CONSISTENT = "consistent"
    """The same arguments always return the same result, so DuckDB folds constant calls."""
    VOLATILE = "volatile"
    """The function is called for every row."""
    CONSISTENT_WITHIN_QUERY = "consistent_within_query"
    """The same arguments return the same result within one query."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a function."""

    name: str
    """The name, which users write for named parameters: `f(1, label := 'a')`."""
    type: pa.DataType | AnyType
    """The Arrow type, or `ANY`."""
    kind: ParameterKind = ParameterKind.POSITIONAL
    """Positional, named, or the input table of an in-out function."""
    default: Any = REQUIRED
    """The value for calls without this argument."""

    @property
    def is_required(self) -> bool:
        """Whether every call must pass the argument."""
        return self.default is REQUIRED


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """The parameters of a function and, for scalar functions, the type of the result."""

    parameters: tuple[Parameter, ...] = ()
    """The parameters in order; the input table of an in-out function comes last."""
    returns: pa.DataType | None = None
    """The type of the result; None for functions that return tables."""


class Arguments(Mapping[str, Any]):
    """The arguments of one call by name, as Python values. `scalar()` returns the Arrow value."""

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
        """Return the Arrow value of an argument, which is exact for every type."""
        return self._scalars[name]


class _Function(Protocol):
    @property
    def name(self) -> str:
        """The name, as written in SQL."""
        ...

    @property
    def comment(self) -> str:
        """A description, or an empty string."""
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
        """Whether DuckDB may leave out calls."""
        ...

    def execute(self, rows: pa.RecordBatch) -> pa.Array:
        """Return one result for every row. The columns are the arguments, in order."""
        ...


@runtime_checkable
class TableFunction(_Function, Protocol):
    """A function that returns a table."""

    def schema_for(self, arguments: Arguments) -> pa.Schema:
        """Return the columns of the result for these arguments."""
        ...

    def execute_table(self, arguments: Arguments, options: ScanOptions) -> pa.RecordBatchReader:
        """Return the rows for these arguments; columns and filter are hints as in `Table.scan`."""
        ...


@runtime_checkable
class ChangingTableFunction(TableFunction, Protocol):
    """A table function that may change the catalog. The server then runs it as a statement."""

    @property
    def changes_catalog(self) -> bool:
        """Whether a call is committed when it succeeds, and rolled back when it fails."""
        ...


@runtime_checkable
class TableFunctionInOut(_Function, Protocol):
    """A function that takes rows and returns rows."""

    def schema_for_input(self, arguments: Arguments, input_schema: pa.Schema) -> pa.Schema:
        """Return the columns of the result for these arguments and this input."""
        ...

    def execute_in_out(
        self, arguments: Arguments, rows: pa.RecordBatchReader, options: ScanOptions
    ) -> pa.RecordBatchReader:
        """Return the output rows. The input arrives batch by batch as it is read."""
        ...


ParameterTypes: TypeAlias = Mapping[str, pa.DataType | AnyType] | Sequence[Parameter]
"""A mapping from name to type, or a sequence of `Parameter`."""

SchemaSource: TypeAlias = pa.Schema | Callable[..., pa.Schema]
"""The columns of a result: fixed, or computed from the arguments."""

_CONVERSION_ERRORS = (pa.ArrowException, InvalidInputError, TypeError, ValueError, OverflowError)


class CallableScalarFunction:
    """A callable that takes one Arrow array per parameter and returns one."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        parameters: Sequence[Parameter],
        returns: pa.DataType,
        *,
        comment: str = "",
        stability: Stability = Stability.VOLATILE,
        defaults: Sequence[Parameter] = (),
    ) -> None:
        self.name = name
        self.comment = comment
        self.signature = FunctionSignature(tuple(parameters), returns)
        self.stability = stability
        self._function = function
        self._defaults = tuple(default_scalar(parameter) for parameter in defaults)
        self._takes_num_rows = _takes(function, "num_rows", [*parameters, *defaults])

    def execute(self, rows: pa.RecordBatch) -> pa.Array:
        """Call the function on the columns of a batch."""
        arguments = [*rows.columns, *(pa.repeat(value, rows.num_rows) for value in self._defaults)]
        named = {"num_rows": rows.num_rows} if self._takes_num_rows else {}
        return self._as_array(self._function(*arguments, **named), rows.num_rows)

    def _as_array(self, result: Any, num_rows: int) -> pa.Array:
        returns = self.signature.returns
        try:
            values, is_one = _values(result, returns)
            values = convert(values, returns, "the result")
        except _CONVERSION_ERRORS as error:
            reason = first_line(error)
            raise InternalError(
                f"function {self.name!r} returned {type(result).__name__}, which does not fit "
                f"{returns}: {reason}"
            ) from None
        return pa.repeat(values[0], num_rows) if is_one else values


class _RowsFunction:
    """A callable that returns rows."""

    def __init__(
        self,
        name: str,
        function: Callable[..., RowsLike],
        parameters: Sequence[Parameter],
        schema: SchemaSource,
        *,
        comment: str = "",
    ) -> None:
        self.name = name
        self.comment = comment
        self.signature = FunctionSignature(tuple(parameters))
        self._function = function
        self._schema = schema
        self._takes_options = _takes(function, "options", parameters)


class CallableTableFunction(_RowsFunction):
    """A callable that takes Python values by name and returns rows."""

    changes_catalog = False
    is_immediate = False
    """Whether a call starts at once, and counts for no limit of the caller."""

    def schema_for(self, arguments: Arguments) -> pa.Schema:
        """Return the declared schema, or the result of the schema callable."""
        return _schema(self._schema, self.name, **arguments)

    def execute_table(self, arguments: Arguments, options: ScanOptions) -> pa.RecordBatchReader:
        """Call the function."""
        named = {"options": options} if self._takes_options else {}
        rows = self._function(**arguments, **named)
        return as_reader(rows, self.schema_for(arguments), f"function {self.name!r}")


class CallableInOutFunction(_RowsFunction):
    """A callable that takes a reader of rows, Python values by name, and returns rows."""

    def schema_for_input(self, arguments: Arguments, input_schema: pa.Schema) -> pa.Schema:
        """Return the declared schema, or the result of the schema callable."""
        return _schema(self._schema, self.name, input_schema, **arguments)

    def execute_in_out(
        self, arguments: Arguments, rows: pa.RecordBatchReader, options: ScanOptions
    ) -> pa.RecordBatchReader:
        """Call the function on the input."""
        schema = self.schema_for_input(arguments, rows.schema)
        named = {"options": options} if self._takes_options else {}
        result = self._function(rows, **arguments, **named)
        return as_reader(result, schema, f"function {self.name!r}")


def _values(result: Any, type: pa.DataType) -> tuple[pa.Array, bool]:
    """Return the values of a result, and whether it is one value for all rows."""
    if isinstance(result, pa.ChunkedArray):
        return result.combine_chunks(), False
    if isinstance(result, pa.Array):
        return result, False
    if isinstance(result, pa.Scalar):
        return pa.repeat(result, 1), True
    if _is_many(result):
        return _python_values(result, type), False
    return _python_values([result], type), True


def _is_many(result: Any) -> bool:
    if isinstance(result, str | bytes | bytearray | memoryview | pa.MonthDayNano):
        return False
    has_rows = hasattr(result, "__array__") and getattr(result, "ndim", 1) > 0
    return isinstance(result, Sequence) or hasattr(result, "__arrow_array__") or has_rows


def _python_values(values: Any, type: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type=type)
    except _CONVERSION_ERRORS:
        # Arrow infers another type, for example text for a UUID; `convert` handles it.
        return pa.array(values)


def parameters_of(
    parameters: ParameterTypes, function: Callable[..., Any], *, defaulted: ParameterKind
) -> tuple[Parameter, ...]:
    """Return the parameters. One with a Python default is optional and of kind `defaulted`."""
    if not isinstance(parameters, Mapping):
        return tuple(parameters)
    defaults = {
        name: parameter.default
        for name, parameter in _signature(function).items()
        if parameter.default is not parameter.empty
    }
    return tuple(
        Parameter(name, type, defaulted, defaults[name])
        if name in defaults
        else Parameter(name, type)
        for name, type in parameters.items()
    )


def default_scalar(parameter: Parameter) -> pa.Scalar:
    """Return the default of a parameter as an Arrow value."""
    if isinstance(parameter.default, pa.Scalar):
        return parameter.default
    if isinstance(parameter.type, AnyType):
        return pa.scalar(parameter.default)
    try:
        return pa.scalar(parameter.default, type=parameter.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        raise DefinitionError(
            f"parameter {parameter.name!r}: the default does not fit {parameter.type}: {error}"
        ) from None


def _schema(source: SchemaSource, name: str, /, *args: Any, **kwargs: Any) -> pa.Schema:
    if isinstance(source, pa.Schema):
        return source
    schema = source(*args, **kwargs)
    if not isinstance(schema, pa.Schema):
        raise InternalError(
            f"function {name!r}: the schema callable returned {type(schema).__name__}, "
            "expected a pyarrow schema"
        )
    return schema


def _takes(function: Callable[..., Any], name: str, parameters: Sequence[Parameter]) -> bool:
    return name in _signature(function) and all(p.name != name for p in parameters)


def _signature(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}
