"""Maintenance: merges, rewrites and expiries of ours against the reference's, and the doctor.

Each run has a lake of its own, a copy that was made before. Its files are links, because
maintenance writes new files and never changes one.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.growth_fit import Curve, grow
from benchmarks.measure import Figure, interleaved
from benchmarks.reference_lakes import attached
from lakeport import Lake

__all__ = ["doctor", "expire", "merge", "rewrite"]

_ROWS = (
    "SELECT i AS id, TIMESTAMP '2024-01-01' + INTERVAL (i) SECOND AS at, hash(i) % 1000 AS kind, "
    "(hash(i) % 100000) / 7.0 AS price, 'a note, number ' || hash(i) % 50000 AS note "
    "FROM range({first}, {last}) r(i)"
)
_LINKED_ROWS = 50
# A file of ext4 has at most 65,000 names.
_MOST_LINKS = 50_000
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


def doctor(*, counts: tuple[int, ...], repeats: int) -> Iterator[Curve]:
    """Examine lakes of many small files; 20 of them are read."""
    yield from grow("files in the lake", counts, lambda n: _checks(int(n)), repeats=repeats)


@contextmanager
def _checks(count: int) -> Iterator[dict[str, Callable[[], object]]]:
    """Make a lake of one file, which is linked and recorded under many names."""
    with tempfile.TemporaryDirectory(prefix="lakeport-bench-") as folder:
        uri = f"ducklake:sqlite:{folder}/meta.sqlite"
        with Lake.create(uri, data_path=f"{folder}/data/") as lake:
            table = lake.create_table("t", {"id": "BIGINT", "x": "DOUBLE", "name": "VARCHAR"})
            table.append([{"id": i, "x": i / 4, "name": f"n{i}"} for i in range(_LINKED_ROWS)])
            first = Path(lake.table("t").files()[0].path)
        source = first
        for number in range(1, count):
            link = first.with_name(f"f{number}.parquet")
            if number % _MOST_LINKS:
                os.link(source, link)
            else:
                source = Path(shutil.copy(first, link))
        with closing(sqlite3.connect(f"{folder}/meta.sqlite")) as catalog:
            _record(catalog, count)
        with Lake.open(uri) as lake:
            yield {"lakeport doctor": lambda: lake.check().verdict}


def _record(catalog: sqlite3.Connection, count: int) -> None:
    own = {
        "data_file_id": "1000 + i",
        "path": "'f' || i || '.parquet'",
        "row_id_start": f"{_LINKED_ROWS} * i",
    }
    for name in ("ducklake_data_file", "ducklake_file_column_stats"):
        columns = [row[1] for row in catalog.execute(f"PRAGMA table_info({name})")]
        chosen = ", ".join(own.get(column, column) for column in columns)
        catalog.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
            f"INSERT INTO {name} SELECT {chosen} FROM {name}, n",
            (count - 1,),
        )
    catalog.execute("UPDATE ducklake_snapshot SET next_file_id = ?", (count + 1000,))
    catalog.execute(
        "UPDATE ducklake_table_stats SET next_row_id = $1, record_count = $1",
        (count * _LINKED_ROWS,),
    )
    catalog.commit()


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
