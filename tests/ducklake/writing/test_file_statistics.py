"""The statistics of our files against those that the real implementation records for the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeport.ducklake.writing import WrittenFile
from lakeport.ducklake.writing.files import FileOptions, FileTarget, write_files
from lakeport.ducklake.writing.files.encoding.bounds import cut, texts
from lakeport.types import Column, arrow_type
from tests.ducklake.writing.reference_files import (
    RecordedDataFile,
    arrow_rows,
    data_files,
    of,
)
from tests.fixtures_lakes import RealLake

LONG = "repeat('a', 257)"
# Each list is the content of one file.
TYPES: dict[str, list[list[str]]] = {
    "boolean": [["true", "false", "NULL"], ["true"], ["NULL"]],
    "tinyint": [["-128", "127"], ["NULL", "3"]],
    "smallint": [["-32768", "32767"]],
    "integer": [["-2147483648", "2147483647", "NULL"]],
    "bigint": [["-9223372036854775808", "9223372036854775807"]],
    "utinyint": [["0", "255"]],
    "usmallint": [["0", "65535"]],
    "uinteger": [["0", "4294967295", "7"]],
    "ubigint": [["0", "18446744073709551615", "NULL"]],
    "hugeint": [
        ["5", "-7", "NULL"],
        ["1e15"],
        ["9007199254740993", "-123456789012345678901234567890"],
    ],
    "uhugeint": [["5", "9007199254740992"], ["9007199254740993"]],
    "float": [["1.5", "'nan'", "'-inf'"], ["'inf'"], ["'nan'"], ["0.1", "16777216", "1e-30"]],
    "double": [
        ["'nan'", "2", "-1"],
        ["1e300", "-1e300"],
        ["'nan'", "NULL"],
        ["NULL"],
        ["0.1", "1e16", "123456789012345680", "1e-5"],
        ["'-inf'", "'inf'"],
    ],
    "decimal(4,2)": [["1.50", "-99.99", "NULL"]],
    "decimal(9,0)": [["5", "-7"]],
    "decimal(18,18)": [["0.000000000000000001", "-0.5"]],
    "decimal(20,3)": [["12345678901234567.891", "-0.001"]],
    "decimal(38,2)": [["999999999999999999999999999999999999.99", "-0.01", "NULL"]],
    "date": [
        ["'2024-02-01'", "'0044-03-15 (BC)'"],
        ["'infinity'", "'-infinity'"],
        ["'0001-01-01'", "'9999-12-31'"],
        ["'12345-01-01'", "NULL"],
    ],
    "time": [["'00:00:00'", "'24:00:00'"], ["'01:02:03.000450'", "NULL"]],
    "timestamp": [
        ["'2024-01-02 03:04:05'", "'2024-01-02 03:04:05.500'"],
        ["'infinity'", "'-infinity'"],
        ["'0044-03-15 (BC) 01:02:03.5'", "'1969-12-31 23:59:59.999999'"],
    ],
    "timestamp_s": [["'2024-01-02 03:04:05'", "'1969-12-31 23:59:59'", "NULL"]],
    "timestamp_ms": [["'2024-01-02 03:04:05.120'", "'1960-01-01'"], ["'infinity'", "'-infinity'"]],
    "timestamp_ns": [
        ["'2024-01-02 03:04:05.123456789'", "'1960-01-01'", "NULL"],
        ["'infinity'", "'-infinity'"],
        ["'-infinity'", "'2262-04-11 23:47:16.854775806'"],
    ],
    "timestamptz": [["'2024-01-02 03:04:05+02'", "'infinity'"], ["'2024-06-01 00:00:00.25+00'"]],
    "varchar": [
        ["'b'", "''", "NULL"],
        ["'é'", "'z'", "'日本'"],
        [LONG],
        ["repeat('x', 255) || 'éé'"],
        ["repeat('é', 200)"],
        ["repeat('a', 256)", "repeat('é', 128)"],
        ["'a'", "repeat('b', 5000)"],
        [LONG, "repeat(chr(127), 300)"],
    ],
    "json": [["'{\"a\": 1}'", "'null'", "NULL"], ["'\"' || repeat('é', 200) || '\"'"]],
    "blob": [
        ["'\\x00\\xAA'::BLOB", "'\\xFF'::BLOB", "''::BLOB", "NULL"],
        ["repeat('\\xFF', 300)::BLOB"],
        ["repeat('a', 300)::BLOB", "'b'::BLOB"],
    ],
    "uuid": [
        [
            "'00000000-0000-0000-0000-000000000001'",
            "'ffffffff-0000-0000-0000-000000000001'",
            "'80000000-0000-0000-0000-000000000000'",
            "NULL",
        ]
    ],
    "geometry": [
        ["'POINT (1 2)'", "'LINESTRING Z (1 2 3, 0.5 5 6)'", "NULL"],
        ["'POLYGON ((0 0, 4 0, 4 4, 0 0))'", "'POINT M (1 2 3)'", "'POINT ZM (1 2 3 4)'"],
        ["'MULTIPOINT (1 2, 3 4)'", "'GEOMETRYCOLLECTION (POINT (1 2))'"],
    ],
    "interval": [["INTERVAL 1 MONTH", "NULL"]],
    "timetz": [["'01:02:03+02'", "NULL"]],
    "struct(x integer, y struct(z double))": [
        ["{'x': 1, 'y': {'z': 1.5}}", "NULL", "{'x': NULL, 'y': NULL}"]
    ],
    "integer[]": [["[1, NULL, 3]", "[]", "NULL"], ["[]"], ["NULL"]],
    "integer[][]": [["[[1], [], NULL]", "[]", "NULL"]],
    "map(varchar, struct(a double))": [["MAP {'a': {'a': 1.5}}", "MAP {}", "NULL"]],
    "struct(q varchar)[]": [["[{'q': 'a'}, {'q': NULL}]", "[]", "NULL"]],
    "double[]": [["['nan'::DOUBLE, 1]", "[2]"]],
    "struct(i interval, n integer)": [["{'i': INTERVAL 1 DAY, 'n': 5}", "NULL"]],
}


@dataclass(frozen=True)
class Golden:
    columns: tuple[Column, ...]
    files: list[RecordedDataFile]
    rows: list[pa.Table]


@pytest.fixture(scope="module")
def golden(
    reference: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Golden]]:
    """A table for each type, written by the real implementation: what it recorded, and the rows."""
    folder = tmp_path_factory.mktemp("golden")
    lake = RealLake(
        reference,
        f"ducklake:{folder}/lake.ducklake",
        f"{folder}/data/",
        "DATA_INLINING_ROW_LIMIT 0",
    )
    rows: dict[str, list[pa.Table]] = {}
    for number, (type, files) in enumerate(TYPES.items()):
        lake.execute(f"CREATE TABLE t{number} (v {type})")
        for values in files:
            lake.execute(f"INSERT INTO t{number} VALUES {_rows(values, type)}")
        rows[type] = [
            arrow_rows(lake, f"SELECT * FROM (VALUES {_rows(values, type)}) r(v)")
            for values in files
        ]
    recorded = {type: data_files(lake, f"t{number}") for number, type in enumerate(TYPES)}
    with lake.open() as ours:
        yield {
            type: Golden(ours.table(f"t{number}").columns, recorded[type], rows[type])
            for number, type in enumerate(TYPES)
        }


def _rows(values: list[str], type: str) -> str:
    return ", ".join(f"(CAST({value} AS {type}))" for value in values)


@pytest.mark.parametrize("type", TYPES)
def test_a_file_has_the_statistics_that_the_real_implementation_records(
    type: str, golden: dict[str, Golden], tmp_path: Path
) -> None:
    found = golden[type]
    target = FileTarget(columns=found.columns, directory=f"{tmp_path}/")

    for rows, recorded in zip(found.rows, found.files, strict=True):
        [written] = write_files(target, rows)

        assert of(written) == recorded.columns
        assert written.record_count == recorded.rows


def test_nan_in_any_row_group_is_recorded(tmp_path: Path) -> None:
    """The real implementation keeps the flag of the last row group only."""
    target = FileTarget(
        columns=(Column(id=1, name="x", type="float64"),),
        directory=f"{tmp_path}/",
        options=FileOptions(row_group_rows=2),
    )

    [written] = write_files(target, pa.table({"x": [float("nan"), 1.0, None, 3.0, -4.0]}))

    [column] = written.columns
    assert column.contains_nan is True
    assert (column.min_value, column.max_value) == ("-4.0", "3.0")
    assert (column.value_count, column.null_count) == (4, 1)


def test_duckdb_finds_nan_in_any_row_group(
    tmp_path: Path, reference: duckdb.DuckDBPyConnection
) -> None:
    """DuckDB skips row groups by footer statistics, in which pyarrow leaves NaN out."""
    target = FileTarget(
        columns=(Column(id=1, name="x", type="float64"), Column(id=2, name="y", type="float64")),
        directory=f"{tmp_path}/",
        options=FileOptions(row_group_rows=2),
    )
    nan = float("nan")

    written = write_files(
        target,
        pa.table({"x": [1.0, 2.0, 3.0, nan, 5.0, 6.0], "y": [1.0, 2.0, 3.0, 4.0, nan, 6.0]}),
        threads=1,
    )

    flags = [[column.contains_nan for column in file.columns] for file in written]
    assert flags == [[False, False], [True, False], [False, True]]
    bounds = [[(c.min_value, c.max_value) for c in file.columns] for file in written]
    assert bounds == [
        [("1.0", "2.0"), ("1.0", "2.0")],
        [("3.0", "3.0"), ("3.0", "4.0")],
        [("5.0", "6.0"), ("6.0", "6.0")],
    ]
    for name in ("x", "y"):
        found = reference.execute(
            f"SELECT count(*), count(*) FILTER ({name} = 'nan') FROM '{tmp_path}/*.parquet'"
            f" WHERE {name} > 100"
        ).fetchall()
        assert found == [(1, 1)]


def test_a_null_struct_in_a_list_is_counted_once(tmp_path: Path) -> None:
    """The real implementation counts it twice: no value and four nulls."""
    column = Column(
        id=1,
        name="l",
        type="list",
        children=(
            Column(
                id=2,
                name="element",
                type="struct",
                children=(Column(id=3, name="q", type="varchar"),),
            ),
        ),
    )
    target = FileTarget(columns=(column,), directory=f"{tmp_path}/")

    [written] = write_files(target, pa.table({"l": [[{"q": "a"}, None], [], None]}))

    assert [(c.value_count, c.null_count) for c in written.columns] == [(1, 3)]


def test_a_bound_ends_before_a_null_byte(tmp_path: Path) -> None:
    """PostgreSQL cannot store one; the bounds still contain the values."""
    target = FileTarget(columns=(Column(id=1, name="x", type="varchar"),), directory=f"{tmp_path}/")

    [written] = write_files(target, pa.table({"x": ["a\0b", "c\0"]}))

    assert (written.columns[0].min_value, written.columns[0].max_value) == ("a", "c\x01")


def test_boxes_of_geometries_are_rounded_outwards(
    golden: dict[str, Golden], tmp_path: Path, reference: duckdb.DuckDBPyConnection
) -> None:
    target = FileTarget(columns=golden["geometry"].columns, directory=f"{tmp_path}/")
    points = reference.sql("SELECT 'POINT (0.00000014 -0.00000014)'::GEOMETRY AS v")

    [written] = write_files(target, points.to_arrow_table())

    assert written.columns[0].extra_stats == (
        '{"bbox": {"xmin": 0.000000, "xmax": 0.000001, "ymin": -0.000001, "ymax": 0.000000, '
        '"zmin": null, "zmax": null, "mmin": null, "mmax": null}, "types": ["point"]}'
    )


@given(low=st.binary(max_size=600), high=st.binary(max_size=600), is_text=st.booleans())
def test_cut_bounds_contain_the_bounds(low: bytes, high: bytes, is_text: bool) -> None:
    low, high = sorted((low, high))

    found = cut(low, high, is_text=is_text)

    if found is not None:
        assert found[0] <= low
        assert found[1] >= high
        assert max(map(len, found)) <= 256


@given(st.floats(width=32, allow_nan=False), st.floats(allow_nan=False))
def test_the_texts_of_floats_are_read_as_the_same_floats(single: float, double: float) -> None:
    """DuckDB 1.5.5 prints 2^81 as 4.835703278458517e+24, which is twice as much."""
    columns = [Column(id=1, name="s", type="float32"), Column(id=2, name="d", type="float64")]

    found = texts({0: (columns[0], (single, single)), 1: (columns[1], (double, 2.0**81))})

    assert np.float32(found[0][0]) == np.float32(single)
    assert float(found[1][0] or "nan") == double
    assert found[1][1] == "2.4178516392292583e+24"


SCALARS: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "int8": ("TINYINT", st.integers(-128, 127)),
    "uint64": ("UBIGINT", st.integers(0, 2**64 - 1)),
    "int64": ("BIGINT", st.integers(-(2**63), 2**63 - 1)),
    "float32": ("FLOAT", st.floats(width=32)),
    "float64": ("DOUBLE", st.floats()),
    "decimal(9,3)": ("DECIMAL(9,3)", st.decimals(-999999, 999999, places=3)),
    "decimal(38,3)": ("DECIMAL(38,3)", st.decimals(-(10**30), 10**30, places=3)),
    "date": ("DATE", st.dates()),
    "timestamp": ("TIMESTAMP", st.datetimes()),
    "time": ("TIME", st.times()),
    "varchar": ("VARCHAR", st.text(st.characters(exclude_categories=["Cs"]), max_size=300)),
    "blob": ("BLOB", st.binary(max_size=300)),
    "boolean": ("BOOLEAN", st.booleans()),
}


@settings(max_examples=40, deadline=None)
@given(data=st.data(), type=st.sampled_from(sorted(SCALARS)), groups=st.integers(1, 5))
def test_the_bounds_always_contain_the_values(
    data: st.DataObject,
    type: str,
    groups: int,
    tmp_path_factory: pytest.TempPathFactory,
    reference: duckdb.DuckDBPyConnection,
) -> None:
    sql, strategy = SCALARS[type]
    values = data.draw(st.lists(st.none() | strategy, min_size=1, max_size=30))
    column = Column(id=1, name="v", type=type)
    rows = pa.table({"v": pa.array(values, arrow_type(column))})
    target = FileTarget(
        columns=(column,),
        directory=f"{tmp_path_factory.mktemp('oracle')}/",
        options=FileOptions(row_group_rows=groups),
    )

    files = write_files(target, rows, threads=1)

    starts = [0, *accumulate(file.record_count for file in files)]
    for start, written in zip(starts, files, strict=False):
        _check_bounds(written, rows.slice(start, written.record_count), type, sql, reference)


def _check_bounds(
    written: WrittenFile,
    rows: pa.Table,
    type: str,
    sql: str,
    reference: duckdb.DuckDBPyConnection,
) -> None:
    values = rows.column(0).to_pylist()
    [found] = written.columns
    present = [value for value in values if value is not None]
    assert (found.value_count, found.null_count) == (len(present), len(values) - len(present))
    numbers = [value for value in present if value == value]
    assert found.contains_nan == (None if "float" not in type else len(numbers) < len(present))
    if found.min_value is None or found.max_value is None:
        assert type in ("varchar", "blob") or not numbers
        return
    bounds = "unhex(?)" if type == "blob" else f"CAST(? AS {sql})"
    if type == "boolean":
        bounds = "CAST(CAST(? AS INTEGER) AS BOOLEAN)"
    inside = reference.execute(
        f"SELECT count(*) FROM rows WHERE v IS NOT NULL AND v BETWEEN {bounds} AND {bounds}",
        [found.min_value, found.max_value],
    ).fetchall()
    assert inside[0][0] == len(numbers), (found, values)
