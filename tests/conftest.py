"""What all tests share: databases, the real DuckLake and one Spark session a process."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import markers
from tests.fixtures_databases import mariadb, postgresql
from tests.fixtures_java import SWITCH, ClassArchive, class_archive_of_the_run
from tests.fixtures_lakes import lake_class, make_lake, reference
from tests.fixtures_s3 import s3, s3_reference
from tests.temporary_files import keep_in_memory, run_folder

__all__ = [
    "class_archive_of_the_run", "lake_class", "make_lake", "mariadb", "postgresql", "reference",
    "run_folder", "s3", "s3_reference",
]  # fmt: skip

MASTER = "local[2,4]"
WORKER_MODULES = str(Path(__file__).parent / "spark" / "worker_modules")
sys.path.insert(0, WORKER_MODULES)

# Every Java of the tests, also in processes of their own, runs each query once or twice: compiling
# it well would take longer than running it.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
for variable in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ.setdefault(variable, QUICK_JAVA)
# Sessions of tests make no archive of Java's classes in the home of the user.
os.environ.setdefault(SWITCH, "off")
keep_in_memory()
# Servers of tests answer a few queries each.
os.environ.setdefault("LAKEPORT_SPARK__WARM_UP", "false")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        markers.mark(item)
    # The longest come first, so that no worker waits at the end for the last test of another.
    # Modules stay whole: their fixtures are made once.
    long = {item.path for item in items if markers.is_long(item)}
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture(scope="module")
def spark(class_archive_of_the_run: ClassArchive) -> Any:
    """A session on two cores that tries a task four times; a new one if the last was lost."""
    pytest.importorskip("pyspark")  # the environment of DuckDB 2.0 has no Spark
    from lakeport.spark import session

    # Workers inherit it, and import the tasks of the tests by name.
    path = os.environ.get("PYTHONPATH", "")
    if WORKER_MODULES not in path.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join([WORKER_MODULES, path])
    _end_unusable_session()
    class_archive_of_the_run.use_if_made()
    # Plans that adapt are planned twice; the sessions of other processes have them.
    spark = session(MASTER, spark_sql_shuffle_partitions="2", spark_sql_adaptive_enabled="false")
    spark.sparkContext.setLogLevel("OFF")
    return spark


@pytest.fixture(autouse=True)
def _uses_class_archive(class_archive_of_the_run: ClassArchive) -> None:
    class_archive_of_the_run.use_if_made()


@pytest.fixture(autouse=True)
def _starts_spark_only_with_the_marker(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that has started Spark unmarked, which `make test-fast` would run."""
    before = _spark_context()
    yield
    if request.node.get_closest_marker("spark") is None:
        assert _spark_context() in (None, before), "mark the test, or read with LocalEngine()"


def _spark_context() -> object:
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    return SparkContext._active_spark_context


@pytest.fixture(scope="session", autouse=True)
def _stopped_session() -> Iterator[None]:
    """Stop the last session of the process."""
    yield
    if "pyspark" in sys.modules:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()


def _end_unusable_session() -> None:
    """End a session that no longer answers, or that has another master.

    A test that times out inside a call to Java leaves the reply unread, and every later call of
    that thread gets the reply of the call before it.
    """
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    gateway = SparkContext._gateway
    if context is None or gateway is None:
        return
    number = random.randrange(1 << 30)
    try:
        answers = gateway.jvm.java.lang.Math.addExact(number, 1) == number + 1
    except Exception:
        answers = False
    if not answers:
        gateway.proc.kill()
        gateway.proc.communicate()
    elif context.master != MASTER:
        # A test without this fixture has read a large scan, for which a lake starts Spark.
        context.stop()
