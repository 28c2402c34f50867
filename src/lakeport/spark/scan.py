"""A scan plan that runs on Spark: as Arrow batches while the job runs, or as a DataFrame."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.ducklake.planning import ScanPlan
from lakeport.ducklake.reading import InlinedTask, ScanTask
from lakeport.errors import UnavailableError
from lakeport.spark.session import session
from lakeport.spark.transport.stream import MAX_BYTES, stream

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Scan", "with_columns"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Scan(ScanPlan):
    """Everything that must be read for one query, at one snapshot, and how to read it on Spark.

    Every method takes a Spark session; without one, the active session is used, or started.
    """

    @classmethod
    def of(cls, plan: ScanPlan) -> Self:
        """A plan of the format, ready to run."""
        return cls(**{field.name: getattr(plan, field.name) for field in fields(plan)})

    def to_batches(
        self, spark: SparkSession | None = None, *, max_bytes: int = MAX_BYTES
    ) -> pa.RecordBatchReader:
        """The rows as they come, in no order, while one Spark job reads them.

        The driver holds at most `max_bytes` of them. Dropping the reader cancels the job.
        """
        return stream(spark or session(), self.tasks, self.schema, max_bytes=max_bytes)

    def to_arrow(self, spark: SparkSession | None = None) -> pa.Table:
        """All rows as an Arrow table."""
        return self.to_batches(spark).read_all()

    def to_pandas(self, spark: SparkSession | None = None) -> pd.DataFrame:
        """All rows as a pandas DataFrame."""
        frame: pd.DataFrame = self.to_arrow(spark).to_pandas()
        return frame

    def to_polars(self, spark: SparkSession | None = None) -> pl.DataFrame:
        """All rows as a polars DataFrame."""
        try:
            import polars as pl
        except ImportError:
            raise UnavailableError(
                'polars is not installed: pip install "lakeport[polars]"'
            ) from None
        return pl.DataFrame(pl.from_arrow(self.to_arrow(spark)))

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The rows as a DataFrame: read by Spark itself wherever it can."""
        from lakeport.spark.frames.dataframes import to_dataframe

        return to_dataframe(spark or session(), self)

    def count(self, spark: SparkSession | None = None) -> int:
        """How many rows there are; only the columns of the filter are read."""
        counts = stream(spark or session(), [_Count(task) for task in self.tasks], _COUNT)
        return int(pc.sum(counts.read_all()["rows"]).as_py() or 0)


_COUNT = pa.schema([("rows", pa.int64())])


@dataclass(frozen=True, slots=True)
class _Count:
    """Counts the rows of a task where they are read."""

    task: ScanTask

    @property
    def estimated_bytes(self) -> int:
        """What is read at most."""
        return self.task.estimated_bytes

    def read(self) -> Iterator[pa.RecordBatch]:
        # The filter needs no answer columns, so whatever it reads is the answer.
        needed = with_columns(self.task, self.task.context.filter.columns)
        rows = sum(batch.num_rows for batch in needed.read())
        yield pa.record_batch([[rows]], schema=_COUNT)


def with_columns(task: ScanTask, names: Collection[str]) -> ScanTask:
    """A task that reads only some columns; one that brings its rows along stays as it is."""
    if isinstance(task, InlinedTask):
        return task
    context = task.context
    kept: list[tuple[Any, pa.Field]] = [
        (column, field)
        for column, field in zip(context.read_columns, context.read_schema, strict=True)
        if field.name in names
    ]
    read = tuple(column for column, _ in kept)
    schema = pa.schema([field for _, field in kept])
    narrow = replace(context, schema=schema, columns=read, read_columns=read, read_schema=schema)
    return replace(task, context=narrow)
