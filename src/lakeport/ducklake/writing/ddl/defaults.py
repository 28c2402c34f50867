"""Defaults of columns: literals as their text, expressions as DuckDB prints them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

from lakeport.arrow import thread_connection, thread_sandbox
from lakeport.ducklake.writing.ddl.expressions import function_names, print_expression
from lakeport.errors import InvalidArgumentError, first_line
from lakeport.types import NESTED, Column, duckdb_type, sql_type

__all__ = ["NO_DEFAULT", "Default", "check_default", "default_of"]

_OF_THE_PROCESS: Final = frozenset({"current_setting", "getenv", "getvariable"})


@dataclass(frozen=True, slots=True)
class Default:
    """The default of a column as the catalog records it."""

    initial: str | None
    """The value of rows in files that lack the column."""
    value: str
    type: str


NO_DEFAULT: Final = Default(None, "NULL", "literal")


def default_of(column: Column, value: Any, expression: str | None = None) -> Default:
    """Return a default from a literal value or its text, or from an expression."""
    if expression is not None:
        if value is not None:
            raise InvalidArgumentError("a column has one default: a value or an expression")
        printed = print_expression(expression)
        check_default(column, printed)
        return Default(None, printed, "expression")
    if value is None:
        return NO_DEFAULT
    if column.type in NESTED or column.type in ("variant", "geometry"):
        raise InvalidArgumentError(
            f"the column {column.name!r} of type {column.type} cannot have a default"
        )
    text = _text(value)
    initial = _cast(column, text)
    if text == "NULL":
        # The text NULL stands for no default; as an expression it is a string.
        return Default(initial, "'NULL'", "expression")
    return Default(initial, text, "literal")


def check_default(column: Column, sql: str) -> None:
    """Raise InvalidArgumentError for a default that an INSERT cannot, or may not, compute.

    DuckDB refuses columns, subqueries, aggregates and functions that it does not have. Settings and
    variables would be those of the process that writes.
    """
    import duckdb

    subject = f"the default {sql[:80]!r} of column {column.name!r}"
    try:
        # Binds the expression as CREATE TABLE does, and creates nothing.
        thread_sandbox().execute(f"EXPLAIN CREATE TABLE t (v {sql_type(column)} DEFAULT ({sql}))")
    except duckdb.Error as error:
        raise InvalidArgumentError(f"{subject} cannot be computed: {first_line(error)}") from None
    refused = _OF_THE_PROCESS & function_names(sql)
    if refused:
        raise InvalidArgumentError(
            f"{subject} cannot be computed: {min(refused)} reads the settings of a process"
        )


def _text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return "".join(f"\\x{byte:02X}" for byte in value)
        case datetime():
            return value.isoformat(sep=" ")
        case date() | time():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)


def _cast(column: Column, text: str) -> str:
    """Return the text of a literal after a cast to the column's type."""
    import duckdb

    try:
        connection = thread_connection()
        sql = f"SELECT CAST(CAST(? AS {duckdb_type(column)}) AS VARCHAR)"
        return str(connection.execute(sql, [text]).fetchall()[0][0])
    except duckdb.Error as error:
        raise InvalidArgumentError(
            f"the default {text[:80]!r} is no {column.type} of column {column.name!r}: "
            f"{first_line(error)}"
        ) from None
