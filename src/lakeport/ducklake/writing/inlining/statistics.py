"""Statistics of inlined rows, in the texts that the reference implementation writes for them.

Numbers, times and truth values are compared as values, all others as the bytes of their text. NaN
counts as a value: it is the greatest number. Inside a list only elements count: a NULL or empty
list adds nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from lakeport.arrow import combine, thread_connection
from lakeport.ducklake.writing.inlining.texts import plain_values, text_of
from lakeport.ducklake.writing.written import WrittenColumn
from lakeport.types import Column

__all__ = ["inlined_statistics"]

_COMPARED_AS_TEXT: Final = frozenset(
    {"varchar", "json", "blob", "uuid", "interval", "timetz", "variant"}
)


def inlined_statistics(rows: pa.Table, columns: Sequence[Column]) -> tuple[WrittenColumn, ...]:
    """Return the statistics of each leaf column; the rows have the columns by position."""
    leaves: list[tuple[Column, pa.Array]] = []
    for column, values in zip(columns, rows.columns, strict=True):
        leaves += _leaves(column, combine(values))
    by_length: dict[int, list[tuple[Column, pa.Array]]] = defaultdict(list)
    found: dict[int, WrittenColumn] = {}
    for column, values in leaves:
        plain = plain_values(column.type, values)
        if plain is None:
            by_length[len(values)].append((column, values))
        else:
            found[column.id] = _bounds_of(column, plain)
    for group in by_length.values():
        found.update(_aggregate(group))
    return tuple(found[column.id] for column, _ in leaves)


def _leaves(column: Column, values: pa.Array) -> Iterator[tuple[Column, pa.Array]]:
    """Yield the leaves of a column; a NULL struct is a NULL in each of its fields."""
    if column.type == "struct":
        for child, inner in zip(column.children, values.flatten(), strict=True):
            yield from _leaves(child, inner)
    elif column.type == "list":
        yield from _leaves(column.children[0], values.flatten())
    elif column.type == "map":
        entries = _entries(values).flatten().flatten()
        for child, inner in zip(column.children, entries, strict=True):
            yield from _leaves(child, inner)
    else:
        yield column, values


def _entries(values: pa.MapArray) -> pa.ListArray:
    """Return a map as a list of structs: the keys of a map array ignore its offset and nulls."""
    fields = [values.type.key_field, values.type.item_field]
    entries = pa.StructArray.from_arrays([values.keys, values.items], fields=fields)
    return pa.Array.from_buffers(
        pa.list_(entries.type),
        len(values),
        values.buffers()[:2],
        values.null_count,
        values.offset,
        children=[entries],
    )


def _bounds_of(column: Column, values: list[Any]) -> WrittenColumn:
    """Return the statistics of a leaf from a few values."""
    present = [value for value in values if value is not None]
    least, greatest = (min(present), max(present)) if present else (None, None)
    return _written(
        column,
        len(present),
        len(values),
        text_of(column.type, least),
        text_of(column.type, greatest),
    )


def _aggregate(group: Sequence[tuple[Column, pa.Array]]) -> Iterator[tuple[int, WrittenColumn]]:
    """Yield the statistics of leaves of one length, by one query."""
    source = pa.table({f"c{index}": values for index, (_, values) in enumerate(group)})
    parts = []
    for index, (column, _) in enumerate(group):
        least, greatest = _bounds(f"c{index}", column)
        parts += [f"count(c{index})", least, greatest]
    (row,) = thread_connection().from_arrow(source).aggregate(", ".join(parts)).fetchall()
    for index, (column, values) in enumerate(group):
        count, least, greatest = row[3 * index : 3 * index + 3]
        yield column.id, _written(column, count, len(values), least, greatest)


def _written(
    column: Column, count: int, rows: int, least: str | None, greatest: str | None
) -> WrittenColumn:
    return WrittenColumn(
        column_id=column.id,
        size_bytes=0,
        value_count=count,
        null_count=rows - count,
        min_value=_before_nul(least),
        max_value=_before_nul(greatest, ending="\x01"),
    )


def _bounds(name: str, column: Column) -> tuple[str, str]:
    if column.type in _COMPARED_AS_TEXT:
        return f"min(CAST({name} AS VARCHAR))", f"max(CAST({name} AS VARCHAR))"
    if column.type == "boolean":
        # The reference writes true and false, which do not cast to a number when the column does.
        name = f"CAST({name} AS TINYINT)"
    return f"CAST(min({name}) AS VARCHAR)", f"CAST(max({name}) AS VARCHAR)"


def _before_nul(bound: str | None, *, ending: str = "") -> str | None:
    """Return a bound without a NUL, which PostgreSQL cannot hold; still a bound of the values.

    DuckLake 1.5.5 drops such a bound, and takes the next row's value for the bound of all rows.
    """
    if bound is None or "\0" not in bound:
        return bound
    return bound.partition("\0")[0] + ending
