"""The `ducklake` data source: a table of a lake by `spark.read.format("ducklake")`, or from SQL.

Spark creates the source in one Python process, plans it in another and reads it in the executors;
only small, picklable values are passed between them. This module needs PySpark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from lakeport.ducklake.reading import ScanTask
from lakeport.errors import InvalidArgumentError, LakeportError, UnsupportedError
from lakeport.spark.frames.values import spark_schema, to_spark_batch
from lakeport.spark.source.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

__all__ = ["DuckLakeSource"]

_NO_WRITING: Final = (
    "the format 'ducklake' cannot write a stream: append each batch with foreachBatch and "
    "lake.table(…).append(batch)"
)
_NO_STREAMS: Final = (
    "the format 'ducklake' cannot be read as a stream: use spark.read instead of spark.readStream, "
    "or the changes between two snapshots, lake.table(…).changes(first, last).to_spark()"
)


class DuckLakeSource(DataSource):  # type: ignore[misc]
    """One table of a lake, at the snapshot that was the newest when it was loaded.

    ```python
    reader = spark.read.format("ducklake").option("catalog", "ducklake:meta.ducklake")
    reader.option("table", "main.events").option("filter", "id > 1000").load()
    ```
    """

    _pinned: SourceOptions | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the source for `format` and `USING`."""
        return "ducklake"

    def schema(self) -> StructType:
        """Return the columns of the table, and pin the source to their snapshot."""
        with _errors_in_one_sentence():
            self._pinned, schema = self._load()
            return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the table.

        Spark's catalog recorded the schema of a table that `CREATE TABLE … USING ducklake` made.
        """
        with _errors_in_one_sentence():
            if self._pinned is not None:
                return _Reader(self._pinned)
            pinned, own = self._load()
            if _types(own) != _types(schema):
                raise InvalidArgumentError(
                    "a table of a lake has its own schema, and it is not the one that Spark has: "
                    "do not pass another, and create a table of Spark's catalog again"
                )
            return _Reader(pinned)

    def _load(self) -> tuple[SourceOptions, StructType]:
        options = SourceOptions.parse(self.options)
        with options.open() as lake:
            table = options.table(lake)
            pinned = replace(options, version=table.snapshot.id, timestamp=None)
            return pinned, spark_schema(options.context(table).columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return a reader that refuses to read."""
        return _NoStreamReader()

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001
        """Return the writer of a batch, for the modes `append` and `overwrite`."""
        from lakeport.spark.source.writer import LakeWriter, WriteOptions

        with _errors_in_one_sentence():
            return LakeWriter(WriteOptions.parse(self.options, overwrite=overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: ARG002, FBT001, N802
        """Refuse to write."""
        with _errors_in_one_sentence():
            raise UnsupportedError(_NO_WRITING)


def _types(schema: StructType) -> list[tuple[str, DataType]]:
    """Return the names and types of columns; Spark's catalog adds comments and metadata."""
    return [(field.name, field.dataType) for field in schema.fields]


class _Reader(DataSourceReader):  # type: ignore[misc]
    """Reads the rows that pass the filter of the options: one partition for each scan task.

    It does not accept filters of Spark. Spark 4.3.0 keeps the reader that got the filters of one
    query in the relation (spark.sql.python.filterPushdown.enabled), and uses it for other queries
    of the same DataFrame, where rows would be missing.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Plan the scan at the pinned snapshot; return a partition for each task."""
        with _errors_in_one_sentence(), self._options.open() as lake:
            scan = self._options.table(lake).scan(self._options.columns, self._options.filter)
        return [_TaskPartition(task) for task in scan.plan.tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task in the layout of Spark."""
        # Without any task, Spark still reads one empty partition.
        if isinstance(partition, _TaskPartition):
            columns = partition.task.context.columns
            for batch in partition.task.read():
                yield to_spark_batch(batch, columns)


class _NoStreamReader(DataSourceStreamReader):  # type: ignore[misc]
    """Refuses to read, in the first call that Spark makes.

    `DataSource.streamReader` itself must not raise: PySpark 4.3.0 would then stop a reader that it
    does not have, and report an UnboundLocalError.
    """

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Refuse to read a new stream."""
        with _errors_in_one_sentence():
            raise UnsupportedError(_NO_STREAMS)

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Refuse to read on from a checkpoint."""
        return self.initialOffset()

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:  # noqa: ARG002
        """Refuse to read."""
        raise UnsupportedError(_NO_STREAMS)


@dataclass(frozen=True)
class _TaskPartition(InputPartition):  # type: ignore[misc]
    task: ScanTask


@contextmanager
def _errors_in_one_sentence() -> Iterator[None]:
    """Make Spark report an error of Lakeport without the traceback of the planning process."""
    try:
        yield
    except LakeportError:
        # PySpark reads it when it reports the error, after which this process ends.
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
