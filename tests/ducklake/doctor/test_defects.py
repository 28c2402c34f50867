"""Lakes with every defect that the doctor knows, made on purpose: found, named and mended."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakeport.ducklake.maintenance.doctor import Diagnosis, Severity, Verdict
from tests.fixtures_lakes import RealLake

ROWS = (
    "SELECT i AS id, i / 4.0::DOUBLE AS x, 'name ' || i AS s, i % 3 AS part "
    "FROM range({0}, {1}) r(i)"
)
STATEMENTS = (
    "CREATE TABLE t (id INTEGER, x DOUBLE, s VARCHAR, part INTEGER)",
    "INSERT INTO t " + ROWS.format(0, 100),
    "INSERT INTO t " + ROWS.format(100, 200),
    "INSERT INTO t " + ROWS.format(200, 205),
    "DELETE FROM t WHERE id BETWEEN 20 AND 39",
    "DELETE FROM t WHERE id BETWEEN 102 AND 104",
    "CREATE TABLE p (id INTEGER, x DOUBLE, s VARCHAR, part INTEGER)",
    "ALTER TABLE p SET PARTITIONED BY (part)",
    "INSERT INTO p " + ROWS.format(0, 100),
    "CREATE VIEW v AS SELECT 1 AS one",
    "CREATE TABLE gone (id INTEGER)",
    "DROP TABLE gone",
)
T = "(SELECT table_id FROM ducklake_table WHERE table_name = 't')"
P = "(SELECT table_id FROM ducklake_table WHERE table_name = 'p')"
GONE = "(SELECT table_id FROM ducklake_table WHERE table_name = 'gone')"
FIRST = f"(SELECT min(data_file_id) FROM ducklake_data_file WHERE table_id = {T})"
NEWEST = "(SELECT max(snapshot_id) FROM ducklake_snapshot)"


# Repairs of rows that no reader uses make no snapshot.
UNNOTICED = ("deletes_of_missing_files", "dangling_rows", "scheduled_files")


@dataclass(frozen=True)
class Defect:
    check: str
    severity: str
    statements: tuple[str, ...]
    """SQLite's SQL that makes the defect."""
    is_mended: bool = True
    where: str | None = None


