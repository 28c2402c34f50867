"""The columns of a lake's table as DuckDB's client reads them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakeport.catalog import rowid_field
from lakeport.ducklake import Column
from lakeport.ducklake.text import ascii_lower
from lakeport.ducklake.types import arrow_field, duckdb_type

__all__ = ["ROWID", "default_sql", "has_rowid", "published_schema"]

ROWID = "rowid"


def published_schema(columns: Sequence[Column], *, with_rowid: bool) -> pa.Schema:
    """The columns with their comments and defaults, and the row id last where it is wanted."""
    fields = [_field(column) for column in columns]
    if with_rowid and has_rowid(columns):
        fields.append(rowid_field(ROWID))
    return pa.schema(fields)


def has_rowid(columns: Sequence[Column]) -> bool:
    """Whether row ids can be asked for: not where a column of the table hides them."""
    return all(ascii_lower(column.name) != ROWID for column in columns)


def default_sql(column: Column) -> str | None:
    """What an insert that omits the column writes, as an SQL expression."""
    if column.default is None or column.default_is_expression:
        return column.default
    text = "'" + column.default.replace("'", "''") + "'"
    return text if column.type == "varchar" else f"CAST({text} AS {duckdb_type(column)})"


def _field(column: Column) -> pa.Field:
    field = arrow_field(column)
    metadata: dict[bytes | str, bytes | str] = dict(field.metadata or {})
    if column.comment:
        metadata["comment"] = column.comment
    default = default_sql(column)
    if default is not None:
        metadata["default"] = default
    return field.with_metadata(metadata or None)
