"""Writers that are killed at every step of a commit: the commit is there as a whole, or not at all.

The steps are known, so the outcome is too. `LAKEPORT_SOAK_SECONDS=120` kills at more steps, in as many
rounds as there is time for.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from lakeport import Lake
from lakeport.ducklake.writing import database
from tests.fixtures_lakes import LakeMaker, RealLake
from tests.wait import TIMEOUT_SECONDS

SECONDS = float(os.environ.get("LAKEPORT_SOAK_SECONDS", "0"))
IS_LONG = SECONDS > 0
MOST_ROUNDS = 20 if IS_LONG else 1

# A killed child has imported nothing twice, and has no thread of its parent.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "duckdb_engine",
        "lakeport.ducklake.writing.changes.row_methods",
        "lakeport.ducklake.writing.commit",
        "lakeport.ducklake.writing.files.writer",
        "lakeport.ducklake.writing.lake_methods",
        "psycopg",
        "pyarrow.parquet",
        "sqlalchemy.dialects.postgresql",
        "sqlalchemy.dialects.sqlite",
        "tests.ducklake.writing.test_killed_writers",
    ]
)

STEPS = [
    "before the transaction",
    *(f"statement {number}" for number in (range(9) if IS_LONG else (0, 2, 4))),
    "before COMMIT",
    "after COMMIT",
    "after the acknowledgement",
]
CHANGES: dict[str, Callable[[Lake, int], Any]] = {
    "append inlined": lambda lake, number: lake.table("t").append([{"number": number, "v": 0}] * 3),
    "append a file": lambda lake, number: lake.table("t").append([{"number": number, "v": 0}] * 40),
    "update": lambda lake, number: lake.table("u").update({"number": str(number)}, "v < 60"),
    "delete": lambda lake, number: lake.table("d").delete(f"v // 20 = {number}"),
}


def run(uri: str, change: str, number: int, step: str, answers: Connection) -> None:
    """Make one change and send its snapshot; this process is killed at the step."""

    def die(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    count = 0
    writer = database.CatalogWriter
    run_statement, commit, transaction = (
        writer.run,
        writer.commit,
        database.WriteDatabase.transaction,
    )

    def counted(self: database.CatalogWriter, statement: Any) -> None:
        nonlocal count
        run_statement(self, statement)
        die(f"statement {count}")
        count += 1

    def committed(self: database.CatalogWriter) -> None:
        die("before COMMIT")
        commit(self)
        die("after COMMIT")

    def begun(self: database.WriteDatabase) -> Any:
        die("before the transaction")
        return transaction(self)

    writer.run = counted  # type: ignore[method-assign]
    writer.commit = committed  # type: ignore[method-assign]
    database.WriteDatabase.transaction = begun  # type: ignore[method-assign]
    with Lake.open(uri) as lake:
        answers.send(CHANGES[change](lake, number).snapshot)
        die("after the acknowledgement")


def killed(lake: RealLake, change: str, number: int, step: str) -> tuple[int | None, bool]:
    """Return the snapshot that was acknowledged, if any, and whether the process was killed."""
    receiver, sender = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=run, args=(lake.uri, change, number, step, sender))
    process.start()
    sender.close()
    process.join(TIMEOUT_SECONDS)
    with receiver:
        try:
            snapshot = receiver.recv()
        except EOFError:
            snapshot = None
    assert process.exitcode in (0, -signal.SIGKILL)
    return snapshot, process.exitcode != 0


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("sqlite", list(CHANGES)),
        ("duckdb", list(CHANGES) if IS_LONG else ["append a file"]),
        ("postgresql", list(CHANGES) if IS_LONG else ["update"]),
    ],
)
def test_a_killed_commit_is_whole_or_absent(
    make_lake: LakeMaker, kind: str, changes: list[str]
) -> None:
    real = make_lake(kind)
    with Lake.create(real.uri, data_path=real.data_path) as lake:
        for name in ("t", "u", "d"):
            lake.create_table(name, {"number": "BIGINT", "v": "BIGINT"})
        lake.table("u").append([{"number": -1, "v": v} for v in range(100)])
        lake.table("d").append([{"number": -1, "v": v} for v in range(20 * 60 * MOST_ROUNDS)])
    number, kills, finished = 0, 0, 0
    deadline = time.monotonic() + SECONDS
    before = contents(real)
    for change in changes * MOST_ROUNDS:
        # Each change is made at least once, however long it takes.
        if finished >= len(changes) and time.monotonic() > deadline:
            break
        for step in STEPS:
            acknowledged, was_killed = killed(real, change, number, step)
            after = contents(real)
            kills += was_killed
            # A commit of fewer statements is not killed.
            is_made = not was_killed or step.startswith("after")
            assert (after != before) == is_made, (change, step)
            assert (acknowledged is not None) == (
                not was_killed or step == "after the acknowledgement"
            )
            if is_made:
                assert after == expected(before, change, number), (change, step)
            number += 1
            before = after
        finished += 1
    assert kills >= 6 * finished
    ids = real.snapshots()
    assert ids == list(range(len(ids)))
    for name in ("t", "u", "d"):
        files = real.query(
            f"SELECT data_file, delete_file FROM ducklake_list_files('lake', '{name}')"
        )
        assert all(Path(path).exists() for pair in files for path in pair if path)
        assert real.query(f"SELECT count(*) FROM {name}") == [(sum(contents(real)[name].values()),)]
    assert real.check(snapshots=ids[-3:]) > 1


Contents = dict[str, dict[int, int]]
"""The number of rows of each number, by table; of `d`, of each twenty rows."""


def contents(real: RealLake) -> Contents:
    with real.open() as lake:
        found: Contents = {}
        for name in ("t", "u", "d"):
            column = "v" if name == "d" else "number"
            values = lake.table(name).scan([column]).to_arrow().column(column).to_pylist()
            counts: dict[int, int] = {}
            for value in values:
                key = value // 20 if name == "d" else value
                counts[key] = counts.get(key, 0) + 1
            found[name] = counts
    return found


def expected(before: Contents, change: str, number: int) -> Contents:
    match change:
        case "append inlined":
            return before | {"t": before["t"] | {number: 3}}
        case "append a file":
            return before | {"t": before["t"] | {number: 40}}
        case "update":
            kept = {key: 40 for key in before["u"] if key == -1}
            return before | {"u": kept | {number: 60}}
        case _:
            return before | {"d": {k: c for k, c in before["d"].items() if k != number}}
