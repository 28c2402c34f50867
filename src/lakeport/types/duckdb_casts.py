"""DuckDB as a cast function: a lake's values convert exactly as DuckDB converts them.

Arrow's own casts differ from DuckDB's in rounding, infinities and text forms. Everything that is
not a plain widening goes through an in-memory DuckDB, a column at a time, Arrow in and Arrow out.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa

from lakeport.arrow import combine, relabel, thread_connection
from lakeport.errors import CorruptLakeError, first_line
from lakeport.types.columns import Column, arrow_type, duckdb_type
from lakeport.types.names import duckdb_identifier

__all__ = [
    "Target",
    "duckdb_cast",
    "expression_type",
    "has_variant_bytes",
    "has_zoned_nanoseconds",
    "parse_value",
    "select_expression",
    "sql_type",
    "variant_from_bytes",
]

Target = Column | dict[int, "Target"]
"""The column that a value becomes, or of a nested value what its children become, by position."""


@cache
def has_zoned_nanoseconds() -> bool:
    """Return whether DuckDB has the type TIMESTAMPTZ_NS: 2.0 and newer have it, 1.5 does not."""
    sql = "SELECT count(*) FROM duckdb_types() WHERE lower(type_name) = 'timestamptz_ns'"
    return bool(thread_connection().execute(sql).fetchall()[0][0])


def sql_type(column: Column) -> str:
    """Return the type that holds the column's values in this DuckDB.

    In DuckDB 1.5 an instant in nanoseconds is a TIMESTAMP_NS in UTC, with the same numbers.
    """
    name = duckdb_type(column)
    return name if has_zoned_nanoseconds() else name.replace("TIMESTAMPTZ_NS", "TIMESTAMP_NS")


def expression_type(column: Column) -> str:
    """Return the type of a column inside SQL expressions: a geometry is one, not its bytes."""
    if column.type == "geometry":
        return "GEOMETRY"
    inside = [expression_type(child) for child in column.children]
    if column.type == "struct":
        names = [duckdb_identifier(child.name) for child in column.children]
        fields = ", ".join(f"{name} {type}" for name, type in zip(names, inside, strict=True))
        return f"STRUCT({fields})"
    if column.type == "list":
        return f"{inside[0]}[]"
    return f"MAP({inside[0]}, {inside[1]})" if column.type == "map" else sql_type(column)


def duckdb_cast(array: pa.Array, column: Column) -> pa.Array:
    """Cast an array to a column's type as DuckDB does."""
    import duckdb

    duck = thread_connection()
    source = pa.table({"v": array})
    try:
        result = duck.from_arrow(source).project(f"{_cast_sql('v', column)} AS v").to_arrow_table()
    except duckdb.Error as error:
        reason = first_line(error)
        raise CorruptLakeError(
            f"a value of column {column.name!r} is not a {column.type}: {reason}"
        ) from None
    return relabel(combine(result.column(0)), arrow_type(column))


def _cast_sql(sql: str, column: Column) -> str:
    """Return a cast as SQL. Text becomes a variant of a string, or a geometry from WKT."""
    if column.type == "variant":
        variant = f"CAST({sql} AS VARIANT)"
        return _variant_as_bytes(variant) if column.as_bytes else _variant_as_json(variant)
    if column.type == "geometry":
        return f"CAST({sql} AS GEOMETRY)"
    return f"CAST({sql} AS {sql_type(column)})"


def _variant_as_json(sql: str) -> str:
    """Return a variant as JSON. DuckDB treats a variant of null as NULL, but not its cast."""
    return f"nullif(CAST({sql} AS JSON), 'null')"


def _variant_as_bytes(sql: str) -> str:
    """Return a variant as Parquet stores it: its names, then its value."""
    stored = f"CAST(variant_to_parquet_variant({sql}) AS STRUCT(metadata BLOB, value BLOB))"
    return f"({stored}).metadata || ({stored}).value"


def variant_from_bytes(sql: str) -> str:
    """Return the variant of such bytes as SQL."""
    return f"variant_bytes_to_variant({sql})"


@cache
def has_variant_bytes() -> bool:
    """Return whether DuckDB converts variants to bytes and back: 1.5 does, 1.4 does not."""
    sql = (
        "SELECT count(DISTINCT function_name) FROM duckdb_functions() WHERE function_name IN "
        "('variant_to_parquet_variant', 'variant_bytes_to_variant')"
    )
    return bool(thread_connection().execute(sql).fetchall()[0][0] == 2)


def select_expression(name: str, type: Any, target: Target | None = None) -> str:
    """Return a column of a DuckDB type (or its text) as SQL, with variants as JSON for Arrow."""
    import duckdb

    column = duckdb_identifier(name)
    if target is None and "variant" not in str(type).lower():
        return column
    return _project(column, duckdb.sqltype(type) if isinstance(type, str) else type, target, 0)


def _project(sql: str, type: Any, target: Target | None, depth: int) -> str:
    if isinstance(target, Column):
        return _cast_sql(sql, target)
    if target is None and "VARIANT" not in str(type):
        return sql
    if type.id == "variant":
        return _variant_as_json(sql)

    def inside(sql: str, position: int) -> str:
        child = type.children[position][1]
        return _project(sql, child, target.get(position) if target else None, depth + 1)

    def each(sql: str, position: int) -> str:
        item = f"x{depth}"
        projected = inside(item, position)
        return sql if projected == item else f"list_transform({sql}, lambda {item}: {projected})"

    match type.id:
        case "struct":
            names = [duckdb_identifier(name) for name, _ in type.children]
            fields = [f"{name} := {inside(f'({sql}).{name}', i)}" for i, name in enumerate(names)]
            projected = f"struct_pack({', '.join(fields)})"
        case "list":
            projected = each(sql, 0)
        case "map":
            projected = f"map({each(f'map_keys({sql})', 0)}, {each(f'map_values({sql})', 1)})"
        case _:
            return sql
    return f"CASE WHEN {sql} IS NOT NULL THEN {projected} END"


def parse_value(text: str | None, column: Column) -> pa.Array:
    """Return a value from its text as an array of length one."""
    if text is None:
        return pa.nulls(1, arrow_type(column))
    return duckdb_cast(pa.array([text], pa.string()), column)
