"""Existing Parquet files become part of a lake, as the real implementation adds them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.ducklake.storage import Storage
from lakeport.ducklake.writing import WrittenFile
from lakeport.ducklake.writing.files import FileTarget, read_added_files
from lakeport.errors import ConstraintError, InvalidInputError, NotFoundError
from lakeport.types import Column
from tests.ducklake.writing.reference_files import data_files, of, text_rows
from tests.fixtures_lakes import LakeMaker, RealLake

TABLE = """
    region VARCHAR, id BIGINT, s STRUCT(x INTEGER, y VARCHAR), l INTEGER[], ls STRUCT(q VARCHAR)[],
    m MAP(VARCHAR, DOUBLE), f DOUBLE, dec DECIMAL(9,1), ts TIMESTAMP, d DATE, u UUID, j JSON,
    t TIME, tz TIMESTAMPTZ
"""
ROWS = """
    SELECT 5::INTEGER AS "ID", {'y': 'b', 'x': 1} AS s, [1, 2] AS l, [{'q': 'a'}] AS ls,
        MAP {'k': 1.5::DOUBLE} AS m, 0.5::FLOAT AS f, 1.5::DECIMAL(4,1) AS dec,
        '2020-01-01'::TIMESTAMP_MS AS ts, '2020-01-01'::DATE AS d,
        '00000000-0000-0000-0000-000000000001'::UUID AS u, '{}'::JSON AS j,
        '01:02:03'::TIME AS t, '2020-01-01 00:00:00+00'::TIMESTAMPTZ AS tz
    UNION ALL SELECT 9, NULL, [], NULL, NULL, 2.5, -3.5, '2021-01-01'::TIMESTAMP_MS,
        '0044-03-15 (BC)'::DATE, NULL, NULL, NULL, NULL
"""


def tables_of(lake: RealLake) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of the catalog about added files; mappings without their ids."""
    return {
        name: lake.query(sql)
        for name, sql in {
            "mapping": "SELECT column_id, source_name, target_field_id, parent_column, is_partition"
            " FROM meta.ducklake_name_mapping ORDER BY mapping_id, column_id",
            "file": "SELECT path, path_is_relative, record_count, file_size_bytes, footer_size,"
            " row_id_start, partition_id FROM meta.ducklake_data_file ORDER BY data_file_id",
            "partition": "SELECT partition_key_index, partition_value"
            " FROM meta.ducklake_file_partition_value ORDER BY ALL",
        }.items()
    }


@pytest.fixture
def two_lakes(make_lake: LakeMaker) -> tuple[RealLake, RealLake]:
    return make_lake(), make_lake()


def compare(
    lakes: tuple[RealLake, RealLake], ddl: list[str], path: str
) -> tuple[list[WrittenFile], RealLake]:
    """Add a file to equal tables: theirs by the real implementation, ours by us."""
    theirs, ours = lakes
    theirs.execute(*ddl, f"CALL ducklake_add_data_files('lake', 't', '{path}')")
    expected, rows = tables_of(theirs), text_rows(theirs, "t")
    recorded = [file.columns for file in data_files(theirs, "t")]
    theirs.detach()
    ours.execute(*ddl)
    with ours.open() as lake:
        table = lake.table("t")
        target = FileTarget(
            columns=table.columns, directory=table.path, partition_spec=table.partition_spec
        )
        files = read_added_files(target, [path])
        result = table.add_files(path)
        read = lake.table("t").scan().to_arrow()
    assert (result.files_added, result.rows_inserted) == (1, len(rows))
    assert tables_of(ours) == expected
    assert text_rows(ours, "t") == rows
    assert [of(file) for file in files] == recorded
    # What we read is what the real implementation reads.
    ours.connection.register("read", read)
    assert text_rows(ours, "read") == rows
    return files, ours


def test_a_file_is_added_as_the_real_implementation_adds_it(
    two_lakes: tuple[RealLake, RealLake], tmp_path: Path, reference: duckdb.DuckDBPyConnection
) -> None:
    path = tmp_path / "files" / "region=eu%20west" / "a.parquet"
    path.parent.mkdir(parents=True)
    reference.execute(f"COPY ({ROWS}) TO '{path}'")

    [file], _ = compare(two_lakes, [f"CREATE TABLE t ({TABLE})"], str(path))

    assert file.name_mapping is not None
    assert file.name_mapping[-1].is_partition


