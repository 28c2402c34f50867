"""The results of a run as a picture: figures against their goals, and how cost grows."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measure import Figure
from benchmarks.report import BUSY, Report, goal_text, value_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from benchmarks.growth_fit import Curve

__all__ = ["draw"]

# Okabe and Ito: told apart by everybody, in print too.
_MET: Final = "#0072B2"
_MISSED: Final = "#D55E00"
_LINES: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
_GREY: Final = "#666666"

_WIDTH: Final = 10.0
_COLUMNS: Final = 3
_LIMIT: Final = 8.0

_STYLE: Final[Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "svg.fonttype": "none",
    "svg.hashsalt": "lakeport",
}


def draw(report: Report, path: Path) -> None:
    """Write the picture as SVG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context(_STYLE):
        figures = [figure for figure in report.figures if figure.goal is not None]
        by_axis: dict[str, list[Curve]] = {}
        for curve in report.curves:
            by_axis.setdefault(curve.axis, []).append(curve)
        rows = -(-len(by_axis) // _COLUMNS)
        heights = [1.2 + 0.36 * len(figures), 2.7 * max(rows, 0.1)]
        canvas = Canvas(figsize=(_WIDTH, sum(heights)), layout="constrained")
        # Two parts with margins of their own: the names of the bars are long.
        parts: Any = canvas.subfigures(2, 1, height_ratios=heights)
        upper, lower = parts
        upper.suptitle(_title(report), fontsize=8, color=_GREY, x=0.01, ha="left")
        _bars(upper.add_subplot(), figures)
        for number, (axis, curves) in enumerate(by_axis.items()):
            _growth(lower.add_subplot(rows, _COLUMNS, number + 1), axis, curves)
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, format="svg", metadata={"Date": None}, facecolor="white")


def _bars(axes: Axes, figures: list[Figure]) -> None:
    """One bar for each goal, from where it is met exactly."""
    for row, figure in enumerate(figures):
        margin = _margin(figure, figure.value)
        edges = [_margin(figure, figure.low), _margin(figure, figure.high)]
        color = _MET if figure.met else _MISSED
        axes.barh(row, margin - 1, left=1, height=0.6, color=color, zorder=2)
        axes.plot(edges, [row, row], color="black", linewidth=1, zorder=3)
        text = f"{value_text(figure, figure.value)}, {goal_text(figure)}"
        weight = "normal" if figure.met else "bold"
        axes.text(_LIMIT * 1.15, row, text, va="center", fontsize=8, fontweight=weight)
    axes.set_title("Against the goals", loc="left")
    axes.set_xscale("log", base=2)
    axes.set_xlim(1 / _LIMIT, _LIMIT)
    ticks = [1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8]
    axes.set_xticks(ticks, ["⅛ or less", "¼", "½", "goal", "2", "4", "8 or more"])
    axes.set_yticks(range(len(figures)), [_short(figure) for figure in figures], fontsize=8)
    axes.set_ylim(len(figures) - 0.5, -0.5)
    axes.axvline(1, color="black", linewidth=1, zorder=4)
    axes.grid(axis="x", color="#dddddd", zorder=0)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("times better than the goal (orange: missed); thin lines span the repetitions")


def _margin(figure: Figure, value: float) -> float:
    """How many times better than the goal, as far as the picture goes."""
    assert figure.goal is not None
    return min(max(figure.goal.margin(value), 1 / _LIMIT), _LIMIT)


def _growth(axes: Axes, axis: str, curves: list[Curve]) -> None:
    """Return the curves of one axis, beside a line that is linear."""
    from matplotlib.ticker import NullFormatter, NullLocator, StrMethodFormatter

    times = [second for curve in curves for p in curve.points for second in p.sample.seconds]
    for curve, color in zip(curves, _LINES, strict=False):
        points = [point for point in curve.points if point.size > 0]
        sizes = [point.size for point in points]
        medians = [point.sample.median for point in points]
        label = f"{curve.name}: exponent {curve.exponent:.2f}"
        axes.plot(sizes, medians, marker="o", markersize=4, color=color, label=label, zorder=3)
        for point in points:
            seconds = point.sample.seconds
            axes.plot([point.size] * 2, [min(seconds), max(seconds)], color=color, linewidth=1)
        if curve is curves[0]:
            linear = [medians[-1] * size / sizes[-1] for size in sizes]
            axes.plot(sizes, linear, color=_GREY, linewidth=1, linestyle=":", label="linear")
    axes.set_xscale("log")
    axes.set_yscale("log")
    measured = sorted({point.size for point in curves[0].points if point.size > 0})
    axes.set_xticks(measured, [_compact(size) for size in measured])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    low, high = min(times) / 1.3, max(times) * 1.3
    axes.set_ylim(low, high * (high / low) ** 0.5)  # room for the legend
    axes.set_title(f"Seconds by {axis}", loc="left")
    axes.grid(color="#eeeeee", zorder=0)
    axes.legend(fontsize=7, frameon=False, loc="upper left")


def _short(figure: Figure) -> str:
    """Return a description of the measurement, in lines that fit."""
    against = ""
    if figure.unit in ("ratio", "share"):
        against = " against " + figure.baseline.rpartition(":")[0].partition(",")[0]
    return textwrap.fill(figure.name + against, 58, max_lines=2, placeholder=" …")


def _compact(size: float) -> str:
    """Return a size in few letters."""
    for unit, factor in (("M", 1_000_000), ("k", 1_000)):
        if size >= factor:
            return f"{size / factor:g}{unit}"
    return f"{size:g}"


def _title(report: Report) -> str:
    machine = report.machine
    busy = f" {BUSY}" if report.was_busy else ""
    return (
        f"Lakeport {machine['lakeport']}, size {report.size}, {report.started:%Y-%m-%d}: "
        f"{machine['cores']} cores, {machine['memory_gib']:.0f} GiB, Python {machine['python']}, "
        f"pyarrow {machine['pyarrow']}, pyspark {machine['pyspark']}, "
        f"duckdb {machine['duckdb']}.{busy}"
    )
