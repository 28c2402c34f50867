"""Statistics of whole tables: bounds of new files and rows are merged into the recorded ones.

The reference answers `min`, `max` and filters from these rows, so bounds are widened, never
narrowed; a bound that is unknown once stays unknown.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from lakeport.ducklake.metadata.rows import TableColumnStatsRow
from lakeport.ducklake.writing.written import WrittenColumn
from lakeport.errors import CorruptLakeError
from lakeport.types import Column, find_type, parse_value

__all__ = ["bound_key", "merge_columns"]

_TRUTH: Final = {"false": 0, "0": 0, "true": 1, "1": 1}
_TIME: Final = r"\d\d:\d\d:\d\d(?:\.\d+)?"
# Texts of such dates, timestamps and times have the order of their values.
_REGULAR_TIME: Final = re.compile(rf"\d{{4}}-\d\d-\d\d(?: {_TIME}(?:\+00)?)?|{_TIME}")
_TEMPORAL: Final = ("timestamp", "timestamptz", "time")


def merge_columns(
    table_id: int,
    recorded: Mapping[int, TableColumnStatsRow],
    written: Iterable[tuple[WrittenColumn, ...]],
    columns: Mapping[int, Column],
    *,
    unknown: frozenset[int] = frozenset(),
    is_first: bool,
) -> dict[int, TableColumnStatsRow]:
    """Return the statistics of a table with those of new files and rows, by column id.

    A table that has data gets no rows for further columns: a column that was added later has values
    in no file, and a row would have to cover the files that lack it. Bounds of the columns in
    `unknown` stay unknown.
    """
    lost = set(unknown)
    merged = dict(recorded)
    for file in written:
        for column in file:
            before = merged.get(column.column_id)
            if before is None:
                if is_first:
                    merged[column.column_id] = _first(table_id, column)
                continue
            node = columns.get(column.column_id)
            after = _merge(before, column, node, is_lost=column.column_id in lost)
            merged[column.column_id] = after
        lost |= {c.column_id for c in file if c.value_count != 0 and _is_unbounded(c)}
    return merged


def _first(table_id: int, column: WrittenColumn) -> TableColumnStatsRow:
    return TableColumnStatsRow(
        table_id=table_id,
        column_id=column.column_id,
        contains_null=None if column.null_count is None else column.null_count > 0,
        contains_nan=column.contains_nan,
        min_value=_storable(column.min_value),
        max_value=_storable(column.max_value),
        extra_stats=column.extra_stats,
    )


def _is_unbounded(column: WrittenColumn) -> bool:
    bounds = (column.min_value, column.max_value, column.extra_stats)
    return all(bound is None for bound in bounds)


def _merge(
    before: TableColumnStatsRow, new: WrittenColumn, column: Column | None, *, is_lost: bool
) -> TableColumnStatsRow:
    flags = replace(
        before,
        contains_null=_either(
            before.contains_null, None if new.null_count is None else new.null_count > 0
        ),
        contains_nan=_either(before.contains_nan, new.contains_nan),
    )
    if new.value_count == 0 or is_lost:
        return flags
    had_values = any(
        value is not None for value in (before.min_value, before.max_value, before.extra_stats)
    )
    if not had_values:
        return replace(
            flags,
            min_value=_storable(new.min_value),
            max_value=_storable(new.max_value),
            extra_stats=new.extra_stats,
        )
    return replace(
        flags,
        min_value=_least(before.min_value, _storable(new.min_value), column),
        max_value=_greatest(before.max_value, _storable(new.max_value), column),
        extra_stats=_merge_extra(before.extra_stats, new.extra_stats),
    )


def _either(*flags: bool | None) -> bool | None:
    return None if None in flags else any(flags)


def _storable(text: str | None) -> str | None:
    """Return a bound, or None if it has a NUL byte, which not every database stores."""
    return None if text is None or "\0" in text else text


def _least(left: str | None, right: str | None, column: Column | None) -> str | None:
    return _chosen(left, right, column, operator.lt)


def _greatest(left: str | None, right: str | None, column: Column | None) -> str | None:
    return _chosen(left, right, column, operator.gt)


def _chosen(
    left: str | None,
    right: str | None,
    column: Column | None,
    is_beyond: Callable[[Any, Any], bool],
) -> str | None:
    """Return the wider one of two bounds; None if one is unknown or has no value."""
    if left is None or right is None or left == right:
        return left if left == right else None
    key = bound_key(column)
    if _is_temporal(column) and all(_REGULAR_TIME.fullmatch(text) for text in (left, right)):
        key = str.encode  # DuckDB would parse them one by one
    try:
        return right if is_beyond(key(right), key(left)) else left
    except (ValueError, TypeError, InvalidOperation, CorruptLakeError):
        return None


def bound_key(column: Column | None) -> Callable[[str], Any]:
    """Return a function from the text of a bound to a value that has the order of the type."""
    type = find_type(column.type) if column is not None else None
    if column is None or type is None:
        return str.encode
    if type.id == "BOOLEAN":
        return lambda text: _TRUTH[text.lower()]
    if type.is_floating:
        return float
    if type.range is not None or type.id == "DECIMAL":
        return Decimal
    if _is_temporal(column):
        return lambda text: _moment(text, column)
    return str.encode


def _is_temporal(column: Column | None) -> bool:
    type = find_type(column.type) if column is not None else None
    return type is not None and (type.family in _TEMPORAL or type.id == "DATE")


def _moment(text: str, column: Column) -> Any:
    """Return a date or timestamp as a number in the unit of the column."""
    return parse_value(text, column)[0].value


def _merge_extra(left: str | None, right: str | None) -> str | None:
    """Return the statistics of geometries of both; those of variants are kept only if equal."""
    if left == right:
        return left
    if left is None or right is None:
        return None
    try:
        first, second = json.loads(left), json.loads(right)
        if not isinstance(first, dict) or not isinstance(second, dict):
            return None
        box, other = first["bbox"], second["bbox"]
        united = {
            name: _extreme(box.get(name), other.get(name), least=name.endswith("min"))
            for name in box
        }
        kinds = sorted({*first["types"], *second["types"]})
    except (ValueError, KeyError, TypeError):
        return None
    return _geometry_text(united, kinds)


def _extreme(left: float | None, right: float | None, *, least: bool) -> float | None:
    present = [value for value in (left, right) if value is not None]
    return (min if least else max)(present) if present else None


def _geometry_text(box: Mapping[str, float | None], kinds: list[str]) -> str:
    bounds = ", ".join(
        f'"{name}": {"null" if value is None else format(value, ".6f")}'
        for name, value in box.items()
    )
    types = ", ".join(json.dumps(kind) for kind in kinds)
    return f'{{"bbox": {{{bounds}}}, "types": [{types}]}}'
