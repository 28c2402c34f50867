"""The reports of `lakeport inspect`. Its JSON output is these dataclasses, field by field."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from lakeport.ducklake.lake import Lake
from lakeport.ducklake.model import Snapshot
from lakeport.ducklake.reading.tasks import FileTask, InlinedTask
from lakeport.ducklake.table import LakeTable
from lakeport.errors import CorruptLakeError, UnsupportedError
from lakeport.types import arrow_schema, duckdb_type

__all__ = ["LakeReport", "SizeReport", "TableReport", "inspect_lake", "inspect_table"]

_ROW_ID_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotReport:
    """A snapshot."""

    id: int
    time: str
    schema_version: int
    changes: str
    author: str | None
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeReport:
    """The size of a table at a snapshot, from the numbers in the catalog."""

    rows: int
    """Rows that a scan returns."""
    deleted_rows: int
    """Rows of the files that are deleted."""
    inlined_rows: int
    """Rows in the catalog database instead of in files."""
    files: int
    delete_files: int
    bytes: int
    """Of the data files and the delete files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSummaryFindings:
    """A table in the list of a lake."""

    name: str
    comment: str | None
    columns: int
    size: SizeReport


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReport:
    """A schema with its tables and views."""

    name: str
    comment: str | None
    tables: list[TableSummaryFindings]
    views: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemFindings:
    """A schema, table or view that cannot be read."""

    kind: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeReport:
    """A lake at a snapshot."""

    location: str
    format_version: str
    snapshot: int
    """The snapshot that is shown."""
    schemas: list[SchemaReport]
    snapshots: list[SnapshotReport]
    problems: list[ProblemFindings]
    """The objects that are left out above, with the reason for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnReport:
    """A column."""

    name: str
    type: str
    nullable: bool
    default: str | None
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """A data file."""

    path: str
    rows: int
    deleted_rows: int
    bytes: int
    snapshot: int
    """The snapshot that added the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """A table at a snapshot."""

    schema: str
    name: str
    comment: str | None
    path: str
    snapshot: int
    """The snapshot that is shown."""
    columns: list[ColumnReport]
    partitioned_by: list[str]
    sorted_by: list[str]
    size: SizeReport
    files: list[FileReport]


def inspect_lake(
    lake: Lake, location: str, *, version: int | None = None, timestamp: str | None = None
) -> LakeReport:
    """Return a report of all schemas, tables, views and snapshots of a lake."""
    contents = lake.contents(version=version, timestamp=timestamp)
    problems = [
        ProblemFindings(kind=left_out.kind, name=left_out.shown_name, reason=left_out.reason)
        for left_out in contents.omitted
    ]
    tables: dict[str, list[TableSummaryFindings]] = defaultdict(list)
    for table in contents.tables:
        try:
            arrow_schema(table.columns)
            read = lake.table(table.name, table.schema, version=contents.snapshot.id)
            tables[table.schema].append(_summary(read))
        except (CorruptLakeError, UnsupportedError) as error:
            name = f"{table.schema}.{table.name}"
            problems.append(ProblemFindings(kind="table", name=name, reason=str(error)))
    schemas = [
        SchemaReport(
            name=schema.name,
            comment=schema.comment,
            tables=tables[schema.name],
            views=[view.name for view in contents.views if view.schema == schema.name],
        )
        for schema in contents.schemas
    ]
    return LakeReport(
        location=location,
        format_version=lake.version,
        snapshot=contents.snapshot.id,
        schemas=schemas,
        snapshots=[_snapshot(snapshot) for snapshot in lake.snapshots()],
        problems=problems,
    )


def inspect_table(table: LakeTable) -> TableReport:
    """Return a report of one table with its columns and files."""
    files = _files(table)
    names = {column.id: column.name for column in table.columns}
    partitions = () if table.partition_spec is None else table.partition_spec.fields
    return TableReport(
        schema=table.schema_name,
        name=table.name,
        comment=table.comment,
        path=table.path,
        snapshot=table.snapshot.id,
        columns=[
            ColumnReport(
                name=column.name,
                type=duckdb_type(column),
                nullable=column.nullable,
                default=column.default,
                comment=column.comment,
            )
            for column in table.columns
        ],
        partitioned_by=[
            names[field.column_id]
            if field.transform == "identity"
            else f"{field.transform}({names[field.column_id]})"
            for field in partitions
        ],
        sorted_by=[
            f"{field.expression}{' DESC' if field.descending else ''}" for field in table.sort_order
        ],
        size=_size(table),
        files=files,
    )


def _summary(table: LakeTable) -> TableSummaryFindings:
    return TableSummaryFindings(
        name=table.name,
        comment=table.comment,
        columns=len(table.columns),
        size=_size(table),
    )


def _size(table: LakeTable) -> SizeReport:
    plan = table.scan(columns=[table.columns[0].name], task_bytes=2**62).plan
    tasks = [task for task in plan.tasks if isinstance(task, FileTask)]
    inlined = sum(task.rows for task in plan.tasks if isinstance(task, InlinedTask))
    deleted = sum(_deleted(task) for task in tasks)
    deletes = [delete for task in tasks for delete in task.file.deletes]
    return SizeReport(
        rows=sum(task.file.record_count or 0 for task in tasks) - deleted + inlined,
        deleted_rows=deleted,
        inlined_rows=inlined,
        files=len(tasks),
        delete_files=len(deletes),
        bytes=sum(task.file.file_size_bytes or 0 for task in tasks)
        + sum(delete.file_size_bytes or 0 for delete in deletes),
    )


def _files(table: LakeTable) -> list[FileReport]:
    plan = table.scan(columns=[table.columns[0].name], task_bytes=2**62).plan
    return [
        FileReport(
            path=task.file.path,
            rows=(task.file.record_count or 0) - _deleted(task),
            deleted_rows=_deleted(task),
            bytes=task.file.file_size_bytes or 0,
            snapshot=task.file.begin_snapshot,
        )
        for task in plan.tasks
        if isinstance(task, FileTask)
    ]


def _deleted(task: FileTask) -> int:
    by_files = sum(delete.delete_count or 0 for delete in task.file.deletes)
    return by_files + len(task.inlined_deletes) // _ROW_ID_BYTES


def _snapshot(snapshot: Snapshot) -> SnapshotReport:
    return SnapshotReport(
        id=snapshot.id,
        time=snapshot.time.isoformat(),
        schema_version=snapshot.schema_version,
        changes=snapshot.changes,
        author=snapshot.author,
        message=snapshot.commit_message,
    )
