"""Files with the same schema share what is derived from it; small files are read with one request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.ducklake import LocalEngine
from lakeport.ducklake.model import RecordedFile
from lakeport.ducklake.reading import file_shapes
from lakeport.ducklake.reading.alignment import column_converter
from lakeport.ducklake.reading.data_files import _BatchConverter
from lakeport.ducklake.reading.file_shapes import FileShape
from lakeport.ducklake.reading.parquet import open_parquet
from lakeport.ducklake.storage.filesystems import Storage
from tests.fixtures_lakes import LakeMaker


def with_id(name: str, type: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, type, metadata={b"PARQUET:field_id": str(number).encode()})


STRUCT = pa.struct([with_id("x", pa.int32(), 9)])


def shape(folder: Path, schema: pa.Schema, **options: Any) -> FileShape:
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    pq.write_table(schema.empty_table(), path, **options)
    source = open_parquet(Storage(), RecordedFile(path=str(path)))
    source.close()
    return source.shape


def test_files_with_the_same_fields_have_the_same_shape(tmp_path: Path) -> None:
    schema = pa.schema([with_id("a", pa.int64(), 1), with_id("b", pa.string(), 2)])

    assert shape(tmp_path, schema) is shape(tmp_path, schema)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (with_id("a", pa.int64(), 1), with_id("a", pa.int64(), 2)),
        (with_id("a", pa.int64(), 1), with_id("b", pa.int64(), 1)),
        (with_id("a", pa.int64(), 1), with_id("a", pa.int32(), 1)),
        # In Parquet both are 64-bit integers: only Arrow's own description differs.
        (with_id("a", pa.int64(), 1), with_id("a", pa.duration("us"), 1)),
    ],
    ids=["field id", "name", "type", "Arrow's type"],
)
def test_files_with_other_fields_have_another_shape(
    tmp_path: Path, one: pa.Field, other: pa.Field
) -> None:
    first, second = shape(tmp_path, pa.schema([one])), shape(tmp_path, pa.schema([other]))

    assert first is not second
    assert first.schema.field(0).equals(one, check_metadata=True)
    assert second.schema.field(0).equals(other, check_metadata=True)


@pytest.mark.parametrize("other", [with_id("b", STRUCT, 1), with_id("a", STRUCT, 2)])
def test_structs_with_another_name_or_id_have_another_shape(
    tmp_path: Path, other: pa.Field
) -> None:
    first, second = (
        shape(tmp_path, pa.schema([field]), store_schema=False)
        for field in (with_id("a", STRUCT, 1), other)
    )

    assert first is not second
    assert second.schema.field(0).equals(other, check_metadata=True)


def test_few_shapes_are_kept(tmp_path: Path) -> None:
    for number in range(40):
        shape(tmp_path, pa.schema([with_id(f"c{number}", pa.int64(), 1)]))

    assert len(file_shapes._recent) <= 32


def test_columns_of_many_files_are_described_once(
    make_lake: LakeMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE t(id BIGINT, s VARCHAR)")
    lake.execute(*[f"INSERT INTO t VALUES ({n}, 'v{n}')" for n in range(20)])
    made: list[str] = []
    original = column_converter

    def record(field: pa.Field, *arguments: Any) -> Any:
        made.append(field.name)
        return original(field, *arguments)

    monkeypatch.setattr(file_shapes, "column_converter", record)
    monkeypatch.setattr(file_shapes, "_recent", [])
    with lake.open(engine="local") as ours:
        rows = ours.table("t").scan().to_arrow()

    assert sorted(rows["id"].to_pylist()) == list(range(20))
    # Two threads may describe the first file at the same time.
    assert len(made) <= 4


def test_the_columns_of_a_plan_are_laid_out_once_for_files_with_the_same_shape(
    make_lake: LakeMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE t(id BIGINT, s VARCHAR)")
    lake.execute(*[f"INSERT INTO t VALUES ({n}, 'v{n}')" for n in range(10)])
    lake.execute("ALTER TABLE t ADD COLUMN later INTEGER DEFAULT 9")
    lake.execute("INSERT INTO t VALUES (10, 'v10', 10)")
    laid_out: list[str] = []
    original = _BatchConverter._column_builder

    def record(self: _BatchConverter, column: Any) -> Any:
        laid_out.append(column if isinstance(column, str) else column.name)
        return original(self, column)

    monkeypatch.setattr(_BatchConverter, "_column_builder", record)
    with lake.open(engine=LocalEngine(threads=1)) as ours:
        table = ours.table("t")
        rows = table.scan().to_arrow().sort_by("id")
        once = list(laid_out)
        with_rowid = table.scan(["rowid", "id"]).to_arrow()

    assert rows["later"].to_pylist() == [9] * 10 + [10]
    assert rows["s"].to_pylist() == [f"v{n}" for n in range(11)]
    assert sorted(once) == sorted(["id", "s", "later"] * 2), "files with and without a column"
    assert sorted(with_rowid["rowid"].to_pylist()) == list(range(11)), "row ids differ by file"
