"""The deleted positions of files as bits for Spark's tasks, without Spark."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.spark.frames import lake_files
from lakeport.spark.frames.lake_files import deleted_bits


def positions_of(bits: bytes) -> set[int]:
    """Read the bits as Java does."""
    (count,) = struct.unpack_from(">i", bits)
    words = struct.unpack(f">{count}q", bits[4:])
    return {row for row in range(count * 64) if words[row >> 6] >> (row & 63) & 1}


FILES = st.lists(
    st.integers(1, 300).flatmap(
        lambda rows: st.tuples(st.just(rows), st.sets(st.integers(0, rows - 1)))
    ),
    max_size=20,
)


@given(FILES)
def test_the_bits_of_each_file_are_its_deleted_positions(files: list[tuple[int, set[int]]]) -> None:
    made = deleted_bits(
        [rows for rows, _ in files], [np.array(sorted(d), np.int64) for _, d in files]
    )

    assert made is not None
    assert [positions_of(bits) for bits in made] == [deleted for _, deleted in files]


def test_positions_outside_of_a_file_are_left_out() -> None:
    made = deleted_bits([3, 300], [np.array([-1, 2, 3, 1 << 40]), np.array([], np.int64)])

    assert made is not None
    assert [positions_of(bits) for bits in made] == [{2}, set()]


@pytest.mark.parametrize(("limit", "most"), [("MAX_BYTES_OF_FILE", 8), ("MAX_BYTES", 16)])
def test_bits_that_are_too_many_are_not_made(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(lake_files, limit, most)

    assert deleted_bits([200, 200], [np.array([63]), np.array([63])]) is not None
    assert deleted_bits([200, 200], [np.array([64]), np.array([64])]) is None
