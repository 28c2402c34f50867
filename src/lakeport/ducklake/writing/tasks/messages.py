"""What a task reports, as MessagePack: the process that planned it runs no code of a worker."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack
import pyarrow as pa

from lakeport.ducklake.writing.tasks.names import Attempt
from lakeport.ducklake.writing.written import WrittenColumn, WrittenFile, WrittenVariantPath
from lakeport.types import Column, arrow_schema

__all__ = [
    "TaskReport",
    "pack_report",
    "pack_rows",
    "rows_of_reports",
    "unpack_report",
    "unpack_rows",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """The files that an attempt wrote, and the rows that are too few for a file."""

    attempt: Attempt
    files: tuple[WrittenFile, ...] = ()
    rows: pa.Table | None = field(default=None, repr=False)
    result: Any = None
    """What else the task found, made of numbers, text, bytes, lists and dictionaries."""


def pack_report(report: TaskReport) -> bytes:
    """Return a report as bytes."""
    at = report.attempt
    packed: bytes = msgpack.packb(
        {
            "attempt": (at.task, at.number, at.id),
            "files": [dataclasses.asdict(file) for file in report.files],
            "rows": None if report.rows is None else pack_rows(report.rows),
            "result": report.result,
        }
    )
    return packed


def unpack_report(data: bytes) -> TaskReport:
    """Return the report that was packed."""
    values = msgpack.unpackb(data, strict_map_key=False)
    return TaskReport(
        attempt=Attempt(*values["attempt"]),
        files=tuple(_file(item) for item in values["files"]),
        rows=None if values["rows"] is None else unpack_rows(values["rows"]),
        result=values["result"],
    )


def rows_of_reports(reports: Sequence[TaskReport], columns: Sequence[Column]) -> pa.Table:
    """Return the rows that tasks have returned instead of files, in the columns of the table."""
    few = [report.rows for report in reports if report.rows is not None]
    return pa.concat_tables(few) if few else arrow_schema(columns).empty_table()


def pack_rows(rows: pa.Table, *, compression: str = "zstd") -> bytes:
    """Return rows as the bytes of an Arrow stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def unpack_rows(data: bytes) -> pa.Table:
    """Return the rows of an Arrow stream."""
    return pa.ipc.open_stream(data).read_all()


def _file(values: dict[str, Any]) -> WrittenFile:
    columns = tuple(
        WrittenColumn(
            **{
                **column,
                "variant_paths": tuple(WrittenVariantPath(**p) for p in column["variant_paths"]),
            }
        )
        for column in values["columns"]
    )
    partition_values = tuple(values["partition_values"])
    return WrittenFile(**{**values, "columns": columns, "partition_values": partition_values})
