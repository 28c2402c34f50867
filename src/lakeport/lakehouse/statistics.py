"""Column statistics of a lake's table that hold for every snapshot.

DuckDB requests statistics without a snapshot and relies on them. So the bounds cover all files and
all inlined rows that the lake still has, deleted or not. A name that has meant several columns has
no statistics. The lake's own totals are not used, because some writers leave values out of them.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from lakeport.arrow import combine, relabel, thread_connection
from lakeport.catalog import ColumnStats, statistics_of
from lakeport.ducklake.metadata import Row, TableSummary
from lakeport.ducklake.planning import InlinedRows, Planner
from lakeport.errors import NotFoundError
from lakeport.filters import Filter
from lakeport.lakehouse.resources import LakeResources
from lakeport.types import Column, arrow_type, find_type, fold_name, sql_type

__all__ = ["column_statistics"]

# Writers truncate longer texts. Some truncated maxima are smaller than the real one.
_MAX_TEXT = 250
_UNKNOWN = ColumnStats()
# Each column needs a join; MySQL allows 61 of them in a statement, SQLite 64.
_MOST_COLUMNS: Final = 32
# The approximate number of file bounds that are in memory at once.
_MOST_BOUNDS: Final = 200_000


def column_statistics(access: LakeResources, summary: TableSummary, name: str) -> ColumnStats:
    """Return the bounds of a column over all files and inlined rows of its table.

    The client requests them twice for each column of a statement, so they are computed once for
    each table and snapshot.
    """
    newest = access.newest().id
    key = ("statistics", newest, summary.schema, summary.name)
    found: _TableStatistics = access.details.get_or_load(
        key, lambda: _TableStatistics(access, summary, newest)
    )
    return found.of_column(name)


class _TableStatistics:
    """The statistics of one table at one snapshot, a group of columns at a time."""

    def __init__(self, access: LakeResources, summary: TableSummary, snapshot: int) -> None:
        # Guards the results: concurrent callers wait instead of computing the same.
        self._lock = threading.Lock()
        self._known: dict[int, ColumnStats] = {}
        self._planner: Planner | None = None
        self._groups: list[list[Column]] = []
        try:
            planner = access.table(summary.schema, summary.name, snapshot).planner
        except NotFoundError:  # dropped or renamed since; earlier snapshots still have it
            return
        self._planner = planner
        files = access.details.get_or_load(
            ("files", snapshot), lambda: access.lake.file_totals(version=snapshot)
        )
        count = files[planner.state.id].files if planner.state.id in files else 0
        columns = _unambiguous_columns(planner)
        step = max(1, min(_MOST_COLUMNS, _MOST_BOUNDS // max(count, 1)))
        self._groups = [columns[i : i + step] for i in range(0, len(columns), step)]

    def of_column(self, name: str) -> ColumnStats:
        """Return the statistics of a column; unknown if its name has meant several columns."""
        if self._planner is None:
            return _UNKNOWN
        try:
            id = self._planner.column(name).id
        except NotFoundError:
            return _UNKNOWN
        with self._lock:
            for group in self._groups:
                if id not in self._known and any(column.id == id for column in group):
                    self._known |= _statistics(self._planner, group)
            return self._known.get(id, _UNKNOWN)


def _unambiguous_columns(planner: Planner) -> list[Column]:
    """Return the columns with statistics whose names, and that of the table, are unambiguous."""
    state = planner.state
    rows = planner.catalog.database.read(
        lambda connection: planner.catalog.columns_ever_named(connection, state.schema, state.name)
    )
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


def _statistics(planner: Planner, columns: Sequence[Column]) -> dict[int, ColumnStats]:
    """Return the statistics of columns by their ids, from one query of the catalog database."""
    context = planner.context([column.name for column in columns], Filter.always())
    ids = [column.id for column in columns]

    def work(connection: sa.Connection) -> tuple[list[Row], list[InlinedRows]]:
        rows = planner.file_rows(connection, ids, from_snapshot=0)
        return rows["data_file"], planner.inlined(connection, rows, context, from_snapshot=0)

    files, inlined = planner.catalog.database.read(work)
    return {
        column.id: _column_statistics(
            planner,
            column,
            files,
            pa.chunked_array([part.columns[i] for part in inlined], arrow_type(column)),
        )
        for i, column in enumerate(columns)
    }


def _column_statistics(
    planner: Planner, column: Column, files: Sequence[Row], inlined: pa.ChunkedArray
) -> ColumnStats:
    of_rows = statistics_of(inlined)
    counts = [file[f"s{column.id}_null_count"] for file in files]
    is_mapped = any(file["mapping_id"] is not None for file in files)
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


def _file_bounds(files: Sequence[Row], column: Column) -> list[tuple[Any, Any]]:
    """Return one pair of minimum and maximum, each None if unknown; no pair without values."""
    rows = pa.table(
        {
            "low": pa.array([file[f"s{column.id}_min_value"] for file in files], pa.string()),
            "high": pa.array([file[f"s{column.id}_max_value"] for file in files], pa.string()),
            "values": pa.array([file[f"s{column.id}_value_count"] for file in files], pa.int64()),
            "nan": pa.array([file[f"s{column.id}_contains_nan"] for file in files], pa.int64()),
        }
    )
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
