"""The values of inlined rows in the forms of the catalog database.

A DuckDB file takes Arrow. The other databases take parameters: numbers, truth values, bytes, and
the text of everything else as DuckDB writes it. One DuckDB projection converts all columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakeport.arrow import thread_connection
from lakeport.ducklake.metadata.location import DatabaseKind
from lakeport.ducklake.writing.inlining.tables import physical_type
from lakeport.ducklake.writing.inlining.texts import plain_values, text_of
from lakeport.types import Column, duckdb_string

__all__ = ["EncodedRows", "encode_rows", "text_form"]

_PLAIN = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "blob"})


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """The values of inlined rows: `arrow` for a DuckDB file, `parameters` for the others."""

    arrow: pa.Table | None
    """Columns c0, c1, …; select `expressions` of them."""
    expressions: tuple[str, ...]
    parameters: tuple[tuple[Any, ...], ...]
    """A tuple of values for each row, in the order of the columns."""


def encode_rows(kind: DatabaseKind, rows: pa.Table, columns: Sequence[Column]) -> EncodedRows:
    """Return rows in the form that an inlined table of a database holds.

    The rows have the columns of the table by position, in the Arrow types of `arrow_schema`.
    """
    names = [f"c{index}" for index in range(len(columns))]
    source = rows.rename_columns(names)
    if kind == "duckdb":
        casts = [
            f"CAST({name} AS {physical_type(kind, column)})"
            for name, column in zip(names, columns, strict=True)
        ]
        return EncodedRows(source, tuple(casts), ())
    plain = _plain_parameters(kind, rows, columns)
    if plain is not None:
        return EncodedRows(None, (), plain)
    forms = [
        f"{_parameter(kind, name, column)} AS {name}"
        for name, column in zip(names, columns, strict=True)
    ]
    converted = thread_connection().from_arrow(source).project(", ".join(forms)).to_arrow_table()
    values = [column.to_pylist() for column in converted.columns]
    return EncodedRows(None, (), tuple(zip(*values, strict=True)))


def _plain_parameters(
    kind: DatabaseKind, rows: pa.Table, columns: Sequence[Column]
) -> tuple[tuple[Any, ...], ...] | None:
    """Return a few rows of plain values without a query; None if DuckDB must convert them."""
    found: list[list[Any]] = []
    for column, array in zip(columns, rows.columns, strict=True):
        values = plain_values(column.type, array)
        if values is None:
            return None
        is_postgresql = kind == "postgresql"
        if column.type in _PLAIN or (is_postgresql and column.type == "float64"):
            found.append(values)
        elif is_postgresql and column.type == "varchar":
            found.append([None if value is None else value.encode() for value in values])
        else:
            found.append([text_of(column.type, value) for value in values])
    return tuple(zip(*found, strict=True))


def _parameter(kind: DatabaseKind, name: str, column: Column) -> str:
    """Return a column as SQL whose values are parameters of the database."""
    if column.type in _PLAIN:
        return name
    if column.type == "boolean":
        # As a number of one byte DuckDB returns int8, not Arrow's extension type of booleans.
        return name if kind == "postgresql" else f"CAST({name} AS TINYINT)"
    if kind == "postgresql":
        if column.type in ("float32", "float64"):
            return name
        if column.type in ("varchar", "json"):
            return f"encode(CAST({name} AS VARCHAR))"
        if column.type == "interval":
            # PostgreSQL reads DuckDB's own text with other signs.
            return (
                f"CASE WHEN {name} IS NOT NULL THEN "
                f"concat(datepart('year', {name}) * 12 + datepart('month', {name}), ' months ', "
                f"datepart('day', {name}), ' days ', "
                f"datepart('hour', {name}) * 3600000000 + datepart('minute', {name}) * 60000000 + "
                f"datepart('microsecond', {name}), ' microseconds') END"
            )
    return text_form(name, column)


def text_form(name: str, column: Column) -> str:
    """Return SQL for the text of a value; the text inside of a struct is always quoted.

    DuckLake 1.5.5 also writes casts inside of structs, which it cannot read back.
    """
    if column.type != "struct":
        return f"CAST({name} AS VARCHAR)"
    parts = []
    for index, child in enumerate(column.children):
        parts.append(duckdb_string(f"{', ' if index else '{'}{duckdb_string(child.name)}: "))
        parts.append(_field_text(f"struct_extract({name}, {duckdb_string(child.name)})", child))
    return f"CASE WHEN {name} IS NOT NULL THEN concat({', '.join(parts)}, '}}') END"


def _field_text(value: str, column: Column) -> str:
    """Return SQL for the text of a field, which is NULL as a word if it is missing."""
    if column.type == "struct":
        return f"coalesce({text_form(value, column)}, 'NULL')"
    if column.type == "varchar":
        return f"coalesce(chr(39) || {value} || chr(39), 'NULL')"
    # DuckDB quotes a text only inside of a nested value, where it is needed.
    return f"CAST({{'v': {value}}} AS VARCHAR)[7:-2]"