def test_a_column_in_the_path_and_in_the_file_takes_the_value_of_the_path(
    two_lakes: tuple[RealLake, RealLake], tmp_path: Path, reference: duckdb.DuckDBPyConnection
) -> None:
    path = tmp_path / "a=1" / "year=2020" / "a.parquet"
    path.parent.mkdir(parents=True)
    reference.execute(f"COPY (SELECT 7 AS a, TIMESTAMP '2020-05-05' AS b) TO '{path}'")

    [file], _ = compare(
        two_lakes,
        [
            "CREATE TABLE t (a INTEGER, b TIMESTAMP)",
            "ALTER TABLE t SET PARTITIONED BY (a, year(b))",
        ],
        str(path),
    )

    assert file.partition_values == ("1", "2020")


def test_equal_mappings_are_used_again(make_lake: LakeMaker, tmp_path: Path) -> None:
    for name in ("a", "b"):
        pq.write_table(pa.table({"I": pa.array([1, 2], pa.int32())}), tmp_path / f"{name}.parquet")
    lake = make_lake()
    lake.execute("CREATE TABLE t (i INTEGER)")
    with lake.open() as ours:
        ours.table("t").add_files(f"{tmp_path}/a.parquet")
        ours.table("t").add_files([f"{tmp_path}/b*.parquet"])

    assert lake.query("SELECT count(*) FROM meta.ducklake_column_mapping") == [(1,)]
    assert lake.query("SELECT count(*), sum(i), max(rowid) FROM t") == [(4, 6, 3)]


def column(type: str, *children: Column, **options: Any) -> Column:
    return Column(id=1, name="v", type=type, children=children, **options)


def read(tmp_path: Path, rows: pa.Table, *columns: Column, **options: Any) -> WrittenFile:
    path = tmp_path / "f.parquet"
    pq.write_table(rows, path)
    target = FileTarget(columns=columns, directory=f"{tmp_path}/t/")
    [file] = read_added_files(target, [str(path)], **options)
    return file


@pytest.mark.parametrize(
    ("array", "type", "bounds"),
    [
        (pa.array([1, 2], pa.int8()), "int64", ("1", "2")),
        (pa.array([1, 255], pa.uint8()), "int16", ("1", "255")),
        (pa.array([2**64 - 1, 1], pa.uint64()), "uint64", ("1", str(2**64 - 1))),
        # As text of a float it would be less than the value.
        (pa.array([0.1], pa.float32()), "float64", ("0.10000000149011612",) * 2),
        (pa.array([0.5, float("nan")]), "float64", ("0.5", "0.5")),
        (pa.array([1_999], pa.timestamp("ns")), "timestamp", (
            "1970-01-01 00:00:00.000001", "1970-01-01 00:00:00.000002")),
        (pa.array([61_000], pa.time32("ms")), "time", ("00:01:01", "00:01:01")),
        (pa.array([True]), "boolean", ("1", "1")),
        (pa.array([b"\xff"]), "blob", ("FF", "FF")),
        (pa.array(["a" * 300]), "varchar", ("a" * 256, "a" * 255 + "b")),
    ],
)  # fmt: skip
def test_bounds_are_texts_of_the_columns_type_and_contain_the_values(
    array: pa.Array, type: str, bounds: tuple[str, str], tmp_path: Path
) -> None:
    file = read(tmp_path, pa.table({"v": array}), column(type))

    [found] = file.columns
    assert (found.min_value, found.max_value) == bounds
    assert found.contains_nan is None


@pytest.mark.parametrize(
    ("array", "type"),
    [
        (pa.array([1]), "int32"),
        (pa.array([1], pa.uint32()), "int32"),
        (pa.array(["x"]), "int32"),
        (pa.array(["x"]), "json"),
        (pa.array([b"x"]), "geometry"),
        (pa.array([b"x"]), "varchar"),
        (pa.array([1.5]), "float32"),
        (pa.array([1], pa.timestamp("ns")), "timestamp_s"),
        (pa.array([1], pa.timestamp("us", "UTC")), "timestamp"),
        (pa.array([1], pa.decimal128(10, 2)), "decimal(9,2)"),
        (pa.array([[1]]), "int64"),
    ],
)
def test_another_type_is_rejected(array: pa.Array, type: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="'v'"):
        read(tmp_path, pa.table({"v": array}), column(type))


