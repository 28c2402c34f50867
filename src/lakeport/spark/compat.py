"""Calls of PySpark with its side effects removed, and questions about a session."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakeport.errors import UnavailableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["create_dataframe", "is_connect", "map_in_arrow", "replaces_variables"]


def map_in_arrow(
    frame: DataFrame,
    function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """Run a function of Arrow batches on each partition of a DataFrame."""
    # PySpark 4 imports pandas here, which Arrow functions never use, and warns of its version 3.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    try:
        return frame.mapInArrow(function, schema)
    except ImportError as error:
        raise UnavailableError(f"Spark needs another package: {error}") from None


def create_dataframe(spark: SparkSession, rows: Any, schema: StructType | None = None) -> DataFrame:
    """Create a DataFrame of a session that need not be the active one of the thread.

    PySpark 4 makes the session of every `createDataFrame` the active one, where a later
    `lakeport.spark.session()` would find it: also a session that was made for one query.
    """
    if isinstance(rows, pa.Table) and not rows.column_names:
        # PySpark 4.1 drops the rows of an Arrow table without columns.
        numbers = pa.table({"row": pa.nulls(rows.num_rows, pa.int32())})
        return create_dataframe(spark, numbers).select()
    if is_connect(spark):
        return spark.createDataFrame(rows, schema=schema)
    from pyspark.sql import SparkSession

    in_java: Any = spark._jvm.org.apache.spark.sql.classic.SparkSession  # noqa: SLF001
    active = in_java.getActiveSession()
    active_in_python = SparkSession._activeSession  # noqa: SLF001
    try:
        return spark.createDataFrame(rows, schema=schema)
    finally:
        SparkSession._activeSession = active_in_python  # noqa: SLF001
        if active.isDefined():
            in_java.setActiveSession(active.get())
        else:
            in_java.clearActiveSession()


_SUBSTITUTE: Final = "spark.sql.variable.substitute"


def replaces_variables(spark: SparkSession) -> bool:
    """Return whether Spark replaces `${env:NAME}` and the like in the text of a query."""
    return str(spark.conf.get(_SUBSTITUTE, "true")).lower() != "false"


def is_connect(spark: SparkSession) -> bool:
    """Return whether Spark is behind a Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")
