"""Column statistics of a lake's table that hold for every snapshot that a statement may read.

DuckDB requests statistics without the time of an AT clause, and relies on them. So the bounds cover
all files and all inlined rows that the lake still has up to the snapshot of the transaction,
deleted or not. A name that has meant several columns has no statistics. The lake's own totals are
not used, because some writers leave values out of them.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
import sqlalchemy as sa

from lakeport.arrow import combine, relabel, thread_connection
from lakeport.catalog import ColumnStats, statistics_of
from lakeport.ducklake import LakeTable
from lakeport.ducklake.planning import InlinedRows, Planner
from lakeport.filters import Filter
from lakeport.lakehouse.resources import LakeResources
from lakeport.types import Column, arrow_type, find_type, fold_name, sql_type

__all__ = ["column_statistics"]

# Writers truncate longer texts. Some truncated maxima are smaller than the real one.
_MAX_TEXT = 250
_UNKNOWN = ColumnStats()
_MOST_COLUMNS: Final = 32
# The approximate number of file bounds that are in memory at once.
_MOST_BOUNDS: Final = 200_000


def column_statistics(access: LakeResources, table: LakeTable, name: str) -> ColumnStats:
    """Return the bounds of a column over all files and inlined rows of its table.

    The client requests them twice for each column of a statement, so they are computed once for
    each table and snapshot.
    """
    found: _TableStatistics = access.facts.get_or_load(
        ("statistics", table.id, table.snapshot.id), lambda: _TableStatistics(table.planner)
    )
    return found.of_column(name)


class _TableStatistics:
    """The statistics of one table up to one snapshot, a group of columns at a time."""

    def __init__(self, planner: Planner) -> None:
        # Guards the results: concurrent callers wait instead of computing the same.
        self._lock = threading.Lock()
        self._known: dict[int, ColumnStats] = {}
        self._groups: list[list[Column]] | None = None
        self._planner = planner
        self._ids = {fold_name(column.name): column.id for column in planner.state.columns}

    def __len__(self) -> int:
        """Return the number of columns, by which the entry is weighed in its cache."""
        return len(self._ids)

    def of_column(self, name: str) -> ColumnStats:
        """Return the statistics of a column; unknown if its name has meant several columns."""
        id = self._ids.get(fold_name(name))
        if id is None:
            return _UNKNOWN
        with self._lock:
            if id not in self._known:
                self._known |= {id: _UNKNOWN} | self._of_group(id)
            return self._known[id]

    def _of_group(self, id: int) -> dict[int, ColumnStats]:
        """Return the statistics of the columns that are read together with a column."""
        planner = self._planner

        def work(connection: sa.Connection) -> tuple[list[Column], _Rows]:
            if self._groups is None:
                self._groups = _groups(planner, connection)
            for group in self._groups:
                if any(column.id == id for column in group):
                    return group, _read(planner, connection, group)
            return [], _Rows(pa.table({}), [])

        columns, rows = planner.catalog.database.read(work)
        return {
            column.id: _column_statistics(planner, column, rows.files, rows.inlined_column(i))
            for i, column in enumerate(columns)
        }


@dataclass(frozen=True, slots=True)
class _Rows:
    """The catalog's rows about files, and the inlined rows in a group of columns."""

    files: pa.Table
    inlined: Sequence[InlinedRows]

    def inlined_column(self, index: int) -> list[pa.Array]:
        """Return the values of one column of the group."""
        return [part.columns[index] for part in self.inlined]


