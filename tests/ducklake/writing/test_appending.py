"""Rows appended by us and inserted by the real implementation leave equal catalogs and data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakeport import Lake
from lakeport.errors import ConstraintError, InvalidInputError
from tests.ducklake.writing.reference_files import arrow_rows, data_files, text_rows
from tests.ducklake.writing.test_data_files import EVERY_TYPE, ROW
from tests.fixtures_lakes import LakeMaker, RealLake

CATALOG = {
    "snapshot": "SELECT snapshot_id, schema_version, next_catalog_id, next_file_id FROM"
    " meta.ducklake_snapshot",
    "changes": "SELECT snapshot_id, changes_made FROM meta.ducklake_snapshot_changes",
    "files": "SELECT data_file_id, table_id, begin_snapshot, record_count, row_id_start,"
    " partition_id, mapping_id, partial_max, encryption_key IS NULL"
    " FROM meta.ducklake_data_file",
    "table": "SELECT table_id, record_count, next_row_id FROM meta.ducklake_table_stats",
    "columns": "SELECT * FROM meta.ducklake_table_column_stats",
    "partitions": "SELECT * FROM meta.ducklake_file_partition_value",
}


def catalog_of(lake: RealLake) -> dict[str, list[tuple[Any, ...]]]:
    return {name: lake.query(f"{sql} ORDER BY ALL") for name, sql in CATALOG.items()}


def insert_both(
    make_lake: LakeMaker, ddl: list[str], statements: list[str], kind: str = "duckdb"
) -> tuple[RealLake, RealLake]:
    """Insert the rows of queries into equal tables: theirs by SQL, ours by `append`."""
    theirs = make_lake(kind, options="DATA_INLINING_ROW_LIMIT 0")
    ours = make_lake(kind, options="DATA_INLINING_ROW_LIMIT 0")
    # The limit is an option of the connection that our writer cannot know.
    ddl = ["CALL ducklake_set_option('lake', 'data_inlining_row_limit', 0)", *ddl]
    theirs.execute(*ddl)
    contents = []
    for sql in statements:
        theirs.execute(f"INSERT INTO t {sql}")
        newest = theirs.snapshots()[-1]
        contents.append(arrow_rows(theirs, f"FROM t WHERE snapshot_id = {newest} ORDER BY rowid"))
    theirs.detach()
    ours.execute(*ddl)
    with ours.open() as lake:
        for content in contents:
            lake.table("t").append(content)
    return theirs, ours


def test_an_append_leaves_the_catalog_of_an_insert(make_lake: LakeMaker) -> None:
    theirs, ours = insert_both(
        make_lake,
        [f"CREATE TABLE t ({EVERY_TYPE})"],
        [
            f"SELECT * FROM (VALUES ({ROW}))",
            f"SELECT * FROM (VALUES ({ROW})) UNION ALL SELECT * FROM (VALUES ({ROW}))",
        ],
    )
    expected, rows = catalog_of(theirs), text_rows(theirs, "t")
    recorded = [file.columns for file in data_files(theirs, "t")]
    theirs.detach()

    assert catalog_of(ours) == expected
    assert [file.columns for file in data_files(ours, "t")] == recorded
    assert text_rows(ours, "t") == rows


def test_partitioned_and_sorted_appends_leave_the_catalog_of_an_insert(
    make_lake: LakeMaker,
) -> None:
    theirs, ours = insert_both(
        make_lake,
        [
            "CREATE TABLE t (i BIGINT, d DATE, s VARCHAR)",
            "ALTER TABLE t SET PARTITIONED BY (year(d))",
            "ALTER TABLE t SET SORTED BY (i DESC)",
        ],
        [f"SELECT i, DATE '{year}-01-01' AS d, 's' || i AS s FROM range(100) r(i)"
         for year in (2023, 2024)],
    )  # fmt: skip
    expected = catalog_of(theirs)
    in_order = theirs.query("SELECT rowid, i, d FROM t ORDER BY rowid")
    theirs.detach()

    assert catalog_of(ours) == expected
    assert ours.query("SELECT rowid, i, d FROM t ORDER BY rowid") == in_order
    assert in_order[0][1] == 99


def test_an_encrypted_lake_is_written_and_read_by_both(make_lake: LakeMaker) -> None:
    lake = make_lake(options="ENCRYPTED")
    lake.execute(
        "CREATE TABLE t (i BIGINT, s VARCHAR)", "INSERT INTO t SELECT i, 'a' FROM range(50) r(i)"
    )
    with lake.open() as ours:
        ours.table("t").append(
            pa.table({"i": np.arange(50, 100), "s": pa.array(["b"] * 50)}),
        )
        assert ours.table("t").scan().to_arrow().num_rows == 100

    assert lake.query("SELECT count(*), sum(i), min(s), max(s) FROM t WHERE i >= 0") == [
        (100, 4950, "a", "b")
    ]
    assert lake.query("SELECT count(DISTINCT encryption_key) FROM meta.ducklake_data_file") == [
        (2,)
    ]


def test_many_rows_are_read_by_the_real_implementation_with_every_filter(
    make_lake: LakeMaker,
) -> None:
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE t (i BIGINT, f DOUBLE, s VARCHAR)")
    count = 300_000
    values = np.arange(count, dtype=np.float64)
    values[7] = np.nan
    rows = pa.table({"i": np.arange(count), "f": values, "s": [f"x{i % 10}" for i in range(count)]})
    with lake.open() as ours:
        result = ours.table("t").append(rows.to_reader(10_000))
    assert (result.rows_inserted, result.files_added) == (count, 1)

    assert lake.query("SELECT count(*), min(i), max(i), min(s), max(s) FROM t") == [
        (count, 0, count - 1, "x0", "x9")
    ]
    # NaN is in the first of three row groups, where the real writer loses it.
    assert lake.query("SELECT count(*) FROM t WHERE f = 'nan'") == [(1,)]
    assert lake.query("SELECT isnan(max(f)) FROM t") == [(True,)]
    assert lake.query("SELECT count(*) FROM t WHERE i > 299998 OR s = 'x3'") == [(30_001,)]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_rejected_append_leaves_nothing(kind: str, make_lake: LakeMaker, tmp_path: Path) -> None:
    lake = make_lake(kind, data_path=f"{tmp_path}/data/")
    lake.execute("CREATE TABLE t (i BIGINT NOT NULL)")
    snapshots = lake.snapshots()
    with lake.open() as ours:
        table = ours.table("t")
        with pytest.raises(ConstraintError, match="'i'"):
            table.append(pa.table({"i": pa.array([*range(300_000), None], pa.int64())}))
        with pytest.raises(InvalidInputError, match="'i'"):
            table.append(pa.table({"i": ["x"] * 20}))
        with pytest.raises(InvalidInputError, match="no column 'j'"):
            table.append(pa.table({"i": [1], "j": [1]}))

    assert not list((tmp_path / "data").rglob("*.parquet"))
    assert lake.snapshots() == snapshots


def test_a_lake_of_ours_is_read_by_the_real_implementation(
    lake_class: type[RealLake], reference: Any, tmp_path: Path
) -> None:
    uri = f"ducklake:sqlite:{tmp_path}/lake.sqlite"
    with Lake.create(uri, data_path=f"{tmp_path}/data/") as ours:
        table = ours.create_table("t", pa.schema([("i", pa.int64()), ("s", pa.string())]))
        table.append(pa.table({"i": range(100), "s": ["é"] * 100}))

    lake = lake_class(reference, uri, f"{tmp_path}/data/")
    assert lake.query("SELECT count(*), sum(i), max(s) FROM t") == [(100, 4950, "é")]
    lake.detach()
