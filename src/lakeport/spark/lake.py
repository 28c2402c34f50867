"""A lake whose reads run on Spark: what `lakeport.Lake` is.

The format itself is `lakeport.ducklake`; this adds the pipeline. Spark is imported when the first
scan runs, so that planning and inspecting a lake needs neither Java nor a session.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, cast

from lakeport.ducklake import TASK_BYTES
from lakeport.ducklake import Lake as FormatLake
from lakeport.ducklake import LakeTable as FormatTable
from lakeport.ducklake.planning import FilterLike
from lakeport.spark.changes import ChangeFeed
from lakeport.spark.scan import Scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.spark.sql.registration import Registration

__all__ = ["Lake", "LakeTable"]


class LakeTable(FormatTable):
    """One table of a lake, pinned to a snapshot, to be read on Spark."""

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: FilterLike = None,
        *,
        task_bytes: int = TASK_BYTES,
        exact: bool = True,
    ) -> Scan:
        """Plan a scan; its `to_spark()`, `to_batches()`, `to_arrow()` … run it.

        Args:
            columns: Names of columns, and of the virtual columns `rowid`, `snapshot_id`, `filename`
                and `file_row_number`; all columns of the table when left out.
            filter: A tree of `lakeport.filters`, or DuckDB SQL.
            task_bytes: Files larger than this are divided into several tasks.
            exact: Give only rows that pass the filter. Otherwise rows that cannot match are left
                out where statistics, partition values or Arrow can tell, for a caller that
                filters again.
        """
        return Scan.of(super().scan(columns, filter, task_bytes=task_bytes, exact=exact))

    def to_spark(
        self,
        spark: SparkSession | None = None,
        *,
        columns: Sequence[str] | None = None,
        filter: FilterLike = None,
    ) -> DataFrame:
        """Return the rows as a DataFrame; files that cannot pass the filter are not in it.

        The same as `scan(columns, filter).to_spark(spark)`.
        """
        return self.scan(columns, filter).to_spark(spark)

    def changes(self, first: int | datetime, last: int | datetime | None = None) -> ChangeFeed:
        """What happened to the table from one snapshot to another, both included.

        A moment stands for the first snapshot at or after it as the lower bound, and for the last
        one at or before it as the upper bound. Without an upper bound: up to the table's snapshot.
        """
        return ChangeFeed.of(super().changes(first, last))


class Lake(FormatLake):
    """One DuckLake catalog, open for reading; its scans run on Spark.

    ```python
    with Lake.open("ducklake:meta.ducklake") as lake:
        events = lake.table("events").scan(filter="id > 100")
        events.to_spark().groupBy("kind").count().show()
        for batch in events.to_batches():
            ...
    ```
    """

    _table_type: ClassVar[type[FormatTable]] = LakeTable

    def table(
        self,
        name: str,
        schema: str = "main",
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
    ) -> LakeTable:
        """A table at a snapshot: the newest one unless a version or a moment is given."""
        found = super().table(name, schema, version=version, timestamp=timestamp)
        return cast("LakeTable", found)

    def register(
        self,
        spark: SparkSession,
        name: str | None = None,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
    ) -> Registration:
        """Make every table and view of the lake a temporary view of a Spark session.

        A table of the schema `main` is called `events`, one of another schema `sales_events`; with
        a `name` for the lake, `lake_events` and `lake_sales_events`. All are read at one snapshot.
        """
        from lakeport.spark.sql.registration import register

        return register(self, spark, name, version=version, timestamp=timestamp)
