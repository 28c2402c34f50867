"""Files of lakes on an object store: written, read by both, and removed after a failure."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from lakeport.ducklake import PartitionField, PartitionSpec, S3Secret
from lakeport.ducklake.storage import Storage
from lakeport.ducklake.writing.files import (
    FileOptions,
    FileTarget,
    read_added_files,
    write_delete_file,
    write_files,
)
from lakeport.types import Column

ID = Column(id=1, name="id", type="int64")


def target_of(secret: S3Secret, name: str, *columns: Column) -> FileTarget:
    return FileTarget(
        columns=columns or (ID,),
        directory=f"s3://lake/{name}/",
        storage=Storage((secret,)),
        options=FileOptions(row_group_rows=1_000, target_file_bytes=20_000),
    )


def objects(secret: S3Secret, name: str) -> list[str]:
    filesystem, path = Storage((secret,)).filesystem(f"s3://lake/{name}")
    selector = fs.FileSelector(path, recursive=True, allow_not_found=True)
    return sorted(info.path for info in filesystem.get_file_info(selector) if info.is_file)


def test_files_are_written_and_read(
    s3_reference: S3Secret, reference: duckdb.DuckDBPyConnection
) -> None:
    spec = PartitionSpec(3, (PartitionField(2, "identity"),))
    target = target_of(s3_reference, "read", ID, Column(id=2, name="p q", type="varchar"))
    target = FileTarget(
        columns=target.columns,
        directory=target.directory,
        storage=target.storage,
        partition_spec=spec,
    )
    rows = pa.table({"id": np.arange(10), "p q": ["a b"] * 5 + ["c"] * 5})

    written = write_files(target, rows)

    assert {file.path.partition("/")[0] for file in written} == {"p%20q=a%20b", "p%20q=c"}
    for file in written:
        [(count,)] = reference.execute(
            "SELECT count(*) FROM read_parquet(?)", [target.directory + file.path]
        ).fetchall()
        assert count == file.record_count == 5
    deletes = write_delete_file(target, data_file_id=1, data_file="x", positions=[1, 2])
    data = target.storage.read(target.directory + deletes.path)
    assert len(data) == deletes.file_size_bytes
    assert pq.read_table(pa.BufferReader(data)).column("pos").to_pylist() == [1, 2]


def test_intervals_are_uploaded(s3: S3Secret) -> None:
    target = target_of(s3, "intervals", ID, Column(id=2, name="i", type="interval"))
    rows = duckdb.sql("SELECT 1::BIGINT AS id, INTERVAL 1 MONTH AS i").to_arrow_table()

    [file] = write_files(target, rows)

    assert len(target.storage.read(target.directory + file.path)) == file.file_size_bytes


def test_a_failure_leaves_no_object(s3: S3Secret) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(5):
            values = np.random.default_rng(1).integers(0, 1 << 60, 3_000)
            yield pa.record_batch([values], names=["id"])
        raise ValueError("the source broke")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches())
    with pytest.raises(ValueError, match="the source broke"):
        write_files(target_of(s3, "failed"), reader)

    assert objects(s3, "failed") == []


def test_objects_are_found_by_wildcards_and_added(s3: S3Secret) -> None:
    source = target_of(s3, "source")
    written = write_files(source, pa.table({"id": np.arange(10)}))
    paths = source.storage.glob("s3://lake/source/*.parquet")

    [added] = read_added_files(target_of(s3, "other"), paths)

    assert paths == [source.directory + file.path for file in written]
    assert (added.path, added.path_is_relative, added.record_count) == (paths[0], False, 10)
    assert added.footer_size == written[0].footer_size
