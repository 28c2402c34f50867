"""Data files that we write: their layout, folders, sizes, encryption, and what a failure leaves."""

from __future__ import annotations

import base64
import pickle
import re
import struct
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.ducklake import PartitionField, PartitionSpec, SortField
from lakeport.ducklake.writing import WrittenFile
from lakeport.ducklake.writing.files import (
    FileOptions,
    FileTarget,
    data_file_path,
    uuid7,
    write_files,
)
from lakeport.errors import (
    CancelledError,
    ConstraintError,
    InvalidArgumentError,
    InvalidInputError,
    UnsupportedError,
)
from lakeport.types import Column
from tests.ducklake.writing.reference_files import arrow_rows, data_files, of, table_of, text_rows
from tests.fixtures_lakes import LakeMaker

ID = Column(id=1, name="id", type="int64")
NAME = Column(id=2, name="name", type="varchar")

EVERY_TYPE = """
    b BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INTEGER, i64 BIGINT, u8 UTINYINT, u16 USMALLINT,
    u32 UINTEGER, u64 UBIGINT, h HUGEINT, uh UHUGEINT, f FLOAT, d DOUBLE, dec4 DECIMAL(4,2),
    dec18 DECIMAL(18,3), dec38 DECIMAL(38,10), dt DATE, t TIME, ts TIMESTAMP, tss TIMESTAMP_S,
    tsms TIMESTAMP_MS, tsns TIMESTAMP_NS, tstz TIMESTAMPTZ, s VARCHAR, js JSON, bl BLOB, u UUID,
    g GEOMETRY, st STRUCT(x INTEGER, "y z" STRUCT(w VARCHAR[])), l INTEGER[], ll DOUBLE[][],
    m MAP(VARCHAR, STRUCT(a DECIMAL(9,2)))
"""
ROW = """
    true, -1, 300, 70000, 5000000000, 200, 60000, 4000000000, 18446744073709551615, 12345, 67890,
    1.5, 'nan', 1.25, 123456789.125, 1.0000000001, DATE '2024-02-29', TIME '12:34:56.789',
    TIMESTAMP '2024-02-29 12:34:56.789012', '2024-02-29 12:34:56', '2024-02-29 12:34:56.789',
    '2024-02-29 12:34:56.789012345', '2024-02-29 12:34:56+00', 'é''x', '{"a": [1]}',
    '\\x00\\xFF'::BLOB, '00000000-0000-0000-0000-00000000000a', 'POINT (1 2)',
    {'x': 1, 'y z': {'w': ['a', NULL]}}, [1, NULL], [[1.5], [], NULL], MAP {'k': {'a': 1.25}}
"""


def target_of(tmp_path: Path, *columns: Column, **options: Any) -> FileTarget:
    spec = options.pop("partition_spec", None)
    sort = options.pop("sort_order", ())
    encrypted = options.pop("encrypted", False)
    return FileTarget(
        columns=columns,
        directory=f"{tmp_path}/t/",
        partition_spec=spec,
        sort_order=sort,
        encrypted=encrypted,
        options=FileOptions(**options),
    )


def files_on_disk(tmp_path: Path) -> list[str]:
    return sorted(
        str(path.relative_to(tmp_path / "t")) for path in (tmp_path / "t").rglob("*.parquet")
    )


def numbers(count: int) -> pa.Table:
    return pa.table({"id": np.arange(count), "name": [f"n{i}" for i in range(count)]})