DEFECTS = [
    Defect(
        "deletes_in_two_places",
        "error",
        (
            f"INSERT INTO ducklake_inlined_delete_{{t}} SELECT {FIRST}, 25, 3",
            f"INSERT INTO ducklake_inlined_delete_{{t}} SELECT {FIRST}, 26, 3",
        ),
        where="table main.t",
    ),
    Defect(
        "deletes_of_missing_files",
        "note",
        ("INSERT INTO ducklake_inlined_delete_{t} VALUES (9999, 1, 3)",),
    ),
    Defect(
        "files_without_rows",
        "note",
        (
            (
                f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99) "
                f"INSERT INTO ducklake_inlined_delete_{{t}} SELECT {FIRST}, i, 5 FROM n "
                "WHERE i NOT BETWEEN 20 AND 39"
            ),
        ),
    ),
    Defect(
        "unreadable_bounds",
        "error",
        (
            (
                f"UPDATE ducklake_table_column_stats SET min_value = 'false' WHERE table_id = {T} "
                "AND column_id = 1"
            ),
        ),
    ),
    Defect(
        "bounds_of_tables",
        "error",
        (
            (
                f"UPDATE ducklake_table_column_stats SET max_value = '50' WHERE table_id = {P} "
                "AND column_id = 1"
            ),
        ),
    ),
    Defect(
        "next_row_id",
        "error",
        (f"UPDATE ducklake_table_stats SET next_row_id = 100 WHERE table_id = {T}",),
    ),
    Defect(
        "record_count",
        "warning",
        (f"UPDATE ducklake_table_stats SET record_count = 5 WHERE table_id = {T}",),
    ),
    Defect(
        "tables_without_schema_version",
        "error",
        (f"DELETE FROM ducklake_schema_versions WHERE table_id = {P}",),
    ),
    Defect(
        "inlined_tables_without_schema_version",
        "note",
        (
            (
                f"INSERT INTO ducklake_schema_versions SELECT begin_snapshot, 0, table_id FROM "
                f"ducklake_schema_versions WHERE table_id = {T}"
            ),
            f"DELETE FROM ducklake_schema_versions WHERE table_id = {T} AND schema_version > 0",
        ),
    ),
    Defect(
        "partition_values",
        "error",
        (
            (
                f"UPDATE ducklake_file_partition_value SET partition_key_index = 7 "
                f"WHERE data_file_id = (SELECT min(data_file_id) FROM ducklake_data_file WHERE table_id = {P})"
            ),
        ),
    ),
    Defect(
        "scheduled_files",
        "error",
        (
            (
                "INSERT INTO ducklake_files_scheduled_for_deletion SELECT data_file_id, 'main/t/' || path, "
                f"1, '2020-01-01 00:00:00+00' FROM ducklake_data_file WHERE data_file_id = {FIRST}"
            ),
        ),
    ),
    Defect(
        "zombies",
        "warning",
        (f"UPDATE ducklake_column SET end_snapshot = NULL WHERE table_id = {GONE}",),
    ),
    Defect(
        "zombies",
        "warning",
        (
            (
                "INSERT INTO ducklake_table SELECT 900, 'b0000000-0000-4000-8000-000000000000', "
                f"{NEWEST}, NULL, schema_id, 'ghost', 'ghost/', 1 FROM ducklake_table WHERE table_id = {T}"
            ),
            "UPDATE ducklake_snapshot SET next_catalog_id = 901",
        ),
    ),
    Defect(
        "tags_of_dropped_columns",
        "note",
        (f"INSERT INTO ducklake_column_tag VALUES ({T}, 77, {NEWEST}, NULL, 'comment', 'of c')",),
        where="table main.t",
    ),
    Defect(
        "dangling_rows",
        "note",
        (
            "INSERT INTO ducklake_file_column_stats (data_file_id, table_id, column_id) VALUES (9999, 1, 1)",
            "INSERT INTO ducklake_metadata VALUES ('auto_compact', 'false', 'table', 9999)",
        ),
    ),
    Defect(
        "counters_too_low",
        "error",
        (f"UPDATE ducklake_snapshot SET next_file_id = 1 WHERE snapshot_id = {NEWEST}",),
    ),
    Defect(
        "counters_go_backwards",
        "warning",
        (f"UPDATE ducklake_snapshot SET schema_version = 0 WHERE snapshot_id = {NEWEST}",),
        is_mended=False,
    ),
    Defect(
        "time_goes_backwards",
        "note",
        (
            f"UPDATE ducklake_snapshot SET snapshot_time = '2001-01-01 00:00:00+00' WHERE snapshot_id = {NEWEST}",
        ),
        is_mended=False,
    ),
    Defect(
        "missing_snapshots",
        "note",
        (
            "DELETE FROM ducklake_snapshot WHERE snapshot_id = 3",
            "DELETE FROM ducklake_snapshot_changes WHERE snapshot_id = 3",
        ),
        is_mended=False,
    ),
    Defect(
        "snapshots_without_changes",
        "note",
        ("UPDATE ducklake_snapshot_changes SET changes_made = NULL WHERE snapshot_id = 4",),
        is_mended=False,
    ),
    Defect(
        "unknown_options",
        "note",
        ("INSERT INTO ducklake_metadata VALUES ('target_filesize', '1', NULL, NULL)",),
        is_mended=False,
    ),
    Defect(
        "scopes_of_options",
        "error",
        ("INSERT INTO ducklake_metadata VALUES ('auto_compact', 'true', 'view', 1)",),
        is_mended=False,
    ),
    Defect(
        "secrets_in_options",
        "warning",
        (
            "INSERT INTO ducklake_metadata VALUES ('lakeport_source', 'postgresql://me:hunter2@db/x', NULL, NULL)",
        ),
        is_mended=False,
    ),
    Defect(
        "secrets_in_options",
        "warning",
        (
            (
                "UPDATE ducklake_view SET sql = "
                "'SELECT * FROM read_csv(''https://me:hunter2@files.example.org/x.csv'')'"
            ),
        ),
        is_mended=False,
    ),
    Defect(
        "absolute_paths",
        "note",
        (
            (
                f"UPDATE ducklake_data_file SET path_is_relative = 0, path = '{{root}}main/t/' || path "
                f"WHERE data_file_id = {FIRST}"
            ),
        ),
        is_mended=False,
        where="table main.t",
    ),
    Defect(
        "files_outside",
        "note",
        (
            (
                f"UPDATE ducklake_data_file SET path_is_relative = 0, path = '{{root}}../elsewhere.parquet' "
                f"WHERE data_file_id = {FIRST}"
            ),
            ("UPDATE ducklake_metadata SET value = value || 'main/' WHERE key = 'data_path'"),
        ),
        is_mended=False,
    ),
    Defect(
        "repeated_row_ids",
        "error",
        (f"UPDATE ducklake_data_file SET row_id_start = 0 WHERE table_id = {T}",),
        is_mended=False,
        where="table main.t",
    ),
    Defect(
        "same_names",
        "error",
        (f"UPDATE ducklake_table SET table_name = 'T' WHERE table_id = {P}",),
        is_mended=False,
    ),
    Defect(
        "same_file_twice",
        "warning",
        (
            (
                "INSERT INTO ducklake_data_file SELECT 900, table_id, begin_snapshot, end_snapshot, "
                "file_order, path, path_is_relative, file_format, record_count, file_size_bytes, "
                "footer_size, 1000, partition_id, encryption_key, mapping_id, partial_max "
                f"FROM ducklake_data_file WHERE data_file_id = {FIRST}"
            ),
            "UPDATE ducklake_snapshot SET next_file_id = 901",
            f"UPDATE ducklake_table_stats SET next_row_id = 2000, record_count = 500 WHERE table_id = {T}",
        ),
        is_mended=False,
    ),
    Defect(
        "impossible_lifetimes",
        "error",
        (f"UPDATE ducklake_data_file SET begin_snapshot = 99 WHERE data_file_id = {FIRST}",),
        is_mended=False,
    ),
    Defect(
        "lost_owners",
        "error",
        ("UPDATE ducklake_view SET schema_id = 77",),
        is_mended=False,
    ),
    Defect(
        "missing_inlined_tables",
        "error",
        ("DROP TABLE ducklake_inlined_data_{t}_{version}",),
        is_mended=False,
    ),
    Defect(
        "changed_files",
        "error",
        (f"UPDATE ducklake_data_file SET file_size_bytes = 5 WHERE data_file_id = {FIRST}",),
        is_mended=False,
    ),
    Defect(
        "broken_files",
        "error",
        (f"UPDATE ducklake_data_file SET record_count = 101 WHERE data_file_id = {FIRST}",),
        is_mended=False,
    ),
    Defect(
        "broken_files",
        "error",
        (f"UPDATE ducklake_data_file SET footer_size = 7 WHERE data_file_id = {FIRST}",),
        is_mended=False,
    ),
    Defect(
        "wrong_delete_files",
        "error",
        ("UPDATE ducklake_delete_file SET delete_count = 7",),
        is_mended=False,
    ),
    Defect(
        "wrong_statistics",
        "error",
        (
            (
                f"UPDATE ducklake_file_column_stats SET max_value = '12' WHERE data_file_id = {FIRST} "
                "AND column_id = 1"
            ),
        ),
    ),
]


