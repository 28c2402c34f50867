"""Functions on the wire: their parameters as an Arrow schema, their arguments as one row."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lakeport.airport.protocol.addresses import function_tag
from lakeport.airport.protocol.codec import read_one_row
from lakeport.airport.protocol.limits import DEFAULT_LIMITS, Limits
from lakeport.arrow import convert, readable_type
from lakeport.catalog import (
    AnyType,
    Arguments,
    FunctionSignature,
    Parameter,
    ParameterKind,
    ScalarFunction,
    TableFunction,
    TableFunctionInOut,
    check_columns,
    default_scalar,
)
from lakeport.errors import InvalidArgumentError, InvalidInputError

__all__ = ["decode_arguments", "input_schema", "output_schema", "result_schema", "tag_of"]

RESULT: Final = "result"
"""The name of the one column that a scalar function returns."""


def input_schema(signature: FunctionSignature) -> pa.Schema:
    """Return the parameters as the client reads them: one field each, kinds in the metadata."""
    return pa.schema([_field(parameter) for parameter in signature.parameters])


def output_schema(function: ScalarFunction) -> pa.Schema:
    """Return the schema of the one column that a scalar function returns."""
    return _decoded(pa.schema([pa.field(RESULT, function.signature.returns)]))


def tag_of(function: ScalarFunction | TableFunction | TableFunctionInOut) -> str:
    """Return the digest that identifies a function among its overloads."""
    kind = "scalar" if isinstance(function, ScalarFunction) else "table"
    return function_tag(kind, input_schema(function.signature))


def result_schema(columns: pa.Schema, subject: str) -> pa.Schema:
    """Return the columns of a table function's result on the wire; `subject` names it in errors."""
    check_columns(columns, subject)
    return _decoded(columns)


def _decoded(columns: pa.Schema) -> pa.Schema:
    """Return the columns without dictionaries, which DuckDB misreads in results of functions."""
    fields = [field.with_type(readable_type(field.type)) for field in columns]
    return pa.schema(fields, metadata=columns.metadata)


def decode_arguments(
    function: TableFunction | TableFunctionInOut, row: bytes, *, limits: Limits = DEFAULT_LIMITS
) -> Arguments:
    """Decode the arguments of a call from one row of Arrow; missing ones get their defaults."""
    subject = f"arguments of {function.name}"
    batch = read_one_row(row, subject, limits=limits)
    return Arguments(
        {
            parameter.name: _argument(parameter, batch, position, subject)
            for position, parameter in enumerate(function.signature.parameters)
            if parameter.kind is not ParameterKind.TABLE
        }
    )


def _field(parameter: Parameter) -> pa.Field:
    metadata = {}
    if parameter.kind is ParameterKind.NAMED:
        metadata["is_named_parameter"] = "1"
    if parameter.kind is ParameterKind.TABLE:
        metadata["is_table_type"] = "1"
        return pa.field(parameter.name, pa.string(), metadata=metadata)
    if isinstance(parameter.type, AnyType):
        metadata["is_any_type"] = "1"
        return pa.field(parameter.name, pa.string(), metadata=metadata)
    return pa.field(parameter.name, parameter.type, metadata=metadata or None)


def _argument(
    parameter: Parameter, batch: pa.RecordBatch, position: int, subject: str
) -> pa.Scalar:
    index = batch.schema.get_field_index(parameter.name)
    if index < 0 and position < batch.num_columns and parameter.kind is ParameterKind.POSITIONAL:
        index = position
    value = batch.column(index)[0] if index >= 0 else None
    if value is None or not value.is_valid:
        if not parameter.is_required:
            return default_scalar(parameter)
        if value is None and parameter.kind is ParameterKind.POSITIONAL:
            raise InvalidArgumentError(f"{subject}: {parameter.name!r} is missing")
        if isinstance(parameter.type, AnyType):
            return pa.scalar(None) if value is None else value
        return pa.scalar(None, type=parameter.type)
    if isinstance(parameter.type, AnyType):
        return value
    try:
        return convert(batch.column(index), parameter.type, subject)[0]
    except InvalidInputError:
        raise InvalidInputError(
            f"{subject}: {parameter.name!r} must be {parameter.type}, not {value.type}"
        ) from None
