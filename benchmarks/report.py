"""The results of a run: as a table for people, and as JSON to keep."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Group
from rich.table import Table

from benchmarks.growth_fit import Curve
from benchmarks.measure import Figure, Sample, Skipped
from benchmarks.suite import Result

__all__ = ["BUSY", "Report", "goal_text", "value_text"]

BUSY: Final = "The machine was busy: ratios of times mean little."
_BUSY: Final = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that one run found out."""

    size: str
    started: datetime
    seconds: float
    machine: dict[str, Any]
    results: tuple[tuple[str, Result], ...]
    """With the name of the benchmark that each belongs to."""

    @property
    def figures(self) -> list[Figure]:
        """The figures alone."""
        return [result for _, result in self.results if isinstance(result, Figure)]

    @property
    def curves(self) -> list[Curve]:
        """The growth curves alone."""
        return [result for _, result in self.results if isinstance(result, Curve)]

    @property
    def skipped(self) -> list[Skipped]:
        """What could not be measured."""
        return [result for _, result in self.results if isinstance(result, Skipped)]

    @property
    def was_busy(self) -> bool:
        """Whether others used the machine: processes that share cores are then favoured."""
        return bool(self.machine["busy_before"] > _BUSY)

    def tables(self) -> Group:
        """Return the printed report."""
        title = f"Lakeport, size {self.size}"
        figures = Table("measured", "median", "from … to", "baseline", "goal", "", title=title)
        for each in self.figures:
            figures.add_row(
                each.name,
                value_text(each, each.value),
                f"{value_text(each, each.low)} … {value_text(each, each.high)}",
                each.baseline,
                goal_text(each),
                {True: "[green]met", False: "[red]missed", None: ""}[each.met],
            )
        curves = Table("grows with", "measured", "times", "exponent", "", title="Growth")
        for curve in self.curves:
            times = ", ".join(f"{p.size:,.0f}: {p.sample.median:.3g} s" for p in curve.points)
            exponent = f"{curve.exponent:.2f} ± {2 * curve.error:.2f}"
            curves.add_row(curve.axis, curve.name, times, exponent, curve.verdict)
        notes = [f"Not measured: {each.name}: {each.reason}." for each in self.skipped]
        if self.was_busy:
            notes.append(f"[red]{BUSY}")
        return Group(figures, *([curves] if self.curves else []), *notes)

    def save(self, path: Path) -> None:
        """Write everything, each repetition included."""
        document = {
            "size": self.size,
            "started": self.started.isoformat(timespec="seconds"),
            "seconds": round(self.seconds),
            "machine": self.machine,
            "figures": [
                {"benchmark": name, **_figure(result)}
                for name, result in self.results
                if isinstance(result, Figure)
            ],
            "curves": [
                {"benchmark": name, **_curve(result)}
                for name, result in self.results
                if isinstance(result, Curve)
            ],
            "skipped": [{"name": each.name, "reason": each.reason} for each in self.skipped],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def value_text(figure: Figure, value: float) -> str:
    """Return a value with its unit."""
    match figure.unit:
        case "ratio":
            return f"{value:.2f}"
        case "share":
            return f"{value:.1%}"
        case "ms":
            return f"{value:.1f} ms"
        case _:
            return f"{value:,.0f} MiB"


def goal_text(figure: Figure) -> str:
    """Return the goal in words, or nothing."""
    if figure.goal is None:
        return ""
    return f"{figure.goal.kind} {value_text(figure, figure.goal.bound)}"


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        "unit": figure.unit,
        "value": _rounded(figure.value),
        "low": _rounded(figure.low),
        "high": _rounded(figure.high),
        "baseline": figure.baseline,
        "goal": goal_text(figure) or None,
        "met": figure.met,
        "seconds": {name: _seconds(sample) for name, sample in figure.samples.items()},
    }


def _curve(curve: Curve) -> dict[str, Any]:
    return {
        "name": curve.name,
        "axis": curve.axis,
        "exponent": _rounded(curve.exponent),
        "error": _rounded(curve.error),
        "verdict": curve.verdict,
        "points": [{"size": p.size, "seconds": _seconds(p.sample)} for p in curve.points],
    }


def _seconds(sample: Sample) -> list[float]:
    return [_rounded(value) for value in sample.seconds]


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