@pytest.fixture(scope="module")
def healthy(
    reference: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> RealLake:
    folder = tmp_path_factory.mktemp("healthy")
    real = RealLake(reference, f"ducklake:sqlite:{folder}/lake.sqlite", f"{folder}/data/")
    real.execute(*STATEMENTS)
    real.detach()
    return real


@pytest.fixture
def lake(
    healthy: RealLake, reference: duckdb.DuckDBPyConnection, tmp_path: Path
) -> Iterator[RealLake]:
    """A copy of the catalog; the data files are shared, and none of them is ever changed."""
    path = tmp_path / "lake.sqlite"
    shutil.copy(healthy.uri.removeprefix("ducklake:sqlite:"), path)
    real = RealLake(reference, f"ducklake:sqlite:{path}", healthy.data_path)
    yield real
    real.detach()


def spoil(lake: RealLake, statements: tuple[str, ...]) -> None:
    """Change the catalog behind everyone's back."""
    with closing(sqlite3.connect(lake.uri.removeprefix("ducklake:sqlite:"))) as connection:
        (t,) = connection.execute(f"SELECT {T}").fetchone()
        (version,) = connection.execute(
            "SELECT max(schema_version) FROM ducklake_inlined_data_tables WHERE table_id = ?", [t]
        ).fetchone()
        for statement in statements:
            connection.execute(statement.format(t=t, version=version, root=lake.data_path))
        connection.commit()


def examine(lake: RealLake) -> Diagnosis:
    with lake.open() as opened:
        return opened.check(deep=True)


def test_the_lake_without_a_defect_is_healthy(lake: RealLake) -> None:
    diagnosis = examine(lake)

    assert diagnosis.findings == ()
    assert diagnosis.verdict is Verdict.HEALTHY
    assert diagnosis.files_read == diagnosis.files == 5


def named(defects: list[Defect]) -> pytest.MarkDecorator:
    ids = [f"{number}-{defect.check}" for number, defect in enumerate(defects)]
    return pytest.mark.parametrize("defect", defects, ids=ids)


@named([defect for defect in DEFECTS if not defect.is_mended])
def test_a_defect_is_found_and_named(lake: RealLake, defect: Defect) -> None:
    spoil(lake, defect.statements)

    check_finding(examine(lake), defect)


def check_finding(diagnosis: Diagnosis, defect: Defect) -> None:
    found = diagnosis.of(defect.check)
    assert found, defect.check
    assert {finding.severity for finding in found} == {Severity(defect.severity)}
    assert all(finding.what and finding.effect and finding.remedy for finding in found)
    assert all((finding.repair is not None) == defect.is_mended for finding in found)
    if defect.where:
        assert [finding.where for finding in found] == [defect.where]
    assert "hunter2" not in str(found)


@named([defect for defect in DEFECTS if defect.is_mended])
def test_a_defect_is_mended_and_the_reference_reads_the_same_rows(
    lake: RealLake, defect: Defect
) -> None:
    rows = "SELECT rowid, * FROM {0} ORDER BY rowid"
    expected = {name: lake.query(rows.format(name)) for name in ("t", "p")}
    lake.detach()
    if defect.check == "files_without_rows":
        expected["t"] = [row for row in expected["t"] if row[1] >= 100]
    spoil(lake, defect.statements)
    saved: list[Any] = []
    with lake.open() as opened:
        before = opened.check(deep=True)
        check_finding(before, defect)
        planned = opened.repair(before, dry_run=True)
        assert opened.newest().id == before.snapshot
        done = opened.repair(before, save=saved.append)
        after = opened.check(deep=True)

    assert [each.finding.check for each in planned] == [each.finding.check for each in done]
    assert defect.check in [each.finding.check for each in done]
    assert all((each.snapshot is not None) != (defect.check in UNNOTICED) for each in done)
    assert [each.rows_before for each in saved] == [each.rows_before for each in done]
    # What has been cannot be mended: the newest snapshot but one keeps its counters.
    left = {"counters_go_backwards"} if defect.check == "counters_too_low" else set()
    assert {finding.check for finding in after.findings} == left
    assert {name: lake.query(rows.format(name)) for name in ("t", "p")} == expected
    assert lake.query("SELECT min(id), max(id), count(*) FROM p") == [(0, 99, 100)]
    lake.execute("INSERT INTO t VALUES (1000, 1, 'new', 0)", "INSERT INTO p VALUES (7, 1, 'n', 2)")
    assert lake.check(snapshots=lake.snapshots()[-1:]) == 2
    lake.detach()
    assert {finding.check for finding in examine(lake).findings} == left


def test_files_that_are_gone_are_found(lake: RealLake) -> None:
    with lake.open() as opened:
        first, *_ = opened.table("t").files()
    hidden = Path(first.path).rename(f"{first.path}.hidden")
    try:
        diagnosis = examine(lake)
    finally:
        hidden.rename(first.path)

    assert diagnosis.verdict is Verdict.DAMAGED
    (missing,) = diagnosis.of("missing_files")
    assert missing.examples == (first.path,)
    assert missing.repair is None


def test_files_that_only_older_snapshots_have_are_examined(lake: RealLake) -> None:
    with lake.open() as opened:
        before = {file.id: file.path for file in opened.table("t").files()}
        opened.table("t").rewrite_files(threshold=0.01)
        after = {file.id: file.path for file in opened.table("t").files()}
        healthy = opened.check(deep=True)
    first, second = (before[id] for id in sorted(before.keys() - after.keys())[:2])
    hidden = Path(first).rename(f"{first}.hidden")
    content = Path(second).read_bytes()
    Path(second).write_bytes(content[:-8] + b"\0" * 8)
    try:
        diagnosis = examine(lake)
    finally:
        hidden.rename(first)
        Path(second).write_bytes(content)
        for path in after.values():
            if path not in before.values():
                Path(path).unlink()

    assert healthy.findings == ()
    assert healthy.files_read == healthy.files == len(before.keys() | after.keys()) + 3
    (missing,) = diagnosis.of("missing_files")
    assert missing.examples == (first,)
    assert "only older snapshots" in missing.what
    (broken,) = diagnosis.of("broken_files")
    assert any(second in example for example in broken.examples)


def test_a_file_that_is_scheduled_and_still_needed_by_an_older_snapshot_is_found(
    lake: RealLake,
) -> None:
    spoil(
        lake,
        (
            (
                "INSERT INTO ducklake_files_scheduled_for_deletion SELECT data_file_id, 'main/t/' || path,"
                f" 1, '2020-01-01 00:00:00+00' FROM ducklake_data_file WHERE data_file_id = {FIRST}"
            ),
            f"UPDATE ducklake_data_file SET end_snapshot = {NEWEST} WHERE data_file_id = {FIRST}",
            (
                f"UPDATE ducklake_delete_file SET end_snapshot = {NEWEST} "
                f"WHERE data_file_id = {FIRST}"
            ),
        ),
    )

    assert [finding.count for finding in examine(lake).of("scheduled_files")] == [1]


@pytest.mark.parametrize(("sample", "read"), [(0, 0), (2, 2), (100, 5)])
def test_as_many_files_are_read_as_the_sample_has(lake: RealLake, sample: int, read: int) -> None:
    with lake.open() as opened:
        assert opened.check(sample=sample).files_read == read


def test_old_files_that_belong_to_no_snapshot_are_noted(lake: RealLake) -> None:
    with lake.open() as opened:
        first, *_ = opened.table("t").files()
    for name, age in (("old.parquet", 100_000), ("young.parquet", 10)):
        path = Path(first.path).with_name(name)
        path.write_bytes(b"x")
        moment = path.stat().st_mtime - age
        os.utime(path, (moment, moment))

    (orphans,) = examine(lake).of("orphans")
    for name in ("old.parquet", "young.parquet"):
        Path(first.path).with_name(name).unlink()

    assert [Path(path).name for path in orphans.examples] == ["old.parquet"]
    assert orphans.severity is Severity.NOTE
