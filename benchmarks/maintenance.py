"""Maintenance: merges, rewrites and expiries of ours against those of the reference.

Each run has a lake of its own, a copy that was made before. Its files are links, because
maintenance writes new files and never changes one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure, interleaved
from benchmarks.reference_lakes import attached
from lakeport import Lake

__all__ = ["expire", "merge", "rewrite"]

_ROWS = (
    "SELECT i AS id, TIMESTAMP '2024-01-01' + INTERVAL (i) SECOND AS at, hash(i) % 1000 AS kind, "
    "(hash(i) % 100000) / 7.0 AS price, 'a note, number ' || hash(i) % 50000 AS note "
    "FROM range({first}, {last}) r(i)"
)
_TABLE = f"CREATE TABLE lake.t AS {_ROWS.format(first=0, last=0)}"


def merge(*, files: int, rows: int, repeats: int, spark: bool = False) -> Iterator[Figure]:
    """Merge small files against `ducklake_merge_adjacent_files`, and on Spark."""

    def fill(connection: Any) -> None:
        connection.execute(_TABLE)
        for number in range(files):
            part = _ROWS.format(first=number * rows, last=(number + 1) * rows)
            connection.execute(f"INSERT INTO lake.t {part}")

    runs: dict[str, Callable[[str], object]] = {
        "lakeport": lambda uri: _ours(uri, "local", lambda lake: lake.table("t").merge_files()),
        "reference": lambda uri: _theirs(uri, "ducklake_merge_adjacent_files('lake')"),
    }
    if spark:
        runs["spark"] = lambda uri: _ours(uri, "spark", lambda lake: lake.table("t").merge_files())
    samples = _measured(fill, runs, repeats)
    name = f"merge of {files:,} files of {rows:,} rows"
    yield Figure.throughput(
        name, samples["lakeport"], samples["reference"], "ducklake_merge_adjacent_files", 1.0
    )
    if spark:
        yield Figure.throughput(
            f"{name} as tasks of Spark", samples["spark"], samples["lakeport"], "in this process"
        )


def rewrite(*, rows: int, repeats: int) -> Iterator[Figure]:
    """Rewrite files with 30 % deleted rows against `ducklake_rewrite_data_files`."""

    def fill(connection: Any) -> None:
        connection.execute(_TABLE)
        for number in range(4):
            part = _ROWS.format(first=number * rows // 4, last=(number + 1) * rows // 4)
            connection.execute(f"INSERT INTO lake.t {part}")
        connection.execute("DELETE FROM lake.t WHERE id % 10 < 3")

    samples = _measured(
        fill,
        {
            "lakeport": lambda uri: _ours(
                uri, "local", lambda lake: lake.table("t").rewrite_files(threshold=0.2)
            ),
            "reference": lambda uri: _theirs(
                uri, "ducklake_rewrite_data_files('lake', delete_threshold => 0.2)"
            ),
        },
        repeats,
    )
    yield Figure.throughput(
        f"rewrite of {rows:,} rows, 30 % of them deleted",
        samples["lakeport"],
        samples["reference"],
        "ducklake_rewrite_data_files",
        1.0,
    )


def expire(*, snapshots: int, repeats: int) -> Iterator[Figure]:
    """Expire all snapshots but the last against `ducklake_expire_snapshots`."""

    def fill(connection: Any) -> None:
        connection.execute("CREATE TABLE lake.t (i INTEGER)")
        last = connection.execute("SELECT max(snapshot_id) FROM meta.ducklake_snapshot").fetchone()
        first = last[0] + 1
        # Rows as an append and the end of a file would leave them, without their files.
        connection.execute(
            "INSERT INTO meta.ducklake_snapshot SELECT i, now() - INTERVAL 1 DAY + INTERVAL (i) "
            f"MILLISECOND, 1, 2, i + 10 FROM range({first}, {first + snapshots}) r(i); "
            "INSERT INTO meta.ducklake_snapshot_changes SELECT i, 'inserted_into_table:1', NULL, "
            f"NULL, NULL FROM range({first}, {first + snapshots}) r(i); "
            "INSERT INTO meta.ducklake_data_file SELECT i, 1, i, i + 1, NULL, i || '.parquet', "
            "true, 'parquet', 10, 100, 10, i * 10, NULL, NULL, NULL, NULL "
            f"FROM range({first}, {first + snapshots - 1}) r(i); "
            "INSERT INTO meta.ducklake_file_column_stats SELECT i, 1, 1, 10, 10, 0, '1', '9', "
            f"NULL, NULL FROM range({first}, {first + snapshots - 1}) r(i)"
        )

    samples = _measured(
        fill,
        {
            "lakeport": lambda uri: _ours(uri, "local", lambda lake: lake.expire(retain_last=1)),
            "reference": lambda uri: _theirs(
                uri, "ducklake_expire_snapshots('lake', older_than => now() + INTERVAL 1 DAY)"
            ),
        },
        repeats,
    )
    yield Figure.throughput(
        f"expiry of {snapshots:,} snapshots, each with a file",
        samples["lakeport"],
        samples["reference"],
        "ducklake_expire_snapshots",
        1.0,
    )


def _ours(uri: str, engine: str, work: Callable[[Lake], object]) -> None:
    with Lake.open(uri, data_path=_data_path(uri), engine=engine) as lake:
        work(lake)


def _theirs(uri: str, call: str) -> None:
    options = f"DATA_PATH '{_data_path(uri)}', OVERRIDE_DATA_PATH true"
    with attached(uri, options) as connection:
        connection.execute(f"CALL {call}")


def _data_path(uri: str) -> str:
    return f"{Path(uri.partition('sqlite:')[2]).parent}/data/"


def _measured(
    fill: Callable[[Any], None], runs: dict[str, Callable[[str], object]], repeats: int
) -> dict[str, Any]:
    """Time runs on copies of one lake, which are made before."""
    with tempfile.TemporaryDirectory(prefix="lakeport-bench-") as folder:
        original = Path(folder, "original")
        original.mkdir()
        options = (
            f"DATA_PATH '{original}/data/', METADATA_CATALOG 'meta', DATA_INLINING_ROW_LIMIT 0"
        )
        with attached(f"ducklake:sqlite:{original}/meta.sqlite", options) as connection:
            fill(connection)
        copies = iter([_copy(original, n) for n in range((repeats + 1) * len(runs))])

        def on_a_copy(run: Callable[[str], object]) -> Callable[[], None]:
            def one() -> None:
                place = next(copies)
                run(f"ducklake:sqlite:{place}/meta.sqlite")

            return one

        return interleaved({n: on_a_copy(run) for n, run in runs.items()}, repeats=repeats)


def _copy(original: Path, number: int) -> Path:
    place = original.parent / str(number)
    place.mkdir()
    shutil.copy(original / "meta.sqlite", place)
    if (original / "data").exists():
        shutil.copytree(original / "data", place / "data", copy_function=os.link)
    return place
