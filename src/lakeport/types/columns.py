"""Columns of a lake, and their types in Arrow, DuckDB SQL and Spark SQL.

The types of values are those of `lakeport.types.table`; nested types and decimals are added here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.errors import UnsupportedError
from lakeport.types.names import duckdb_identifier, spark_identifier
from lakeport.types.table import GEOARROW_WKB, SCALARS, DuckLakeType, normalize

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

__all__ = [
    "Column",
    "arrow_field",
    "arrow_schema",
    "arrow_type",
    "column_from_duckdb",
    "duckdb_type",
    "spark_type",
]


def arrow_type(column: Column) -> pa.DataType:
    """Return the Arrow type that holds every value of the column."""
    scalar = None if column.as_bytes else SCALARS.get(column.type)
    if scalar is not None:
        return scalar.arrow
    if column.type == "struct":
        return pa.struct([arrow_field(child, nested=True) for child in column.children])
    if column.type == "list":
        return pa.list_(arrow_field(_only(column, 1)[0], nested=True, name="element"))
    if column.type == "map":
        key, value = _only(column, 2)
        return pa.map_(
            arrow_field(key, nested=True, name="key").with_nullable(nullable=False),
            arrow_field(value, nested=True, name="value"),
        )
    if column.as_bytes:
        return pa.binary()
    decimal = _decimal(column.type)
    return pa.decimal128(*decimal) if decimal else _scalar(column).arrow


def arrow_field(column: Column, *, nested: bool = False, name: str | None = None) -> pa.Field:
    """Return the Arrow field of a column. Only whole columns can be declared not null."""
    metadata = GEOARROW_WKB if column.type == "geometry" else None
    return pa.field(name or column.name, arrow_type(column), nested or column.nullable, metadata)


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow schema of columns."""
    return pa.schema([arrow_field(column) for column in columns])


def duckdb_type(column: Column) -> str:
    """Return the DuckDB type whose Arrow form is `arrow_type(column)`."""
    if column.type == "struct":
        return (
            "STRUCT("
            + ", ".join(f"{duckdb_identifier(c.name)} {duckdb_type(c)}" for c in column.children)
            + ")"
        )
    if column.type == "list":
        return duckdb_type(_only(column, 1)[0]) + "[]"
    if column.type == "map":
        key, value = _only(column, 2)
        return f"MAP({duckdb_type(key)}, {duckdb_type(value)})"
    decimal = _decimal(column.type)
    return f"DECIMAL({decimal[0]},{decimal[1]})" if decimal else _scalar(column).duckdb


def spark_type(column: Column) -> str:
    """Return the Spark SQL type of a column, as DDL text."""
    if column.type == "struct":
        return (
            "STRUCT<"
            + ", ".join(f"{spark_identifier(c.name)}: {spark_type(c)}" for c in column.children)
            + ">"
        )
    if column.type == "list":
        return f"ARRAY<{spark_type(_only(column, 1)[0])}>"
    if column.type == "map":
        key, value = _only(column, 2)
        return f"MAP<{spark_type(key)}, {spark_type(value)}>"
    decimal = _decimal(column.type)
    return f"DECIMAL({decimal[0]},{decimal[1]})" if decimal else _scalar(column).spark


def column_from_duckdb(name: str, type: DuckDBPyType) -> Column:
    """Return a column of DuckDB with the type names of the lake format; it has no field id."""
    if type.id in ("struct", "map"):
        children = tuple(column_from_duckdb(child, inner) for child, inner in type.children)
        return Column(id=0, name=name, type=type.id, children=children)
    if type.id == "list":
        element = column_from_duckdb("element", type.children[0][1])
        return Column(id=0, name=name, type="list", children=(element,))
    return Column(id=0, name=name, type=normalize(str(type)))


def _scalar(column: Column) -> DuckLakeType:
    row = SCALARS.get(column.type)
    if row is None:
        raise UnsupportedError(
            f"column {column.name!r} has type {column.type!r}, which Lakeport does not support"
        )
    return row


def _decimal(type_text: str) -> tuple[int, int] | None:
    if not type_text.startswith("decimal("):
        return None
    match = re.fullmatch(r"decimal\((\d{1,9}),(\d{1,9})\)", type_text)
    if match is None:
        return None
    width, scale = int(match.group(1)), int(match.group(2))
    if not (1 <= width <= 38 and scale <= width):
        raise UnsupportedError(
            f"{type_text} is no type of DuckDB: a decimal has 1 to 38 digits, of which at most all "
            "are after the point"
        )
    return width, scale


def _only(column: Column, count: int) -> tuple[Column, ...]:
    if len(column.children) != count:
        raise UnsupportedError(
            f"the {column.type} {column.name!r} has {len(column.children)} children"
        )
    return column.children


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A node of a table's column tree: a column, struct field, list element, map key or value."""

    id: int
    name: str
    type: str
    """DuckLake's own type string, in lower case; `struct`, `list` and `map` have children."""
    children: tuple[Column, ...] = ()
    nullable: bool = True
    initial_default: str | None = None
    """The value, as text, of rows in files that do not hold the column."""
    default: str | None = None
    """What an insert that omits the column writes: a literal's text or an SQL expression."""
    default_is_expression: bool = False
    comment: str | None = None
    as_bytes: bool = False
    """Whether Arrow holds a variant as its bytes in Parquet, which JSON cannot always express."""

    def walk(self) -> Iterator[Column]:
        """Yield the node and every node below it."""
        yield self
        for child in self.children:
            yield from child.walk()
