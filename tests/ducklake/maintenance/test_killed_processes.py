"""Maintenance that is killed in the middle: nothing is lost, and a second run finishes."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeport.ducklake import Lake
from tests.ducklake.maintenance.lake_states import read_state
from tests.fixtures_lakes import LakeMaker, RealLake
from tests.wait import TIMEOUT_SECONDS

KILLED = """
import os, signal, sys
from datetime import timedelta
from lakeport import Lake
from lakeport.ducklake.maintenance import cleanup
from lakeport.ducklake.writing.database import CatalogWriter

uri, operation, point = sys.argv[1:]

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if point == "before the commit":
    CatalogWriter.commit = die
elif point == "after the commit":
    real = CatalogWriter.commit
    CatalogWriter.commit = lambda self: (real(self), die())
elif point == "after the files":
    cleanup._forget = die
elif point == "between two files":
    delete, deleted = cleanup._delete, []
    cleanup._CHUNK = 1
    cleanup._delete = lambda *a, **b: die() if deleted else deleted.append(delete(*a, **b)) or deleted[0]

with Lake.open(uri, engine="local") as lake:
    table = lake.table("t")
    work = {
        "merge": table.merge_files,
        "rewrite": lambda: table.rewrite_files(threshold=0.3),
        "flush": table.flush,
        "expire": lambda: lake.expire(retain_last=4),
        "clean up": lambda: lake.clean_up(everything=True),
        "remove orphans": lambda: lake.remove_orphans(older_than=timedelta(0), force=True),
    }
    work[operation]()
"""
OPERATIONS: dict[str, Callable[[Lake], Any]] = {
    "merge": lambda lake: lake.table("t").merge_files(),
    "rewrite": lambda lake: lake.table("t").rewrite_files(threshold=0.3),
    "flush": lambda lake: lake.table("t").flush(),
    "expire": lambda lake: lake.expire(retain_last=4),
    "clean up": lambda lake: lake.clean_up(everything=True),
    "remove orphans": lambda lake: lake.remove_orphans(older_than=timedelta(0), force=True),
}
ROWS = "INSERT INTO t SELECT i, 'n' || i FROM range({0}, {1}) r(i)"
LIFE = (
    "CREATE TABLE t (id INTEGER, name VARCHAR)",
    ROWS.format(0, 30),
    ROWS.format(30, 60),
    ROWS.format(60, 90),
    ROWS.format(90, 95),
    "DELETE FROM t WHERE id < 12",
    "DELETE FROM t WHERE id = 91",
)


@pytest.mark.parametrize(
    ("operation", "point"),
    [
        *((name, "before the commit") for name in ("merge", "rewrite", "flush", "expire")),
        *((name, "after the commit") for name in ("merge", "rewrite", "flush", "expire")),
        ("clean up", "after the files"),
        ("clean up", "between two files"),
        ("remove orphans", "between two files"),
    ],
)
def test_a_second_run_finishes_what_was_killed(
    make_lake: LakeMaker, operation: str, point: str
) -> None:
    lake = make_lake("sqlite")
    lake.execute(*LIFE)
    before = read_state(lake, feed=False)
    kept = range(1, len(LIFE) + 1)
    if operation == "clean up":
        with Lake.open(lake.uri, engine="local") as ours:
            ours.table("t").merge_files()
    if operation == "remove orphans":
        _add_orphans(lake)
    run = [sys.executable, "-c", KILLED, lake.uri, operation, point]
    process = subprocess.run(run, timeout=TIMEOUT_SECONDS, check=False)
    assert process.returncode == -signal.SIGKILL

    gone = (1, 2, 3) if operation == "expire" else ()
    left = [snapshot for snapshot in kept if snapshot not in gone]
    if point != "after the commit":
        assert read_state(lake, kept, feed=False) == before
    with Lake.open(lake.uri, engine="local") as ours:
        result = OPERATIONS[operation](ours)
        assert result.is_empty == (point == "after the commit")
        ours.remove_orphans(older_than=timedelta(0), force=True)
    after = read_state(lake, left, feed=False)
    assert after == {key: before[key] for key in after}
    assert _stored(lake) == _known(lake)


def _add_orphans(lake: RealLake) -> None:
    file = next(Path(lake.data_path).rglob("*.parquet"))
    for _ in range(3):
        shutil.copy(file, file.with_name(f"ducklake-{uuid.uuid4()}.parquet"))


def _stored(lake: RealLake) -> int:
    return sum(1 for _ in Path(lake.data_path).rglob("*.parquet"))


def _known(lake: RealLake) -> int:
    return int(
        lake.query(
            "SELECT (SELECT count(*) FROM meta.ducklake_data_file)"
            " + (SELECT count(*) FROM meta.ducklake_delete_file)"
            " + (SELECT count(*) FROM meta.ducklake_files_scheduled_for_deletion)"
        )[0][0]
    )