def test_missing_and_extra_columns_need_a_permission(tmp_path: Path) -> None:
    rows = pa.table({"w": [1]})

    with pytest.raises(InvalidInputError, match=r"'w'.*ignore_extra_columns"):
        read(tmp_path, rows, column("int64"))
    with pytest.raises(InvalidInputError, match=r"'v'.*allow_missing"):
        read(tmp_path, rows, column("int64"), ignore_extra_columns=True)
    file = read(tmp_path, rows, column("int64"), ignore_extra_columns=True, allow_missing=True)
    assert file.name_mapping == ()


def test_nulls_in_a_column_that_forbids_them_are_rejected(tmp_path: Path) -> None:
    """The real implementation accepts them."""
    strict = replace(column("int64"), nullable=False)

    with pytest.raises(ConstraintError, match="'v'"):
        read(tmp_path, pa.table({"v": pa.array([1, None])}), strict)


def test_a_partitioned_table_needs_folders(make_lake: LakeMaker, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([1], pa.int32())}), tmp_path / "f.parquet")
    lake = make_lake()
    lake.execute("CREATE TABLE t (a INTEGER)", "ALTER TABLE t SET PARTITIONED BY (a)")
    with lake.open() as ours, pytest.raises(InvalidInputError, match="no folder a="):
        ours.table("t").add_files(f"{tmp_path}/f.parquet")


def test_a_failed_transaction_keeps_the_files_of_others(
    make_lake: LakeMaker, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"a": pa.array([1], pa.int32())}), tmp_path / "f.parquet")
    lake = make_lake()
    lake.execute("CREATE TABLE t (a INTEGER)")
    with lake.open() as ours:
        with pytest.raises(ZeroDivisionError), ours.transaction() as transaction:
            transaction.table("t").add_files(f"{tmp_path}/f.parquet")
            raise ZeroDivisionError
        with pytest.raises(NotFoundError, match="no file matches"):
            ours.table("t").add_files(f"{tmp_path}/none*.parquet")
        assert ours.table("t").scan().count() == 0

    assert (tmp_path / "f.parquet").exists()


def test_a_value_of_a_folder_must_fit_its_column(tmp_path: Path) -> None:
    folder = tmp_path / "v=abc"
    folder.mkdir()

    with pytest.raises(InvalidInputError, match="'abc' for column 'v'"):
        read(folder, pa.table({"v": [1]}), column("int64"))


def test_files_without_rows_and_other_files(tmp_path: Path) -> None:
    target = FileTarget(columns=(column("int64"),), directory=f"{tmp_path}/t/")
    empty = str(tmp_path / "empty.parquet")
    pq.write_table(pa.table({"v": pa.array([], pa.int64())}), empty)
    (tmp_path / "text.parquet").write_text("no Parquet file, but long enough")

    assert read_added_files(target, [empty]) == []
    with pytest.raises(InvalidInputError, match="not a Parquet file"):
        read_added_files(target, [f"{tmp_path}/text.parquet"])
    with pytest.raises(InvalidInputError, match="listed twice"):
        read_added_files(target, [empty, empty])


def test_a_file_in_the_tables_directory_is_relative(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    path = tmp_path / "t" / "f.parquet"
    pq.write_table(pa.table({"v": [1]}), path)
    target = FileTarget(columns=(column("int64"),), directory=f"{tmp_path}/t/")

    [file] = read_added_files(target, [str(path)])

    assert (file.path, file.path_is_relative) == ("f.parquet", True)


def test_wildcards_find_files(tmp_path: Path) -> None:
    for name in ("a/x.parquet", "a/b/y.parquet", "a/z.txt", "c%20d/[1].parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def found(pattern: str) -> list[str]:
        return [
            path.removeprefix(f"{tmp_path}/") for path in Storage().glob(f"{tmp_path}/{pattern}")
        ]

    assert found("a/*.parquet") == ["a/x.parquet"]
    assert found("**/*.parquet") == ["a/b/y.parquet", "a/x.parquet", "c%20d/[1].parquet"]
    assert found("a/?.[a-p]*") == ["a/x.parquet"]
    assert found("none/*.parquet") == []
    assert found("a/z.txt") == ["a/z.txt"]
