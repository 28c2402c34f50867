"""Checks of declarations: names, columns, types and signatures that DuckDB can use."""

from __future__ import annotations

import inspect
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from lakeport.catalog.functions import AnyType, FunctionSignature, Parameter, ParameterKind
from lakeport.catalog.schemas import field_is_rowid
from lakeport.errors import DefinitionError, InvalidArgumentError
from lakeport.types import fold_name

__all__ = [
    "MAX_NAME_BYTES",
    "check_callable",
    "check_columns",
    "check_declared_name",
    "check_name",
    "check_scalar_signature",
    "check_signature",
    "check_unique",
    "unsupported_type_reason",
]

# DuckDB's client interprets named parameters of these names itself.
_RESERVED = frozenset({"auth_token", "secret", "headers", "ticket", "at_unit", "at_value"})


def check_declared_name(name: str, kind: str) -> None:
    """Raise DefinitionError for a name that no client could write."""
    try:
        check_name(name, kind)
    except InvalidArgumentError as error:
        raise DefinitionError(str(error)) from None


def check_unique(names: Sequence[str], kind: str, where: str) -> None:
    """Raise DefinitionError for names that are equal in DuckDB, which ignores case."""
    seen: set[str] = set()
    for name in names:
        if fold_name(name) in seen:
            raise DefinitionError(f"{where} has two {kind}s named {name!r} (case is ignored)")
        seen.add(fold_name(name))


def check_columns(schema: pa.Schema, where: str) -> None:
    """Raise DefinitionError for a table schema that DuckDB could not bind."""
    if not isinstance(schema, pa.Schema):
        raise DefinitionError(f"{where}: expected a pyarrow schema, not {type(schema).__name__}")
    visible = [field for field in schema if not field_is_rowid(field)]
    if not visible:
        raise DefinitionError(f"{where} has no columns")
    if len(schema) - len(visible) > 1:
        raise DefinitionError(f"{where} has more than one column marked is_rowid")
    for field in schema:
        check_declared_name(field.name, f"column of {where}")
        reason = unsupported_type_reason(field.type)
        if reason:
            raise DefinitionError(f"{where}: column {field.name!r}: {reason}")
    check_unique([field.name for field in visible], "column", where)


def unsupported_type_reason(type: pa.DataType) -> str | None:
    """Return why DuckDB cannot read an Arrow type; None if it can."""
    if isinstance(type, pa.BaseExtensionType):
        return unsupported_type_reason(type.storage_type)
    if pt.is_float16(type) or pt.is_decimal256(type):
        return f"DuckDB has no type for {type}"
    if pt.is_union(type) and type.mode != "sparse":
        return "DuckDB reads sparse unions only"
    if pt.is_union(type) and type.type_codes != list(range(type.num_fields)):
        return "DuckDB reads unions with the type codes 0, 1, 2, … only"
    if pt.is_struct(type) and type.num_fields == 0:
        return "a struct needs at least one field"
    for index in range(type.num_fields):
        reason = unsupported_type_reason(type.field(index).type)
        if reason:
            return reason
    return None


def check_signature(signature: FunctionSignature, where: str) -> None:
    """Raise DefinitionError for parameters that the client could not pass."""
    check_unique([p.name for p in signature.parameters], "parameter", where)
    for parameter in signature.parameters:
        check_declared_name(parameter.name, f"parameter of {where}")
        _check_parameter(parameter, where)
    tables = [i for i, p in enumerate(signature.parameters) if p.kind is ParameterKind.TABLE]
    if len(tables) > 1:
        raise DefinitionError(f"{where} takes two tables; only one is possible")
    if tables and tables[0] != len(signature.parameters) - 1:
        raise DefinitionError(f"{where}: the table parameter must be the last one")


