"""New tables: what CREATE TABLE may say, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lakeport.catalog import CreateTableOptions, check_name, without_rowid
from lakeport.catalog.checks import check_columns
from lakeport.errors import InvalidArgumentError, InvalidInputError
from lakeport.memory.constraints import check_key_type
from lakeport.memory.expressions import parse_expression
from lakeport.memory.layouts import stored_type
from lakeport.memory.state import Definition, UniqueKey, fold

__all__ = ["check_definition", "define", "stored_field", "unnamed"]

_ROWID = "rowid"


def define(name: str, schema: pa.Schema, options: CreateTableOptions) -> Definition:
    """The definition of a new table; a column marked as rowid is left out, since each has one."""
    columns = without_rowid(schema)
    check_columns(columns, f"table {name!r}")
    definition = Definition(pa.schema([stored_field(field) for field in columns]))
    not_null = {fold(column) for column in (*options.not_null_columns, *options.primary_key)}
    for column in (*options.not_null_columns, *options.primary_key):
        definition.require(column, name)
    fields = [
        field.with_nullable(field.nullable and fold(field.name) not in not_null)
        for field in definition.columns
    ]
    definition = Definition(
        columns=pa.schema(fields),
        unique=tuple(_keys(definition, name, options)),
        checks=tuple(dict.fromkeys(options.check_constraints)),
    )
    check_definition(definition)
    return definition


def check_definition(definition: Definition) -> None:
    """Refuse names, types of keys and CHECK expressions that cannot be used."""
    for field in definition.columns:
        check_name(field.name, "column")
        if fold(field.name) == _ROWID:
            raise InvalidArgumentError(
                f"a column cannot be named {field.name!r}: each table has a row identifier of "
                "that name"
            )
    for key in definition.unique:
        for column in key.columns:
            index = definition.require(column, "")
            check_key_type(definition.columns.field(index).type, column)
    for text in definition.checks:
        try:
            parse_expression(text, unnamed(definition.columns))
        except InvalidInputError as error:
            raise InvalidArgumentError(f"the constraint CHECK ({text}): {error}") from None


def stored_field(field: pa.Field) -> pa.Field:
    """A column in the layout that a table keeps it in."""
    type = stored_type(field.type)
    return field if type == field.type else field.with_type(type)


def unnamed(columns: pa.Schema) -> pa.Schema:
    """Names and types alone: what an SQL expression can see of the columns."""
    return pa.schema([pa.field(field.name, field.type) for field in columns])


def _keys(definition: Definition, name: str, options: CreateTableOptions) -> Iterable[UniqueKey]:
    if options.primary_key:
        yield UniqueKey(_spelled(definition, options.primary_key, name), is_primary=True)
    for columns in options.unique_constraints:
        if not columns:
            raise InvalidArgumentError("a UNIQUE constraint needs at least one column")
        yield UniqueKey(_spelled(definition, columns, name))


def _spelled(definition: Definition, columns: Iterable[str], table: str) -> tuple[str, ...]:
    """Column names as the table spells them."""
    return tuple(
        definition.columns.field(definition.require(column, table)).name for column in columns
    )
