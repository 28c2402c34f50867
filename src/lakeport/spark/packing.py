"""Which scan tasks share a Spark task.

A Spark task costs some ten milliseconds before it reads anything, a small file two. So a large file
is a Spark task of its own, and small ones share one, as long as there is work for all cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakeport.spark.push import ReadTask

__all__ = ["is_small", "packed"]

_MAX_BYTES: Final = 8 * 1024 * 1024
_MIN_BYTES: Final = 1024 * 1024
# What opening a file costs, as the bytes that could be read meanwhile.
_OPENING: Final = 128 * 1024
_SPARK_TASKS_PER_CORE: Final = 4
_SMALL_SCAN: Final = 32 * 1024 * 1024

Numbered = tuple[int, ReadTask]


def packed(tasks: Sequence[Numbered], cores: int) -> list[list[Numbered]]:
    """The tasks in groups, in their order; those that do not say their `estimated_bytes` alone."""
    weights = [getattr(task, "estimated_bytes", _MAX_BYTES) + _OPENING for _, task in tasks]
    share = sum(weights) // (cores * _SPARK_TASKS_PER_CORE)
    room = max(_MIN_BYTES, min(_MAX_BYTES, share))
    groups: list[list[Numbered]] = []
    left = 0
    for task, weight in zip(tasks, weights, strict=True):
        if weight > left:
            groups.append([])
            left = room
        groups[-1].append(task)
        left -= weight
    return groups


def is_small(tasks: Sequence[ReadTask]) -> bool:
    """Return whether tasks are one short Spark task; those of unknown size are not."""
    sizes = [getattr(task, "estimated_bytes", _SMALL_SCAN) + _OPENING for task in tasks]
    if len(sizes) == 1:
        return sizes[0] < _SMALL_SCAN
    return 0 < sum(sizes) <= _MIN_BYTES
