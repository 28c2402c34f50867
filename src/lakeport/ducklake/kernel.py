"""DuckDB as a cast function: a lake's values convert exactly as DuckDB converts them.

Arrow's own casts differ from DuckDB's in rounding, infinities and text forms. Everything that is
not a plain widening goes through an in-memory DuckDB, a column at a time, Arrow in and Arrow out.
"""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.ducklake.model import Column
from lakeport.ducklake.types import arrow_type, duckdb_type
from lakeport.errors import CorruptLakeError
from lakeport.filters.types import quote_identifier

__all__ = [
    "Target",
    "cast",
    "connection",
    "give_back_cursor",
    "has_zoned_nanoseconds",
    "literal",
    "rebuild_list",
    "rebuild_map",
    "rebuild_struct",
    "retype",
    "shown",
    "sql_type",
    "take_cursor",
    "whole",
]

Target = Column | dict[int, "Target"]
"""The column that a value becomes, or of a nested value what its children become, by position."""

_SETTINGS: Final = "SET arrow_lossless_conversion = true; SET TimeZone = 'UTC'"
_local = threading.local()


def _forget() -> None:
    """A forked process must not touch its parent's DuckDB."""
    _local.__dict__.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def connection() -> Any:
    """The thread's own in-memory DuckDB, which keeps every type on its way to Arrow."""
    found = getattr(_local, "connection", None)
    if found is None:
        import duckdb

        found = duckdb.connect(config={"threads": 1})
        found.execute(_SETTINGS)
        _local.connection = found
    return found


def take_cursor() -> Any:
    """A connection beside the thread's own, for a result that is read bit by bit.

    A new one costs as much as reading a small file, so give it back to be used again.
    """
    free = _local.__dict__.setdefault("cursors", [])
    if free:
        return free.pop()
    cursor = connection().cursor()
    cursor.execute(_SETTINGS)
    return cursor


def give_back_cursor(cursor: Any) -> None:
    """Keep a connection for the next file."""
    _local.__dict__.setdefault("cursors", []).append(cursor)


@cache
def has_zoned_nanoseconds() -> bool:
    """Return whether DuckDB has the type TIMESTAMPTZ_NS: 2.0 and newer have it, 1.5 does not."""
    sql = "SELECT count(*) FROM duckdb_types() WHERE lower(type_name) = 'timestamptz_ns'"
    return bool(connection().execute(sql).fetchall()[0][0])


def sql_type(column: Column) -> str:
    """Return the type that holds the column's values in this DuckDB.

    In DuckDB 1.5 an instant in nanoseconds is a TIMESTAMP_NS in UTC, with the same numbers.
    """
    name = duckdb_type(column)
    return name if has_zoned_nanoseconds() else name.replace("TIMESTAMPTZ_NS", "TIMESTAMP_NS")


def cast(array: pa.Array, column: Column) -> pa.Array:
    """Cast an array to a column's type as DuckDB does."""
    import duckdb

    duck = connection()
    source = pa.table({"v": array})
    try:
        result = duck.from_arrow(source).project(f"{_cast_sql('v', column)} AS v").to_arrow_table()
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise CorruptLakeError(
            f"a value of column {column.name!r} is not a {column.type}: {reason}"
        ) from None
    return retype(whole(result.column(0)), arrow_type(column))


def _cast_sql(sql: str, column: Column) -> str:
    """Text that becomes a variant is a string, not a document; a geometry is well-known text."""
    if column.type == "variant":
        return _variant_as_json(f"CAST({sql} AS VARIANT)")
    if column.type == "geometry":
        return f"CAST({sql} AS GEOMETRY)"
    return f"CAST({sql} AS {sql_type(column)})"


def _variant_as_json(sql: str) -> str:
    """A variant as JSON. To DuckDB a variant that holds null is NULL, but its cast is not."""
    return f"nullif(CAST({sql} AS JSON), 'null')"


def shown(name: str, type: Any, target: Target | None = None) -> str:
    """A column of a DuckDB type (or its text) with variants as JSON, for which Arrow has a type."""
    import duckdb

    column = quote_identifier(name)
    if target is None and "variant" not in str(type).lower():
        return column
    return _shown(column, duckdb.sqltype(type) if isinstance(type, str) else type, target, 0)


def _shown(sql: str, type: Any, target: Target | None, depth: int) -> str:
    if isinstance(target, Column):
        return _cast_sql(sql, target)
    if target is None and "VARIANT" not in str(type):
        return sql
    if type.id == "variant":
        return _variant_as_json(sql)

    def inside(sql: str, position: int) -> str:
        child = type.children[position][1]
        return _shown(sql, child, target.get(position) if target else None, depth + 1)

    def each(sql: str, position: int) -> str:
        item = f"x{depth}"
        made = inside(item, position)
        return sql if made == item else f"list_transform({sql}, lambda {item}: {made})"

    match type.id:
        case "struct":
            names = [quote_identifier(name) for name, _ in type.children]
            fields = [f"{name} := {inside(f'({sql}).{name}', i)}" for i, name in enumerate(names)]
            made = f"struct_pack({', '.join(fields)})"
        case "list":
            made = each(sql, 0)
        case "map":
            made = f"map({each(f'map_keys({sql})', 0)}, {each(f'map_values({sql})', 1)})"
        case _:
            return sql
    return f"CASE WHEN {sql} IS NOT NULL THEN {made} END"


def literal(text: str | None, column: Column) -> pa.Array:
    """One value from its text form, as an array of length one."""
    if text is None:
        return pa.nulls(1, arrow_type(column))
    return cast(pa.array([text], pa.string()), column)


def retype(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The same values under another type of the same layout: names, zones, extensions."""
    if array.type == target and not pa.types.is_nested(target):
        return array
    if isinstance(array, pa.ExtensionArray) and not isinstance(target, pa.BaseExtensionType):
        return retype(array.storage, target)
    if isinstance(target, pa.BaseExtensionType):
        storage = array.storage if isinstance(array, pa.ExtensionArray) else array
        return pa.ExtensionArray.from_storage(target, retype(storage, target.storage_type))
    if pa.types.is_struct(target):
        return rebuild_struct(
            array, target, [retype(array.field(i), f.type) for i, f in enumerate(target)]
        )
    if pa.types.is_map(target):
        keys, items = retype(array.keys, target.key_type), retype(array.items, target.item_type)
        return rebuild_map(array, target, keys, items)
    if pa.types.is_list(target):
        return rebuild_list(array, target, retype(array.values, target.value_type))
    if pa.types.is_boolean(target) and pa.types.is_int8(array.type):
        return pc.not_equal(array, 0)
    if pa.types.is_timestamp(target):
        return array.view(target)
    return array.cast(target)


def rebuild_struct(array: pa.Array, target: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """A struct with other children and the same nulls."""
    if not children:
        return pa.array([{}] * len(array), target)
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def rebuild_list(array: pa.Array, target: pa.DataType, values: pa.Array) -> pa.Array:
    """A list with other values under the same offsets and nulls."""
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], array.null_count, array.offset, children=[values]
    )


def rebuild_map(array: pa.Array, target: pa.DataType, keys: pa.Array, items: pa.Array) -> pa.Array:
    """A map with other keys and items under the same offsets and nulls."""
    entries = pa.StructArray.from_arrays(
        [keys, items], fields=[target.key_field, target.item_field]
    )
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], array.null_count, array.offset, children=[entries]
    )


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if column.num_chunks == 0:
        return pa.nulls(0, column.type)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
