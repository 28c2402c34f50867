"""Find the rows of local data files that pass a condition, with DuckDB's own Parquet reader.

It reads less than a scan task: it skips pages and decodes texts that repeat once. It serves only
files whose columns it reads exactly as scan tasks do. All other files are left to those.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from lakeport.ducklake.reading.delete_files import Positions
from lakeport.ducklake.reading.tasks import FileTask
from lakeport.ducklake.storage.paths import is_local, local_path
from lakeport.ducklake.writing.changes.expressions import (
    SqlExpression,
    Workspace,
    open_workspace,
)
from lakeport.ducklake.writing.changes.sources import (
    ADDRESS,
    PLACE,
    POSITION,
    Place,
    PlaceKey,
    contains,
    group_addresses,
)
from lakeport.errors import InvalidArgumentError
from lakeport.types import Column, duckdb_identifier, duckdb_string, sql_type

__all__ = ["search_files"]

# Types with one form in Parquet. DuckDB 1.5 loses NaN where the bounds of a row group exclude it.
_TYPES: Final = frozenset(
    f"{prefix}int{bits}" for prefix in ("", "u") for bits in (8, 16, 32, 64)
) | {"boolean", "date", "timestamp", "varchar"}
_WILDCARDS: Final = frozenset("*?[]{}\\")
# Smaller files are read before a DuckDB with access to files is open.
_MIN_BYTES: Final = 1 << 20


def search_files(
    places: Sequence[Place],
    columns: Sequence[Column],
    known: Iterable[Column],
    condition: SqlExpression,
) -> dict[PlaceKey, Positions]:
    """Return the matching positions of the files that can be searched, also if there are none.

    Args:
        places: Where rows may match.
        columns: The columns of the condition, as the transaction leaves them.
        known: The columns of the base snapshot.
        condition: The condition.
    """
    unchanged = set(columns) <= set(known)
    if not columns or not unchanged or any(column.type not in _TYPES for column in columns):
        return {}
    tasks = {place.key: task for place in places if (task := _searchable(place, columns))}
    if sum(task.file.file_size_bytes or 0 for task in tasks.values()) < _MIN_BYTES:
        return {}
    chosen = [place for place in places if place.key in tasks]
    try:
        found = _search([tasks[place.key] for place in chosen], chosen, columns, condition)
    except InvalidArgumentError:
        # A scan task has the right error for a file that is not as the catalog records it.
        return {}
    return {key: _live(task, found.get(key)) for key, task in tasks.items()}


def _searchable(place: Place, columns: Sequence[Column]) -> FileTask | None:
    """Return the task of a place whose file DuckDB reads exactly as the task does."""
    task = place.tasks[0]
    if place.key[0] != "file" or not isinstance(task, FileTask):
        return None
    file, context = task.file, task.context
    is_plain = (
        file.encryption_key is None
        and file.mapping_id is None
        and not file.partial_rows
        and (file.partial_max is None or file.partial_max <= context.snapshot)
        and file.file_size_bytes
        and is_local(file.path)
        and _WILDCARDS.isdisjoint(file.path)
    )
    if not is_plain or not _has_size(file.path, file.file_size_bytes or 0):
        return None
    # A column that is as it was when the file was written is in the file, under its id.
    stored = {
        life.id
        for life in context.lives
        if life.begin_snapshot <= file.begin_snapshot
        and (life.end_snapshot is None or life.end_snapshot > context.snapshot)
    }
    return task if stored.issuperset(column.id for column in columns) else None


def _has_size(path: str, size: int) -> bool:
    try:
        found = Path(local_path(path)).stat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == size


def _search(
    tasks: Sequence[FileTask],
    places: Sequence[Place],
    columns: Sequence[Column],
    condition: SqlExpression,
) -> Mapping[PlaceKey, Positions]:
    for task in tasks:
        task.context.storage.check((task.file.path,))
    paths = [str(Path(local_path(task.file.path)).absolute()) for task in tasks]
    files = ", ".join(duckdb_string(path) for path in paths)
    fields = ", ".join(
        f"{column.id:d}: {{name: {duckdb_string(column.name)}, "
        f"type: {duckdb_string(sql_type(column))}, default_value: NULL}}"
        for column in columns
    )
    names = ", ".join(duckdb_identifier(column.name) for column in columns)
    with open_workspace(files=paths) as workspace:
        sql = (
            f"SELECT {PLACE}, {POSITION} FROM (SELECT file_index::BIGINT AS {PLACE}, "
            f"file_row_number AS {POSITION}, {names} FROM read_parquet([{files}], "
            f"schema = MAP {{{fields}}}, file_row_number = true, hive_partitioning = false)) "
            f"AS candidates WHERE {condition.sql}"
        )
        return group_addresses(_rows(workspace, sql), places)


def _rows(workspace: Workspace, sql: str) -> pa.Table:
    return workspace.stream(sql, ADDRESS).read_all()


def _live(task: FileTask, positions: Positions | None) -> Positions:
    """Return positions without those that are deleted at the snapshot of the plan."""
    if positions is None:
        return np.empty(0, np.int64)
    return positions[~contains(task.deleted(), positions)]