def _groups(planner: Planner, connection: sa.Connection) -> list[list[Column]]:
    """Divide the columns so that the bounds of all files for one group fit into memory."""
    columns = _unambiguous_columns(planner, connection)
    files = planner.catalog.file_count(connection, planner.state.id)
    step = max(1, min(_MOST_COLUMNS, _MOST_BOUNDS // max(files, 1)))
    return [columns[i : i + step] for i in range(0, len(columns), step)]


def _read(planner: Planner, connection: sa.Connection, columns: Sequence[Column]) -> _Rows:
    context = planner.context([column.name for column in columns], Filter.always())
    ids = [column.id for column in columns]
    files = planner.files(connection, ids, from_snapshot=0)
    inlined = planner.inlined(connection, files, context, from_snapshot=0)
    return _Rows(files.with_statistics(ids, 0), inlined)


def _unambiguous_columns(planner: Planner, connection: sa.Connection) -> list[Column]:
    """Return the columns with statistics whose names, and that of the table, are unambiguous."""
    state = planner.state
    rows = planner.catalog.columns_ever_named(connection, state.schema, state.name)
    meanings: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
    for row in rows:
        if row.parent_column is None:
            meanings[fold_name(row.column_name)].add((row.table_id, row.column_id))
    return [
        column
        for column in state.columns
        if meanings[fold_name(column.name)] == {(state.id, column.id)}
        and not column.children
        and _is_counted(column)
    ]


def _is_counted(column: Column) -> bool:
    row = find_type(column.type)
    return row is None or row.counted


def _column_statistics(
    planner: Planner, column: Column, files: pa.Table, inlined: Sequence[pa.Array]
) -> ColumnStats:
    of_rows = statistics_of(pa.chunked_array(inlined, arrow_type(column)))
    counts = pc.unique(files[f"s{column.id}_null_count"]).to_pylist()
    is_mapped = files["mapping_id"].null_count < files.num_rows
    has_null = False if not is_mapped and set(counts) <= {0} and not of_rows.has_null else None
    if is_mapped or not _has_bounds(planner, column):
        return ColumnStats(has_null=has_null)
    bounds = _file_bounds(files, column)
    if of_rows.has_not_null:
        bounds.append((of_rows.min, of_rows.max))
    return ColumnStats(
        has_null=has_null,
        min=_widest(pc.min, [low for low, _ in bounds]),
        max=_widest(pc.max, [high for _, high in bounds]),
    )


def _has_bounds(planner: Planner, column: Column) -> bool:
    """Return whether the files' bounds have the same meaning in the column's present type."""
    row = find_type(column.type)
    if row is None or row.bounds == "none":
        return False
    return row.bounds == "exact" or column.id not in planner.state.columns_with_older_types


def _file_bounds(files: pa.Table, column: Column) -> list[tuple[Any, Any]]:
    """Return one pair of minimum and maximum, each None if unknown; no pair without values."""
    rows = pa.table(
        {
            "low": files[f"s{column.id}_min_value"],
            "high": files[f"s{column.id}_max_value"],
            "values": files[f"s{column.id}_value_count"],
            "nan": files[f"s{column.id}_contains_nan"],
        }
    )
    parsed = _parsed_bounds(rows, column)
    return _cast_bounds(rows, column) if parsed is None else parsed


def _cast_bounds(rows: pa.Table, column: Column) -> list[tuple[Any, Any]]:
    """Return the bounds of texts, as DuckDB casts them."""
    type = sql_type(column)
    low, high = f"TRY_CAST(low AS {type})", f"TRY_CAST(high AS {type})"
    high_is_known = "true"
    row = find_type(column.type)
    if row is not None and row.is_floating:  # NaN is the greatest value, and bounds exclude it
        low, high = (f"CASE WHEN NOT isnan({bound}) THEN {bound} END" for bound in (low, high))
        high_is_known = "nan = 0"
    elif column.type == "varchar":
        high_is_known = f"strlen(high) < {_MAX_TEXT}"
    elif column.type == "date" or column.type.startswith("timestamp"):
        low, high = (f"CASE WHEN isfinite({bound}) THEN {bound} END" for bound in (low, high))
    has_values = "values IS DISTINCT FROM 0"
    found = (
        thread_connection()
        .from_arrow(rows)
        .aggregate(
            f"min({low}) FILTER ({has_values}) AS low, max({high}) FILTER ({has_values}) AS high, "
            f"count(*) FILTER ({has_values}) AS files, "
            f"count({low}) FILTER ({has_values}) AS lows, "
            f"count({high}) FILTER ({has_values} AND {high_is_known}) AS highs"
        )
        .to_arrow_table()
    )
    count = found["files"][0].as_py()
    if not count:
        return []
    target = arrow_type(column)
    least, greatest = (
        relabel(combine(found[name]), target)[0] if found[known][0].as_py() == count else None
        for name, known in (("low", "lows"), ("high", "highs"))
    )
    return [(least, greatest)]


def _parsed_bounds(rows: pa.Table, column: Column) -> list[tuple[Any, Any]] | None:
    """Return the same by Arrow, which takes microseconds; None for texts that it does not parse."""
    target = arrow_type(column)
    if column.type not in ("varchar", "date", "boolean") and not (
        pt.is_integer(target) or pt.is_decimal128(target)
    ):
        return None
    filled = rows.filter(pc.fill_null(pc.not_equal(rows["values"], 0), fill_value=True))
    if not filled.num_rows:
        return []
    try:
        low, high = filled["low"].cast(target), filled["high"].cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    high_is_known = not high.null_count
    if column.type == "varchar" and high_is_known:
        high_is_known = pc.max(pc.binary_length(high)).as_py() < _MAX_TEXT
    return [
        (None if low.null_count else pc.min(low), pc.max(high) if high_is_known else None),
    ]


def _widest(choose: Any, bounds: Sequence[pa.Scalar | None]) -> pa.Scalar | None:
    """Return the widest bound; None if one is unknown, or if Arrow cannot compare them."""
    known = [bound for bound in bounds if bound is not None and bound.is_valid]
    if not known or len(known) < len(bounds):
        return None
    if len(known) == 1:
        return known[0]
    with suppress(pa.ArrowNotImplementedError):
        return choose(pa.concat_arrays([pa.repeat(bound, 1) for bound in known]))
    return None
