"""Files that were not written by the lake: matched by name, with values from their folders."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.errors import CorruptLakeError

KINDS = ("duckdb", "sqlite")


def write(path: Path, columns: dict[str, Any] | pa.Table, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **options)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_found_by_name_in_any_order(
    kind: str, make_lake: Callable[..., Any], tmp_path: Path
) -> None:
    file = write(tmp_path / "ext" / "a b%20c.parquet", {"V": ["x", "y"], "id": [1, 2]})
    lake = make_lake(kind)
    lake.execute(
        "CREATE TABLE t(id BIGINT, v VARCHAR)",
        f"CALL ducklake_add_data_files('lake', 't', '{file}')",
        "ALTER TABLE t RENAME COLUMN v TO w",
        "ALTER TABLE t ADD COLUMN v INTEGER DEFAULT 3",
        "DELETE FROM t WHERE id = 1",
        "UPDATE t SET v = 4",
    )
    assert lake.check() > 3


@pytest.mark.parametrize("kind", KINDS)
def test_missing_columns_take_their_default_and_extra_ones_are_ignored(
    kind: str, make_lake: Callable[..., Any], tmp_path: Path
) -> None:
    file = write(tmp_path / "a.parquet", {"id": [1, 2], "other": ["p", "q"]})
    lake = make_lake(kind)
    lake.execute(
        "CREATE TABLE t(id BIGINT)",
        "ALTER TABLE t ADD COLUMN v VARCHAR DEFAULT 'd'",
        f"CALL ducklake_add_data_files('lake', 't', '{file}', allow_missing => true, ignore_extra_columns => true)",
    )
    lake.check()


@pytest.mark.parametrize("kind", KINDS)
def test_values_come_from_hive_folders(
    kind: str, make_lake: Callable[..., Any], tmp_path: Path
) -> None:
    root = tmp_path / "hive"
    for folder, start in (("dt=2024-01-01/region=eu", 0), ("dt=2024-01-02/region=a%20b", 10)):
        write(root / folder / "f.parquet", {"id": pa.array([start, start + 1], pa.int64())})
    write(root / "dt=2024-01-03" / "region=__HIVE_DEFAULT_PARTITION__" / "f.parquet", {"id": [20]})
    lake = make_lake(kind)
    lake.execute(
        "CREATE TABLE t(id BIGINT, dt DATE, region VARCHAR)",
        f"CALL ducklake_add_data_files('lake', 't', '{root}/*/*/*.parquet', hive_partitioning => true)",
        "ALTER TABLE t RENAME COLUMN region TO area",
        "DELETE FROM t WHERE id = 10",
    )
    lake.check()


@pytest.mark.parametrize("type", ["VARCHAR", "INTEGER"])
@pytest.mark.parametrize(
    "folder", ["region=null", "region=NULL", "region=", "region=5", "region=5/region=6"]
)
def test_folders_without_a_value_and_twice_the_same(
    folder: str, type: str, make_lake: Callable[..., Any], tmp_path: Path
) -> None:
    file = write(tmp_path / folder / "f.parquet", {"id": [1, 2]})
    lake = make_lake()
    lake.execute(
        f"CREATE TABLE t(id BIGINT, region {type})",
        f"CALL ducklake_add_data_files('lake', 't', '{file}', hive_partitioning => true)",
    )
    lake.check()


@pytest.mark.parametrize("kind", KINDS)
def test_nested_columns_are_found_by_name_at_every_level(
    kind: str, make_lake: Callable[..., Any], tmp_path: Path
) -> None:
    table = pa.table(
        {
            "m": pa.array(
                [[("k", {"b": 1, "a": "x"})], None],
                pa.map_(pa.string(), pa.struct([("b", pa.int32()), ("a", pa.string())])),
            ),
            "s": pa.array(
                [{"y": "q", "x": 5}, None], pa.struct([("y", pa.string()), ("x", pa.int32())])
            ),
            "l": pa.array(
                [[{"d": 2, "c": 1}], []],
                pa.list_(pa.struct([("d", pa.int32()), ("c", pa.int32())])),
            ),
            "id": pa.array([1, 2], pa.int32()),
        }
    )
    file = write(tmp_path / "n.parquet", table)
    lake = make_lake(kind)
    lake.execute(
        "CREATE TABLE t(id INTEGER, s STRUCT(x INTEGER, y VARCHAR), l STRUCT(c INTEGER, d INTEGER)[], m MAP(VARCHAR, STRUCT(a VARCHAR, b INTEGER)))",
        f"CALL ducklake_add_data_files('lake', 't', '{file}')",
        "ALTER TABLE t RENAME s.x TO xx",
        "ALTER TABLE t ADD COLUMN l.element.e INTEGER",
        "ALTER TABLE t DROP COLUMN m.value.a",
    )
    lake.check()


@pytest.mark.parametrize("kind", KINDS)
def test_foreign_physical_types_are_cast(
    kind: str, make_lake: Callable[..., Any], tmp_path: Path
) -> None:
    from decimal import Decimal

    table = pa.table(
        {
            "i": pa.array([1, None], pa.int8()),
            "f": pa.array([1.5, None], pa.float32()),
            "s": pa.array(["a", None], pa.large_string()),
            "c": pa.array(["x", "y"]).dictionary_encode(),
            "ts": pa.array([dt.datetime(2024, 1, 2, 3, 4, 5), None], pa.timestamp("ms")),
            "d": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
            "l": pa.array([[1], None], pa.large_list(pa.int16())),
            "a": pa.array([[1, 2], None], pa.list_(pa.int32(), 2)),
            "n": pa.array([1, None], pa.duration("us")),
            "w": pa.array([Decimal("1.50"), None], pa.decimal256(38, 2)),
            "sec": pa.array([dt.datetime(2024, 1, 2, 3, 4, 5), None], pa.timestamp("s")),
        }
    )
    file = write(tmp_path / "p.parquet", table)
    lake = make_lake(kind)
    lake.execute(
        "CREATE TABLE t(i INTEGER, f DOUBLE, s VARCHAR, c VARCHAR, ts TIMESTAMP, d DECIMAL(18,4), l INTEGER[], a INTEGER[], n BIGINT, w DECIMAL(38,2), sec TIMESTAMP_S)",
        f"CALL ducklake_add_data_files('lake', 't', '{file}')",
    )
    lake.check()


def test_old_int96_timestamps_are_read(make_lake: Callable[..., Any], tmp_path: Path) -> None:
    table = pa.table(
        {"ts": pa.array([dt.datetime(2024, 1, 2, 3, 4, 5, 678), None], pa.timestamp("us"))}
    )
    file = write(tmp_path / "p.parquet", table, use_deprecated_int96_timestamps=True)
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t(ts TIMESTAMP)", f"CALL ducklake_add_data_files('lake', 't', '{file}')"
    )
    lake.check()


def without_mapping(lake: Any) -> None:
    """As format 0.3 left added files in the catalog."""
    lake.execute("UPDATE meta.ducklake_data_file SET mapping_id = NULL")
    lake.detach()


def test_an_added_file_without_a_mapping_is_read_by_position(
    make_lake: Callable[..., Any], tmp_path: Path
) -> None:
    file = write(tmp_path / "a.parquet", {"ID": [1, 2], "V": ["p", "q"], "extra": [1.5, 2.5]})
    short = write(tmp_path / "b.parquet", {"id": [3]})
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t(id BIGINT, v VARCHAR)",
        f"CALL ducklake_add_data_files('lake', 't', '{file}', allow_missing => true, ignore_extra_columns => true)",
        f"CALL ducklake_add_data_files('lake', 't', '{short}', allow_missing => true)",
    )
    without_mapping(lake)
    lake.check()
    lake.execute("ALTER TABLE t RENAME COLUMN v TO w", "DELETE FROM t WHERE id = 1")
    assert lake.query("FROM t ORDER BY id") == [(2, "q"), (3, None)]
    lake.check()


def test_a_dropped_column_of_a_file_without_a_mapping_is_not_taken_for_another(
    make_lake: Callable[..., Any], tmp_path: Path
) -> None:
    file = write(tmp_path / "a.parquet", {"id": [1, 2], "v": ["p", "q"]})
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t(id BIGINT, v VARCHAR)",
        f"CALL ducklake_add_data_files('lake', 't', '{file}')",
    )
    without_mapping(lake)
    lake.execute("ALTER TABLE t DROP COLUMN id", "ALTER TABLE t ADD COLUMN n INTEGER DEFAULT 3")
    with lake.open() as ours:
        found = ours.table("t").scan().to_arrow().to_pylist()
    assert found == [{"v": "p", "n": 3}, {"v": "q", "n": 3}]


def test_nested_columns_of_a_file_without_a_mapping_are_refused(
    make_lake: Callable[..., Any], tmp_path: Path
) -> None:
    file = write(tmp_path / "a.parquet", {"id": [1], "s": [{"x": 1}]})
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t(id BIGINT, s STRUCT(x BIGINT))",
        f"CALL ducklake_add_data_files('lake', 't', '{file}')",
    )
    without_mapping(lake)
    with lake.open() as ours:
        assert ours.table("t").scan(["id"]).to_arrow().to_pylist() == [{"id": 1}]
        with pytest.raises(CorruptLakeError, match="neither field ids nor a name mapping"):
            ours.table("t").scan().to_arrow()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("folders", ["year=2024/month=2", "month=2/year=2024"])
def test_an_added_file_with_two_partition_values_under_one_key_is_read_once(
    kind: str, folders: str, make_lake: Callable[..., Any], tmp_path: Path
) -> None:
    file = write(tmp_path / folders / "f.parquet", {"d": [dt.date(2024, 2, 3)]})
    lake = make_lake(kind)
    lake.execute(
        "CREATE TABLE t(d DATE)",
        "ALTER TABLE t SET PARTITIONED BY (year(d), month(d))",
        f"CALL ducklake_add_data_files('lake', 't', '{file}', hive_partitioning => true)",
    )
    keys = lake.query("SELECT partition_key_index FROM meta.ducklake_file_partition_value")
    assert len(keys) == 2
    assert len(set(keys)) == 1
    lake.check()
    with lake.open() as ours:
        table = ours.table("t")
        assert len(table.files()) == 1
        for filter, rows in (("d = DATE '2024-02-03'", 1), ("d < DATE '2024-01-01'", 0)):
            assert table.scan(filter=filter).to_arrow().num_rows == rows


def test_a_folder_that_does_not_tell_the_truth_prunes_nothing(
    make_lake: Callable[..., Any], tmp_path: Path
) -> None:
    file = write(tmp_path / "year=2024" / "f.parquet", {"d": [dt.date(2023, 2, 3)]})
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t(d DATE)",
        "ALTER TABLE t SET PARTITIONED BY (year(d))",
        f"CALL ducklake_add_data_files('lake', 't', '{file}', hive_partitioning => true)",
    )
    assert lake.query("FROM t WHERE d = DATE '2023-02-03'") == [(dt.date(2023, 2, 3),)]
    with lake.open() as ours:
        assert ours.table("t").scan(filter="d = DATE '2023-02-03'").to_arrow().num_rows == 1


@pytest.mark.parametrize("kind", [*KINDS, "postgresql"])
@pytest.mark.parametrize("table", ["ducklake_file_column_stats", "ducklake_file_partition_value"])
def test_a_file_is_read_once_whatever_its_side_rows_contain(
    table: str, kind: str, make_lake: Callable[..., Any]
) -> None:
    lake = make_lake(kind, "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t(id BIGINT, p BIGINT, f DOUBLE)",
        "ALTER TABLE t SET PARTITIONED BY (p)",
        "INSERT INTO t SELECT i, i % 3, i / 3 FROM range(30) r(i)",
    )
    lake.detach()
    twice = f"INSERT INTO {table} SELECT * FROM {table}"
    connect = {"duckdb": duckdb.connect, "sqlite": sqlite3.connect, "postgresql": psycopg.connect}
    where = lake.uri.removeprefix("ducklake:").removeprefix("sqlite:").removeprefix("postgres:")
    with closing(connect[kind](where)) as catalog:
        catalog.execute(twice)
        catalog.commit()
    filters = ("p = 1", "id < 7", "f > 2.0 AND p <> 2", "id IS NULL")
    lake.execute("CREATE OR REPLACE TABLE memory.copied AS FROM t")
    expected = {f: lake.query(f"FROM memory.copied WHERE {f} ORDER BY ALL") for f in filters}
    with lake.open() as ours:
        assert ours.table("t").scan().to_arrow().num_rows == 30
        for filter, rows in expected.items():
            found = ours.table("t").scan(filter=filter).to_arrow()
            assert sorted(zip(*found.to_pydict().values(), strict=True)) == rows, filter
