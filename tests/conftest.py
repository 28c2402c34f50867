"""What all tests share: one Spark session, because a process can have only one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real_lakes import lake_class, make_lake, mariadb, postgresql, reference

__all__ = ["lake_class", "make_lake", "mariadb", "postgresql", "reference"]

EXECUTOR_SIDE = str(Path(__file__).parent / "spark" / "executor_side")
sys.path.insert(0, EXECUTOR_SIDE)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session on two cores that tries a task four times."""
    from lakeport.spark import session

    # Workers inherit it, and import the tasks of the tests by name.
    os.environ["PYTHONPATH"] = os.pathsep.join([EXECUTOR_SIDE, os.environ.get("PYTHONPATH", "")])
    # Tests run each query once or twice: compiling it well would take longer than running it.
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = session(
        "local[2,4]", spark_sql_shuffle_partitions="2", spark_driver_extraJavaOptions=quick
    )
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()
