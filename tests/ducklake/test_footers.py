"""The footer of a file is read once, and again as soon as the file is another one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.ducklake.model import RecordedFile
from lakeport.ducklake.reading import footers
from lakeport.ducklake.reading.file_shapes import FileShape
from lakeport.ducklake.reading.parquet import open_parquet
from lakeport.ducklake.storage import S3Secret
from lakeport.ducklake.storage.filesystems import Storage
from lakeport.filters import col
from tests.fixtures_lakes import LakeMaker


@pytest.fixture
def read_footers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that grows by one for each footer that is read from a file."""
    read: list[str] = []
    original = footers.remember_footer

    def record(identity: object, footer: pq.FileMetaData, shape: FileShape) -> None:
        read.append(str(identity))
        original(identity, footer, shape)

    monkeypatch.setattr("lakeport.ducklake.reading.parquet.remember_footer", record)
    return read


def values(path: Path | str, storage: Storage | None = None) -> list[int]:
    source = open_parquet(storage or Storage(), RecordedFile(path=str(path)))
    try:
        return [v for _, b in source.batches([0], batch_rows=100) for v in b.column(0).to_pylist()]
    finally:
        source.close()


def write(path: Path, numbers: list[int]) -> None:
    pq.write_table(pa.table({"a": pa.array(numbers, pa.int64())}), path, compression="none")


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as unchanged at once: their change time cannot be set."""
    monkeypatch.setattr(footers, "_QUIET_NANOSECONDS", 0)


@pytest.mark.usefixtures("quiet")
def test_a_footer_is_read_once(tmp_path: Path, read_footers: list[str]) -> None:
    path = tmp_path / "a.parquet"
    write(path, [1, 2])

    assert [values(path) for _ in range(3)] == [[1, 2]] * 3
    assert len(read_footers) == 1


@pytest.mark.usefixtures("quiet")
def test_a_file_that_was_replaced_by_one_of_the_same_size_is_read_anew(
    tmp_path: Path, read_footers: list[str]
) -> None:
    path = tmp_path / "a.parquet"
    write(path, [1, 2])
    assert values(path) == [1, 2]
    size = path.stat().st_size

    write(path, [3, 4])
    assert path.stat().st_size == size
    assert values(path) == [3, 4]
    assert len(read_footers) == 2


def test_the_footer_of_a_file_that_was_just_written_is_not_kept(
    tmp_path: Path, read_footers: list[str]
) -> None:
    path = tmp_path / "a.parquet"
    write(path, [1, 2])

    assert [values(path), values(path)] == [[1, 2], [1, 2]]
    assert read_footers == ["None", "None"]


def test_footers_of_objects_are_kept_by_their_etag(
    s3_reference: S3Secret, make_lake: LakeMaker, read_footers: list[str]
) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0", data_path="s3://lake/footers/")
    lake.execute(
        "CALL ducklake_set_option('lake', 'parquet_row_group_size', 2048)",
        "CREATE TABLE t AS SELECT i AS id FROM range(10000) r(i)",
    )
    with lake.open(storage=s3_reference, engine="local") as ours:
        scan = ours.table("t").scan(filter=col("id") == 7)
        assert [scan.to_arrow()["id"].to_pylist() for _ in range(3)] == [[7]] * 3

    assert len(read_footers) == 1
    assert "None" not in read_footers