def parquet_schema(connection: duckdb.DuckDBPyConnection, path: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = connection.execute(
        "SELECT name, type, field_id, repetition_type, num_children FROM parquet_schema(?)"
        " OFFSET 1",
        [path],
    ).fetchall()
    return rows


def test_a_file_has_the_fields_and_values_of_the_real_implementations_file(
    make_lake: LakeMaker, tmp_path: Path
) -> None:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute(f"CREATE TABLE t ({EVERY_TYPE})")
    nulls = ", ".join("NULL" for _ in lake.query("DESCRIBE t"))
    lake.execute(f"INSERT INTO t VALUES ({ROW}), ({nulls})")
    [recorded] = data_files(lake, "t")
    rows = arrow_rows(lake, "FROM t")
    table = table_of(lake, "t")

    [written] = write_files(target_of(tmp_path, *table.columns), rows)

    ours, theirs = f"{tmp_path}/t/{written.path}", f"{table.path}{recorded.path}"
    fields = parquet_schema(lake.connection, ours)
    for field, expected in zip(fields, parquet_schema(lake.connection, theirs), strict=True):
        # The fixed lengths of decimals may differ.
        assert field == expected
    assert text_rows(lake, f"'{ours}'") == text_rows(lake, f"'{theirs}'")
    assert of(written) == recorded.columns
    assert not pq.read_metadata(ours).metadata


def test_the_size_of_the_footer_is_that_of_the_file(tmp_path: Path) -> None:
    [written] = write_files(target_of(tmp_path, ID, NAME, row_group_rows=10), numbers(95))

    data = (tmp_path / "t" / written.path).read_bytes()
    assert written.file_size_bytes == len(data)
    assert written.footer_size == struct.unpack("<I", data[-8:-4])[0]
    assert pq.read_metadata(tmp_path / "t" / written.path).num_row_groups == 10
    footer = pq.read_metadata(tmp_path / "t" / written.path)
    sizes = [
        sum(footer.row_group(g).column(c).total_compressed_size for g in range(10))
        for c in range(2)
    ]
    assert [column.size_bytes for column in written.columns] == sizes


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    assert write_files(target_of(tmp_path, ID, NAME), numbers(0)) == []
    assert files_on_disk(tmp_path) == []


def test_names_are_uuids_of_version_7_in_order_of_time(tmp_path: Path) -> None:
    [written] = write_files(target_of(tmp_path, ID, NAME), numbers(1))

    match = re.fullmatch(r"ducklake-([0-9a-f-]{36})\.parquet", written.path)
    assert match is not None
    found = uuid.UUID(match.group(1))
    assert (found.version, found.variant) == (7, uuid.RFC_4122)
    later = uuid7()
    assert later.int >> 80 >= found.int >> 80


def test_the_caller_learns_each_name_before_the_file_is_opened(tmp_path: Path) -> None:
    seen: list[tuple[str, bool]] = []

    def names(folder: str) -> str:
        path = data_file_path(folder)
        seen.append((path, (tmp_path / "t" / path).exists()))
        return path

    spec = PartitionSpec(7, (PartitionField(2, "identity"),))
    target = target_of(tmp_path, ID, NAME, partition_spec=spec)
    written = write_files(target, numbers(3), names=names)

    assert seen == [(file.path, False) for file in written]
    assert {file.path.partition("/")[0] for file in written} == {"name=n0", "name=n1", "name=n2"}


@pytest.mark.parametrize("partitioned", [False, True])
def test_files_rotate_at_the_target_size(tmp_path: Path, partitioned: bool) -> None:
    part = Column(id=3, name="p", type="int32")
    spec = PartitionSpec(7, (PartitionField(3, "identity"),)) if partitioned else None
    rows = pa.table(
        {
            "id": np.random.default_rng(1).integers(0, 1 << 62, 40_000),
            "name": [""] * 40_000,
            "p": pa.array([1] * 40_000, pa.int32()),
        }
    )
    target = target_of(
        tmp_path,
        ID,
        NAME,
        part,
        row_group_rows=1_000,
        target_file_bytes=50_000,
        partition_spec=spec,
    )

    written = write_files(target, rows, threads=1)

    assert len(written) >= 5
    assert sum(file.record_count for file in written) == 40_000
    assert all(file.file_size_bytes < 50_000 + 20_000 for file in written)
    assert len(files_on_disk(tmp_path)) == len(written)


def test_a_small_write_is_one_file_and_a_large_one_uses_the_threads(tmp_path: Path) -> None:
    small = target_of(tmp_path / "small", ID, NAME, row_group_rows=1_000)
    large = target_of(tmp_path / "large", ID, NAME, row_group_rows=1_000, target_file_bytes=1 << 20)

    assert len(write_files(small, numbers(30_000), threads=2)) == 1
    written = write_files(large, numbers(300_000), threads=2)

    assert len(written) > 1
    assert sum(file.record_count for file in written) == 300_000
    ids = np.concatenate(
        [
            pq.read_table(tmp_path / "large" / "t" / file.path, columns=["id"]).column(0)
            for file in written
        ]
    )
    assert np.array_equal(np.sort(ids), np.arange(300_000))


def test_a_stream_is_never_held_as_a_whole(tmp_path: Path) -> None:
    """Twenty row groups of 8 MB: what is alive at a time are a few of them."""
    batch_bytes = 8 * (1 << 20)
    most = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for number in range(20):
            values = pa.array(np.full(1 << 20, number, np.int64))
            most = max(most, pa.total_allocated_bytes())
            yield pa.record_batch([values], names=["id"])

    before = pa.total_allocated_bytes()
    reader = pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches())
    written = write_files(target_of(tmp_path, ID, row_group_rows=1 << 20), reader, threads=1)

    assert sum(file.record_count for file in written) == 20 << 20
    assert most - before < 8 * batch_bytes


