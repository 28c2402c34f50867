"""Fields of struct columns: adding, renaming and removing them, at any depth of structs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt

from lakeport.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError
from lakeport.memory.alter import replace_column
from lakeport.memory.definitions import check_definition, stored_field
from lakeport.memory.state import TableState, fold

__all__ = ["add_field", "has_field", "remove_field", "rename_field"]

_Members = list[tuple[pa.Field, pa.Array]]


def has_field(table: TableState, path: Sequence[str]) -> bool:
    """Whether there is a field at a path, which begins with the column."""
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
    """The table with one more field, of nulls, in the struct at `path`."""
    field = stored_field(field)

    def add(members: _Members, length: int) -> _Members:
        if any(fold(known.name) == fold(field.name) for known, _ in members):
            raise AlreadyExistsError(f"there is a field {_dotted([*path, field.name])} already")
        return [*members, (field, pa.nulls(length, field.type))]

    return _edit(table, path, add)


def rename_field(table: TableState, path: Sequence[str], new_name: str) -> TableState:
    """The table with another name for the field at `path`."""
    parent, name = _parent(path)

    def rename(members: _Members, length: int) -> _Members:  # noqa: ARG001
        position = _member(members, name, path)
        if any(
            fold(field.name) == fold(new_name)
            for other, (field, _) in enumerate(members)
            if other != position
        ):
            raise AlreadyExistsError(f"there is a field {_dotted([*parent, new_name])} already")
        field, values = members[position]
        return [*members[:position], (field.with_name(new_name), values), *members[position + 1 :]]

    return _edit(table, parent, rename)


def remove_field(table: TableState, path: Sequence[str]) -> TableState:
    """The table without the field at `path`."""
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
    """The table with another set of members in the struct at `path`."""
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
        if fold(field.name) == fold(name):
            return position
    raise NotFoundError(f"there is no field {_dotted(path)}")


def _position(type: pa.DataType, name: str) -> int | None:
    for position in range(type.num_fields):
        if fold(type.field(position).name) == fold(name):
            return position
    return None


def _parent(path: Sequence[str]) -> tuple[Sequence[str], str]:
    if len(path) < 2:
        raise InvalidArgumentError(f"{_dotted(path)} is not a field of a struct")
    return path[:-1], path[-1]


def _dotted(path: Sequence[str]) -> str:
    return repr(".".join(path))
