"""Delta Lake in the session of a run, in the environment of `make bench-delta`."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from functools import cache

__all__ = ["delta_settings", "has_delta"]


@cache
def has_delta() -> bool:
    """Return whether the environment has Delta Lake."""
    return importlib.util.find_spec("delta") is not None


def delta_settings() -> dict[str, str]:
    """Return the settings of a session with Delta Lake, whose jars Spark fetches by their names."""
    if not has_delta():
        return {}
    spark = ".".join(importlib.metadata.version("pyspark").split(".")[:2])
    version = importlib.metadata.version("delta-spark")
    return {
        "spark.jars.packages": f"io.delta:delta-spark_{spark}_2.13:{version}",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
