"""What Spark is doing for a server, as metrics."""

from __future__ import annotations

from lakeport.cli.catalogs import Catalogs
from lakeport.cli.metrics import Metrics
from lakeport.spark.job import activity

__all__ = ["watch_spark"]


def watch_spark(metrics: Metrics, catalogs: Catalogs) -> None:
    """Show the scans and jobs that run on Spark, and the batches that wait for clients."""

    def jobs() -> float:
        context = getattr(catalogs.spark, "sparkContext", None)
        return 0 if context is None else len(context.statusTracker().getActiveJobsIds())

    metrics.watch("catalogs", "Catalogs being served", lambda: len(catalogs.lakes))
    metrics.watch("spark_jobs_active", "Spark jobs that are running", jobs)
    metrics.watch("spark_scans", "Scans that run on Spark", lambda: activity().scans)
    metrics.watch(
        "spark_queued_bytes",
        "Bytes of Arrow that wait in the driver for their clients",
        lambda: activity().queued_bytes,
    )
