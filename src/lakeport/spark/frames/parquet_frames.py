"""A DataFrame of files that Spark's own Parquet reader reads, without the rows that are deleted.

Expressions are written as SQL: every step of Spark's Column API is a call into the JVM.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lakeport.ducklake.reading import Positions
from lakeport.ducklake.storage import local_path
from lakeport.spark.compat import create_dataframe
from lakeport.spark.frames.columns import sql_type
from lakeport.spark.frames.parquet_columns import ConstantColumn, FileColumn
from lakeport.spark.frames.parquet_footers import in_threads
from lakeport.spark.frames.parquet_scans import POSITION_BITS, ParquetFile, ParquetScan, Shape
from lakeport.types import spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

__all__ = ["parquet_dataframe"]

# Every executor holds the bitmaps of a scan; more than that are joined row by row.
MAX_BITMAP_BYTES: Final = 64 * 1024 * 1024

_OPTIONS: Final = {
    # The paths are files and not patterns, and their folders are not columns.
    "__globPaths__": "false",
    "recursiveFileLookup": "true",
    # A lake's dates are in one calendar, and none of its files may be left out.
    "datetimeRebaseMode": "CORRECTED",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
}

# One bit for each position, in words of 64; a file's last words may be missing.
_IS_DELETED: Final = (
    "getbit(get(deleted, CAST(position >> 6 AS INT)), CAST(position & 63 AS INT)) <=> 1"
)


def parquet_dataframe(spark: SparkSession, scan: ParquetScan, names: list[str]) -> DataFrame:
    """The rows of a scan's files under the names of the plan's columns."""
    shape = scan.shape
    reader = spark.read.format("parquet").options(**_OPTIONS).schema(_schema(shape))
    frame = reader.load([_url(file) for file in scan.files])
    frame = frame.selectExpr(*_numbered(shape))
    if shape.first_snapshot is not None:
        frame = frame.where(f"snapshot >= {shape.first_snapshot}")
    if shape.last_snapshot is not None:
        frame = frame.where(f"snapshot <= {shape.last_snapshot}")
    frame = _joined(spark, frame, scan)
    return frame.selectExpr(
        *[f"{_column(shape, i)} AS {spark_identifier(name)}" for i, name in enumerate(names)]
    )


def _url(file: ParquetFile) -> str:
    return f"file:{Path(local_path(file.task.file.path)).absolute()}"


def _schema(shape: Shape) -> StructType:
    """What is read of the files, under their own names."""
    from pyspark.sql.types import LongType, StructField, StructType

    fields = [StructField(c.name, c.type) for c in shape.columns if isinstance(c, FileColumn)]
    internal = [name for name in (shape.row_id, shape.snapshot) if name is not None]
    return StructType(fields + [StructField(name, LongType()) for name in internal])


def _numbered(shape: Shape) -> list[str]:
    """The columns under numbers that collide with no name, and what tells rows apart."""
    chosen = [
        f"{_read(column)} AS c{i}"
        for i, column in enumerate(shape.columns)
        if isinstance(column, FileColumn)
    ]
    if shape.row_id is not None:
        chosen.append(f"{spark_identifier(shape.row_id)} AS row_id")
    if shape.snapshot is not None:
        chosen.append(f"{spark_identifier(shape.snapshot)} AS snapshot")
    if shape.needs_positions:
        chosen.append("_metadata.row_index AS position")
    if shape.needs_files:
        chosen.append("_metadata.file_size AS size")
    return chosen


def _read(column: FileColumn) -> str:
    value = spark_identifier(column.name)
    if column.has_floats:
        # Hidden from the reader, which skips NaN and -0.0 by statistics that know neither.
        function = "coalesce" if column.type.typeName() == "struct" else "nanvl"
        value = f"{function}({value}, {value})"
    return value if column.type == column.target else _cast(value, column.target)


def _column(shape: Shape, index: int) -> str:
    """A column of the plan, from what `_numbered` and the join made."""
    match shape.columns[index]:
        case FileColumn():
            return f"c{index}"
        case ConstantColumn(None, target):
            return _cast("NULL", target)
        case ConstantColumn(sql, target):
            # All columns are nullable, whatever Spark knows of their values.
            return f"nullif({_cast(str(sql), target)}, NULL)"
        case "file_row_number":
            return "nullif(position, NULL)"
        case "rowid":
            return "row_id" if shape.row_id else "first_row_id + position"
        case "snapshot_id":
            return "snapshot" if shape.snapshot else "begin_snapshot"
        case _:
            return "filename"


def _joined(spark: SparkSession, frame: DataFrame, scan: ParquetScan) -> DataFrame:
    """With what the catalog knows of each file, and without the rows that are deleted."""
    from pyspark.sql.functions import broadcast, col

    facts: dict[str, Any] = _facts(scan) if scan.shape.needs_facts else {}
    if scan.shape.has_deletes:
        deleted = in_threads(lambda file: file.task.deleted(), scan.files)
        if (
            sum(int(positions[-1]) for positions in deleted if len(positions)) // 8
            > MAX_BITMAP_BYTES
        ):
            frame = _without(spark, frame, scan, deleted)
        else:
            facts["deleted"] = _bitmaps(deleted)
    if not facts:
        return frame
    facts["file_size"] = pa.array([file.footer.size for file in scan.files], pa.int64())
    known = broadcast(create_dataframe(spark, pa.table(facts)))
    joined = frame.join(known, col("size") == col("file_size"))
    return joined.where(f"NOT {_IS_DELETED}") if "deleted" in facts else joined


def _facts(scan: ParquetScan) -> dict[str, pa.Array]:
    files = [file.task.file for file in scan.files]
    return {
        "first_row_id": pa.array([file.row_id_start for file in files], pa.int64()),
        "begin_snapshot": pa.array([file.begin_snapshot for file in files], pa.int64()),
        "filename": pa.array([file.path for file in files], pa.string()),
    }


def _bitmaps(deleted: list[Positions]) -> pa.ListArray:
    words = [_bitmap(positions) for positions in deleted]
    ends = np.cumsum([0, *(len(bitmap) for bitmap in words)], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(np.concatenate(words)))


def _bitmap(positions: Positions) -> np.ndarray:
    count = int(positions[-1]) // 64 + 1 if len(positions) else 0
    bits = np.zeros(count * 64, np.bool_)
    bits[positions] = True
    return np.packbits(bits, bitorder="little").view(np.int64)


def _without(
    spark: SparkSession, frame: DataFrame, scan: ParquetScan, deleted: list[Positions]
) -> DataFrame:
    """An anti join on one number: the size of the file, then the position in it."""
    from pyspark.sql.functions import broadcast, expr

    keys = [
        (file.footer.size << POSITION_BITS) + positions
        for file, positions in zip(scan.files, deleted, strict=True)
    ]
    known = broadcast(create_dataframe(spark, pa.table({"deleted": np.concatenate(keys)})))
    return frame.join(known, expr(f"(size << {POSITION_BITS}) + position = deleted"), "left_anti")


def _cast(sql: str, target: DataType) -> str:
    return f"CAST({sql} AS {sql_type(target)})"
