"""ALTER TABLE: functions from one state of a table to the next, definition and rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt

from lakeport.arrow import convert, null_count
from lakeport.errors import (
    AlreadyExistsError,
    ConstraintError,
    InvalidArgumentError,
    InvalidInputError,
    NotFoundError,
)
from lakeport.memory.constraints import (
    check_checks,
    check_definition,
    check_unique,
    stored_field,
    unnamed,
)
from lakeport.memory.rows import CHUNK_ROWS, Chunk, Rows
from lakeport.memory.sql.expressions import check_syntax, evaluate, parse_expression
from lakeport.memory.state import Definition, TableState, UniqueKey
from lakeport.types import fold_name

__all__ = [
    "add_column",
    "add_field",
    "change_column_type",
    "has_field",
    "remove_column",
    "remove_field",
    "rename_column",
    "rename_field",
    "replace_column",
    "set_default",
    "set_nullable",
]

_DEFAULT = b"default"


def add_column(table: TableState, field: pa.Field) -> TableState:
    """Return the table with one more column, of nulls."""
    before = table.current.definition
    if before.index(field.name) is not None:
        raise AlreadyExistsError(f"table {table} already has a column {field.name!r}")
    if not field.nullable and table.current.rows.count:
        raise ConstraintError(
            f"column {field.name!r} cannot be NOT NULL: table {table} has rows, which would get "
            "nulls in it"
        )
    field = stored_field(field)
    definition = _checked(replace(before, columns=before.columns.append(field)), table)
    nulls = pa.nulls(CHUNK_ROWS, field.type)
    rows = _each_chunk(table, lambda chunk: (*chunk.columns, _nulls(nulls, len(chunk))))
    table.bounds.add_column(field, [nulls.slice(0, min(1, rows.count))])
    return table.changed(rows=rows, definition=definition)


def remove_column(table: TableState, name: str, *, cascade: bool) -> TableState:
    """Return the table without a column."""
    before = table.current.definition
    index = before.require(name, str(table))
    if len(before.columns) == 1:
        raise InvalidArgumentError(f"{name!r} is the only column of table {table}")
    checks = _checks_with(before, name)
    keys = [key for key in before.unique if _in(name, key.columns)]
    if (checks or keys) and not cascade:
        dependent = str(keys[0]) if keys else f"CHECK ({checks[0]})"
        raise ConstraintError(
            f"column {name!r} of table {table} is used by {dependent}; drop it with CASCADE"
        )
    definition = Definition(
        columns=before.columns.remove(index),
        unique=tuple(key for key in before.unique if key not in keys),
        checks=tuple(text for text in before.checks if text not in checks),
    )
    rows = _each_chunk(table, lambda chunk: (*chunk.columns[:index], *chunk.columns[index + 1 :]))
    return table.changed(rows=rows, definition=definition)


def rename_column(table: TableState, old: str, new: str) -> TableState:
    """Return the table with a column renamed."""
    before = table.current.definition
    index = before.require(old, str(table))
    taken = before.index(new)
    if taken is not None and taken != index:
        raise AlreadyExistsError(f"table {table} already has a column {new!r}")
    checks = _checks_with(before, old)
    if checks and fold_name(old) != fold_name(new):
        raise ConstraintError(
            f"column {old!r} of table {table} cannot be renamed: it is used by CHECK ({checks[0]})"
        )
    field = before.columns.field(index)
    definition = Definition(
        columns=before.columns.set(index, field.with_name(new)),
        unique=tuple(_renamed(key, old, new) for key in before.unique),
        checks=before.checks,
    )
    # Statistics of the values may now be requested by the new name.
    values = table.current.rows.column(index, field.type)
    table.bounds.add_column(field.with_name(new), values.chunks)
    return table.changed(definition=_checked(definition, table))


def change_column_type(table: TableState, field: pa.Field, expression: str) -> TableState:
    """Return the table with the type of a column changed and its values converted by SQL."""
    before = table.current.definition
    index = before.require(field.name, str(table))
    old = before.columns.field(index)
    new = old.with_type(stored_field(field).type)
    names = unnamed(before.columns)
    conversion = parse_expression(expression, names) if expression.strip() else None

    def converted(columns: Sequence[pa.Array]) -> pa.Array:
        label = f"column {old.name!r} of table {table}"
        if conversion is None:
            return convert(columns[index], new.type, label)
        try:
            values = evaluate(conversion, pa.Table.from_arrays(list(columns), schema=names))
        except InvalidInputError as error:
            raise InvalidInputError(f"{label} cannot be converted: {error}") from None
        return convert(values, new.type, label)

    definition = _checked(replace(before, columns=before.columns.set(index, new)), table)
    return replace_column(table, index, definition, converted)


def replace_column(
    table: TableState,
    index: int,
    definition: Definition,
    convert: Callable[[Sequence[pa.Array]], pa.Array],
) -> TableState:
    """Return the table with the values of one column computed from all columns of a row."""
    field = definition.columns.field(index)
    chunks: list[Chunk] = []
    # Deleted rows are dropped first: their values need not be convertible.
    for chunk in (chunk.compact() for chunk in table.current.rows.chunks):
        columns = list(chunk.columns)
        columns[index] = convert(columns)
        if not field.nullable and null_count(columns[index]):
            raise ConstraintError(f"NOT NULL constraint failed: {table}.{field.name}")
        check_checks(definition, columns, str(table))
        chunks.append(replace(chunk, columns=tuple(columns)))
    rows = Rows.of(chunks)
    check_unique(definition, rows, rows.chunks, frozenset({index}), str(table))
    table.bounds.add_column(field, [chunk.columns[index] for chunk in chunks])
    return table.changed(rows=rows, definition=definition)


def set_nullable(table: TableState, name: str, *, nullable: bool) -> TableState:
    """Return the table with a column that accepts nulls, or rejects them."""
    before = table.current.definition
    index = before.require(name, str(table))
    field = before.columns.field(index)
    if nullable and any(key.is_primary and _in(name, key.columns) for key in before.unique):
        raise ConstraintError(f"column {name!r} of table {table} is part of the PRIMARY KEY")
    if not nullable and null_count(table.current.rows.column(index, field.type)):
        raise ConstraintError(f"column {name!r} of table {table} has nulls")
    columns = before.columns.set(index, field.with_nullable(nullable))
    return table.changed(definition=replace(before, columns=columns))


def set_default(table: TableState, name: str, expression: str) -> TableState:
    """Return the table with an SQL expression that clients use for a column that they leave out."""
    before = table.current.definition
    index = before.require(name, str(table))
    field = before.columns.field(index)
    metadata = {k: v for k, v in (field.metadata or {}).items() if k != _DEFAULT}
    if expression.strip():
        # Clients evaluate the expression with their own functions, so only its syntax is checked.
        check_syntax(expression)
        metadata[_DEFAULT] = expression.encode()
    columns = before.columns.set(index, field.with_metadata(metadata or None))
    return table.changed(definition=replace(before, columns=columns))


def _each_chunk(table: TableState, columns: Callable[[Chunk], tuple[pa.Array, ...]]) -> Rows:
    rows = table.current.rows
    return Rows(tuple(replace(chunk, columns=columns(chunk)) for chunk in rows.chunks), rows.count)


def _nulls(nulls: pa.Array, length: int) -> pa.Array:
    return nulls.slice(0, length) if length <= len(nulls) else pa.nulls(length, nulls.type)


def _checked(definition: Definition, table: TableState) -> Definition:
    try:
        check_definition(definition)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"table {table}: {error}") from None
    return definition


def _checks_with(definition: Definition, name: str) -> list[str]:
    columns = unnamed(definition.columns)
    return [
        text for text in definition.checks if _in(name, parse_expression(text, columns).columns)
    ]


def _in(name: str, columns: Sequence[str]) -> bool:
    return fold_name(name) in {fold_name(column) for column in columns}


def _renamed(key: UniqueKey, old: str, new: str) -> UniqueKey:
    return replace(
        key,
        columns=tuple(
            new if fold_name(column) == fold_name(old) else column for column in key.columns
        ),
    )


_Members = list[tuple[pa.Field, pa.Array]]


def has_field(table: TableState, path: Sequence[str]) -> bool:
    """Return whether there is a field at a path, which begins with the column."""
    definition = table.current.definition
    index = definition.index(path[0]) if path else None
    if index is None:
        return False
    type = definition.columns.field(index).type
    for name in path[1:]:
        position = _position(type, name) if pt.is_struct(type) else None
        if position is None:
            return False
        type = type.field(position).type
    return True


def add_field(table: TableState, path: Sequence[str], field: pa.Field) -> TableState:
    """Return the table with one more field, of nulls, in the struct at `path`."""
    field = stored_field(field)

    def add(members: _Members, length: int) -> _Members:
        if any(fold_name(member.name) == fold_name(field.name) for member, _ in members):
            raise AlreadyExistsError(f"field {_dotted([*path, field.name])} already exists")
        return [*members, (field, pa.nulls(length, field.type))]

    return _edit(table, path, add)


def rename_field(table: TableState, path: Sequence[str], new_name: str) -> TableState:
    """Return the table with the field at `path` renamed."""
    parent, name = _parent(path)

    def rename(members: _Members, length: int) -> _Members:  # noqa: ARG001
        position = _member(members, name, path)
        if any(
            fold_name(field.name) == fold_name(new_name)
            for other, (field, _) in enumerate(members)
            if other != position
        ):
            raise AlreadyExistsError(f"field {_dotted([*parent, new_name])} already exists")
        field, values = members[position]
        return [*members[:position], (field.with_name(new_name), values), *members[position + 1 :]]

    return _edit(table, parent, rename)


def remove_field(table: TableState, path: Sequence[str]) -> TableState:
    """Return the table without the field at `path`."""
    parent, name = _parent(path)

    def remove(members: _Members, length: int) -> _Members:  # noqa: ARG001
        position = _member(members, name, path)
        if len(members) == 1:
            raise InvalidArgumentError(f"{_dotted(path)} is the only field of its struct")
        return [*members[:position], *members[position + 1 :]]

    return _edit(table, parent, remove)


def _edit(
    table: TableState, path: Sequence[str], edit: Callable[[_Members, int], _Members]
) -> TableState:
    """Return the table with another set of members in the struct at `path`."""
    before = table.current.definition
    if not path:
        raise InvalidArgumentError("the path of a struct field begins with its column")
    index = before.require(path[0], str(table))
    column = before.columns.field(index)
    empty = _edited(pa.nulls(0, column.type), path, path[1:], edit)
    definition = replace(before, columns=before.columns.set(index, column.with_type(empty.type)))
    check_definition(definition)
    return replace_column(
        table, index, definition, lambda columns: _edited(columns[index], path, path[1:], edit)
    )


def _edited(
    values: pa.Array,
    path: Sequence[str],
    rest: Sequence[str],
    edit: Callable[[_Members, int], _Members],
) -> pa.Array:
    if not pt.is_struct(values.type):
        parent = _dotted(path[: len(path) - len(rest)])
        raise InvalidArgumentError(f"{parent} is of type {values.type}, not a struct")
    members: _Members = [
        (values.type.field(i), values.field(i)) for i in range(values.type.num_fields)
    ]
    if rest:
        position = _member(members, rest[0], path)
        field, inner = members[position]
        changed = _edited(inner, path, rest[1:], edit)
        members[position] = (field.with_type(changed.type), changed)
    else:
        members = edit(members, len(values))
    return pa.StructArray.from_arrays(
        [array for _, array in members],
        fields=[field for field, _ in members],
        mask=values.is_null(),
    )


def _member(members: _Members, name: str, path: Sequence[str]) -> int:
    for position, (field, _) in enumerate(members):
        if fold_name(field.name) == fold_name(name):
            return position
    raise NotFoundError(f"there is no field {_dotted(path)}")


def _position(type: pa.DataType, name: str) -> int | None:
    for position in range(type.num_fields):
        if fold_name(type.field(position).name) == fold_name(name):
            return position
    return None


def _parent(path: Sequence[str]) -> tuple[Sequence[str], str]:
    if len(path) < 2:
        raise InvalidArgumentError(f"{_dotted(path)} is not a field of a struct")
    return path[:-1], path[-1]


def _dotted(path: Sequence[str]) -> str:
    return repr(".".join(path))
