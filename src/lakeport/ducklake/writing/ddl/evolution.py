"""Give a table the columns and types that it lacks for rows: schema evolution by `merge_schema`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.ducklake.writing.ddl.promotions import can_promote
from lakeport.ducklake.writing.ddl.types import column_of
from lakeport.ducklake.writing.files.fitting import column_converter
from lakeport.errors import LakeportError
from lakeport.types import NESTED, Column, fold_name

if TYPE_CHECKING:
    from lakeport.ducklake.writing.table_writer import TableWriter

__all__ = ["evolve"]


def evolve(table: TableWriter, rows: pa.Schema, *, stand_ins: bool = False) -> None:
    """Add the columns and fields of rows that a table lacks, and widen types to those of rows.

    A type is widened as `alter_column` does it. Rows that fit a column leave it as it is, and so do
    rows for which no wider type exists. With `stand_ins`, the rows are in the types of Spark.
    """
    wanted = [
        column_of(field.name, field.type) for field in rows if not pa.types.is_null(field.type)
    ]
    types = {fold_name(field.name): field.type for field in rows}
    known = {fold_name(column.name): column for column in table.columns}
    for column in wanted:
        own = known.get(fold_name(column.name))
        if own is None:
            table.add_column(column.name, types[fold_name(column.name)])
        else:
            type = types[fold_name(column.name)]
            _widen(table, own, column, type, (own.name,), stand_ins=stand_ins)


def _widen(
    table: TableWriter,
    own: Column,
    wanted: Column,
    type: pa.DataType,
    path: Sequence[str],
    *,
    stand_ins: bool,
) -> None:
    if _fits(own, type, stand_ins=stand_ins):
        return
    if own.type == wanted.type and own.type in NESTED:
        fields = {fold_name(child.name): child for child in own.children}
        for child, inside in zip(wanted.children, _child_types(type), strict=True):
            mine = fields.get(fold_name(child.name))
            if mine is None:
                table.add_column((*path, child.name), inside)
            else:
                _widen(table, mine, child, inside, (*path, mine.name), stand_ins=stand_ins)
        return
    if not own.children and not wanted.children and can_promote(own.type, wanted.type):
        table.alter_column(path, type)


def _child_types(type: pa.DataType) -> list[pa.DataType]:
    """Return the types of the fields of a struct, of the element of a list, of a key and value."""
    if pa.types.is_map(type):
        return [type.key_type, type.item_type]
    if pa.types.is_struct(type):
        return [field.type for field in type]
    return [type.value_type]


def _fits(column: Column, type: pa.DataType, *, stand_ins: bool) -> bool:
    try:
        column_converter(type, column, column.name, stand_ins=stand_ins)
    except LakeportError:
        return False
    return True
