"""A few rows of a large row group are read by DuckDB, and are those that pyarrow would read."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakeport.ducklake import Lake
from lakeport.ducklake.reading.file_shapes import FileShape
from lakeport.ducklake.reading.sparse_rows import pick_rows
from lakeport.filters import col

ROWS = 60_000
VALUES = """
  SELECT i AS id, hash(i) % 20000 AS spread, if(i % 7 = 0, NULL, i::INTEGER) AS small,
    i * 0.25 AS amount, (i * 0.25)::DECIMAL(15, 2) AS price, 'text ' || i AS name,
    if(i % 3 = 0, NULL, 'customer ' || i % 50) AS customer, DATE '2024-01-01' + i::INTEGER AS day,
    make_timestamp(i * 1000000) AS at, make_timestamp(i)::TIMESTAMPTZ AS instant,
    (i % 200)::UTINYINT AS tiny, i % 2 = 0 AS even, i::FLOAT AS single, ('b' || i)::BLOB AS bytes
  FROM range({rows}) r(i)
"""


@pytest.fixture(scope="module")
def uri(reference: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> str:
    """One file of one row group, with deleted rows."""
    folder = tmp_path_factory.mktemp("sparse")
    uri = f"ducklake:sqlite:{folder}/lake.sqlite"
    reference.execute(f"ATTACH '{uri}' AS sparse (DATA_PATH '{folder}/data/')")
    reference.execute(f"CREATE TABLE sparse.t AS {VALUES.format(rows=ROWS)}")
    reference.execute("DELETE FROM sparse.t WHERE id % 1000 = 1")
    reference.execute("DETACH sparse")
    return uri


@pytest.mark.parametrize("number", range(0, 20_000, 1_999))
def test_a_filter_with_few_rows_finds_them_in_a_large_row_group(uri: str, number: int) -> None:
    with Lake.open(uri) as lake:
        found = lake.table("t").scan(filter=col("spread") == number).to_arrow()
        everything = lake.table("t").scan().to_arrow()
    expected = everything.filter(pc.equal(everything["spread"], number))
    assert found.num_rows == expected.num_rows
    assert found.sort_by("id").equals(expected.sort_by("id"))


def test_picked_rows_are_those_of_the_file(tmp_path: Path) -> None:
    path, table = _file(tmp_path / "[a] file*?.parquet")
    rows = np.array([0, 1, 2, 30_000, 59_998, 59_999])
    picked = pick_rows(str(path), _shape(path), tuple(range(len(table.schema))), rows, 0)
    assert picked is not None
    assert [position for position, _ in picked] == [0, 30_000, 59_998]
    assert pa.Table.from_batches([batch for _, batch in picked]).equals(table.take(rows))


def test_columns_come_in_the_requested_order(tmp_path: Path) -> None:
    path, table = _file(tmp_path / "file.parquet")
    fields = tuple(reversed(range(len(table.schema))))
    picked = pick_rows(str(path), _shape(path), fields, np.array([59_999]), 0)
    assert picked is not None
    assert picked[0][1].schema.names == list(reversed(table.schema.names))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1]] * ROWS),
        pa.array([{"a": 1}] * ROWS),
        pa.array([1] * ROWS, pa.timestamp("us", "Europe/Berlin")),
        pa.array(["x"] * ROWS).dictionary_encode(),
        pa.array([b"\xff"] * ROWS).view(pa.string()),
    ],
    ids=["list", "struct", "zone", "dictionary", "not UTF-8"],
)
def test_pyarrow_reads_what_duckdb_reads_differently(tmp_path: Path, column: pa.Array) -> None:
    path, table = _file(tmp_path / "file.parquet", column)
    shape, fields = _shape(path), tuple(range(len(table.schema)))
    rows = np.array([5, ROWS - 1])
    assert pick_rows(str(path), shape, fields, rows, 0) is None
    assert pick_rows(str(path), shape, fields[:-1], rows, 0) is not None


def test_names_that_duckdb_takes_for_one_are_read_by_pyarrow(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    pq.write_table(pa.table([pa.array(range(ROWS))] * 12, names=[*"abcdefghijk", "A"]), path)
    assert pick_rows(str(path), _shape(path), tuple(range(12)), np.array([ROWS - 1]), 0) is None


@pytest.mark.parametrize(
    ("rows", "fields"),
    [(range(0, ROWS, 1_000), 10), ([100], 10), ([ROWS - 1], 2)],
    ids=["many rows", "near the beginning", "few columns"],
)
def test_pyarrow_reads_what_is_not_worth_a_query(
    tmp_path: Path, rows: list[int], fields: int
) -> None:
    path, _ = _file(tmp_path / "file.parquet")
    assert pick_rows(str(path), _shape(path), tuple(range(fields)), np.array(rows), 0) is None


def _file(path: Path, *more: pa.Array) -> tuple[Path, pa.Table]:
    numbers = pa.array(range(ROWS))
    columns = [numbers.cast(type) for type in (pa.int64(), pa.int32(), pa.string(), pa.float64())]
    columns = [*columns * 3, *more]
    table = pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
    pq.write_table(table, path)
    return path, table


def _shape(path: Path) -> FileShape:
    return FileShape(pq.read_schema(path))
