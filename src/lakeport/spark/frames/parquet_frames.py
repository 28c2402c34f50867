"""A DataFrame of files that Spark's Parquet reader reads, without deleted rows.

Expressions are written as SQL: every step of Spark's Column API is a call into the JVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lakeport.ducklake.reading import Positions
from lakeport.spark.compat import create_dataframe
from lakeport.spark.frames.columns import sql_type
from lakeport.spark.frames.file_index import FilePruning, file_url, indexed_dataframe
from lakeport.spark.frames.parquet_columns import ConstantColumn, FileColumn
from lakeport.spark.frames.parquet_footers import Footer, map_in_threads
from lakeport.spark.frames.parquet_scans import POSITION_BITS, ParquetScan, ReadLayout
from lakeport.types import spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

__all__ = ["parquet_dataframe"]

# Every executor holds the bitmaps of a scan; larger deletes are joined row by row.
MAX_BITMAP_BYTES: Final = 64 * 1024 * 1024

_OPTIONS: Final = {
    # The paths are files, not patterns, and their folders are no partition columns.
    "__globPaths__": "false",
    "recursiveFileLookup": "true",
    # A lake's dates are in one calendar, and none of its files may be skipped.
    "datetimeRebaseMode": "CORRECTED",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
}

# Bounds treat -0.0 and 0.0 as equal; parquet-java 1.17's dictionary and bloom filters do not.
_WITH_ZEROS: Final = {
    "parquet.filter.dictionary.enabled": "false",
    "parquet.filter.bloom.enabled": "false",
}

# The filter tests each row before the filters of a query do; a join of more rows comes after them.
MAX_FILTERED_ROWS: Final = 1 << 20
# The most slots for the sizes of files with deletes; the files of a larger scan are joined.
MAX_SLOTS: Final = 1 << 16

# One bit for each position, in words of 64; a file's last words may be missing.
_IS_DELETED: Final = (
    "getbit(get(deleted, CAST(position >> 6 AS INT)), CAST(position & 63 AS INT)) <=> 1"
)


def parquet_dataframe(
    spark: SparkSession, scan: ParquetScan, names: list[str], pruning: FilePruning
) -> DataFrame:
    """Return the rows of a scan's files under the names of the plan's columns."""
    layout = scan.layout
    schema = _schema(layout)
    options = _OPTIONS | (_WITH_ZEROS if scan.shows_numbers else {})
    frame = indexed_dataframe(spark, scan, schema, options, pruning)
    if frame is None:
        reader = spark.read.format("parquet").options(**options).schema(schema)
        frame = reader.load([file_url(file) for file in scan.files])
    frame = frame.selectExpr(*_numbered(layout))
    if layout.first_snapshot is not None:
        frame = frame.where(f"snapshot >= {layout.first_snapshot}")
    if layout.last_snapshot is not None:
        frame = frame.where(f"snapshot <= {layout.last_snapshot}")
    frame = _joined(spark, frame, scan)
    return frame.selectExpr(
        *[f"{_column(layout, i)} AS {spark_identifier(name)}" for i, name in enumerate(names)]
    )


def _schema(layout: ReadLayout) -> StructType:
    """Return the schema that is read from the files, under the names in the files."""
    from pyspark.sql.types import LongType, StructField, StructType

    fields = [StructField(c.name, c.type) for c in layout.columns if isinstance(c, FileColumn)]
    internal = [name for name in (layout.row_id, layout.snapshot) if name is not None]
    return StructType(fields + [StructField(name, LongType()) for name in internal])


def _numbered(layout: ReadLayout) -> list[str]:
    """Return SQL for the columns under numbers, row positions and file sizes."""
    selected = [
        f"{_read(column)} AS c{i}"
        for i, column in enumerate(layout.columns)
        if isinstance(column, FileColumn)
    ]
    if layout.row_id is not None:
        selected.append(f"{spark_identifier(layout.row_id)} AS row_id")
    if layout.snapshot is not None:
        selected.append(f"{spark_identifier(layout.snapshot)} AS snapshot")
    if layout.needs_positions:
        selected.append("_metadata.row_index AS position")
    if layout.needs_files:
        selected.append("_metadata.file_size AS size")
    return selected


def _read(column: FileColumn) -> str:
    value = spark_identifier(column.name)
    if column.has_floats and not column.is_shown:
        # Hide the column from the reader, which would skip NaN by the statistics.
        function = "coalesce" if column.type.typeName() == "struct" else "nanvl"
        value = f"{function}({value}, {value})"
    return value if column.type == column.target else _cast(value, column.target)


def _column(layout: ReadLayout, index: int) -> str:
    """Return SQL for a column of the plan, over the columns of `_numbered` and of the join."""
    match layout.columns[index]:
        case FileColumn():
            return f"c{index}"
        case ConstantColumn(None, target):
            return _cast("NULL", target)
        case ConstantColumn(sql, target):
            # All columns are nullable, also where Spark infers that a value is not null.
            return f"nullif({_cast(str(sql), target)}, NULL)"
        case "file_row_number":
            return "nullif(position, NULL)"
        case "rowid":
            return "row_id" if layout.row_id else "first_row_id + position"
        case "snapshot_id":
            return "snapshot" if layout.snapshot else "begin_snapshot"
        case _:
            return "filename"


def _joined(spark: SparkSession, frame: DataFrame, scan: ParquetScan) -> DataFrame:
    """Add the catalog's columns of each file, and remove deleted rows."""
    from pyspark.sql.functions import broadcast, col

    file_columns: dict[str, Any] = _file_columns(scan) if scan.layout.needs_file_columns else {}
    if scan.layout.has_deletes:
        deleted = map_in_threads(lambda file: file.task.deleted(), scan.files)
        numbers = deleted_numbers([file.footer for file in scan.files], deleted)
        if numbers is not None:
            frame = _without_deleted(spark, frame, *numbers)
        elif (
            sum(int(positions[-1]) for positions in deleted if len(positions)) // 8
            > MAX_BITMAP_BYTES
        ):
            frame = _anti_join_deleted(spark, frame, scan, deleted)
        else:
            file_columns["deleted"] = _bitmaps(deleted)
    if not file_columns:
        return frame
    file_columns["file_size"] = pa.array([file.footer.size for file in scan.files], pa.int64())
    files = broadcast(create_dataframe(spark, pa.table(file_columns)))
    joined = frame.join(files, col("size") == col("file_size"))
    return joined.where(f"NOT {_IS_DELETED}") if "deleted" in file_columns else joined


