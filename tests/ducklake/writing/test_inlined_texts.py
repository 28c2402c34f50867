"""The texts of plain values that are written without DuckDB, beside those of DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import date, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeport.ducklake.writing.inlining.texts import plain_values, text_of

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "float64": (pa.float64(), st.floats() | st.floats(-1e15, 1e15) | st.integers(-9, 9)),
    "varchar": (pa.string(), st.text(max_size=20)),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us"), st.datetimes()),
}


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(duckdb.connect()) as connection:
        yield connection


@pytest.mark.parametrize("type", TYPES)
def test_texts_are_those_of_duckdb(type: str, duck: duckdb.DuckDBPyConnection) -> None:
    arrow, strategy = TYPES[type]

    @settings(deadline=None)
    @given(st.lists(strategy, min_size=1, max_size=16))
    def check(values: list[Any]) -> None:
        array = pa.array(values, arrow)
        plain = plain_values(type, array)
        if plain is None:
            return
        source = pa.table({"v": array})
        cast = duck.from_arrow(source).project("CAST(v AS VARCHAR)").fetchall()
        assert [text_of(type, value) for value in plain] == [text for (text,) in cast]

    check()


@pytest.mark.parametrize(
    ("type", "values"),
    [
        ("float64", [float("nan")]),
        ("float64", [1e300]),
        ("float64", [-0.0]),
        ("decimal(9,2)", [1]),
        ("int64", list(range(17))),
    ],
)
def test_other_values_are_left_to_duckdb(type: str, values: list[Any]) -> None:
    assert plain_values(type, pa.array(values)) is None


def test_dates_that_python_lacks_are_left_to_duckdb() -> None:
    before = (date(1, 1, 1) - date(1970, 1, 1)) - timedelta(days=1)

    assert plain_values("date", pa.array([before.days], pa.int32()).cast(pa.date32())) is None


def test_values_with_nulls() -> None:
    moments = pa.array([None, datetime(2024, 1, 1, 12, 0, 0, 120_000)], pa.timestamp("us"))

    values = plain_values("timestamp", moments)

    assert values is not None
    assert [text_of("timestamp", value) for value in values] == [None, "2024-01-01 12:00:00.12"]