@pytest.mark.parametrize("kind", ["pandas", "polars", "batch", "reader", "dicts"])
def test_rows_come_from_any_arrow_stream(kind: str, tmp_path: Path) -> None:
    rows: Any = numbers(5)
    match kind:
        case "pandas":
            rows = pd.DataFrame({"id": range(5), "name": [f"n{i}" for i in range(5)]})
        case "polars":
            rows = pl.DataFrame({"id": range(5), "name": [f"n{i}" for i in range(5)]})
        case "batch":
            rows = rows.to_batches()[0]
        case "reader":
            rows = rows.to_reader()
        case "dicts":
            rows = rows.to_pylist()

    [written] = write_files(target_of(tmp_path, ID, NAME), rows)

    assert pq.read_table(tmp_path / "t" / written.path).to_pylist() == numbers(5).to_pylist()


def failing_rows(error: Exception) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(5):
            yield numbers(100).to_batches()[0]
        raise error

    return pa.RecordBatchReader.from_batches(numbers(0).schema, batches())


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    target = target_of(tmp_path, ID, NAME, row_group_rows=10, target_file_bytes=1_000)

    with pytest.raises(ValueError, match="the source broke"):
        write_files(target, failing_rows(ValueError("the source broke")))

    assert files_on_disk(tmp_path) == []


def test_a_cancelled_write_leaves_no_file(tmp_path: Path) -> None:
    target = target_of(tmp_path, ID, NAME, row_group_rows=10, target_file_bytes=1_000)
    calls = iter([False, False, True])

    with pytest.raises(CancelledError):
        write_files(target, numbers(1_000).to_reader(100), is_cancelled=lambda: next(calls, True))

    assert files_on_disk(tmp_path) == []


def test_an_error_of_an_encoder_leaves_no_file_and_no_thread(tmp_path: Path) -> None:
    huge = Column(id=1, name="h", type="int128")
    rows = duckdb.connect(config={"arrow_lossless_conversion": "true"}).sql(
        "SELECT CASE WHEN i < 50 THEN i ELSE 170141183460469231731687303715884105727 END::HUGEINT"
        " AS h FROM range(100) r(i)"
    )

    with pytest.raises(InvalidInputError, match=r"'h'.*170141183460469231731687303715884105727"):
        write_files(target_of(tmp_path, huge, row_group_rows=10), rows.to_arrow_table())

    assert files_on_disk(tmp_path) == []
    assert not [t for t in threading.enumerate() if t.name.startswith("lakeport-encode")]


