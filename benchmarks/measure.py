"""Timing that survives a noisy machine: interleaved repetitions, medians, what lies around them."""

from __future__ import annotations

import contextlib
import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import psutil

__all__ = ["Figure", "Goal", "Sample", "Skipped", "interleaved", "latencies", "metered"]

Unit = Literal["ratio", "share", "ms", "MiB"]


@dataclass(frozen=True, slots=True)
class Sample:
    """The seconds that repetitions of one thing took."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle repetition."""
        return statistics.median(self.seconds)

    def percentile(self, percent: int) -> float:
        """Return the duration that this percentage of repetitions do not exceed."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]

    def fifths(self) -> list[Sample]:
        """Return the repetitions in five parts, in the order in which they were made."""
        size = max(1, len(self.seconds) // 5)
        return [Sample(self.seconds[i : i + size]) for i in range(0, len(self.seconds), size)]


@dataclass(frozen=True, slots=True)
class Goal:
    """What is wanted of a figure."""

    bound: float
    kind: Literal["at least", "less than"] = "at least"

    def met(self, value: float) -> bool:
        """Whether a value is as wanted."""
        return value >= self.bound if self.kind == "at least" else value < self.bound

    def margin(self, value: float) -> float:
        """How many times better than wanted; below one where it is missed."""
        return value / self.bound if self.kind == "at least" else self.bound / value


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the report."""

    name: str
    """What was measured."""
    value: float
    """The median of the repetitions, in the unit."""
    low: float
    high: float
    """How far the repetitions lie apart."""
    unit: Unit
    """`ratio` of throughputs and `share` of a time, both to the baseline; `ms`; `MiB`."""
    baseline: str
    """What it is compared with, measured in the same run."""
    goal: Goal | None = None
    samples: Mapping[str, Sample] = field(default_factory=dict)
    """Every repetition, of both sides."""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None where there is none."""
        return None if self.goal is None else self.goal.met(self.value)

    @property
    def ratios(self) -> tuple[float, ...]:
        """The ratio of throughputs of each round."""
        pairs = zip(self.samples["measured"].seconds, self.samples["baseline"].seconds, strict=True)
        return tuple(other / ours for ours, other in pairs)

    @classmethod
    def throughput(
        cls, name: str, ours: Sample, other: Sample, baseline: str, at_least: float | None = None
    ) -> Figure:
        """How fast we are relative to something that was timed in the same rounds."""
        ratios = [b / a for a, b in zip(ours.seconds, other.seconds, strict=True)]
        return cls(
            name=name,
            value=statistics.median(ratios),
            low=min(ratios),
            high=max(ratios),
            unit="ratio",
            baseline=f"{baseline}: {_seconds(other.median)}",
            goal=None if at_least is None else Goal(at_least),
            samples={"measured": ours, "baseline": other},
        )

    @classmethod
    def share(
        cls, name: str, ours: Sample, other: Sample, baseline: str, less_than: float | None = None
    ) -> Figure:
        """How much of another time, of the same rounds, something takes."""
        shares = [a / b for a, b in zip(ours.seconds, other.seconds, strict=True)]
        return cls(
            name=name,
            value=statistics.median(shares),
            low=min(shares),
            high=max(shares),
            unit="share",
            baseline=f"{baseline}: {_seconds(other.median)}",
            goal=None if less_than is None else Goal(less_than, "less than"),
            samples={"measured": ours, "baseline": other},
        )

    @classmethod
    def latency(
        cls,
        name: str,
        sample: Sample,
        baseline: str,
        *,
        percent: int = 50,
        less_than: float | None = None,
    ) -> Figure:
        """Return a short time, in milliseconds; `less_than` is in seconds."""
        parts = [part.percentile(percent) * 1000 for part in sample.fifths()]
        return cls(
            name=name,
            value=sample.percentile(percent) * 1000,
            low=min(parts),
            high=max(parts),
            unit="ms",
            baseline=baseline,
            goal=None if less_than is None else Goal(less_than * 1000, "less than"),
            samples={"measured": sample},
        )


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that could not be measured here."""

    name: str
    reason: str
    failed: bool = False
    """Whether it should have been."""


def interleaved(
    runs: Mapping[str, Callable[[], object]],
    *,
    repeats: int,
    warmups: int = 1,
    same: bool = False,
) -> dict[str, Sample]:
    """Time several things in turn, so that a slow moment of the machine hits all of them.

    Every other round goes backwards: whoever always ran second would find the machine warm. With
    `same`, all of them must give the same result.
    """
    for _ in range(warmups):
        results = {name: run() for name, run in runs.items()}
        if same and len(set(results.values())) > 1:
            raise RuntimeError(f"the results differ: {results}")
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    # What lives already is left alone from here on, so that collecting costs next to nothing.
    gc.collect()
    gc.freeze()
    for number in range(repeats):
        order = list(runs.items())
        for name, run in order if number % 2 == 0 else reversed(order):
            gc.collect()
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    gc.unfreeze()
    return {name: Sample(tuple(values)) for name, values in seconds.items()}


def metered(run: Callable[[], object], seconds: list[float]) -> Callable[[], object]:
    """Measure the same, with the CPU time of this process and its children."""

    def measured() -> object:
        before = _cpu_seconds()
        result = run()
        seconds.append(_cpu_seconds() - before)
        return result

    return measured


def latencies(run: Callable[[], object], *, repeats: int, warmups: int = 5) -> Sample:
    """Time one short thing many times."""
    return interleaved({"run": run}, repeats=repeats, warmups=warmups)["run"]


def _cpu_seconds() -> float:
    driver = psutil.Process()
    total = 0.0
    for process in (driver, *driver.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.3g} ms"
