"""Functions made of plain Python callables."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from lakeport.catalog.functions import (
    AnyType,
    Arguments,
    FunctionSignature,
    Parameter,
    ParameterKind,
    Stability,
)
from lakeport.catalog.layouts import conform
from lakeport.catalog.options import ScanOptions
from lakeport.catalog.rows import Rows, as_reader
from lakeport.errors import DefinitionError, InternalError, InvalidInputError

__all__ = [
    "CallableInOutFunction",
    "CallableScalarFunction",
    "CallableTableFunction",
    "ParameterTypes",
    "SchemaSource",
    "parameters_of",
]

ParameterTypes: TypeAlias = Mapping[str, pa.DataType | AnyType] | Sequence[Parameter]
"""Parameters by name and type, or spelled out."""

SchemaSource: TypeAlias = pa.Schema | Callable[..., pa.Schema]
"""The columns of a result: fixed, or computed from the arguments."""


_CONVERSION_FAULTS = (pa.ArrowException, InvalidInputError, TypeError, ValueError, OverflowError)


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
        self._wants_num_rows = _wants(function, "num_rows", [*parameters, *defaults])

    def execute(self, rows: pa.RecordBatch) -> pa.Array:
        """Call the function on the columns of a batch."""
        arguments = [*rows.columns, *(pa.repeat(value, rows.num_rows) for value in self._defaults)]
        named = {"num_rows": rows.num_rows} if self._wants_num_rows else {}
        return self._as_array(self._function(*arguments, **named), rows.num_rows)

    def _as_array(self, result: Any, num_rows: int) -> pa.Array:
        returns = self.signature.returns
        try:
            values, is_one = _values(result, returns)
            values = conform(values, returns, "the result")
        except _CONVERSION_FAULTS as error:
            reason = str(error).partition("\n")[0]
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
        function: Callable[..., Rows],
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
        self._wants_options = _wants(function, "options", parameters)


class CallableTableFunction(_RowsFunction):
    """A callable that takes Python values by name and returns rows."""

    def schema_for(self, arguments: Arguments) -> pa.Schema:
        """The declared schema, or what the schema callable makes of the arguments."""
        return _schema(self._schema, self.name, **arguments)

    def execute_table(self, arguments: Arguments, options: ScanOptions) -> pa.RecordBatchReader:
        """Call the function."""
        named = {"options": options} if self._wants_options else {}
        rows = self._function(**arguments, **named)
        return as_reader(rows, self.schema_for(arguments), f"function {self.name!r}")


class CallableInOutFunction(_RowsFunction):
    """A callable that takes a reader of rows, Python values by name, and returns rows."""

    def schema_for_input(self, arguments: Arguments, input_schema: pa.Schema) -> pa.Schema:
        """The declared schema, or what the schema callable makes of input and arguments."""
        return _schema(self._schema, self.name, input_schema, **arguments)

    def execute_in_out(
        self, arguments: Arguments, rows: pa.RecordBatchReader, options: ScanOptions
    ) -> pa.RecordBatchReader:
        """Call the function on the input."""
        schema = self.schema_for_input(arguments, rows.schema)
        named = {"options": options} if self._wants_options else {}
        result = self._function(rows, **arguments, **named)
        return as_reader(result, schema, f"function {self.name!r}")


def _values(result: Any, type: pa.DataType) -> tuple[pa.Array, bool]:
    """The values of a result, and whether it is one for all rows."""
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
    except _CONVERSION_FAULTS:
        # Text for a UUID, for one, is what Arrow guesses it to be, in another layout.
        return pa.array(values)


def parameters_of(
    parameters: ParameterTypes, function: Callable[..., Any], *, defaulted: ParameterKind
) -> tuple[Parameter, ...]:
    """Parameters spelled out: a Python default makes one optional, of the `defaulted` kind."""
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
    """The default of a parameter as an Arrow value."""
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


def _wants(function: Callable[..., Any], name: str, parameters: Sequence[Parameter]) -> bool:
    return name in _signature(function) and all(p.name != name for p in parameters)


def _signature(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}
