"""Running the Python that readers copy: in a process of its own, or in this one with its Spark."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.wait import TIMEOUT_SECONDS

__all__ = ["Run", "run_fresh", "run_on_spark"]

Run = Callable[[Path, Path], str]


def run_fresh(script: Path, folder: Path) -> str:
    """Run a script in a new process, in a folder; return what it prints."""
    ran = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
        cwd=folder,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture
def run_on_spark(
    spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Run a script in this process, whose Spark session it gets; return what it prints.

    A Spark of its own would take longer to start than most scripts run.
    """
    from pyspark.sql import SparkSession

    import lakeport

    def run(script: Path, folder: Path) -> str:
        monkeypatch.setattr(sys, "argv", [str(script)])
        capsys.readouterr()
        with chdir(folder), _folder_of_java(spark, folder):
            runpy.run_path(str(script), run_name="__main__")
        return capsys.readouterr().out

    # Pages replace the one, and notebooks end with the other.
    monkeypatch.setattr(lakeport, "serve", lakeport.serve)
    monkeypatch.setattr(SparkSession, "stop", lambda session: None)
    yield run
    for view in spark.catalog.listTables():
        if view.isTemporary:
            spark.catalog.dropTempView(view.name)


@contextmanager
def _folder_of_java(spark: Any, folder: Path) -> Iterator[None]:
    """Let Spark resolve relative paths in a folder: Java does it where it has started."""
    hadoop = spark._jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(spark._jsc.hadoopConfiguration())
    system, before = spark._jvm.System, files.getWorkingDirectory()
    java_folder = system.setProperty("user.dir", str(folder))
    files.setWorkingDirectory(hadoop.Path(str(folder)))
    try:
        yield
    finally:
        system.setProperty("user.dir", java_folder)
        files.setWorkingDirectory(before)
