"""The `ducklake` data source: a table of a lake by `spark.read.format("ducklake")`, or from SQL.

Spark creates the source in one Python process, plans it in another and reads it in the executors;
only small, picklable values are passed between them. This module needs PySpark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)

from lakeport.ducklake import Column, LakeTable
from lakeport.ducklake.reading import FileTask, ScanTask
from lakeport.errors import InvalidArgumentError
from lakeport.filters import Filter
from lakeport.spark.frames.values import spark_schema, to_spark_batch
from lakeport.spark.source.options import SourceOptions
from lakeport.spark.source.planning_errors import errors_in_one_sentence
from lakeport.spark.source.stream_options import (
    STREAM_READ_NAMES,
    StreamReadOptions,
    StreamWriteOptions,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["DuckLakeSource"]


class DuckLakeSource(DataSource):  # type: ignore[misc]
    """One table of a lake, at the snapshot that was the newest when it was loaded.

    ```python
    reader = spark.read.format("ducklake").option("catalog", "ducklake:meta.ducklake")
    reader.option("table", "main.events").option("filter", "id > 1000").load()
    ```
    """

    _pinned: SourceOptions | None = None
    _columns: tuple[Column, ...] | None = None
    """All columns of the table at that snapshot."""
    _conditions: Filter | None = None
    """What the rows that a query needs pass; Spark evaluates it again."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the source for `format` and `USING`."""
        return "ducklake"

    def schema(self) -> StructType:
        """Return the columns of the table, and pin the source to their snapshot."""
        with errors_in_one_sentence():
            self._pinned, self._columns, schema = self._load()
            return schema

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """Return the reader of the table."""
        with errors_in_one_sentence():
            given = {key.lower() for key in self.options}
            for name, written in STREAM_READ_NAMES.items():
                if name in given:
                    raise InvalidArgumentError(f"the option {written!r} is for spark.readStream")
            if self._pinned is None:
                raise InvalidArgumentError(
                    "a table of a lake has its own schema: do not pass another"
                )
            return _Reader(self._pinned, self._conditions)

    @property
    def compared(self) -> Sequence[Column]:
        """The columns that conditions of queries may name."""
        return self._columns or ()

    def narrowed(self, filter: Filter) -> Self:
        """Return the source of one query, whose rows pass a filter."""
        source = copy(self)
        source._conditions = filter  # noqa: SLF001 - its own
        return source

    def _load(self) -> tuple[SourceOptions, tuple[Column, ...], StructType]:
        """Return the options with a fixed snapshot, the columns of the table, and the schema."""
        stream = StreamReadOptions.parse(self.options)
        options = stream.source
        with options.open() as lake:
            table = options.table(lake)
            pinned = replace(options, version=table.snapshot.id, timestamp=None)
            if stream.change_feed:
                from lakeport.spark.source.stream_reader import stream_columns

                feed = stream_columns(table.columns, change_feed=True)
                return pinned, table.columns, spark_schema(feed)
            return pinned, table.columns, spark_schema(options.context(table).columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return the reader of the table as a stream.

        It raises its errors later: PySpark 4.3.0 would stop a reader that it does not have, and
        report an UnboundLocalError.
        """
        from lakeport.spark.source.stream_reader import make_stream_reader

        return make_stream_reader(dict(self.options), self._columns)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001
        """Return the writer of a batch, for the modes `append` and `overwrite`."""
        from lakeport.spark.source.writer import LakeWriter, WriteOptions

        with errors_in_one_sentence():
            return LakeWriter(WriteOptions.parse(self.options, overwrite=overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: FBT001, N802
        """Return the writer of a stream; `overwrite` replaces all rows with each batch."""
        from lakeport.spark.source.stream_writer import DuckLakeStreamWriter

        with errors_in_one_sentence():
            options = StreamWriteOptions.parse(self.options)
            return DuckLakeStreamWriter(options, schema, overwrite=overwrite)


class _Reader(DataSourceReader):  # type: ignore[misc]
    """Reads the rows that pass the filter of the options: one partition for each scan task.

    It does not accept filters of Spark by `pushFilters`. Spark 4.3.0 keeps the reader that got the
    filters of one query in the relation (spark.sql.python.filterPushdown.enabled), and uses it for
    other queries of the same DataFrame, where rows would be missing. The optimizer rule
    of `frames/optimizer_rule.py` makes a source for each query instead, with its conditions.
    """

    def __init__(self, options: SourceOptions, conditions: Filter | None) -> None:
        self._options = options
        self._conditions = conditions

    def partitions(self) -> list[InputPartition]:
        """Plan the scan at the pinned snapshot; return a partition for each task."""
        with errors_in_one_sentence(), self._options.open() as lake:
            return [_TaskPartition(task) for task in self._tasks(self._options.table(lake))]

    def _tasks(self, table: LakeTable) -> Sequence[ScanTask]:
        columns, filter, conditions = self._options.columns, self._options.filter, self._conditions
        if filter is None:
            return table.scan(columns, conditions, exact=False).plan.tasks
        tasks = table.scan(columns, filter).plan.tasks
        excluded = table.planner.excluded_files(conditions) if conditions else frozenset()
        return [
            task for task in tasks if not (isinstance(task, FileTask) and task.file.id in excluded)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task in the layout of Spark."""
        # Without any task, Spark still reads one empty partition.
        if isinstance(partition, _TaskPartition):
            columns = partition.task.context.columns
            for batch in partition.task.read():
                yield to_spark_batch(batch, columns)


@dataclass(frozen=True)
class _TaskPartition(InputPartition):  # type: ignore[misc]
    task: ScanTask
