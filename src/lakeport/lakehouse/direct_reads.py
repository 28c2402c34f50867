"""Scans that a client reads from storage itself: plain Parquet files without deletes.

DuckDB reads the files by column name. A file qualifies only if it was written with exactly the
columns that the table has now, in types that Parquet returns unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from lakeport.catalog import FunctionReference
from lakeport.ducklake import LakeTable, ScanPlan
from lakeport.ducklake.reading import FileTask, ScanTask
from lakeport.ducklake.storage import is_local, local_path
from lakeport.lakehouse.resources import LakeResources
from lakeport.types import NESTED, Column, find_type

__all__ = ["direct_reads"]

_GLOB = re.compile(r"[*?\[\]{}]")


def direct_reads(
    access: LakeResources, table: LakeTable, plan: ScanPlan
) -> Sequence[FunctionReference] | None:
    """Return one reference for each file of a plan; None if the server has to read the table."""
    nodes = [node for column in table.columns for node in column.walk()]
    if not all(_is_exact(node) for node in nodes):
        return None
    paths = {path: None for task in plan.tasks if (path := _readable_path(task)) is not None}
    if len({_file_of(task) for task in plan.tasks}) != len(paths):
        return None
    if last_schema_change(access, table) > min(_begins(plan.tasks), default=table.snapshot.id):
        return None
    # Otherwise DuckDB adds a column for a folder such as region=eu.
    return [
        FunctionReference("read_parquet", (path,), {"hive_partitioning": False}) for path in paths
    ]


def _is_exact(node: Column) -> bool:
    if node.type in NESTED:
        return True
    row = find_type(node.type)
    return row is not None and row.exact_in_parquet


def _readable_path(task: ScanTask) -> str | None:
    """Return the path of a file that needs no merging; None for other tasks."""
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
    """Return the id of the last snapshot that changed a column of the table."""

    def load() -> int:
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

    return access.facts.get_or_load(("last change", table.id, table.snapshot.id), load)
