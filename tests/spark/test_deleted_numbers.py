"""The deleted positions of files as one array of numbers, without Spark."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.spark.frames import parquet_frames
from lakeport.spark.frames.parquet_footers import Footer
from lakeport.spark.frames.parquet_frames import deleted_numbers


def footer(size: int, rows: int) -> Footer:
    return Footer(size=size, length=8, rows=rows, fields=())


def is_deleted(numbers: np.ndarray, slots: int, size: int, position: int) -> bool:
    """The filter that Spark runs for each row."""
    assert numbers[slots + size % slots] == size
    word = int(numbers[numbers[size % slots] + (position >> 6)])
    return word >> (position & 63) & 1 == 1


FILES = st.dictionaries(
    st.integers(4, 1 << 36),
    st.integers(0, 300).flatmap(
        lambda rows: st.tuples(
            st.just(rows), st.sets(st.integers(0, rows - 1)) if rows else st.just(set())
        )
    ),
    min_size=1,
    max_size=20,
)


@given(FILES)
def test_each_row_is_deleted_exactly_if_its_position_is_listed(
    files: dict[int, tuple[int, set[int]]],
) -> None:
    footers = [footer(size, rows) for size, (rows, _) in files.items()]
    deleted = [np.array(sorted(positions), np.int64) for _, positions in files.values()]

    made = deleted_numbers(footers, deleted)

    assert made is not None
    numbers, slots = made
    for size, (rows, positions) in files.items():
        found = {row for row in range(rows) if is_deleted(numbers, slots, size, row)}
        assert found == positions


def test_a_position_outside_of_its_file_deletes_no_row_of_another() -> None:
    made = deleted_numbers(
        [footer(1, 3), footer(2, 300)], [np.array([2, 3, 64, 70]), np.array([], np.int64)]
    )

    assert made is not None
    assert is_deleted(*made, 1, 2)
    assert not any(is_deleted(*made, 2, position) for position in range(300))


def test_bitmaps_that_are_too_large_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_frames, "MAX_BITMAP_BYTES", 1000)

    assert deleted_numbers([footer(1, 7000)], [np.array([1])]) is not None
    assert deleted_numbers([footer(1, 8000)], [np.array([1])]) is None


def test_files_of_many_rows_are_not_made_into_numbers() -> None:
    most = parquet_frames.MAX_FILTERED_ROWS

    assert deleted_numbers([footer(1, most)], [np.array([1])]) is not None
    assert deleted_numbers([footer(1, most), footer(2, 1)], [np.array([1])] * 2) is None


def test_files_without_different_remainders_are_not_made_into_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parquet_frames, "MAX_SLOTS", 10)
    sizes = [2520 * number for number in range(1, 4)]

    assert deleted_numbers([footer(size, 1) for size in sizes], [np.array([0])] * 3) is None
