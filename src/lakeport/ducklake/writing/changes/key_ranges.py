"""Which rows of a table may match a source, by the ranges of the source's keys.

For `target.id = source.id` the table's rows have ids between the least and the greatest id of the
source. The planner skips files outside of the range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from lakeport.arrow import thread_connection
from lakeport.ducklake.writing.changes.expressions import SqlExpression, Workspace
from lakeport.errors import LakeportError
from lakeport.filters import Filter, parse_sql, parse_sql_filter
from lakeport.types import (
    Column,
    arrow_schema,
    duckdb_identifier,
    duckdb_string,
    fold_name,
    sql_type,
)

__all__ = ["equal_keys", "key_range_filter"]

# Types whose text casts back to the same value, and whose order has no exceptions such as NaN.
_RANGED: Final = ("int", "uint", "decimal", "date", "timestamp", "varchar", "uuid", "boolean")


def key_range_filter(workspace: Workspace, on: SqlExpression, columns: Sequence[Column]) -> Filter:
    """Return a filter that every row of the table passes which may match a row of the source."""
    known = {fold_name(column.name): column for column in columns}
    parts = []
    for target, source in _equal_columns(on):
        column = known.get(fold_name(target))
        if column is None or not column.type.startswith(_RANGED):
            continue
        name = f"source_rows.{duckdb_identifier(source)}"
        type = sql_type(column)
        # A value that the column cannot hold matches no row of the table.
        value = f"TRY_CAST({name} AS {type})"
        same = f"typeof({name}) = typeof({value})"
        found = workspace.execute(
            f"SELECT CAST(min({value}) AS VARCHAR), CAST(max({value}) AS VARCHAR), "
            f"coalesce(bool_and({same}), true) FROM source_rows"
        )
        least, greatest, is_same = found[0]
        if not is_same:
            continue  # the comparison may be in another type than the column's
        if least is None:
            return parse_sql_filter("false", columns)
        own = duckdb_identifier(column.name)
        low, high = (f"CAST({duckdb_string(text)} AS {type})" for text in (least, greatest))
        parts.append(f"{own} >= {low} AND {own} <= {high}")
    if not parts:
        return Filter.always()
    try:
        return parse_sql_filter(" AND ".join(parts), columns)
    except LakeportError:
        return Filter.always()


def equal_keys(
    on: SqlExpression, columns: Sequence[Column], source: pa.Schema
) -> list[tuple[str, str]]:
    """Return the columns of the table and of the source that must be equal, and have one type."""
    known = {fold_name(column.name): column for column in columns}
    fields = {fold_name(field.name): field for field in source}
    found = []
    for target, name in _equal_columns(on):
        column, field = known.get(fold_name(target)), fields.get(fold_name(name))
        if column is None or field is None or not column.type.startswith(_RANGED):
            continue
        if arrow_schema([column]).field(0).type == field.type:
            found.append((column.name, field.name))
    return found


def _equal_columns(on: SqlExpression) -> Iterator[tuple[str, str]]:
    """Yield the columns of the table and of the source that must be equal."""
    (node,) = parse_sql(thread_connection(), f"SELECT {on.sql}")
    for part in _conjuncts(node["select_list"][0]):
        if part.get("class") == "COMPARISON" and part.get("type") == "COMPARE_EQUAL":
            sides = [_qualified(part.get("left")), _qualified(part.get("right"))]
            if None in sides:
                continue
            by_table = {fold_name(table): name for table, name in sides if table}  # type: ignore[misc]
            if set(by_table) == {"target", "source"}:
                yield by_table["target"], by_table["source"]


def _conjuncts(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if node.get("type") == "CONJUNCTION_AND":
        for child in node["children"]:
            yield from _conjuncts(child)
    else:
        yield node


def _qualified(node: Any) -> tuple[str, str] | None:
    """Return table and column of a reference such as `target.id`."""
    if isinstance(node, Mapping) and node.get("class") == "COLUMN_REF":
        names = node["column_names"]
        if len(names) == 2:
            return str(names[0]), str(names[1])
    return None
