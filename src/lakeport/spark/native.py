"""A DataFrame of files that Spark's own Parquet reader reads, with deletes as a broadcast join."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lakeport.ducklake.paths import local_path
from lakeport.spark.footers import in_threads
from lakeport.spark.native_files import POSITION_BITS, NativeScan, Shape
from lakeport.spark.native_schema import FileColumn, Literal

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["native_frame", "quoted"]

_OPTIONS: Final = {
    # The paths are files and not patterns, and their folders are not columns.
    "__globPaths__": "false",
    "recursiveFileLookup": "true",
    # A lake's dates are in one calendar, and none of its files may be left out.
    "datetimeRebaseMode": "CORRECTED",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
}


def native_frame(spark: SparkSession, scan: NativeScan, names: list[str]) -> DataFrame:
    """The rows of a scan's files under the names of the plan's columns."""
    shape = scan.shape
    reader = spark.read.format("parquet").options(**_OPTIONS).schema(_schema(shape))
    frame = reader.load([f"file:{local_path(file.task.file.path)}" for file in scan.files])
    frame = _numbered(frame, shape)
    if shape.first_snapshot is not None:
        frame = frame.where(f"snapshot >= {shape.first_snapshot}")
    if shape.last_snapshot is not None:
        frame = frame.where(f"snapshot <= {shape.last_snapshot}")
    if shape.has_deletes:
        frame = _without_deleted(spark, frame, scan)
    if shape.needs_facts:
        frame = _with_facts(spark, frame, scan)
    return frame.select(*[_column(shape, i).alias(name) for i, name in enumerate(names)])


def _schema(shape: Shape) -> StructType:
    """What is read of the files, under their own names."""
    from pyspark.sql.types import LongType, StructField, StructType

    fields = [StructField(c.name, c.type) for c in shape.columns if isinstance(c, FileColumn)]
    internal = [name for name in (shape.row_id, shape.snapshot) if name is not None]
    return StructType(fields + [StructField(name, LongType()) for name in internal])


def _numbered(frame: DataFrame, shape: Shape) -> DataFrame:
    """The columns under numbers that collide with no name, and what tells rows apart."""
    from pyspark.sql.functions import col

    chosen = [
        _read(column).alias(f"c{i}")
        for i, column in enumerate(shape.columns)
        if isinstance(column, FileColumn)
    ]
    if shape.row_id is not None:
        chosen.append(col(quoted(shape.row_id)).alias("row_id"))
    if shape.snapshot is not None:
        chosen.append(col(quoted(shape.snapshot)).alias("snapshot"))
    metadata = frame.metadataColumn("_metadata")
    if shape.needs_positions:
        chosen.append(metadata.getField("row_index").alias("position"))
    if shape.needs_files:
        chosen.append(metadata.getField("file_size").alias("size"))
    return frame.select(*chosen)


def _read(column: FileColumn) -> SparkColumn:
    from pyspark.sql.functions import coalesce, col, nanvl

    value = col(quoted(column.name))
    if column.has_floats:
        # Hidden from the reader, which skips NaN and -0.0 by statistics that know neither.
        is_struct = column.type.typeName() == "struct"
        value = coalesce(value, value) if is_struct else nanvl(value, value)
    return value if column.type == column.target else value.cast(column.target)


def _column(shape: Shape, index: int) -> SparkColumn:
    """A column of the plan, from what `_numbered` and the joins made."""
    from pyspark.sql.functions import col, expr, lit, nullif

    match shape.columns[index]:
        case FileColumn():
            return col(f"c{index}")
        case Literal(None, target):
            return lit(None).cast(target)
        case Literal(sql, target):
            # All columns are nullable, whatever Spark knows of their values.
            return nullif(expr(sql).cast(target), lit(None))
        case "file_row_number":
            return nullif(col("position"), lit(None))
        case "rowid":
            return col("row_id") if shape.row_id else col("first_row_id") + col("position")
        case "snapshot_id":
            return col("snapshot" if shape.snapshot else "begin_snapshot")
        case _:
            return col("filename")


def _without_deleted(spark: SparkSession, frame: DataFrame, scan: NativeScan) -> DataFrame:
    """An anti join on one number: the size of the file, then the position in it."""
    from pyspark.sql.functions import broadcast, col, shiftleft

    positions = in_threads(lambda file: file.task.deleted(), scan.files)
    keys = [
        (file.footer.size << POSITION_BITS) + deleted
        for file, deleted in zip(scan.files, positions, strict=True)
    ]
    deleted = spark.createDataFrame(pa.table({"deleted": np.concatenate(keys)}))
    key = shiftleft(col("size"), POSITION_BITS) + col("position")
    return frame.join(broadcast(deleted), key == col("deleted"), "left_anti")


def _with_facts(spark: SparkSession, frame: DataFrame, scan: NativeScan) -> DataFrame:
    """What the catalog knows of each file, for virtual columns."""
    from pyspark.sql.functions import broadcast, col

    files = [file.task.file for file in scan.files]
    facts = pa.table(
        {
            "file_size": pa.array([file.footer.size for file in scan.files], pa.int64()),
            "first_row_id": pa.array([file.row_id_start for file in files], pa.int64()),
            "begin_snapshot": pa.array([file.begin_snapshot for file in files], pa.int64()),
            "filename": pa.array([file.path for file in files], pa.string()),
        }
    )
    known = broadcast(spark.createDataFrame(facts))
    return frame.join(known, col("size") == col("file_size"))


def quoted(name: str) -> str:
    """A name that Spark does not take apart."""
    return "`" + name.replace("`", "``") + "`"
