"""Choose the overload of a function call, and convert the arguments to its types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from lakeport.airport.client.entries import FunctionKind, FunctionOverload, RemoteFunction
from lakeport.arrow import convert
from lakeport.catalog import AnyType, Parameter, ParameterKind
from lakeport.errors import InvalidArgumentError, InvalidInputError, first_line
from lakeport.types import fold_name

__all__ = ["BoundCall", "bind_call", "column_argument", "value_argument"]


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument as an array: one row for a value, all rows for a column."""

    array: pa.Array
    python_values: Sequence[Any] | None = None
    """The Python values; a literal 5 fits every integer type."""
    is_constant: bool = False


Arguments: TypeAlias = Sequence[Argument]


@dataclass(frozen=True, slots=True)
class BoundCall:
    """An overload, with one array for each parameter except the table."""

    overload: FunctionOverload
    arrays: tuple[pa.Array, ...]

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the arguments, named after their parameters."""
        names = [p.name for p in self.overload.parameters if p.kind is not ParameterKind.TABLE]
        return pa.schema([pa.field(n, a.type) for n, a in zip(names, self.arrays, strict=True)])


def column_argument(value: Any) -> Argument:
    """Return an argument of a scalar function: arrays and lists are columns, others constants."""
    if isinstance(value, pa.ChunkedArray):
        return Argument(value.combine_chunks())
    if isinstance(value, pa.Array):
        return Argument(value)
    if isinstance(value, list | tuple):
        return Argument(_inferred(value), python_values=value)
    if hasattr(value, "__arrow_array__") or hasattr(value, "__arrow_c_array__"):
        return Argument(pa.array(value))
    if hasattr(value, "__array__") and getattr(value, "ndim", 0) == 1:
        return Argument(pa.array(value))
    return value_argument(value)


def value_argument(value: Any) -> Argument:
    """Return an argument of a table function, which is always one value."""
    if isinstance(value, pa.Scalar):
        return Argument(pa.repeat(value, 1), is_constant=True)
    return Argument(_inferred([value]), python_values=[value], is_constant=True)


def bind_call(
    function: RemoteFunction,
    kind: FunctionKind,
    positional: Arguments,
    named: Mapping[str, Argument] | None = None,
) -> BoundCall:
    """Choose the overload that needs the cheapest casts, and bind the arguments to it."""
    candidates = [overload for overload in function.overloads if overload.kind is kind]
    if not candidates:
        kinds = ", ".join(sorted({overload.kind.value for overload in function.overloads}))
        raise InvalidArgumentError(f"function {function} is not of kind {kind.value}, but {kinds}")
    fitting: list[tuple[int, BoundCall]] = []
    errors: list[InvalidInputError] = []
    for overload in candidates:
        try:
            bound = _bind(overload, positional, named or {})
        except InvalidInputError as error:
            errors.append(error)
            continue
        if bound is not None:
            fitting.append(bound)
    if not fitting and errors:
        raise errors[0]
    if not fitting:
        types = [str(argument.array.type) for argument in positional]
        types += [f"{name} := {each.array.type}" for name, each in (named or {}).items()]
        raise InvalidInputError(f"function {function} does not take ({', '.join(types)})")
    return min(fitting, key=lambda scored: scored[0])[1]


def _bind(
    overload: FunctionOverload, positional: Arguments, named: Mapping[str, Argument]
) -> tuple[int, BoundCall] | None:
    """Return the cost of the casts and the bound call; None if the arguments do not fit."""
    expected = [p for p in overload.parameters if p.kind is ParameterKind.POSITIONAL]
    by_name = {fold_name(p.name): p for p in overload.parameters if p.kind is ParameterKind.NAMED}
    named_arguments = {fold_name(name): argument for name, argument in named.items()}
    if len(expected) != len(positional) or not named_arguments.keys() <= by_name.keys():
        return None
    positional_arguments = iter(positional)
    total, arrays = 0, []
    for parameter in overload.parameters:
        if parameter.kind is ParameterKind.TABLE:
            continue
        argument = (
            next(positional_arguments)
            if parameter.kind is ParameterKind.POSITIONAL
            else named_arguments.get(fold_name(parameter.name))
        )
        fitted = _fit(argument, parameter)
        if fitted is None:
            return None
        total += fitted[0]
        arrays.append(fitted[1])
    return total, BoundCall(overload, tuple(arrays))


def _fit(argument: Argument | None, parameter: Parameter) -> tuple[int, pa.Array] | None:
    if isinstance(parameter.type, AnyType):
        if argument is None or pt.is_null(argument.array.type):
            # In DuckDB a NULL without a type is an INTEGER.
            return _ANY_COST, pa.nulls(1 if argument is None else len(argument.array), pa.int32())
        return _ANY_COST, argument.array
    if argument is None:
        return 0, pa.nulls(1, parameter.type)
    if argument.python_values is not None:
        return _fit_values(argument, parameter.type)
    cost = _cast_cost(argument.array.type, parameter.type)
    if cost is None:
        return None
    return cost, convert(argument.array, parameter.type, f"argument {parameter.name!r}")


def _fit_values(argument: Argument, type: pa.DataType) -> tuple[int, pa.Array] | None:
    inferred = argument.array.type
    if inferred == type:
        return 0, argument.array
    # Python and Arrow convert these implicitly; SQL does not.
    families = {_family(inferred), _family(type)}
    if pt.is_boolean(inferred) != pt.is_boolean(type) and not pt.is_null(inferred):
        return None
    if families == {"text", "blob"}:
        return None
    try:
        array = pa.array(argument.python_values, type=type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return 1 if len(families) == 1 else _CONVERSION_COST, array


def _inferred(values: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        reason = first_line(error)
        raise InvalidInputError(f"an argument has no Arrow type: {reason}") from None


_ANY_COST = 50
_CONVERSION_COST = 10


def _cast_cost(source: pa.DataType, target: pa.DataType) -> int | None:
    """Return the cost of an implicit cast; None if SQL needs an explicit cast."""
    if source == target:
        return 0
    if pt.is_null(source):
        return 1
    if pt.is_dictionary(source):
        inner = _cast_cost(source.value_type, target)
        return None if inner is None else inner + 1
    if pt.is_integer(source) and pt.is_integer(target):
        return _integer_cost(source, target)
    if pt.is_integer(source) and (pt.is_floating(target) or pt.is_decimal(target)):
        return _CONVERSION_COST
    if pt.is_float32(source) and pt.is_float64(target):
        return 1
    if pt.is_date(source) and pt.is_timestamp(target):
        return _CONVERSION_COST
    same_family = _family(source) == _family(target)
    return 1 if same_family and not pt.is_floating(source) else None


def _integer_cost(source: pa.DataType, target: pa.DataType) -> int | None:
    is_signed, becomes_signed = pt.is_signed_integer(source), pt.is_signed_integer(target)
    widens = target.bit_width > source.bit_width
    if is_signed == becomes_signed:
        return target.bit_width // source.bit_width if widens else None
    return target.bit_width // source.bit_width if widens and becomes_signed else None


def _family(type: pa.DataType) -> str:
    families = {
        "text": pt.is_string(type) or pt.is_large_string(type) or pt.is_string_view(type),
        "blob": pt.is_binary(type) or pt.is_large_binary(type) or pt.is_binary_view(type),
        "integer": pt.is_integer(type),
        "float": pt.is_floating(type),
        "decimal": pt.is_decimal(type),
        "date": pt.is_date(type),
        "time": pt.is_time(type),
        "timestamp": pt.is_timestamp(type) and type.tz is None,
        "timestamptz": pt.is_timestamp(type) and type.tz is not None,
        "list": pt.is_list(type) or pt.is_large_list(type),
        "struct": pt.is_struct(type),
        "map": pt.is_map(type),
    }
    return next((name for name, matches in families.items() if matches), str(type))
