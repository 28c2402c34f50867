"""Timing that survives a noisy machine: interleaved repetitions, medians, spreads."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["Figure", "Sample", "interleaved", "latencies"]


@dataclass(frozen=True, slots=True)
class Sample:
    """The seconds that repetitions of one thing took."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle repetition."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """How far the repetitions lie apart, as a share of the median."""
        return (max(self.seconds) - min(self.seconds)) / self.median

    def percentile(self, percent: int) -> float:
        """The repetition that so many percent are not slower than."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the report."""

    name: str
    """What was measured."""
    value: str
    """The result, with its unit."""
    baseline: str
    """What it is compared with, measured in the same run."""
    goal: str
    """What is wanted."""
    met: bool | None
    """Whether the goal is met; None where there is none."""
    spread: float = 0.0
    """How far repetitions lie apart."""


def interleaved(
    runs: Mapping[str, Callable[[], object]], *, repeats: int, warmups: int = 1
) -> dict[str, Sample]:
    """Time several things in turn, so that a slow moment of the machine hits all of them.

    Every other round goes backwards: whoever always ran second would find the machine warm.
    """
    for _ in range(warmups):
        for run in runs.values():
            run()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(repeats):
        order = list(runs.items())
        for name, run in order if number % 2 == 0 else reversed(order):
            gc.collect()
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    return {name: Sample(tuple(values)) for name, values in seconds.items()}


def latencies(run: Callable[[], object], *, repeats: int, warmups: int = 5) -> Sample:
    """Time one short thing many times."""
    return interleaved({"run": run}, repeats=repeats, warmups=warmups)["run"]