def deleted_numbers(
    footers: Sequence[Footer], deleted: Sequence[Positions]
) -> tuple[np.ndarray, int] | None:
    """Return the deleted positions of files in one array of numbers, and its number of slots.

    A file's slot is its size modulo the number of slots. At a slot is the index of the file's
    bitmap, and after all of these, in the same order, are the sizes. The bitmaps follow, with one
    bit for each row. None if there are too many rows, or the array would be too large.
    """
    words = [footer.rows // 64 + 1 for footer in footers]
    rows = sum(footer.rows for footer in footers)
    if rows > MAX_FILTERED_ROWS or sum(words) * 8 > MAX_BITMAP_BYTES:
        return None
    sizes = np.array([footer.size for footer in footers], np.int64)
    slots = _slots(sizes)
    if slots is None:
        return None
    table = np.full(2 * slots, -1, np.int64)
    starts = 2 * slots + np.cumsum([0, *words[:-1]], dtype=np.int64)
    table[sizes % slots] = starts
    table[slots + sizes % slots] = sizes
    bits = np.zeros(sum(words) * 64, np.bool_)
    for start, footer, positions in zip(starts, footers, deleted, strict=True):
        # A position after the last row would be one of the next file.
        inside = positions[(positions >= 0) & (positions < footer.rows)]
        bits[(start - 2 * slots) * 64 + inside] = True
    return np.concatenate([table, np.packbits(bits, bitorder="little").view(np.int64)]), slots


def _slots(sizes: np.ndarray) -> int | None:
    """Return the smallest number by which all sizes, which differ, have different remainders."""
    for slots in range(len(sizes), min(MAX_SLOTS, len(sizes) ** 2 + 64)):
        if len(np.unique(sizes % slots)) == len(sizes):
            return slots
    return None


def _without_deleted(
    spark: SparkSession, frame: DataFrame, numbers: np.ndarray, slots: int
) -> DataFrame:
    """Remove deleted rows by a filter.

    The numbers are the result of a subquery. As a join, they would make Spark overestimate the
    frame, and join it with others by a shuffle. As a literal, they would be part of every plan.
    """
    values = pa.ListArray.from_arrays([0, len(numbers)], pa.array(numbers))
    constant = create_dataframe(spark, pa.table({"numbers": values})).scalar()
    start = f"get(numbers, CAST(size % {slots} AS INT))"
    size = f"CAST({slots} + size % {slots} AS INT)"
    word = f"get(numbers, CAST({start} + (position >> 6) AS INT))"
    is_deleted = f"getbit({word}, CAST(position & 63 AS INT)) <=> 1"
    return frame.withColumn("numbers", constant).where(
        f"get(numbers, {size}) = size AND NOT {is_deleted}"
    )


def _file_columns(scan: ParquetScan) -> dict[str, pa.Array]:
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


def _anti_join_deleted(
    spark: SparkSession, frame: DataFrame, scan: ParquetScan, deleted: list[Positions]
) -> DataFrame:
    """Remove deleted rows by an anti join on the file's size and the position in one number."""
    from pyspark.sql.functions import broadcast, expr

    keys = [
        (file.footer.size << POSITION_BITS) + positions
        for file, positions in zip(scan.files, deleted, strict=True)
    ]
    rows = broadcast(create_dataframe(spark, pa.table({"deleted": np.concatenate(keys)})))
    return frame.join(rows, expr(f"(size << {POSITION_BITS}) + position = deleted"), "left_anti")


def _cast(sql: str, target: DataType) -> str:
    return f"CAST({sql} AS {sql_type(target)})"
