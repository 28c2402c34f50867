"""What Spark is doing for a server, as metrics."""

from __future__ import annotations

from lakeport.cli.catalogs import Catalogs
from lakeport.cli.metrics import Metrics
from lakeport.spark.job import activity
from lakeport.spark.queries import is_connect
from lakeport.spark.session import is_running

__all__ = ["watch_spark"]


def watch_spark(metrics: Metrics, catalogs: Catalogs) -> None:
    """Show the scans and jobs that run on Spark, and the batches that wait for clients."""

    def jobs() -> float:
        spark = catalogs.spark.current
        if spark is None or is_connect(spark) or not is_running(spark):
            return 0
        try:
            return len(spark.sparkContext.statusTracker().getActiveJobsIds())
        except Exception:  # noqa: BLE001
            # Java ended a moment ago.
            return 0

    metrics.watch("catalogs", "Catalogs being served", lambda: len(catalogs.lakes))
    metrics.watch("spark_jobs_active", "Spark jobs that are running", jobs)
    metrics.watch(
        "spark_restarts", "How often Spark was started again", lambda: catalogs.spark.restarts
    )
    metrics.watch("spark_scans", "Scans that run on Spark", lambda: activity().scans)
    metrics.watch(
        "spark_queued_bytes",
        "Bytes of Arrow that wait in the driver for their clients",
        lambda: activity().queued_bytes,
    )
