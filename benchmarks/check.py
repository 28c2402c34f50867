"""Compare two result files, and name what became slower by more than the noise.

    python -m benchmarks.check OLD.json NEW.json

ends with status 0 if nothing became slower, 1 if something did, 2 if the files do not compare.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from rich.console import Console
from rich.table import Table

__all__ = ["Change", "Interval", "NotComparableError", "changes", "main", "median_interval"]

LEAST_CHANGE: Final = 0.05
"""A change of less than this share is not reported, however small the noise."""
_BUSY: Final = 0.15
_SAME_MACHINE: Final = ("cores", "memory_gib", "system", "architecture")

Verdict = Literal["slower", "faster", "same"]


class NotComparableError(Exception):
    """The two files have nothing that can be compared."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A value, and the range in which it lies with a probability of about 95 %."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Change:
    """One figure in both files, as a cost: a higher value is slower or needs more memory."""

    name: str
    old: Interval
    new: Interval

    @property
    def factor(self) -> float:
        """How many times the old cost the new one is."""
        return self.new.value / self.old.value if self.old.value else math.inf

    @property
    def verdict(self) -> Verdict:
        """Whether the ranges are apart, and the values by more than `LEAST_CHANGE`."""
        if self.new.low > self.old.high and self.factor > 1 + LEAST_CHANGE:
            return "slower"
        if self.new.high < self.old.low and self.factor < 1 / (1 + LEAST_CHANGE):
            return "faster"
        return "same"


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return every figure and every point of a curve that both results have.

    Times without a baseline of the same run are left out if the machines differ.
    """
    if old["size"] != new["size"]:
        raise NotComparableError(f"the sizes differ: {old['size']} and {new['size']}")
    is_same = all(old["machine"].get(key) == new["machine"].get(key) for key in _SAME_MACHINE)
    before, after = dict(_costs(old, absolute=is_same)), dict(_costs(new, absolute=is_same))
    found = [Change(name, before[name], after[name]) for name in before if name in after]
    if not found:
        raise NotComparableError("the files have no figure in common")
    return found


def _costs(result: Mapping[str, Any], *, absolute: bool) -> Iterator[tuple[str, Interval]]:
    for figure in result["figures"]:
        # The baseline is a text with the time of that run at its end.
        baseline = figure["baseline"].rpartition(": ")[0] or figure["baseline"]
        name = f"{figure['benchmark']}: {figure['name']} (against {baseline})"
        if figure["unit"] in ("ratio", "share"):
            yield name, _relative(figure)
        elif absolute:
            yield f"{figure['benchmark']}: {figure['name']}", _absolute(figure)
    for curve in result["curves"] if absolute else ():
        for point in curve["points"]:
            name = f"{curve['benchmark']}: {curve['name']}, {point['size']:,.0f} {curve['axis']}"
            yield name, median_interval(point["seconds"])


def _relative(figure: Mapping[str, Any]) -> Interval:
    """Return our time as a multiple of the baseline's, from the rounds of both."""
    ours, other = figure["seconds"].get("measured"), figure["seconds"].get("baseline")
    if ours and other and len(ours) == len(other):
        return median_interval([a / b for a, b in zip(ours, other, strict=True)])
    value, low, high = figure["value"], figure["low"], figure["high"]
    if figure["unit"] == "ratio":  # of throughputs
        return Interval(1 / value, 1 / high, 1 / low)
    return Interval(value, low, high)


def _absolute(figure: Mapping[str, Any]) -> Interval:
    return Interval(figure["value"], figure["low"], figure["high"])


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median and its 95 % confidence interval, by order statistics.

    The interval of fewer than six values is their whole range.
    """
    ordered = sorted(values)
    count = len(ordered)
    half = count // 2
    median = ordered[half] if count % 2 else (ordered[half - 1] + ordered[half]) / 2
    reach = 1.96 * math.sqrt(count) / 2
    first = max(0, math.floor(count / 2 - reach)) if count >= 6 else 0
    last = min(count - 1, math.ceil(count / 2 + reach)) if count >= 6 else count - 1
    return Interval(median, ordered[first], ordered[last])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the changes, and return the exit status."""
    parser = argparse.ArgumentParser(prog="make bench-check", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    chosen = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 160)
    try:
        old, new = (json.loads(path.read_text()) for path in (chosen.old, chosen.new))
        found = changes(old, new)
    except (OSError, ValueError, KeyError, NotComparableError) as error:
        console.print(f"{chosen.old} and {chosen.new} do not compare: {error}", markup=False)
        return 2
    for path, result in ((chosen.old, old), (chosen.new, new)):
        if result["machine"].get("busy_before", 0) > _BUSY:
            console.print(f"{path}: the machine was busy: ratios of times mean little")
    table = Table("", "measured", "before", "after", "times")
    for change in found:
        if change.verdict != "same":
            color = "red" if change.verdict == "slower" else "green"
            cells = (_text(change.old), _text(change.new), f"{change.factor:.2f}")
            table.add_row(f"[{color}]{change.verdict}", change.name, *cells)
    if table.row_count:
        console.print(table)
    slower = sum(change.verdict == "slower" for change in found)
    faster = sum(change.verdict == "faster" for change in found)
    console.print(f"{len(found)} figures: {slower} slower, {faster} faster, the rest within noise")
    return 1 if slower else 0


def _text(interval: Interval) -> str:
    return f"{interval.value:.3g} ({interval.low:.3g} … {interval.high:.3g})"


if __name__ == "__main__":
    sys.exit(main())