def test_encrypted_files_are_read_by_the_real_implementation(
    tmp_path: Path, reference: duckdb.DuckDBPyConnection
) -> None:
    target = target_of(
        tmp_path, ID, NAME, encrypted=True, row_group_rows=100, target_file_bytes=20_000
    )

    written = write_files(target, numbers(10_000), threads=1)

    assert len({file.encryption_key for file in written}) == len(written) > 1
    total = 0
    for file in written:
        assert file.encryption_key is not None
        assert len(base64.b64decode(file.encryption_key)) == 16
        path = tmp_path / "t" / file.path
        data = path.read_bytes()
        assert data[:4] == data[-4:] == b"PARE"
        assert file.footer_size == struct.unpack("<I", data[-8:-4])[0]
        assert file.encryption_key not in repr(file)
        rows = reference.execute(
            f"SELECT count(*), sum(id) FROM read_parquet('{path}', encryption_config ="
            f" {{footer_key_value: from_base64('{file.encryption_key}')}})"
        ).fetchall()
        total += rows[0][1]
        first = file.columns[0].min_value
        assert first is not None
        found = reference.execute(
            f"SELECT id FROM read_parquet('{path}', encryption_config ="
            f" {{footer_key_value: from_base64('{file.encryption_key}')}}) WHERE id = {first}"
        ).fetchall()
        assert found == [(int(first),)]
    assert total == sum(range(10_000))


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
def test_the_compression_is_that_of_the_option(compression: Any, tmp_path: Path) -> None:
    [written] = write_files(target_of(tmp_path, ID, NAME, compression=compression), numbers(9))

    chunk = pq.read_metadata(tmp_path / "t" / written.path).row_group(0).column(0)
    assert chunk.compression.lower() == {"none": "uncompressed"}.get(compression, compression)


def test_options_are_read_from_the_catalogs_texts() -> None:
    options = FileOptions.from_mapping(
        {
            "parquet_compression": "ZSTD",
            "parquet_compression_level": "7",
            "parquet_version": "V2",
            "parquet_row_group_size": "1000",
            "parquet_row_group_size_bytes": "1MB",
            "target_file_size": "10MiB",
            "hive_file_pattern": "false",
            "write_deletion_vectors": "true",
            "data_inlining_row_limit": "10",
        }
    )

    assert options == FileOptions(
        compression="zstd",
        compression_level=7,
        page_version="2.0",
        row_group_rows=1000,
        row_group_bytes=1_000_000,
        target_file_bytes=10 << 20,
        hive_folders=False,
        deletion_vectors=True,
    )
    with pytest.raises(InvalidArgumentError, match=r"parquet_compression.*'zip'"):
        FileOptions.from_mapping({"parquet_compression": "zip"})


def test_intervals_variants_and_zoned_times_are_written_like_the_real_implementation(
    make_lake: LakeMaker, tmp_path: Path
) -> None:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t (id BIGINT, i INTERVAL, v VARIANT, z TIMETZ, t TIME, g GEOMETRY,"
        " l INTERVAL[], f DOUBLE)",
        "INSERT INTO t SELECT i, to_months(i::INTEGER), {'a': i, 'b': ['x']}::VARIANT,"
        " '01:02:03+02', '04:05:06', 'POINT (1 2)', [INTERVAL 1 DAY, NULL],"
        " CASE WHEN i = 0 THEN 'nan'::DOUBLE ELSE i END FROM range(30) r(i)",
    )
    [recorded] = data_files(lake, "t")
    variants = lake.query(
        "SELECT variant_path, shredded_type, value_count, null_count, min_value, max_value"
        " FROM meta.ducklake_file_variant_stats ORDER BY 1"
    )
    rows = arrow_rows(lake, "SELECT * REPLACE (v::JSON AS v) FROM t")
    expected = text_rows(lake, "t")
    table = table_of(lake, "t")

    [written] = write_files(target_of(tmp_path, *table.columns), rows)

    ours = f"{tmp_path}/t/{written.path}"
    theirs = f"{table.path}{recorded.path}"
    assert text_rows(lake, f"'{ours}'") == text_rows(lake, f"'{theirs}'") != expected[:0]
    assert [row[2] for row in parquet_schema(lake.connection, ours)] == [
        row[2] for row in parquet_schema(lake.connection, theirs)
    ]
    found = [column for column in of(written) if column.column_id != 3]
    assert found == [column for column in recorded.columns if column.column_id != 3]
    paths = [
        (p.path, p.shredded_type, p.value_count, p.null_count, p.min_value, p.max_value)
        for p in written.columns[2].variant_paths
    ]
    # Integers of JSON are unsigned for DuckDB, which it does not store in columns of their own.
    assert paths == [row for row in variants if row[0] != '"a"'] != []
    data = Path(ours).read_bytes()
    assert written.footer_size == struct.unpack("<I", data[-8:-4])[0]
    assert written.file_size_bytes == len(data)


