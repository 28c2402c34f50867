"""Run small queries like those of lakes, so that the first one of a user does not wait for Java.

Java loads a class when it is first used, and runs it slowly until it is compiled. The first query
of a session takes several seconds of CPU for this, whatever it computes.
"""

from __future__ import annotations

import logging
import tempfile
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.catalog import ScanOptions
from lakeport.errors import first_line
from lakeport.spark.compat import create_dataframe, is_connect
from lakeport.spark.security import is_local
from lakeport.spark.tables import scan_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["run_small_queries", "warm_up"]

_log = logging.getLogger("lakeport.spark")


def warm_up(spark: SparkSession) -> None:
    """Run small queries in a session of their own; a failure is only logged.

    They read a file of this machine, so they are run on local masters only.
    """
    if is_connect(spark) or not is_local(spark.sparkContext.master):
        return
    try:
        run_small_queries(spark.newSession())
    except Exception as error:  # noqa: BLE001
        # The session may have been stopped meanwhile.
        _log.debug("Spark was not warmed up: %s", first_line(error))


def run_small_queries(spark: SparkSession) -> None:
    """Read a Parquet file with deleted rows, join, aggregate, and send rows to this process."""
    import pyarrow.parquet as pq

    rows = pa.table({"id": pa.arange(0, 1000), "name": pa.arange(0, 1000).cast(pa.string())})
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/rows.parquet"
        pq.write_table(rows, path)
        frame = _aggregated(_without_deleted(spark, path))
        scan_frame(frame, ScanOptions()).read_all()


def _without_deleted(spark: SparkSession, path: str) -> DataFrame:
    numbered = spark.read.parquet(path).selectExpr(
        "*", "_metadata.row_index AS position", "_metadata.file_size AS size"
    )
    bits = pa.table({"bits": pa.array([[1, 2, 3]], pa.list_(pa.int64()))})
    return numbered.withColumn("bits", create_dataframe(spark, bits).scalar()).where(
        "NOT getbit(get(bits, CAST(position >> 6 AS INT)), CAST(position & 63 AS INT)) <=> 1"
    )


def _aggregated(frame: DataFrame) -> DataFrame:
    frame.createOrReplaceTempView("kept")
    return frame.sparkSession.sql(
        "SELECT k.id % 7 AS k, count(*) AS n, sum(o.size) AS s, max(k.name) AS m"
        " FROM kept AS k JOIN kept AS o USING (id)"
        " WHERE k.id > 5 AND k.name LIKE '1%' GROUP BY 1 ORDER BY 1"
    )
