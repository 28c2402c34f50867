"""Rows of a data frame of an engine: the engine writes them, and no row passes this process.

This module imports no Spark. A Spark DataFrame is recognised by its session, and the engine `spark`
of that session writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeport.arrow import RowSource, reader_of
from lakeport.ducklake.engine import DataFrameEngine, spark_engine
from lakeport.ducklake.writing.change_set import DataChanges
from lakeport.ducklake.writing.changes.target import file_target
from lakeport.ducklake.writing.tasks import FrameWrite, few_rows_of
from lakeport.types import arrow_schema

if TYPE_CHECKING:
    from lakeport.ducklake.engine import Engine
    from lakeport.ducklake.writing.changes.table_rows import TableRows

__all__ = ["add_rows", "is_frame", "reader_of_rows", "schema_of_rows"]


def is_frame(rows: Any) -> bool:
    """Return whether rows are a DataFrame of Spark."""
    return hasattr(rows, "sparkSession") and hasattr(rows, "mapInArrow")


def schema_of_rows(rows: RowSource, engine: Engine) -> pa.Schema:
    """Return the columns of a reader or a DataFrame, without reading it."""
    return _engine(engine, rows).frame_schema(rows) if is_frame(rows) else rows.schema


def reader_of_rows(rows: RowSource, columns: pa.Schema, engine: Engine) -> pa.RecordBatchReader:
    """Return rows of any kind as a reader in this process."""
    if is_frame(rows):
        return _engine(engine, rows).frame_reader(rows)
    return reader_of(rows, columns)


def add_rows(rows: TableRows, source: RowSource, *, title: str = "append to") -> None:
    """Add rows of any kind to a table; those of a data frame are written by its engine."""
    writer = rows.writer
    if not is_frame(source):
        rows.add(reader_of(source, arrow_schema(writer.columns)))
        return
    engine = _engine(writer.transaction.lake.engine, source)
    definition = writer.definition
    request = FrameWrite(
        target=file_target(writer),
        few_rows=few_rows_of(writer.inlining_limit),
        title=f"{title} {definition.schema.name}.{definition.name}",
        progress=writer.transaction.progress,
    )
    written = engine.write_frame(source, request)
    rows.take(DataChanges(files=written.files))
    if written.rows.num_rows:
        rows.add(written.rows.to_reader())


def _engine(default: Engine, frame: Any) -> DataFrameEngine:
    return spark_engine(default, frame.sparkSession)
