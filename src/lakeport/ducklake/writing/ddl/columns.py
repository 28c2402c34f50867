"""Changes of a table's columns and struct fields. Each function returns a new definition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from lakeport.ducklake.metadata.rows import ColumnRow
from lakeport.ducklake.writing.ddl.defaults import NO_DEFAULT, Default, default_of
from lakeport.ducklake.writing.ddl.definitions import UNCOMMITTED, TableDefinition
from lakeport.ducklake.writing.ddl.expressions import rename_column_in
from lakeport.ducklake.writing.ddl.names import check_name
from lakeport.ducklake.writing.ddl.promotions import can_promote, keeps_partitions
from lakeport.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError
from lakeport.types import NESTED, Column, fold_name

__all__ = [
    "Path",
    "add_column",
    "column_rows",
    "drop_column",
    "find_column",
    "rename_column",
    "retype_column",
    "set_default",
    "set_nullable",
]

Path = Sequence[str]
"""The names from a column down to a field of it: `["address", "city"]`."""


def column_rows(
    columns: Iterable[Column],
    table_id: int,
    *,
    first_id: int,
    parent: int | None = None,
    defaults: dict[str, Default] | None = None,
) -> Iterator[ColumnRow]:
    """Return the rows of new columns; ids are given to a parent before its children."""
    id = first_id
    for column in columns:
        default = (defaults or {}).get(column.name, NO_DEFAULT)
        yield ColumnRow(
            column_id=id,
            begin_snapshot=UNCOMMITTED,
            end_snapshot=None,
            table_id=table_id,
            column_order=id,
            column_name=column.name,
            column_type=column.type,
            initial_default=default.initial,
            default_value=default.value,
            nulls_allowed=column.nullable,
            parent_column=parent,
            default_value_type="" if column.type in NESTED else default.type,
            default_value_dialect="duckdb",
        )
        below = list(column_rows(column.children, table_id, first_id=id + 1, parent=id))
        yield from below
        id += 1 + len(below)


def find_column(table: TableDefinition, path: Path) -> ColumnRow:
    """Return the row of a column or of a field inside it."""
    parent: int | None = None
    found: ColumnRow | None = None
    for name in path:
        found = _child(table, parent, name)
        if found is None:
            shown = ".".join(path)
            raise NotFoundError(f"the table {table.schema.name}.{table.name} has no column {shown}")
        parent = found.column_id
    if found is None:
        raise InvalidArgumentError("the name of a column is missing")
    return found


def add_column(
    table: TableDefinition,
    column: Column,
    *,
    inside: Path = (),
    default: Any = None,
    default_expression: str | None = None,
) -> TableDefinition:
    """Add a column at the end, or a field at the end of a struct."""
    parent = None
    if inside:
        struct = find_column(table, inside)
        if struct.column_type != "struct":
            raise InvalidArgumentError(
                f"{'.'.join(inside)} is a {struct.column_type}, and only a struct gets fields; the "
                "elements of a list are called element, those of a map key and value"
            )
        parent = struct.column_id
    _check_free(table, parent, column.name)
    if default_expression is not None:
        # Rows that are there already need one value, and an expression may have several.
        raise InvalidArgumentError(
            "a new column has a literal default; set an expression afterwards"
        )
    if not column.nullable and default is None:
        raise InvalidArgumentError(
            f"the new column {column.name!r} cannot be not null without a default: the rows of the "
            "table have no value for it"
        )
    rows = column_rows(
        [column],
        table.id,
        first_id=table.next_column_id,
        parent=parent,
        defaults={column.name: default_of(column, default)},
    )
    columns = (*table.columns, *rows)
    return replace(table, columns=columns, next_column_id=columns[-1].column_id + 1)


def drop_column(table: TableDefinition, path: Path) -> TableDefinition:
    """Drop a column or a field, with everything below it."""
    row = find_column(table, path)
    siblings = [r for r in table.columns if r.parent_column == row.parent_column]
    if len(siblings) == 1:
        raise InvalidArgumentError(f"{'.'.join(path)} is the last column and cannot be dropped")
    if any(key.column_id == row.column_id for key in table.partition_keys):
        raise InvalidArgumentError(
            f"the table is partitioned by {row.column_name!r}: change the partitioning first"
        )
    if row.parent_column is None and any(
        rename_column_in(key.expression, row.column_name, f"{row.column_name}_")
        != rename_column_in(key.expression, row.column_name, row.column_name)
        for key in table.sort_keys
    ):
        raise InvalidArgumentError(
            f"the table is sorted by {row.column_name!r}: change the sort order first"
        )
    parent = next((r for r in table.columns if r.column_id == row.parent_column), None)
    if parent is not None and parent.column_type != "struct":
        raise InvalidArgumentError(f"a part of a {parent.column_type} cannot be dropped")
    dropped = set(_subtree(table, row.column_id))
    return replace(
        table,
        columns=tuple(r for r in table.columns if r.column_id not in dropped),
    )


def rename_column(
    table: TableDefinition, path: Path, new_name: str, new_sort_id: int
) -> TableDefinition:
    """Rename a column or a field. A sort order that uses the column is written again."""
    row = find_column(table, path)
    check_name(new_name, "column")
    parent = next((r for r in table.columns if r.column_id == row.parent_column), None)
    if parent is not None and parent.column_type != "struct":
        raise InvalidArgumentError(f"a part of a {parent.column_type} has a fixed name")
    if fold_name(new_name) != fold_name(row.column_name):
        _check_free(table, row.parent_column, new_name)
    renamed = _replaced(table, replace(row, column_name=new_name))
    if row.parent_column is not None or not table.sort_keys:
        return renamed
    keys = tuple(
        replace(key, expression=rename_column_in(key.expression, row.column_name, new_name))
        for key in table.sort_keys
    )
    return replace(renamed, sort_id=new_sort_id, sort_keys=keys)


def retype_column(table: TableDefinition, path: Path, column: Column) -> TableDefinition:
    """Change a type by the allowed promotions; the fields of a struct are matched by name."""
    row = find_column(table, path)
    for key in table.partition_keys:
        if key.column_id == row.column_id and not keeps_partitions(
            key.transform, row.column_type, column.type
        ):
            raise InvalidArgumentError(
                f"the table is partitioned by {row.column_name!r}, whose values are in other "
                f"partitions as {column.type}: change the partitioning first"
            )
    return _retyped(table, row, column, ".".join(path))


def _retyped(table: TableDefinition, row: ColumnRow, new: Column, path: str) -> TableDefinition:
    old = row.column_type
    if old in NESTED or new.type in NESTED:
        if old != new.type:
            raise _not_promotable(path, old, new.type)
        return _retyped_children(table, row, new, path)
    if not can_promote(old, new.type):
        raise _not_promotable(path, old, new.type)
    return _replaced(table, replace(row, column_type=new.type))


def _retyped_children(
    table: TableDefinition, row: ColumnRow, new: Column, path: str
) -> TableDefinition:
    """Change the fields of a struct: retype those with the same name, add and drop the others."""
    kept = {fold_name(child.name): child for child in new.children}
    for child in [r for r in table.columns if r.parent_column == row.column_id]:
        wanted = kept.pop(fold_name(child.column_name), None)
        if wanted is not None:
            table = _retyped(table, child, wanted, f"{path}.{child.column_name}")
        elif row.column_type == "struct":
            dropped = set(_subtree(table, child.column_id))
            columns = tuple(r for r in table.columns if r.column_id not in dropped)
            table = replace(table, columns=columns)
        else:
            raise _not_promotable(path, row.column_type, new.type)
    for added in kept.values():
        rows = column_rows([added], table.id, first_id=table.next_column_id, parent=row.column_id)
        columns = (*table.columns, *rows)
        table = replace(table, columns=columns, next_column_id=columns[-1].column_id + 1)
    return table


def set_default(
    table: TableDefinition, path: Path, column: Column, value: Any, expression: str | None
) -> TableDefinition:
    """Change the default for new rows; the value of old rows stays."""
    row = find_column(table, path)
    default = default_of(column, value, expression)
    return _replaced(
        table,
        replace(
            row,
            default_value=default.value,
            default_value_type="" if row.column_type in NESTED else default.type,
        ),
    )


def set_nullable(table: TableDefinition, path: Path, *, nullable: bool) -> TableDefinition:
    """Allow or forbid NULL in a column; fields of structs have no such constraint."""
    row = find_column(table, path)
    if row.parent_column is not None:
        raise InvalidArgumentError("only whole columns can be declared not null")
    return _replaced(table, replace(row, nulls_allowed=nullable))


def _replaced(table: TableDefinition, row: ColumnRow) -> TableDefinition:
    columns = tuple(row if r.column_id == row.column_id else r for r in table.columns)
    return replace(table, columns=columns)


def _child(table: TableDefinition, parent: int | None, name: str) -> ColumnRow | None:
    folded = fold_name(name)
    children = (row for row in table.columns if row.parent_column == parent)
    return next((row for row in children if fold_name(row.column_name) == folded), None)


def _check_free(table: TableDefinition, parent: int | None, name: str) -> None:
    if _child(table, parent, name) is not None:
        raise AlreadyExistsError(
            f"the table {table.schema.name}.{table.name} has a column {name!r} already"
        )


def _subtree(table: TableDefinition, column_id: int) -> Iterator[int]:
    yield column_id
    for row in table.columns:
        if row.parent_column == column_id:
            yield from _subtree(table, row.column_id)


def _not_promotable(path: str, old: str, new: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the column {path} of type {old} cannot become {new}: only types that hold every value of "
        "the old one are possible"
    )
