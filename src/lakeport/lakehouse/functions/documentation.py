"""The table `functions`: what the functions of the schema `lakeport` take and do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from lakeport.auth import Operation
from lakeport.catalog import (
    AnyType,
    Parameter,
    ParameterKind,
    TableFunction,
    current_request,
)
from lakeport.types import from_arrow_type

__all__ = ["FUNCTIONS_SCHEMA", "functions_table"]

FUNCTIONS_SCHEMA: Final = pa.schema(
    [
        ("function_name", pa.string()),
        ("parameters", pa.string()),
        ("description", pa.string()),
    ]
)


def functions_table(schema: str, functions: Iterable[TableFunction]) -> pa.Table:
    """Return a row for each function that the caller may call."""
    may = current_request().may
    rows = [
        {
            "function_name": function.name,
            "parameters": ", ".join(_shown(one) for one in function.signature.parameters),
            "description": function.comment,
        }
        for function in functions
        if may(Operation.CALL, schema, function.name)
    ]
    return pa.Table.from_pylist(rows, FUNCTIONS_SCHEMA)


def _shown(parameter: Parameter) -> str:
    """Return a parameter as a call writes it: `table_name VARCHAR`, `message := VARCHAR`."""
    type = parameter.type
    shown = "ANY" if isinstance(type, AnyType) else str(from_arrow_type(type)).strip("<>")
    named = parameter.kind is ParameterKind.NAMED
    return f"{parameter.name} := {shown}" if named else f"{parameter.name} {shown}"
