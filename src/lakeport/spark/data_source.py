"""The `ducklake` data source: a table of a lake by `spark.read.format("ducklake")`, or from SQL.

Spark creates the source in one Python process, plans it in another and reads it in the executors;
only small, picklable values travel between them. Import this module where Spark is known to be.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from lakeport.ducklake import ScanTask
from lakeport.errors import InvalidArgumentError
from lakeport.filters import Filter
from lakeport.spark.source_filters import pushed_filter
from lakeport.spark.source_options import SourceOptions
from lakeport.spark.values import spark_batch, spark_schema

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter as SparkFilter
    from pyspark.sql.types import StructType

__all__ = ["DuckLakeSource"]

# Spark imports it in the process that plans a read, if the session pushes filters down.
_PUSHDOWN: Final = "pyspark.sql.worker.data_source_pushdown_filters"


class DuckLakeSource(DataSource):  # type: ignore[misc]
    """One table of a lake, at the snapshot that was the newest when it was loaded.

    ```python
    reader = spark.read.format("ducklake").option("catalog", "ducklake:meta.ducklake")
    reader.option("table", "main.events").option("version", 7).load()
    ```
    """

    _pinned: SourceOptions | None = None

    @classmethod
    def name(cls) -> str:
        """What `format` and `USING` call the source."""
        return "ducklake"

    def schema(self) -> StructType:
        """The columns of the table; from here on, the source is pinned to their snapshot."""
        options = SourceOptions.parse(self.options)
        with options.open() as lake:
            table = options.table(lake)
            self._pinned = replace(options, version=table.snapshot.id, timestamp=None)
            return spark_schema(table.planner.context(options.columns, Filter.always()).columns)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """How the table is read."""
        if self._pinned is None:
            raise InvalidArgumentError("a table of a lake has its own schema: do not give another")
        # Spark refuses a reader that takes filters in a session that does not push them.
        reader = _FilteringReader if _PUSHDOWN in sys.modules else _Reader
        return reader(self._pinned)


class _Reader(DataSourceReader):  # type: ignore[misc]
    """Reads all rows: one partition for each scan task."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._filter = Filter.always()

    def partitions(self) -> list[InputPartition]:
        """What is read, planned at the pinned snapshot."""
        with self._options.open() as lake:
            table = self._options.table(lake)
            plan = table.scan(self._options.columns, self._filter, exact=False)
        return [_TaskPartition(task) for task in plan.tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, as Spark lays them out."""
        # Without any task, Spark still asks for one empty partition.
        if isinstance(partition, _TaskPartition):
            columns = partition.task.context.columns
            for batch in partition.task.read():
                yield spark_batch(batch, columns)


class _FilteringReader(_Reader):
    """Leaves out rows that cannot match; Spark evaluates the filters again."""

    def pushFilters(self, filters: list[SparkFilter]) -> Iterable[SparkFilter]:  # noqa: N802
        """Take what can be used; all of it is given back."""
        with self._options.open() as lake:
            self._filter = pushed_filter(filters, self._options.table(lake).columns)
        return filters


@dataclass(frozen=True)
class _TaskPartition(InputPartition):  # type: ignore[misc]
    task: ScanTask
