"""Healthy lakes have no finding that matters: those of the reference, ours, and those of format 1.1.

Defects that the reference itself makes are found and mended.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from lakeport import Lake
from lakeport.ducklake.maintenance.doctor import Diagnosis, Severity, Verdict
from tests.ducklake.test_lakes_of_1_1 import CATALOG, PACKED, READABLE
from tests.fixtures_lakes import LakeMaker

LIFE = (
    "CREATE TABLE a (i INTEGER, f DOUBLE, s VARCHAR, d DATE, l INTEGER[], st STRUCT(x INTEGER, y VARCHAR))",
    "INSERT INTO a VALUES (1, 'nan', 'x', DATE '2024-01-01', [1, NULL], {'x': 1, 'y': 'b'})",
    "INSERT INTO a SELECT i, i / 3, repeat('é', 200) || i, NULL, [], NULL FROM range(200) r(i)",
    "ALTER TABLE a ADD COLUMN n BIGINT DEFAULT 5",
    "INSERT INTO a SELECT i, i, 'z', DATE '1900-01-01' + i::INTEGER, [i], {'x': i, 'y': ''}, i FROM range(500) r(i)",
    "UPDATE a SET s = 'changed' WHERE i % 7 = 0",
    "DELETE FROM a WHERE i > 400",
    "DELETE FROM a WHERE i = 3",
    "ALTER TABLE a ALTER i TYPE BIGINT",
    "ALTER TABLE a RENAME COLUMN s TO text",
    "INSERT INTO a (i, text) VALUES (5000000000, 'late')",
    "CREATE SCHEMA other",
    "CREATE TABLE other.p (k VARCHAR, v TIMESTAMPTZ)",
    "ALTER TABLE other.p SET PARTITIONED BY (k, month(v))",
    "INSERT INTO other.p SELECT 'k ' || i % 3, TIMESTAMPTZ '2024-01-01 00:00:00+00' + INTERVAL (i) DAY FROM range(90) r(i)",
    "CREATE VIEW other.v AS SELECT 1 AS one",
    "CREATE MACRO other.m(x) AS x + 1",
    "CREATE TABLE dropped AS SELECT 1 AS one",
    "DROP TABLE dropped",
    "COMMENT ON TABLE a IS 'a table'",
    "CALL ducklake_flush_inlined_data('lake')",
    "CALL ducklake_merge_adjacent_files('lake')",
    "CALL ducklake_rewrite_data_files('lake', 'a', delete_threshold => 0.01)",
)
# What the reference leaves behind in a life without faults.
HARMLESS = {"missing_snapshots", "relative_data_path", "files_outside", "files_without_rows"}


def serious(diagnosis: Diagnosis) -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        (finding.check, finding.where, finding.examples)
        for finding in diagnosis.findings
        if finding.severity is not Severity.NOTE
    ]


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "postgresql", "mariadb"])
def test_a_long_life_leaves_no_finding(make_lake: LakeMaker, kind: str) -> None:
    """The reference writes three databases. The fourth is written by us."""
    real = make_lake(kind)
    if kind == "mariadb":
        with Lake.create(real.uri, data_path=real.data_path) as lake:
            table = lake.create_table("a", {"i": "INTEGER", "f": "DOUBLE", "s": "VARCHAR"})
            table.append([{"i": i, "f": float("nan"), "s": "é" * i} for i in range(150)])
            table.append([{"i": 1, "f": 1.0, "s": None}])
            table.delete("i < 60")
            table.delete("i = 70")
            table.update({"s": "'x'"}, "i % 3 = 0")
            diagnosis = lake.check(deep=True)
    else:
        real.execute(*LIFE)
        with real.open() as lake:
            diagnosis = lake.check(deep=True)

    assert serious(diagnosis) == []
    assert {finding.check for finding in diagnosis.findings} <= HARMLESS
    assert diagnosis.verdict is Verdict.HEALTHY


def test_empty_lists_and_maps_that_were_inlined_are_healthy(make_lake: LakeMaker) -> None:
    """Their elements have no NULL while they are inlined, but have one in a file."""
    real = make_lake("duckdb", options="DATA_INLINING_ROW_LIMIT 100")
    real.execute(
        "CREATE TABLE t (l INTEGER[], m MAP(VARCHAR, STRUCT(x INTEGER)))",
        "INSERT INTO t VALUES ([1], MAP {'a': {'x': 1}}), ([], MAP {}), ([3], MAP {})",
    )
    with real.open() as lake:
        lake.table("t").flush()
        diagnosis = lake.check(deep=True)

    assert serious(diagnosis) == []


@pytest.mark.parametrize("name", READABLE)
def test_lakes_of_format_1_1_are_healthy(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(PACKED / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path / name)
    with Lake.open(f"ducklake:{CATALOG}") as lake:
        diagnosis = lake.check(deep=True)

    assert serious(diagnosis) == []


def test_two_delete_files_of_the_reference_are_merged(make_lake: LakeMaker) -> None:
    """Two transactions of DuckLake 1.5.5 delete rows of a file that has a delete file already."""
    real = make_lake("duckdb")
    real.execute(
        "CREATE TABLE t (i INTEGER)",
        "CALL ducklake_set_option('lake', 'data_inlining_row_limit', 0)",
        "INSERT INTO t SELECT i FROM range(100) r(i)",
        "DELETE FROM t WHERE i < 5",
        "BEGIN",
        "DELETE FROM t WHERE i BETWEEN 10 AND 14",
    )
    other = real.connection.cursor()
    other.execute("USE lake; DELETE FROM t WHERE i BETWEEN 20 AND 24")
    other.close()
    real.execute("COMMIT")
    assert real.query("SELECT i FROM t ORDER BY i") != [(i,) for i in LEFT]
    with real.open() as lake:
        diagnosis = lake.check(deep=True)
        lake.repair(diagnosis)
        again = lake.check(deep=True)
        rows = lake.table("t").scan().to_arrow().column("i").to_pylist()

    (found,) = diagnosis.of("several_delete_files")
    assert found.severity is Severity.ERROR
    assert again.findings == ()
    assert sorted(rows) == LEFT
    assert real.query("SELECT i FROM t ORDER BY i") == [(i,) for i in LEFT]
    assert real.query("SELECT count(*) FROM t") == [(len(LEFT),)]
    assert real.query("SELECT count(*) FROM t AT (VERSION => 2)") == [(100,)]
    assert real.query("SELECT count(*) FROM t AT (VERSION => 3)") == [(95,)]
    real.execute("DELETE FROM t WHERE i = 50")
    assert real.check(snapshots=real.snapshots()[-1:]) == 1


LEFT = [i for i in range(100) if not (i < 5 or 10 <= i < 15 or 20 <= i < 25)]


def test_bounds_that_the_reference_loses_are_computed_again(make_lake: LakeMaker) -> None:
    """After a rewrite, DuckLake 1.5.5 takes the bounds of the next inlined rows for all."""
    real = make_lake("sqlite")
    real.execute(*LIFE, "INSERT INTO a (i) VALUES (1), (2)")
    largest = "SELECT max(i) FROM a WHERE i > 1000"
    assert real.query(largest) == [(None,)]
    with real.open() as lake:
        diagnosis = lake.check(deep=True)
        lake.repair(diagnosis)
        again = lake.check(deep=True)

    assert [finding.examples for finding in diagnosis.of("bounds_of_tables")] == [("column i",)]
    assert serious(again) == []
    assert real.query(largest) == [(5_000_000_000,)]


def test_nan_that_the_reference_has_not_recorded_is_found(make_lake: LakeMaker) -> None:
    """DuckLake 1.5.5 records the flag of the last row group only."""
    real = make_lake("sqlite")
    real.execute(
        "CREATE TABLE t AS SELECT CASE WHEN i = 5 THEN 'nan'::DOUBLE ELSE i % 100 END AS x "
        "FROM range(300000) r(i)"
    )
    with real.open() as lake:
        diagnosis = lake.check()
        lake.repair(diagnosis)
        again = lake.check()

    (found,) = diagnosis.of("wrong_statistics")
    assert found.where == "table main.t"
    assert again.findings == ()
    assert real.query("SELECT count(*) FROM t WHERE x = 'nan'") == [(1,)]


def test_partition_keys_that_the_reference_records_twice_are_mended(
    make_lake: LakeMaker, tmp_path: Path
) -> None:
    """For two keys of one column, DuckLake 1.5.5 records the number of the last one twice."""
    real = make_lake("sqlite")
    folder = f"{tmp_path}/added/year=2024/month=3"
    Path(folder).mkdir(parents=True)
    real.execute(
        "CREATE TABLE t (i INTEGER, ts TIMESTAMP)",
        "ALTER TABLE t SET PARTITIONED BY (year(ts), month(ts))",
        f"COPY (SELECT 1 AS i, TIMESTAMP '2024-03-05' AS ts) TO '{folder}/a.parquet'",
        f"CALL ducklake_add_data_files('lake', 't', '{folder}/a.parquet', hive_partitioning => true)",
    )
    keys = "SELECT partition_key_index, partition_value FROM meta.ducklake_file_partition_value"
    assert {row[0] for row in real.query(keys)} == {1}
    with real.open() as lake:
        diagnosis = lake.check(deep=True)
        lake.repair(diagnosis)
        again = lake.check(deep=True)

    assert [finding.where for finding in diagnosis.of("partition_values")] == ["table main.t"]
    assert serious(again) == []
    assert sorted(real.query(keys)) == [(0, "2024"), (1, "3")]


def test_indexes_are_created_where_a_catalog_is_large(make_lake: LakeMaker) -> None:
    real = make_lake("sqlite")
    columns = ", ".join(f"c{number} INTEGER" for number in range(1_700))
    real.execute(*(f"CREATE TABLE {name} ({columns})" for name in "abcdef"))
    with real.open() as lake:
        diagnosis = lake.check()
        done = lake.repair(diagnosis)
        again = lake.check()
        lake.table("a").append([{"c7": 1}])

    (found,) = diagnosis.of("missing_indexes")
    assert found.examples == ("ducklake_column (table_id), 10,200 rows",)
    assert [each.snapshot for each in done] == [None]
    assert again.findings == ()
    assert real.query("SELECT c7 FROM a") == [(1,)]