def test_a_variant_inside_a_struct_is_rejected(tmp_path: Path) -> None:
    column = Column(
        id=1, name="s", type="struct", children=(Column(id=2, name="v", type="variant"),)
    )

    with pytest.raises(UnsupportedError, match=r"'s'.*variant"):
        write_files(target_of(tmp_path, column), pa.table({"s": [{"v": 1}]}))

    assert files_on_disk(tmp_path) == []


def test_rows_are_sorted_by_the_sort_order(tmp_path: Path) -> None:
    order = (
        SortField(expression="lower(name)", dialect="duckdb", descending=True, nulls_first=True),
        SortField(expression="id", dialect="duckdb", descending=False, nulls_first=False),
        SortField(
            expression="no_such_function(id)", dialect="x", descending=False, nulls_first=False
        ),
    )
    rows = pa.table({"id": [3, 1, 2, 4], "name": ["a", "B", None, "A"]})

    [written] = write_files(target_of(tmp_path, ID, NAME, sort_order=order), rows)

    found = pq.read_table(tmp_path / "t" / written.path)
    assert found.column("id").to_pylist() == [2, 1, 3, 4]
    [unsorted] = write_files(
        target_of(tmp_path, ID, NAME, sort_order=order, sort_on_insert=False), rows
    )
    assert pq.read_table(tmp_path / "t" / unsorted.path).column("id").to_pylist() == [3, 1, 2, 4]


def test_an_error_of_the_source_of_sorted_rows_keeps_its_class(tmp_path: Path) -> None:
    order = (SortField(expression="id", dialect="duckdb", descending=True, nulls_first=True),)
    strict = Column(id=1, name="id", type="int64", nullable=False)

    with pytest.raises(ConstraintError, match="'id' does not allow NULL"):
        write_files(
            target_of(tmp_path, strict, sort_order=order), pa.table({"id": pa.array([1, None])})
        )


def test_moved_rows_carry_their_ids(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "_ducklake_internal_row_id": [70, 80]})

    [written] = write_files(target_of(tmp_path, ID), rows, internal=["_ducklake_internal_row_id"])

    assert written.carries_row_ids
    assert [column.column_id for column in written.columns] == [1]
    schema = pq.read_schema(tmp_path / "t" / written.path)
    assert schema.field(1).metadata[b"PARQUET:field_id"] == b"2147483540"


def test_a_task_gets_the_target_and_returns_the_files_in_bytes(tmp_path: Path) -> None:
    spec = PartitionSpec(7, (PartitionField(1, "bucket(2)"),))
    target = target_of(tmp_path, ID, NAME, partition_spec=spec, encrypted=True)

    written = write_files(pickle.loads(pickle.dumps(target)), numbers(10))

    assert pickle.loads(pickle.dumps(written)) == written


def _total(files: list[WrittenFile]) -> int:
    return sum(file.record_count for file in files)


def test_many_partitions_need_few_open_files(tmp_path: Path) -> None:
    """Each of 300 partitions gets all its rows, whatever their number and order."""
    spec = PartitionSpec(7, (PartitionField(1, "identity"),))
    rows = pa.table({"id": np.tile(np.arange(300), 20), "name": ["x"] * 6_000})
    target = target_of(tmp_path, ID, NAME, partition_spec=spec, row_group_rows=7)

    written = write_files(target, rows)

    assert _total(written) == 6_000
    by_value: dict[tuple[str | None, ...], int] = {}
    for file in written:
        by_value[file.partition_values] = by_value.get(file.partition_values, 0) + file.record_count
        assert file.partition_id == 7
    assert set(by_value.values()) == {20}
    assert len(by_value) == 300
