"""The Spark session that the pipeline runs on: the caller's, a remote one, or an embedded one."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from lakeport.errors import UnavailableError
from lakeport.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["session"]

# All cores, and four attempts for each task, as on a cluster.
_LOCAL: Final = "local[*,4]"

_DEFAULTS: Final[dict[str, str]] = {
    "spark.app.name": "lakeport",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Scans of several clients share the cores instead of queueing behind each other.
    "spark.scheduler.mode": "FAIR",
    # Two attempts of one scan task would send the same rows twice at once.
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
}

_LOCAL_DEFAULTS: Final[dict[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}


def session(master: str | None = None, **conf: Any) -> SparkSession:
    """A Spark session for lakes.

    The session that is active already, if there is one; else a session on `master`, on what
    `SPARK_REMOTE` or `MASTER` name, or on the cores of this machine. Further settings go by
    keyword, with underscores for dots: `spark_executor_memory="4g"`.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UnavailableError("Spark is not installed: install lakeport[spark]") from None

    active = SparkSession.getActiveSession()
    if active is not None and master is None and not conf:
        return active
    settings = {name.replace("_", "."): str(value) for name, value in conf.items()}
    remote = _remote(master)
    if remote is not None:
        builder = SparkSession.builder.remote(remote)
        for name, value in settings.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    return _classic(master or os.environ.get("MASTER") or _LOCAL, settings)


def _remote(master: str | None) -> str | None:
    if master is not None:
        return master if master.startswith("sc://") else None
    return os.environ.get("SPARK_REMOTE")


def _classic(master: str, settings: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(java_home())
    # Executors on this machine must run the interpreter that has the driver's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    is_local = master.startswith("local")
    defaults = {**_DEFAULTS, **(_LOCAL_DEFAULTS if is_local else {})}
    builder = SparkSession.builder.master(master)
    for name, value in {**defaults, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
