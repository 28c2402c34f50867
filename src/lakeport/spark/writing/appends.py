"""Write a DataFrame as data files of a table.

Rows of a partitioned table are distributed by their partition keys, so that few tasks write files
of one partition; rows of other tables stay where they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakeport.ducklake.writing.tasks import AppendTask, FrameWrite, WrittenRows, rows_of_reports
from lakeport.errors import InvalidInputError
from lakeport.spark.compat import map_in_arrow
from lakeport.spark.frames.columns import FrameColumn, arrow_schema, frame_columns, select
from lakeport.spark.writing.distribution import distributed
from lakeport.spark.writing.jobs import WriteJob
from lakeport.spark.writing.worker import REPORTS, WriteRows
from lakeport.types import fold_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["distinct_columns", "write_frame"]


def write_frame(frame: DataFrame, request: FrameWrite) -> WrittenRows:
    """Write the rows of a DataFrame; return the files, and the rows that are too few for one."""
    columns = distinct_columns(frame.schema)
    job = WriteJob(frame.sparkSession, request.target, request.title, request.progress)
    task = AppendTask(
        target=request.target,
        source=arrow_schema(columns),
        job=job.id,
        few_rows=request.few_rows,
    )
    # An error of the columns is raised here, before Spark starts anything.
    task.fitter()
    rows, in_order = distributed(select(frame, columns), request.target, columns)
    if in_order:
        task = replace(task, target=replace(request.target, sort_order=()))
    reports = job.run(map_in_arrow(rows, WriteRows(task), REPORTS))
    return WrittenRows(
        files=tuple(file for report in reports for file in report.files),
        rows=rows_of_reports(reports, request.target.columns),
    )


def distinct_columns(schema: StructType) -> tuple[FrameColumn, ...]:
    """Return the columns of a DataFrame; raise InvalidInputError for two of one name."""
    seen: set[str] = set()
    for field in schema.fields:
        if fold_name(field.name) in seen:
            raise InvalidInputError(f"the rows have two columns {field.name!r}")
        seen.add(fold_name(field.name))
    return frame_columns(schema)
