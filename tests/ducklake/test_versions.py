"""Older and newer formats, and catalogs that other writers left in an unusual state.

The real implementation writes 1.0 only; the catalogs here are brought into other shapes by hand, and
must still give the rows that it gave before.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.ducklake import Lake
from lakeport.ducklake.reading.delete_files import deleted_positions
from lakeport.errors import CorruptLakeError

LakeMaker = Callable[..., Any]
LIFE = (
    "CREATE TABLE t(id INTEGER, v VARCHAR)",
    "ALTER TABLE t SET PARTITIONED BY (v)",
    "INSERT INTO t SELECT i, 'p' || (i % 2) FROM range(20) r(i)",
    "INSERT INTO t VALUES (100, 'p0')",
    "DELETE FROM t WHERE id = 3",
    "ALTER TABLE t ADD COLUMN w INTEGER DEFAULT 5",
    "INSERT INTO t VALUES (101, 'p1', 6)",
)


def edit(lake: Any, *statements: str) -> None:
    lake.detach()
    connection = sqlite3.connect(lake.uri.removeprefix("ducklake:sqlite:"))
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def drop(table: str, *columns: str) -> list[str]:
    return [f"ALTER TABLE ducklake_{table} DROP COLUMN {column}" for column in columns]


TO_03 = [
    *drop("data_file", "partial_max"),
    *drop("delete_file", "partial_max"),
    *drop("column", "default_value_type", "default_value_dialect"),
    *drop("schema_versions", "table_id"),
    "ALTER TABLE ducklake_data_file ADD COLUMN partial_file_info VARCHAR",
    *[f"DROP TABLE ducklake_{name}" for name in ("sort_info", "sort_expression", "macro", "macro_impl", "macro_parameters", "file_variant_stats")],
    "UPDATE ducklake_metadata SET value = '0.3' WHERE key = 'version'",
]  # fmt: skip
TO_02 = [
    *TO_03,
    *drop("data_file", "partial_file_info"),
    *drop("snapshot_changes", "author", "commit_message", "commit_extra_info"),
    *drop("name_mapping", "is_partition"),
    *drop("file_column_stats", "extra_stats"),
    *drop("table_column_stats", "extra_stats"),
    "DROP TABLE ducklake_schema_versions",
    "ALTER TABLE ducklake_file_column_stats RENAME TO ducklake_file_column_statistics",
    "UPDATE ducklake_metadata SET value = '0.2' WHERE key = 'version'",
]
TO_01 = [
    *TO_02,
    *drop("schema", "path", "path_is_relative"),
    *drop("table", "path", "path_is_relative"),
    *drop("metadata", "scope", "scope_id"),
    *drop("data_file", "mapping_id"),
    "DROP TABLE ducklake_column_mapping",
    "DROP TABLE ducklake_name_mapping",
    "UPDATE ducklake_partition_column SET column_id = column_id - 1",
    "UPDATE ducklake_metadata SET value = '0.1' WHERE key = 'version'",
]
TO_11 = [
    "ALTER TABLE ducklake_data_file ADD COLUMN row_group_count BIGINT",
    "ALTER TABLE ducklake_delete_file ADD COLUMN row_group_count BIGINT",
    "CREATE TABLE ducklake_view_column_tag(view_id BIGINT, column_name VARCHAR, begin_snapshot BIGINT, end_snapshot BIGINT, key VARCHAR, value VARCHAR)",
    *[
        f"ALTER TABLE {table} RENAME COLUMN {name} TO _ducklake_{name}"
        for table in ("ducklake_inlined_data_1_1", "ducklake_inlined_data_1_3")
        for name in ("row_id", "begin_snapshot", "end_snapshot")
    ],
    "UPDATE ducklake_metadata SET value = '1.1-dev1' WHERE key = 'version'",
]


@pytest.mark.parametrize(
    ("version", "edits"), [("0.1", TO_01), ("0.2", TO_02), ("0.3", TO_03), ("1.1-dev1", TO_11)]
)
def test_other_versions_give_the_same_rows(
    version: str, edits: list[str], make_lake: LakeMaker
) -> None:
    lake = make_lake("sqlite")
    lake.execute(*LIFE)
    with lake.open() as ours:
        before = {s.id: rows(ours, s.id) for s in ours.snapshots() if s.id}
    names = [
        row[0] for row in lake.query("SELECT table_name FROM meta.ducklake_inlined_data_tables")
    ]
    if version == "1.1-dev1":
        edits = [
            e
            for e in edits
            if "ducklake_inlined_data_" not in e or any(f"{n} " in e for n in names)
        ]
    edit(lake, *edits)
    if version == "0.1":  # such tables have no folder of their own
        shutil.copytree(Path(lake.data_path) / "main" / "t", lake.data_path, dirs_exist_ok=True)
    with Lake.open(lake.uri) as ours:
        assert ours.version == version
        assert {id: rows(ours, id) for id in before} == before
        spec = ours.table("t").partition_spec
        assert spec is not None
        assert spec.fields[0].column_id == 2
        from lakeport.filters import col

        assert ours.table("t").scan(filter=col("id") == 0).plan.pruning.files_read == 1


def test_files_that_mixed_snapshots_in_version_03(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE t AS SELECT i::INTEGER AS id, 'x' AS v FROM range(7) r(i)")
    lake.execute("INSERT INTO t VALUES (9, 'y')", "INSERT INTO t VALUES (9, 'z')")
    edit(lake, *TO_03)
    edit(
        lake,
        "UPDATE ducklake_data_file SET partial_file_info = '1:4|2:6|3:7' WHERE data_file_id = 0",
    )
    edit(lake, "DELETE FROM ducklake_data_file WHERE data_file_id > 0")
    with Lake.open(lake.uri) as ours:
        for version, count in ((1, 4), (2, 6), (3, 7)):
            table = ours.table("t", version=version).scan(["id", "snapshot_id"]).to_arrow()
            assert table["id"].to_pylist() == list(range(count))
        assert table["snapshot_id"].to_pylist() == [1, 1, 1, 1, 2, 2, 3]


def test_delete_files_in_the_ending_style(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE t AS SELECT i::INTEGER AS id FROM range(10) r(i)")
    lake.execute("CREATE TABLE u(a INTEGER)", "CREATE TABLE u2(a INTEGER)")
    folder = Path(lake.data_path) / "main" / "t"
    sizes = [
        delete_file(folder / f"d{number}-delete.parquet", positions)
        for number, positions in ((2, [3]), (3, [3, 5, 6]))
    ]
    edit(
        lake,
        f"INSERT INTO ducklake_delete_file VALUES (100, 1, 2, 3, 0, 'd2-delete.parquet', 1, 'parquet', {sizes[0]}, NULL, NULL)",
        f"INSERT INTO ducklake_delete_file VALUES (101, 1, 3, NULL, 0, 'd3-delete.parquet', 1, 'parquet', {sizes[1]}, NULL, NULL)",
    )
    with Lake.open(lake.uri) as ours:
        for version, gone in ((1, []), (2, [3]), (3, [3, 5, 6])):
            found = ours.table("t", version=version).scan().to_arrow()["id"].to_pylist()
            assert found == [i for i in range(10) if i not in gone]
        deleted = ours.table("t").changes(2, 3).deletions.to_arrow()
        assert sorted(
            zip(deleted["id"].to_pylist(), deleted["snapshot_id"].to_pylist(), strict=True)
        ) == [(3, 2), (5, 3), (6, 3)]


def test_two_delete_files_of_one_data_file_are_united(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE t AS SELECT i::INTEGER AS id FROM range(10) r(i)")
    folder = Path(lake.data_path) / "main" / "t"
    for number, positions in ((1, [0, 1]), (2, [1, 9])):
        sizes = delete_file(folder / f"d{number}.parquet", positions)
        edit(
            lake,
            f"INSERT INTO ducklake_delete_file VALUES (10{number}, 1, 1, NULL, 0, 'd{number}.parquet', 1, 'parquet', {sizes}, NULL, NULL)",
        )
    with Lake.open(lake.uri) as ours:
        assert ours.table("t").scan().to_arrow()["id"].to_pylist() == [2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([3, 2], "not ascending"),
        ([1, 1], "not ascending"),
        ([-1], "not ascending"),
        ([None], "NULL"),
    ],
)
def test_delete_files_out_of_order_are_corrupt(
    positions: list[int | None], message: str, make_lake: LakeMaker
) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE t AS SELECT i::INTEGER AS id FROM range(10) r(i)")
    sizes = delete_file(Path(lake.data_path) / "main" / "t" / "d.parquet", positions)
    edit(
        lake,
        f"INSERT INTO ducklake_delete_file VALUES (101, 1, 1, NULL, 0, 'd.parquet', 1, 'parquet', {sizes}, NULL, NULL)",
    )
    with Lake.open(lake.uri) as ours, pytest.raises(CorruptLakeError, match=message):
        ours.table("t").scan().to_arrow()


def test_a_puffin_file_with_a_vector_for_each_snapshot() -> None:
    data = container({4: [1, 5], 6: [1, 5, 70_000, 5_000_000_000]})
    positions, snapshots = deleted_positions(data)
    assert positions.tolist() == [1, 5, 70_000, 5_000_000_000]
    assert snapshots is not None
    assert snapshots.tolist() == [4, 4, 6, 6]
    positions, snapshots = deleted_positions(container({None: [2], 0: [3]} | {}, named=False))
    assert (positions.tolist(), snapshots) == ([2, 3], None)
    with pytest.raises(CorruptLakeError, match="only some"):
        deleted_positions(container({None: [2], 7: [3]}))


@pytest.mark.parametrize("cut", [3, 10, 30, -1])
def test_broken_vectors_are_corrupt(cut: int) -> None:
    data = vector([1, 2, 3])
    with pytest.raises(CorruptLakeError):
        deleted_positions(data[:cut])
    with pytest.raises(CorruptLakeError):
        deleted_positions(data[:20] + b"\xff" + data[21:])


def test_a_vector_of_every_kind_of_container() -> None:
    dense = list(range(0, 20_000, 2))
    assert deleted_positions(vector(dense))[0].tolist() == dense
    runs = runs_vector([(5, 10), (100, 1)])
    assert deleted_positions(runs)[0].tolist() == [*range(5, 15), 100]


def test_a_zombie_table_without_columns_is_not_listed(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE t(id INTEGER)", "CREATE TABLE z(id INTEGER)")
    edit(lake, "DELETE FROM ducklake_column WHERE table_id = 2")
    with Lake.open(lake.uri) as ours:
        assert ours.tables() == [("main", "t")]


def test_inlined_tables_made_later_find_their_columns(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t(a INTEGER)",
        "ALTER TABLE t ADD COLUMN b INTEGER",
        "ALTER TABLE t ADD COLUMN c INTEGER DEFAULT 5",
    )
    lake.execute(
        "CALL ducklake_set_option('lake', 'data_inlining_row_limit', 10)",
        "INSERT INTO t VALUES (1, 2, 3)",
    )
    with lake.open() as ours:
        assert ours.table("t").scan().to_arrow().to_pylist() == [{"a": 1, "b": 2, "c": 3}]


def rows(lake: Lake, version: int) -> list[str]:
    table = lake.table("t", version=version)
    found = table.scan([*table.schema.names, "rowid", "snapshot_id"]).to_arrow()
    return sorted(map(repr, found.to_pylist()))


def delete_file(path: Path, positions: list[Any]) -> str:
    """Write a delete file; return its delete_count, file_size_bytes and footer_size as SQL."""
    columns = {
        "file_path": pa.array(["x"] * len(positions)),
        "pos": pa.array(positions, pa.int64()),
    }
    pq.write_table(pa.table(columns), path)
    footer = pq.read_metadata(path)
    return f"{footer.num_rows}, {path.stat().st_size}, {footer.serialized_size}"


def vector(positions: list[int]) -> bytes:
    """A `deletion-vector-v1` blob, of array and bitmap containers."""
    by_key: dict[int, list[int]] = {}
    for position in positions:
        by_key.setdefault(position >> 32, []).append(position & 0xFFFFFFFF)
    body = b"\xd1\xd3\x39\x64" + struct.pack("<q", len(by_key))
    for key, lows in by_key.items():
        body += struct.pack("<i", key) + bitmap(lows)
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def bitmap(lows: list[int]) -> bytes:
    containers: dict[int, list[int]] = {}
    for low in lows:
        containers.setdefault(low >> 16, []).append(low & 0xFFFF)
    header = struct.pack("<II", 12346, len(containers))
    keys = b"".join(struct.pack("<HH", key, len(v) - 1) for key, v in containers.items())
    blobs = [_container(values) for values in containers.values()]
    start = len(header) + len(keys) + 4 * len(blobs)
    offsets = b""
    for blob in blobs:
        offsets += struct.pack("<I", start)
        start += len(blob)
    return header + keys + offsets + b"".join(blobs)


def _container(values: list[int]) -> bytes:
    if len(values) <= 4096:
        return np.array(values, "<u2").tobytes()
    bits = np.zeros(65536, np.uint8)
    bits[values] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def runs_vector(runs: list[tuple[int, int]]) -> bytes:
    cardinality = sum(length for _, length in runs)
    data = struct.pack("<I", 12347) + b"\x01" + struct.pack("<HH", 0, cardinality - 1)
    data += struct.pack("<H", len(runs)) + b"".join(struct.pack("<HH", s, n - 1) for s, n in runs)
    body = b"\xd1\xd3\x39\x64" + struct.pack("<q", 1) + struct.pack("<i", 0) + data
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def container(vectors: dict[int | None, list[int]], *, named: bool = True) -> bytes:
    data, blobs = b"PFA1", []
    for snapshot, positions in vectors.items():
        blob = vector(positions)
        properties = (
            {"ducklake-snapshot-id": str(snapshot)} if named and snapshot is not None else {}
        )
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "offset": len(data),
                "length": len(blob),
                "properties": properties,
            }
        )
        data += blob
    footer = json.dumps({"blobs": blobs}).encode()
    return data + b"PFA1" + footer + struct.pack("<iI", len(footer), 0) + b"PFA1"
