"""NOT NULL, CHECK, UNIQUE and PRIMARY KEY, each checked for many rows at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lakeport.arrow import convert, null_count, stored_type
from lakeport.catalog import CreateTableOptions, check_columns, check_name, without_rowid
from lakeport.errors import (
    ConstraintError,
    InvalidArgumentError,
    InvalidInputError,
    UnsupportedError,
)
from lakeport.memory.rows import Chunk, Rows
from lakeport.memory.sql.expressions import evaluate, parse_expression
from lakeport.memory.state import Definition, UniqueKey
from lakeport.types import fold_name

__all__ = [
    "check_checks",
    "check_definition",
    "check_key_type",
    "check_not_null",
    "check_unique",
    "define",
    "stored_field",
    "unnamed",
]


def check_not_null(
    definition: Definition, columns: Iterable[tuple[int, pa.Array]], table: str
) -> None:
    """Raise ConstraintError for nulls in NOT NULL columns; columns are (position, values)."""
    for index, values in columns:
        field = definition.columns.field(index)
        if not field.nullable and null_count(values):
            raise ConstraintError(f"NOT NULL constraint failed: {table}.{field.name}")


def check_checks(
    definition: Definition, columns: Sequence[pa.Array | pa.ChunkedArray], table: str
) -> None:
    """Raise ConstraintError for rows with a false CHECK; `columns` are all columns of the table."""
    if not definition.checks:
        return
    rows = pa.Table.from_arrays(list(columns), schema=_nullable(definition.columns))
    for text in definition.checks:
        expression = parse_expression(text, _nullable(definition.columns))
        passed = convert(evaluate(expression, rows), pa.bool_(), f"CHECK ({text})")
        if pc.any(pc.equal(passed, pa.scalar(value=False))).as_py():
            columns_used = ", ".join(repr(name) for name in expression.columns)
            raise ConstraintError(
                f"CHECK constraint failed: {table}: a row does not satisfy {text}"
                + (f" (column {columns_used})" if columns_used else "")
            )


def check_unique(
    definition: Definition,
    rows: Rows,
    changed: Sequence[Chunk],
    set_columns: frozenset[int] | None,
    table: str,
) -> None:
    """Raise ConstraintError if a key of the changed rows occurs more than once.

    `changed` are rows of `rows`. `set_columns` are the columns in which they differ from before;
    None for new rows.
    """
    for key in definition.unique:
        indexes = [definition.require(column, table) for column in key.columns]
        if set_columns is not None and set_columns.isdisjoint(indexes):
            continue
        _check_key(key, rows, changed, indexes, definition, table)


def check_key_type(type: pa.DataType, column: str) -> None:
    """Raise UnsupportedError for types that cannot be in a key, as in DuckDB."""
    if isinstance(type, pa.BaseExtensionType):
        type = type.storage_type
    if pt.is_nested(type) or pt.is_interval(type) or pt.is_null(type):
        raise UnsupportedError(f"column {column!r} of type {type} cannot be in a key")


def _check_key(
    key: UniqueKey,
    rows: Rows,
    changed: Sequence[Chunk],
    indexes: Sequence[int],
    definition: Definition,
    table: str,
) -> None:
    candidates = _keys(changed, indexes, definition)
    if candidates.num_rows == 0:
        return
    everything = _keys(rows.chunks, indexes, definition)
    if candidates.num_rows < everything.num_rows:
        # Rows that share each part of their key with some candidate; usually just the candidates.
        masks = [
            pc.is_in(column, value_set=pc.unique(candidate))
            for column, candidate in zip(everything.columns, candidates.columns, strict=True)
        ]
        everything = everything.filter(reduce(pc.and_, masks))
    groups = everything.group_by(everything.column_names, use_threads=False)
    repeated = groups.aggregate([([], "count_all")]).filter(pc.field("count_all") > 1)
    if repeated.num_rows:
        values = ", ".join(str(column[0].as_py()) for column in repeated.columns[:-1])
        raise ConstraintError(
            f"{key} constraint failed: table {table} has more than one row with "
            f"{', '.join(key.columns)} = {values[:200]}"
        )


def _keys(chunks: Sequence[Chunk], indexes: Sequence[int], definition: Definition) -> pa.Table:
    """Return the keys of rows, without those that have a null: nulls are never equal."""
    columns = [
        _comparable(
            pa.chunked_array(
                [chunk.live_values(index) for chunk in chunks], definition.columns.field(index).type
            )
        )
        for index in indexes
    ]
    keys = pa.Table.from_arrays(columns, names=[f"k{i}" for i in range(len(columns))])
    has_any = any(column.null_count for column in keys.columns)
    return keys.drop_null() if has_any else keys


def _comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values in a type that Arrow can group, equal where they are equal in DuckDB."""
    type = values.type
    if isinstance(type, pa.BaseExtensionType):
        return _comparable(
            pa.chunked_array([chunk.storage for chunk in values.chunks], type.storage_type)
        )
    if pt.is_dictionary(type):
        return values.cast(type.value_type)
    if pt.is_decimal32(type) or pt.is_decimal64(type):
        return values.cast(pa.decimal128(type.precision, type.scale))
    if pt.is_floating(type):
        return pc.add(values, pa.scalar(0.0, type))
    return values


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type) for field in schema])


_ROWID = "rowid"


def define(name: str, schema: pa.Schema, options: CreateTableOptions) -> Definition:
    """Return the definition of a new table, without a column marked as rowid."""
    columns = without_rowid(schema)
    check_columns(columns, f"table {name!r}")
    definition = Definition(pa.schema([stored_field(field) for field in columns]))
    not_null = {fold_name(column) for column in (*options.not_null_columns, *options.primary_key)}
    for column in (*options.not_null_columns, *options.primary_key):
        definition.require(column, name)
    fields = [
        field.with_nullable(field.nullable and fold_name(field.name) not in not_null)
        for field in definition.columns
    ]
    definition = Definition(
        columns=pa.schema(fields),
        unique=tuple(_key_columns(definition, name, options)),
        checks=tuple(dict.fromkeys(options.check_constraints)),
    )
    check_definition(definition)
    return definition


def check_definition(definition: Definition) -> None:
    """Raise for names, types of keys and CHECK expressions that cannot be used."""
    for field in definition.columns:
        check_name(field.name, "column")
        if fold_name(field.name) == _ROWID:
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
    """Return a column in the layout in which a table stores it."""
    type = stored_type(field.type)
    return field if type == field.type else field.with_type(type)


def unnamed(columns: pa.Schema) -> pa.Schema:
    """Return only names and types, which is what an SQL expression uses of the columns."""
    return pa.schema([pa.field(field.name, field.type) for field in columns])


def _key_columns(
    definition: Definition, name: str, options: CreateTableOptions
) -> Iterable[UniqueKey]:
    if options.primary_key:
        yield UniqueKey(_spelled(definition, options.primary_key, name), is_primary=True)
    for columns in options.unique_constraints:
        if not columns:
            raise InvalidArgumentError("a UNIQUE constraint needs at least one column")
        yield UniqueKey(_spelled(definition, columns, name))


def _spelled(definition: Definition, columns: Iterable[str], table: str) -> tuple[str, ...]:
    """Return column names in the table's spelling."""
    return tuple(
        definition.columns.field(definition.require(column, table)).name for column in columns
    )
