"""How Spark's Parquet reader reads a column of a file exactly, if it can.

Columns are read by the name and the type that they have in the file. Spark 4 can also find them by
field id and widen them, but it skips row groups by the statistics of the column that has the
requested name in the file: a filter on swapped or re-added columns would lose rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from lakeport.ducklake import NameMapping
from lakeport.ducklake.reading import stored_value
from lakeport.errors import CorruptLakeError, UnsupportedError
from lakeport.filters import Constant, lit
from lakeport.spark.frames.values import spark_data_type
from lakeport.types import TYPES, Column, ParquetField, spark_literal

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

__all__ = [
    "ConstantColumn",
    "FileColumn",
    "file_column",
    "find_node",
    "has_unique_names",
    "literal",
]

# Types whose values in files are the values of the lake; others have an encoding.
_PLAIN: Final = frozenset(row.name for row in TYPES if row.spark_reads_parquet)
_INTEGER: Final = re.compile(r"(u?)int(\d+)")
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_DIGITS: Final = {row.name: row.digits for row in TYPES if row.digits is not None}


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column that Spark reads from a file."""

    name: str
    """Its name in the file."""
    type: DataType
    """Its Spark type there, with the names of fields in the file."""
    target: DataType
    """Its Spark type in the table."""
    has_floats: bool
    """Whether it is, or has outside of lists and maps, a floating-point number."""
    is_shown: bool = False
    """Whether the statistics of such a number show all values: the files have no NaN."""


@dataclass(frozen=True, slots=True)
class ConstantColumn:
    """A column that is not in a file: one value as Spark SQL, or NULL."""

    sql: str | None
    target: DataType


# Most files of a table have the same fields.
@lru_cache(maxsize=4096)
def file_column(node: ParquetField, column: Column, *, mapped: bool) -> FileColumn | None:
    """Return how Spark reads a column from a file's field; None if it cannot read it exactly.

    Fields of a `mapped` file have names and no ids.
    """
    stored = _as_stored(node, column, mapped=mapped)
    if stored is None:
        return None
    target, has_floats = spark_data_type(column), _has_floats(column)
    return FileColumn(node.name, spark_data_type(stored), target, has_floats)


def literal(column: Column, text: str | None) -> ConstantColumn | None:
    """Return a column with one value; None if the value cannot be written in Spark SQL."""
    if text is None:
        return ConstantColumn(None, spark_data_type(column))
    try:
        constant = lit(stored_value(column, text)[0])
    except (UnsupportedError, CorruptLakeError):
        return None
    plain = column.type in _PLAIN or _DECIMAL.fullmatch(column.type)
    is_constant = plain and isinstance(constant, Constant)
    sql = spark_literal(constant.value, constant.type) if is_constant else None
    return None if sql is None else ConstantColumn(sql, spark_data_type(column))


def find_node(
    nodes: Sequence[ParquetField], column: Column, names: Mapping[int, NameMapping] | None
) -> ParquetField | None:
    """Return the field of a column: by field id, or by its mapped name."""
    if names is None:
        return next((node for node in nodes if node.id == column.id), None)
    entry = names.get(column.id)
    if entry is None or entry.is_partition:
        return None
    exact = next((node for node in nodes if node.name == entry.source_name), None)
    lower = entry.source_name.lower()
    return exact or next((node for node in nodes if node.name.lower() == lower), None)


def has_unique_names(names: Sequence[str]) -> bool:
    """Return whether names are unique for Spark, which ignores their case."""
    return len({name.lower() for name in names}) == len(names)


def _as_stored(node: ParquetField, column: Column, *, mapped: bool = False) -> Column | None:
    """Return the column with the names and types that it has in the file."""
    if column.type in ("struct", "list", "map"):
        # Mapped names inside lists and maps depend on the nesting of the writer.
        if node.type != column.type or mapped:
            return None
        children = _struct(node, column) if column.type == "struct" else _items(node, column)
        return None if children is None else replace(column, name=node.name, children=children)
    if node.children or not _reads_exactly(node.type, column.type):
        return None
    return replace(column, name=node.name, type=node.type)


def _struct(node: ParquetField, column: Column) -> tuple[Column, ...] | None:
    if not has_unique_names([child.name for child in node.children]):
        return None
    children, read = [], 0
    for child in column.children:
        inner = find_node(node.children, child, None)
        if inner is None:
            if child.initial_default is not None:
                return None
            # Spark returns NULL for a field that the file does not have.
            children.append(replace(child, name=_absent(node, child)))
            continue
        stored = _as_stored(inner, child)
        if stored is None:
            return None
        children.append(stored)
        read += 1
    # Without any field to read, Spark may confuse an empty struct with NULL.
    return tuple(children) if read else None


def _items(node: ParquetField, column: Column) -> tuple[Column, ...] | None:
    pairs = zip(node.children, column.children, strict=True)
    stored = [_as_stored(inner, child) for inner, child in pairs]
    items = tuple(child for child in stored if child is not None)
    return items if len(items) == len(stored) else None


def _absent(node: ParquetField, column: Column) -> str:
    name, taken = f"absent_{column.id}", {child.name.lower() for child in node.children}
    while name in taken:
        name += "_"
    return name


def _reads_exactly(file: str, table: str) -> bool:
    """Return whether Spark's reader, with a cast for another type, returns the lake's values."""
    if table not in _PLAIN and not _DECIMAL.fullmatch(table):
        return False
    if file == table:
        return table != "int128"
    if {file, table} <= {"varchar", "json"}:
        return True
    if (file, table) == ("float32", "float64"):
        return True
    whole, decimal = _INTEGER.fullmatch(file), _DECIMAL.fullmatch(table)
    if whole and decimal:
        return int(decimal[1]) - int(decimal[2]) >= _DIGITS.get(file, 39)
    if whole and table == "float64":
        return int(whole[2]) <= 32
    wider = _INTEGER.fullmatch(table)
    if whole and wider:
        room = int(wider[2]) - (0 if wider[1] else 1)
        need = int(whole[2]) - (0 if whole[1] else 1)
        return (bool(whole[1]) or not wider[1]) and need <= room
    source = _DECIMAL.fullmatch(file)
    if source and decimal:
        scale = int(decimal[2]) - int(source[2])
        return scale >= 0 and int(decimal[1]) - int(source[1]) >= scale
    return False


def _has_floats(column: Column) -> bool:
    if column.type == "struct":
        return any(_has_floats(child) for child in column.children)
    return column.type in ("float32", "float64")
