"""Which scan tasks share a Spark task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from lakeport.spark.transport.job import group_tasks

MIB = 1024 * 1024


@dataclass(frozen=True)
class Sized:
    estimated_bytes: int

    def read(self) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


class Unsized:
    def read(self) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([], []),
        ([10], [1]),
        ([10] * 5, [5]),
        ([20 * MIB] * 12, [1] * 12),
        ([20 * MIB, 10, 10, 20 * MIB, 10], [1, 2, 1, 1]),
        ([3 * MIB] * 64, [2] * 32),
    ],
)
def test_small_tasks_share_and_large_ones_do_not(sizes: list[int], groups: list[int]) -> None:
    tasks = list(enumerate(map(Sized, sizes)))

    found = group_tasks(tasks, 2)

    assert [len(group) for group in found] == groups
    assert [task for group in found for task in group] == tasks


def test_many_small_tasks_are_spread_over_all_cores() -> None:
    found = group_tasks(list(enumerate([Sized(1000)] * 10_000)), 4)

    assert 16 <= len(found) <= 1000


def test_tasks_that_do_not_say_how_large_they_are_are_alone() -> None:
    assert len(group_tasks(list(enumerate([Unsized()] * 9)), 1)) == 9
