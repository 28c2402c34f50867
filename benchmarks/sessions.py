"""The one Spark session of a run."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import duckdb

from benchmarks.delta import delta_settings
from benchmarks.reference_lakes import kept_lake
from lakeport import Lake
from lakeport.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["shared_session", "stop_session"]


_SCANS: Final = 25
_FILES: Final = 12


@cache
def shared_session() -> SparkSession:
    """Start a session on all cores; `toArrow()` keeps whole tables in the heap."""
    spark = session(
        "local[*,4]",
        spark_driver_memory="6g",
        spark_driver_maxResultSize="0",
        **delta_settings(),
    )
    spark.sparkContext.setLogLevel("ERROR")
    _warm_up(spark)
    return spark


def _warm_up(spark: SparkSession) -> None:
    """Scan until Java has compiled what a scan needs: that takes a core for some twenty scans."""
    with Lake.open(kept_lake("warm", _fill), spark=spark) as lake:
        for _ in range(_SCANS):
            lake.table("t").scan().to_arrow()


def _fill(duck: duckdb.DuckDBPyConnection) -> None:
    duck.execute("CREATE TABLE lake.t (id BIGINT)")
    for number in range(_FILES):
        duck.execute(f"INSERT INTO lake.t VALUES ({number})")


def stop_session() -> None:
    """Stop the session, if the run needed one."""
    if shared_session.cache_info().currsize:
        shared_session().stop()
        shared_session.cache_clear()
