"""Rows of a data frame of an engine: the engine writes them, and no row passes this process.

A Spark DataFrame is recognised by its session, and the engine `spark` of that session writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeport.arrow import RowSource, reader_of
from lakeport.ducklake.engine import AutoEngine, DataFrameEngine, Engine, spark_engine
from lakeport.ducklake.writing.change_set import DataChanges
from lakeport.ducklake.writing.changes.target import file_target
from lakeport.ducklake.writing.ddl.evolution import evolve
from lakeport.ducklake.writing.tasks import FrameWrite, SourceFitter, WrittenRows, few_rows_of
from lakeport.types import arrow_schema

if TYPE_CHECKING:
    from lakeport.ducklake.writing.changes.table_rows import TableRows
    from lakeport.ducklake.writing.table_writer import TableWriter

__all__ = [
    "add_rows",
    "evolve_columns",
    "evolved",
    "frame_engine",
    "is_frame",
    "merge_reader",
    "schema_of_rows",
]


def is_frame(rows: Any) -> bool:
    """Return whether rows are a DataFrame of Spark."""
    return hasattr(rows, "sparkSession") and hasattr(rows, "mapInArrow")


def frame_engine(default: Engine, frame: Any) -> DataFrameEngine:
    """Return the engine that writes a DataFrame: that of the lake, if it has the same session."""
    own = default.spark if isinstance(default, AutoEngine) else default
    if own is not None and getattr(own, "has_session", lambda _: False)(frame.sparkSession):
        return spark_engine(own)
    return spark_engine(default, frame.sparkSession)


def schema_of_rows(rows: RowSource, engine: Engine) -> pa.Schema:
    """Return the columns of a reader or a DataFrame, without reading it."""
    return frame_engine(engine, rows).frame_schema(rows) if is_frame(rows) else rows.schema


def evolve_columns(writer: TableWriter, rows: pa.Schema) -> None:
    """Give the table the columns of a DataFrame that it lacks."""
    evolve(writer, rows, stand_ins=True)


def evolved(writer: TableWriter, rows: RowSource) -> RowSource:
    """Give the table the columns of rows that it lacks; return the rows."""
    if not is_frame(rows):
        rows = reader_of(rows, arrow_schema(writer.columns))
    schema = schema_of_rows(rows, writer.transaction.lake.engine)
    evolve(writer, schema, stand_ins=is_frame(rows))
    return rows


def add_rows(rows: TableRows, source: RowSource, *, title: str = "append to") -> None:
    """Add rows of any kind to a table; those of a data frame are written by its engine.

    Rows that tasks have written already are a `WrittenRows`.
    """
    writer = rows.writer
    if isinstance(source, WrittenRows):
        _take(rows, source)
        return
    if not is_frame(source):
        rows.add(reader_of(source, arrow_schema(writer.columns)))
        return
    engine = frame_engine(writer.transaction.lake.engine, source)
    definition = writer.definition
    request = FrameWrite(
        target=file_target(writer),
        few_rows=few_rows_of(writer.inlining_limit),
        title=f"{title} {definition.schema.name}.{definition.name}",
        progress=writer.transaction.progress,
    )
    _take(rows, engine.write_frame(source, request))


def _take(rows: TableRows, written: WrittenRows) -> None:
    rows.take(DataChanges(files=written.files))
    if written.rows.num_rows:
        rows.add(written.rows.to_reader())


def merge_reader(writer: TableWriter, rows: RowSource) -> pa.RecordBatchReader:
    """Return the rows of a merge's source; those of a DataFrame in the types of the table."""
    if not is_frame(rows):
        return reader_of(rows, arrow_schema(writer.columns))
    reader = frame_engine(writer.transaction.lake.engine, rows).frame_reader(rows)
    fit = SourceFitter(reader.schema, writer.columns)
    return pa.RecordBatchReader.from_batches(fit.schema, fit(reader))
