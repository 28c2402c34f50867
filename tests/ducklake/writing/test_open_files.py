"""How many files a partitioned write keeps open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pytest

from lakeport.ducklake.model import PartitionField, PartitionSpec
from lakeport.ducklake.writing.files import FileOptions, FileTarget, write_files
from lakeport.ducklake.writing.files import writer as writer_module
from lakeport.types import Column

ROW_GROUP = 100
SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.string())])


def target_of(folder: Path, *, target_file_bytes: int) -> FileTarget:
    return FileTarget(
        columns=(Column(id=1, name="k", type="int32"), Column(id=2, name="v", type="varchar")),
        directory=f"{folder}/t/",
        partition_spec=PartitionSpec(
            id=1, fields=(PartitionField(column_id=1, transform="identity"),)
        ),
        options=FileOptions(row_group_rows=ROW_GROUP, target_file_bytes=target_file_bytes),
    )


def row_group(key: int, *, is_large: bool = False) -> pa.RecordBatch:
    keys = pa.array([key] * ROW_GROUP, pa.int32())
    texts = [sha256(b"%d" % row).hexdigest() if is_large else "" for row in range(ROW_GROUP)]
    return pa.record_batch([keys, pa.array(texts)], schema=SCHEMA)


def open_parquet_files(folder: Path) -> int:
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(entry.readlink()))
        except OSError:  # closed since it was listed
            continue
    return sum(link.startswith(str(folder)) for link in links)


def test_a_write_of_many_partitions_keeps_few_files_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_SPLIT_ROWS", ROW_GROUP)
    counts: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(2):
            for key in range(300):
                yield row_group(key)
                counts.append(open_parquet_files(tmp_path))

    rows = pa.RecordBatchReader.from_batches(SCHEMA, batches())
    written = write_files(target_of(tmp_path, target_file_bytes=1 << 30), rows, threads=2)

    assert sum(file.record_count for file in written) == 2 * 300 * ROW_GROUP
    assert len(written) == 600
    # Files whose footers are being written are still open.
    assert 32 < max(counts) < 100


def test_files_that_have_reached_their_size_leave_others_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_SPLIT_ROWS", ROW_GROUP)

    def batches() -> Iterator[pa.RecordBatch]:
        yield row_group(1)
        for _ in range(200):
            yield row_group(2, is_large=True)
        yield row_group(1)

    rows = pa.RecordBatchReader.from_batches(SCHEMA, batches())
    written = write_files(target_of(tmp_path, target_file_bytes=2000), rows, threads=2)

    assert Counter(file.partition_values for file in written) == {("1",): 1, ("2",): 200}
