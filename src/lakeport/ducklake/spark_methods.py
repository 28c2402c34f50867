"""The methods of `Lake` that need Spark. This module does not import it: the engine does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from lakeport.ducklake.engine import spark_engine

if TYPE_CHECKING:
    from lakeport.ducklake.lake import Lake

__all__ = ["LakeOnSpark"]


class LakeOnSpark:
    """A lake in Spark SQL."""

    def sql(
        self,
        query: str,
        *,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        spark: object = None,
        version: int | None = None,
        timestamp: datetime | str | None = None,
    ) -> Any:
        """Run a query of Spark SQL, or a statement that changes the lake; return a DataFrame.

        ```python
        lake.sql("SELECT * FROM sales.orders VERSION AS OF 3 JOIN customers USING (id)")
        lake.sql("DELETE FROM sales.orders WHERE id = :id", args={"id": 7})
        ```

        Tables of other schemas than `main` are named with their schema. A table is read at the
        snapshot of its `VERSION AS OF` or `TIMESTAMP AS OF`; without one, at that of the arguments,
        or at the newest. Names that the lake does not have are tables and views of the session.

        A statement is run at once: INSERT, UPDATE, DELETE, MERGE, TRUNCATE, CREATE, ALTER, DROP or
        COMMENT ON. Its DataFrame has one row: the new snapshot, NULL if there is none, and how many
        rows were affected, inserted, updated and deleted. SHOW and DESCRIBE list what the lake has.

        `args` has the values of parameters: by name for `:name`, or a list for question marks.
        """
        lake = cast("Lake", self)
        engine = spark_engine(lake.engine, spark)
        if version is None and timestamp is None:
            return engine.sql(lake, query, args=args)
        snapshot = lake.snapshot(version=version, timestamp=timestamp)
        return engine.sql(lake, query, args=args, version=snapshot.id)

    def register(
        self,
        spark: object,
        name: str | None = None,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
    ) -> Any:
        """Make every table and view of the lake a temporary view of a Spark session.

        A table of the schema `main` is called `events`, one of another schema `sales_events`; with
        a `name` for the lake, `lake_events` and `lake_sales_events`. All are read at one snapshot.
        Return a `lakeport.spark.Registration`.
        """
        lake = cast("Lake", self)
        snapshot = lake.snapshot(version=version, timestamp=timestamp)
        return spark_engine(lake.engine, spark).register(lake, name, version=snapshot.id)
