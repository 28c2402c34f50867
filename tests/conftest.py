"""What all tests share: one Spark session, because a process can have only one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.object_store import s3, s3_reference
from tests.real_lakes import lake_class, make_lake, mariadb, postgresql, reference

__all__ = ["lake_class", "make_lake", "mariadb", "postgresql", "reference", "s3", "s3_reference"]

EXECUTOR_SIDE = str(Path(__file__).parent / "spark" / "executor_side")
sys.path.insert(0, EXECUTOR_SIDE)

# Every Java of the tests, also in processes of their own, runs each query once or twice: compiling
# it well would take longer than running it.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
for variable in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ.setdefault(variable, QUICK_JAVA)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session on two cores that tries a task four times."""
    pytest.importorskip("pyspark")  # the environment of DuckDB 2.0 has no Spark
    from lakeport.spark import session

    # Workers inherit it, and import the tasks of the tests by name.
    os.environ["PYTHONPATH"] = os.pathsep.join([EXECUTOR_SIDE, os.environ.get("PYTHONPATH", "")])
    # Plans that adapt are planned twice; the sessions of other processes have them.
    spark = session(
        "local[2,4]", spark_sql_shuffle_partitions="2", spark_sql_adaptive_enabled="false"
    )
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()
