"""How a cost grows: times at several sizes, and the exponent of the power that fits them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.measure import Sample, interleaved

__all__ = ["Curve", "Point", "grow"]

# Twice as much may take a little more than twice as long before we call it worse than linear.
LINEAR: Final = 1.1


@dataclass(frozen=True, slots=True)
class Point:
    """How long something took at one size."""

    size: float
    sample: Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """How long something took at growing sizes."""

    name: str
    """What was measured."""
    axis: str
    """What grows."""
    points: tuple[Point, ...]

    @property
    def exponent(self) -> float:
        """The power of the size that the times follow, by least squares of the logarithms."""
        return self._fit()[0]

    @property
    def error(self) -> float:
        """The standard error of the exponent."""
        return self._fit()[1]

    @property
    def steepest(self) -> tuple[float, Point, Point]:
        """The exponent between two neighbouring sizes where it is highest.

        The slowest repetition of the smaller size is compared with the quickest of the larger one,
        so that noise alone makes no curve look steep.
        """
        return max(
            (
                _exponent(a.size, max(a.sample.seconds), b.size, min(b.sample.seconds)),
                a,
                b,
            )
            for a, b in itertools.pairwise(self._positive())
        )

    @property
    def verdict(self) -> str:
        """Whether it grows worse than linear, and where."""
        exponent, error = self._fit()
        if exponent - 2 * error > LINEAR:
            return "worse than linear"
        steepest, a, b = self.steepest
        if steepest > LINEAR:
            return f"worse than linear from {a.size:,.0f} to {b.size:,.0f} ({steepest:.2f})"
        return "linear" if exponent > 0.9 else "better than linear"

    def _positive(self) -> list[Point]:
        """Return the points that have a logarithm."""
        return [point for point in self.points if point.size > 0]

    def _fit(self) -> tuple[float, float]:
        pairs = [
            (point.size, second) for point in self._positive() for second in point.sample.seconds
        ]
        sizes, seconds = (np.log(np.array(values)) for values in zip(*pairs, strict=True))
        centred = sizes - sizes.mean()
        slope = float((centred * seconds).sum() / (centred**2).sum())
        rest = seconds - seconds.mean() - slope * centred
        variance = float((rest**2).sum()) / max(1, len(pairs) - 2)
        return slope, math.sqrt(variance / float((centred**2).sum()))


def grow(
    axis: str,
    sizes: Iterable[float],
    at: Callable[[float], AbstractContextManager[Mapping[str, Callable[[], object]]]],
    *,
    repeats: int,
    same: bool = True,
) -> Iterator[Curve]:
    """Time things at each size, in turn; `at` makes a size ready and says what to run by name."""
    points: dict[str, list[Point]] = {}
    for size in sizes:
        with at(size) as runs:
            for name, sample in interleaved(runs, repeats=repeats, same=same).items():
                points.setdefault(name, []).append(Point(size, sample))
    for name, found in points.items():
        yield Curve(name=name, axis=axis, points=tuple(found))


def _exponent(size: float, seconds: float, larger: float, longer: float) -> float:
    return math.log(longer / seconds) / math.log(larger / size)
