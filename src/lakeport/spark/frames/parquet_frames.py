"""A DataFrame of files that Spark's Parquet reader reads, without deleted rows.

Expressions are written as SQL: every step of Spark's Column API is a call into the JVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lakeport.ducklake.reading import Positions
from lakeport.spark.compat import create_dataframe
from lakeport.spark.frames.columns import sql_type
from lakeport.spark.frames.file_index import FilePruning, file_url, indexed_dataframe
from lakeport.spark.frames.lake_files import (
    FILE_SIZE,
    NUMBERS,
    bitmap,
    deleted_bits,
    select_columns,
)
from lakeport.spark.frames.parquet_columns import ConstantColumn, FileColumn
from lakeport.spark.frames.parquet_footers import map_in_threads
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

# One bit for each position, in words of 64; a file's last words may be missing.
_IS_DELETED: Final = (
    "getbit(get(deleted, CAST(position >> 6 AS INT)), CAST(position & 63 AS INT)) <=> 1"
)


def parquet_dataframe(
    spark: SparkSession, scan: ParquetScan, names: list[str], pruning: FilePruning
) -> DataFrame:
    """Return the rows of a scan's files under the names of the plan's columns."""
    layout = scan.layout
    deleted = map_in_threads(lambda file: file.task.deleted(), scan.files)
    rows = _marked_rows(spark, scan, deleted, pruning) if layout.needs_positions else None
    is_marked = rows is not None
    if rows is None:
        rows = _plain_rows(spark, scan, pruning)
    if layout.snapshot is not None and layout.first_snapshot is not None:
        rows = rows.where(f"{spark_identifier(layout.snapshot)} >= {layout.first_snapshot}")
    if layout.snapshot is not None and layout.last_snapshot is not None:
        rows = rows.where(f"{spark_identifier(layout.snapshot)} <= {layout.last_snapshot}")
    terms = _terms(layout, NUMBERS if is_marked else "_metadata.row_index")
    if layout.needs_file_columns or (layout.has_deletes and not is_marked):
        size = FILE_SIZE if is_marked else "_metadata.file_size"
        fields = {**terms, "size": size}
        rows = select_columns(rows, [f"{sql} AS {name}" for name, sql in fields.items()])
        rows = _joined(spark, rows, scan, [] if is_marked else deleted)
        terms = {name: name for name in fields}
    columns = [_column(layout, i, terms) for i in range(len(names))]
    return select_columns(
        rows,
        [f"{sql} AS {spark_identifier(name)}" for sql, name in zip(columns, names, strict=True)],
    )


def _marked_rows(
    spark: SparkSession, scan: ParquetScan, deleted: list[Positions], pruning: FilePruning
) -> DataFrame | None:
    """Return the rows of files by our reader, without deleted ones; None if it cannot be used."""
    bits = deleted_bits([file.footer.rows for file in scan.files], deleted)
    if bits is None:
        return None
    schema = _schema(scan.layout).add(NUMBERS, "long")
    frame = indexed_dataframe(spark, scan, schema, _options(scan), pruning, bits)
    if frame is None or not scan.layout.has_deletes:
        return frame
    return frame.where(f"{NUMBERS} >= 0")


def _plain_rows(spark: SparkSession, scan: ParquetScan, pruning: FilePruning) -> DataFrame:
    """Return all rows of files."""
    schema = _schema(scan.layout)
    frame = indexed_dataframe(spark, scan, schema, _options(scan), pruning)
    if frame is None:
        reader = spark.read.format("parquet").options(**_options(scan)).schema(schema)
        frame = reader.load([file_url(file) for file in scan.files])
    return frame


def _options(scan: ParquetScan) -> dict[str, str]:
    return _OPTIONS | (_WITH_ZEROS if scan.shows_numbers else {})


def _schema(layout: ReadLayout) -> StructType:
    """Return the schema that is read from the files, under the names in the files."""
    from pyspark.sql.types import LongType, StructField, StructType

    fields = [StructField(c.name, c.type) for c in layout.columns if isinstance(c, FileColumn)]
    internal = [name for name in (layout.row_id, layout.snapshot) if name is not None]
    return StructType(fields + [StructField(name, LongType()) for name in internal])


def _terms(layout: ReadLayout, position: str) -> dict[str, str]:
    """Return SQL for numbered columns and DuckLake's own, over the fields of the files."""
    terms = {
        f"c{i}": _read(column)
        for i, column in enumerate(layout.columns)
        if isinstance(column, FileColumn)
    }
    if layout.row_id is not None:
        terms["row_id"] = spark_identifier(layout.row_id)
    if layout.snapshot is not None:
        terms["snapshot"] = spark_identifier(layout.snapshot)
    if layout.needs_positions:
        terms["position"] = position
    return terms


def _read(column: FileColumn) -> str:
    value = spark_identifier(column.name)
    if column.has_floats and not column.is_shown:
        # Hide the column from the reader, which would skip NaN by the statistics.
        function = "coalesce" if column.type.typeName() == "struct" else "nanvl"
        value = f"{function}({value}, {value})"
    return value if column.type == column.target else _cast(value, column.target)


def _column(layout: ReadLayout, index: int, terms: Mapping[str, str]) -> str:
    """Return SQL for a column of the plan, over terms and the columns of the join with files."""
    match layout.columns[index]:
        case FileColumn():
            return terms[f"c{index}"]
        case ConstantColumn(None, target):
            return _cast("NULL", target)
        case ConstantColumn(sql, target):
            # All columns are nullable, also where Spark infers that a value is not null.
            return f"nullif({_cast(str(sql), target)}, NULL)"
        case "file_row_number":
            return f"nullif({terms['position']}, NULL)"
        case "rowid":
            return terms["row_id"] if layout.row_id else f"first_row_id + {terms['position']}"
        case "snapshot_id":
            return terms["snapshot"] if layout.snapshot else "begin_snapshot"
        case _:
            return "filename"


def _joined(
    spark: SparkSession, frame: DataFrame, scan: ParquetScan, deleted: list[Positions]
) -> DataFrame:
    """Add the catalog's columns of each file, and remove deleted rows."""
    from pyspark.sql.functions import broadcast, col

    file_columns: dict[str, Any] = _file_columns(scan) if scan.layout.needs_file_columns else {}
    if deleted and scan.layout.has_deletes:
        last = [int(positions[-1]) for positions in deleted if len(positions)]
        if sum(last) // 8 > MAX_BITMAP_BYTES:
            frame = _anti_join_deleted(spark, frame, scan, deleted)
        else:
            file_columns["deleted"] = _bitmaps(deleted)
    if not file_columns:
        return frame
    file_columns["file_size"] = pa.array([file.footer.size for file in scan.files], pa.int64())
    files = broadcast(create_dataframe(spark, pa.table(file_columns)))
    joined = frame.join(files, col("size") == col("file_size"))
    return joined.where(f"NOT {_IS_DELETED}") if "deleted" in file_columns else joined


def _file_columns(scan: ParquetScan) -> dict[str, pa.Array]:
    files = [file.task.file for file in scan.files]
    return {
        "first_row_id": pa.array([file.row_id_start for file in files], pa.int64()),
        "begin_snapshot": pa.array([file.begin_snapshot for file in files], pa.int64()),
        "filename": pa.array([file.path for file in files], pa.string()),
    }


def _bitmaps(deleted: list[Positions]) -> pa.ListArray:
    words = [bitmap(positions) for positions in deleted]
    ends = np.cumsum([0, *map(len, words)], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(np.concatenate(words)))


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