def check_scalar_signature(signature: FunctionSignature, where: str) -> None:
    """Raise DefinitionError for parameters or types that a scalar function cannot have."""
    check_signature(signature, where)
    if not isinstance(signature.returns, pa.DataType):
        raise DefinitionError(f"{where}: returns= must be an Arrow type")
    reason = unsupported_type_reason(signature.returns)
    if reason:
        raise DefinitionError(f"{where}: the result: {reason}")
    for parameter in signature.parameters:
        if parameter.kind is not ParameterKind.POSITIONAL:
            raise DefinitionError(
                f"{where}: parameter {parameter.name!r} is {parameter.kind.value}; "
                "a scalar function has positional parameters only"
            )
        if isinstance(parameter.type, pa.DataType) and not _is_canonical(parameter.type):
            raise DefinitionError(
                f"{where}: parameter {parameter.name!r}: DuckDB does not pass {parameter.type} in "
                "that layout; declare ANY and read the type of the column that is passed"
            )


def check_callable(
    function: Callable[..., Any],
    where: str,
    *,
    positional: int = 0,
    named: Sequence[str] = (),
    offered: str = "",
) -> None:
    """Raise DefinitionError for a callable that cannot take these arguments.

    The argument `offered` is passed only to a callable that has a parameter of that name.
    """
    if not callable(function):
        raise DefinitionError(f"{where}: {type(function).__name__} is not callable")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    names = [*named, offered] if offered in signature.parameters else named
    try:
        signature.bind(*range(positional), **dict.fromkeys(names))
    except TypeError as error:
        raise DefinitionError(
            f"{where}: the callable does not fit its parameters: {error}"
        ) from None


def _check_parameter(parameter: Parameter, where: str) -> None:
    if not isinstance(parameter.type, pa.DataType | AnyType):
        raise DefinitionError(
            f"{where}: parameter {parameter.name!r} needs an Arrow type or ANY, "
            f"not {parameter.type!r}"
        )
    if parameter.kind is ParameterKind.NAMED:
        if isinstance(parameter.type, AnyType):
            raise DefinitionError(
                f"{where}: parameter {parameter.name!r} cannot be both named and of any type"
            )
        if fold_name(parameter.name) in _RESERVED:
            raise DefinitionError(
                f"{where}: parameter {parameter.name!r} has a name that is reserved by the client"
            )
    if isinstance(parameter.type, pa.DataType):
        reason = unsupported_type_reason(parameter.type)
        if reason:
            raise DefinitionError(f"{where}: parameter {parameter.name!r}: {reason}")


def _is_canonical(type: pa.DataType) -> bool:
    """Return whether DuckDB passes values of this type in exactly this memory layout."""
    if isinstance(type, pa.BaseExtensionType):
        return False
    if pt.is_list(type) or pt.is_fixed_size_list(type) or pt.is_struct(type) or pt.is_map(type):
        return all(_is_canonical(type.field(i).type) for i in range(type.num_fields))
    return bool(
        pt.is_boolean(type)
        or pt.is_integer(type)
        or pt.is_float32(type)
        or pt.is_float64(type)
        or pt.is_string(type)
        or pt.is_binary(type)
        or pt.is_date32(type)
        or pt.is_time64(type)
        or (pt.is_timestamp(type) and (type.tz is None or type.unit == "us"))
        or pt.is_decimal128(type)
        or type == pa.month_day_nano_interval()
    )


MAX_NAME_BYTES = 1024


def check_name(name: str, kind: str) -> str:
    """Return the name. Raise if it is empty or too long, or has control characters."""
    if not name:
        raise InvalidArgumentError(f"the name of a {kind} must not be empty")
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"the name of the {kind} is not valid Unicode") from None
    if length > MAX_NAME_BYTES:
        raise InvalidArgumentError(
            f"the name of the {kind} is {length} bytes long; at most {MAX_NAME_BYTES} are allowed"
        )
    if any(unicodedata.category(character) == "Cc" for character in name):
        raise InvalidArgumentError(f"the name of the {kind} {name!r} has control characters")
    return name
