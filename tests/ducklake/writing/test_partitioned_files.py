"""Partition values and folders of our files against those of the real implementation."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.ducklake.planning.partitioning import murmur3
from lakeport.ducklake.writing.files import FileOptions, FileTarget, write_files
from lakeport.ducklake.writing.files.names import escape_folder
from lakeport.ducklake.writing.files.partitions import murmur3_of
from lakeport.errors import InvalidInputError, UnsupportedError
from lakeport.types import Column
from tests.ducklake.writing.reference_files import arrow_rows, data_files, table_of
from tests.fixtures_lakes import LakeMaker

# The type, the values, and the keys.
CASES: dict[str, tuple[str, list[str], str]] = {
    "boolean": ("BOOLEAN", ["true", "false", "NULL"], "v"),
    "text": ("VARCHAR", ["''", "'NULL'", "NULL", "'a b/c=d'", "'é%'", "'~-._'"], "v"),
    "decimal": ("DECIMAL(9,2)", ["1.5", "-0.25"], "v"),
    "double": ("DOUBLE", ["1.5", "'nan'", "1e300", "-0.0"], "v"),
    "timestamp": ("TIMESTAMP", ["'2024-01-02 03:04:05.5'", "'infinity'"], "v"),
    "timestamptz": ("TIMESTAMPTZ", ["'2024-01-02 03:04:05+02'"], "v"),
    "uuid": ("UUID", ["'00000000-0000-0000-0000-00000000000a'", "NULL"], "v"),
    "blob": ("BLOB", ["'abc'::BLOB", "NULL"], "v"),
    "parts": (
        "TIMESTAMP",
        ["'2024-03-05 04:00:00'", "'1969-12-31 23:59:59'", "'0044-03-15 (BC) 01:02:03'", "NULL"],
        "year(v), month(v), day(v), hour(v)",
    ),
    "date": ("DATE", ["'2024-03-05'", "'infinity'", "NULL"], "year(v), month(v)"),
    "nanoseconds": ("TIMESTAMP_NS", ["'2024-03-05 04:00:00.000000001'"], "year(v), hour(v)"),
    "zoned": ("TIMESTAMPTZ", ["'2024-12-31 23:30:00+00'", "NULL"], "year(v), day(v), hour(v)"),
    "bucket boolean": ("BOOLEAN", ["true", "false", "NULL"], "bucket(7, v)"),
    "bucket int": ("INTEGER", ["34", "-1", "NULL", "2147483647"], "bucket(64, v)"),
    "bucket bigint": ("BIGINT", ["34", "-9223372036854775808"], "bucket(64, v)"),
    "bucket uint": ("UINTEGER", ["34", "4294967295"], "bucket(64, v)"),
    "bucket double": ("DOUBLE", ["1.0", "-0.5", "'nan'", "'inf'"], "bucket(64, v)"),
    "bucket float": ("FLOAT", ["1.0", "0.1"], "bucket(64, v)"),
    "bucket decimal": ("DECIMAL(9,2)", ["14.20", "-14.20", "NULL"], "bucket(64, v)"),
    "bucket wide": ("DECIMAL(30,2)", ["14.20", "-14.20"], "bucket(64, v)"),
    "bucket date": ("DATE", ["'2017-11-16'", "'1969-01-01'"], "bucket(64, v)"),
    "bucket time": ("TIME", ["'22:31:08'"], "bucket(64, v)"),
    "bucket timestamp": ("TIMESTAMP", ["'2017-11-16 22:31:08'"], "bucket(64, v)"),
    "bucket seconds": ("TIMESTAMP_S", ["'2017-11-16 22:31:08'"], "bucket(64, v)"),
    "bucket millis": ("TIMESTAMP_MS", ["'2017-11-16 22:31:08'"], "bucket(64, v)"),
    "bucket nanos": ("TIMESTAMP_NS", ["'2017-11-16 22:31:08'"], "bucket(64, v)"),
    "bucket zoned": ("TIMESTAMPTZ", ["'2017-11-16 22:31:08+00'"], "bucket(64, v)"),
    "bucket text": (
        "VARCHAR",
        ["'iceberg'", "''", "'日本語'", "'a'", "'ab'", "'abc'"],
        "bucket(64, v)",
    ),
    "bucket blob": ("BLOB", ["'\\x00\\x01\\xFF'::BLOB"], "bucket(64, v)"),
    "bucket uuid": ("UUID", ["'f79c3e09-677c-4bbd-a479-3f349cb785e7'"], "bucket(64, v)"),
    "bucket hugeint": ("HUGEINT", ["34", "-5"], "bucket(64, v)"),
}


@pytest.mark.parametrize("case", CASES)
def test_partitions_are_those_of_the_real_implementation(
    case: str, make_lake: LakeMaker, tmp_path: Path
) -> None:
    type, values, keys = CASES[case]
    rows = ", ".join(f"(CAST({value} AS {type}), {i})" for i, value in enumerate(values))
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        f'CREATE TABLE t (v {type}, "w x" INTEGER)',
        f"ALTER TABLE t SET PARTITIONED BY ({keys})",
        f"INSERT INTO t VALUES {rows}",
    )
    recorded = data_files(lake, "t")
    content = arrow_rows(lake, f'SELECT * FROM (VALUES {rows}) r(v, "w x")')
    table = table_of(lake, "t")
    target = FileTarget(
        columns=table.columns, directory=f"{tmp_path}/t/", partition_spec=table.partition_spec
    )

    written = write_files(target, content)

    def described(path: str, values: tuple[str | None, ...], rows: int) -> tuple[object, ...]:
        return path.rpartition("/")[0], values, rows

    assert sorted(
        (described(f.path, f.partition_values, f.record_count) for f in written), key=repr
    ) == sorted((described(f.path, f.partition_values, f.rows) for f in recorded), key=repr)
    assert {file.partition_id for file in written} == {table.partition_spec.id}  # type: ignore[union-attr]


def test_keys_of_folders_are_named_as_the_real_implementation_names_them(
    make_lake: LakeMaker, tmp_path: Path
) -> None:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        'CREATE TABLE t (a TIMESTAMP, b TIMESTAMP, "c d" VARCHAR)',
        'ALTER TABLE t SET PARTITIONED BY (year(a), year(b), bucket(4, a), bucket(4, b), "c d")',
        "INSERT INTO t VALUES ('2024-01-01', '2025-01-01', 'x')",
    )
    [recorded] = data_files(lake, "t")
    content = arrow_rows(lake, "FROM t")
    table = table_of(lake, "t")
    target = FileTarget(
        columns=table.columns, directory=f"{tmp_path}/t/", partition_spec=table.partition_spec
    )

    [written] = write_files(target, content)

    assert written.path.rpartition("/")[0] == recorded.path.rpartition("/")[0]


def test_without_hive_folders_all_files_are_in_the_tables_directory(
    make_lake: LakeMaker, tmp_path: Path
) -> None:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE t (a INTEGER)", "ALTER TABLE t SET PARTITIONED BY (a)")
    table = table_of(lake, "t")
    target = FileTarget(
        columns=table.columns,
        directory=f"{tmp_path}/t/",
        partition_spec=table.partition_spec,
        options=FileOptions(hive_folders=False),
    )

    written = write_files(target, pa.table({"a": pa.array([1, 2], pa.int32())}))

    assert [file.partition_values for file in written] == [("1",), ("2",)]
    assert not any("/" in file.path for file in written)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20))
def test_the_hash_of_many_values_is_the_hash_of_each(values: list[bytes]) -> None:
    column = Column(id=1, name="v", type="blob")

    assert murmur3_of(pa.array(values), column).tolist() == [murmur3(value) for value in values]


@pytest.mark.parametrize(
    ("name", "escaped"), [("a b", "a%20b"), ("é", "%C3%A9"), ("A-z.0_~", "A-z.0_~"), ("%", "%25")]
)
def test_folders_are_escaped(name: str, escaped: str) -> None:
    assert escape_folder(name) == escaped


def test_a_blob_that_is_no_text_cannot_be_a_folder(make_lake: LakeMaker, tmp_path: Path) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE t (b BLOB)", "ALTER TABLE t SET PARTITIONED BY (b)")
    table = table_of(lake, "t")
    target = FileTarget(
        columns=table.columns, directory=f"{tmp_path}/t/", partition_spec=table.partition_spec
    )

    with pytest.raises(InvalidInputError, match="'b'"):
        write_files(target, pa.table({"b": [b"\xff"]}))


def test_a_struct_cannot_be_a_key(make_lake: LakeMaker, tmp_path: Path) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE t (s STRUCT(x INTEGER))", "ALTER TABLE t SET PARTITIONED BY (s)")
    table = table_of(lake, "t")
    target = FileTarget(
        columns=table.columns, directory=f"{tmp_path}/t/", partition_spec=table.partition_spec
    )

    with pytest.raises(UnsupportedError, match="'s'"):
        write_files(target, pa.table({"s": pa.array([None], pa.struct([("x", pa.int32())]))}))
