"""Scans that a client on the same storage can do by itself: plain Parquet files, nothing to merge.

DuckDB reads the files by column name, so a file qualifies only if it was written with exactly the
columns that the table has now, in types that come back from Parquet as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from lakeport.catalog import FunctionReference
from lakeport.ducklake.reading import FileTask, ScanTask
from lakeport.ducklake.storage import is_local, local_path
from lakeport.lakehouse.resources import LakeResources
from lakeport.spark import LakeTable, Scan
from lakeport.types import Column

__all__ = ["direct_reads"]

_EXACT_IN_PARQUET: Final = frozenset(
    {
        "boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float32", "float64", "date", "time", "timestamp", "timestamp_ns", "timestamptz",
        "varchar", "blob", "uuid", "struct", "list", "map",
    }
)  # fmt: skip
_GLOB = re.compile(r"[*?\[\]{}]")


def direct_reads(
    access: LakeResources, table: LakeTable, plan: Scan
) -> Sequence[FunctionReference] | None:
    """One reference for each file of a plan; None if the server has to read the table."""
    nodes = [node for column in table.columns for node in column.walk()]
    if not all(_is_exact(node) for node in nodes):
        return None
    paths = {path: None for task in plan.tasks if (path := _readable_path(task)) is not None}
    if len({_file_of(task) for task in plan.tasks}) != len(paths):
        return None
    if last_schema_change(access, table) > min(_begins(plan.tasks), default=table.snapshot.id):
        return None
    # Folders such as region=eu would be taken for columns.
    return [
        FunctionReference("read_parquet", (path,), {"hive_partitioning": False}) for path in paths
    ]


def _is_exact(node: Column) -> bool:
    return node.type in _EXACT_IN_PARQUET or node.type.startswith("decimal(")


def _readable_path(task: ScanTask) -> str | None:
    """The path of a file whose rows are the table's rows as they are."""
    if not isinstance(task, FileTask) or task.inlined_deletes:
        return None
    file = task.file
    needs_server = (
        file.deletes
        or file.encryption_key is not None
        or file.mapping_id is not None
        or file.partial_max is not None
        or file.partial_rows
    )
    path = str(Path(local_path(file.path)).absolute()) if is_local(file.path) else file.path
    return None if needs_server or _GLOB.search(path) else path


def _file_of(task: ScanTask) -> int:
    return task.file.id if isinstance(task, FileTask) else -1


def _begins(tasks: Iterable[ScanTask]) -> list[int]:
    return [task.file.begin_snapshot for task in tasks if isinstance(task, FileTask)]


def last_schema_change(access: LakeResources, table: LakeTable) -> int:
    """The snapshot that changed a column of the table last."""

    def look() -> int:
        planner = table.planner
        rows = planner.catalog.database.read(
            lambda connection: planner.catalog.columns_ever_named(
                connection, table.schema_name, table.name
            )
        )
        return max(
            snapshot
            for row in rows
            if row.table_id == table.id
            for snapshot in (row.begin_snapshot, row.end_snapshot)
            if snapshot is not None and snapshot <= table.snapshot.id
        )

    return access.details.remembered(("last change", table.id, table.snapshot.id), look)
