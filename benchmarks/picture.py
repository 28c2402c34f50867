"""The results of a run as a picture: figures against their goals, and how cost grows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measure import Figure
from benchmarks.report import Report, goal_text, value_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from benchmarks.curves import Curve

__all__ = ["draw"]

# Okabe and Ito: told apart by everybody, in print too.
_MET: Final = "#0072B2"
_MISSED: Final = "#D55E00"
_LINES: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
_GREY: Final = "#666666"

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
        rows = -(-len(by_axis) // 3)
        heights = [0.6 + 0.3 * len(figures), *([2.6] * rows)]
        canvas = Canvas(figsize=(10, sum(heights) + 0.9), layout="constrained")
        grid = canvas.add_gridspec(1 + rows, 3, height_ratios=heights)
        _bars(canvas.add_subplot(grid[0, :]), figures)
        for number, (axis, curves) in enumerate(by_axis.items()):
            _growth(canvas.add_subplot(grid[1 + number // 3, number % 3]), axis, curves)
        canvas.suptitle(_title(report), fontsize=9, color=_GREY, x=0.01, ha="left")
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, format="svg", metadata={"Date": None}, facecolor="white")


def _bars(axes: Axes, figures: list[Figure]) -> None:
    """One bar for each goal, from where it is met exactly."""
    axes.set_title("Against the goals", loc="left")
    if not figures:
        axes.set_axis_off()
        return
    for row, figure in enumerate(figures):
        assert figure.goal is not None
        margin = min(max(figure.goal.margin(figure.value), 1 / 8), 8)
        edges = sorted(
            min(max(figure.goal.margin(value), 1 / 8), 8) for value in (figure.low, figure.high)
        )
        axes.barh(
            row, margin - 1, left=1, height=0.62, color=_MET if figure.met else _MISSED, zorder=2
        )
        axes.plot(edges, [row, row], color="black", linewidth=1, zorder=3)
        text = f"{value_text(figure, figure.value)}  ({goal_text(figure)})"
        axes.text(9, row, text, va="center", color="black" if figure.met else _MISSED)
    axes.set_xscale("log", base=2)
    axes.set_xlim(1 / 8, 8)
    ticks = [1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8]
    axes.set_xticks(ticks, ["⅛ or less", "¼", "½", "goal", "2", "4", "8 or more"])
    axes.set_yticks(range(len(figures)), [_short(figure) for figure in figures])
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=1, zorder=4)
    axes.grid(axis="x", color="#dddddd", zorder=0)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("times better than the goal; the thin line spans the repetitions")


def _growth(axes: Axes, axis: str, curves: list[Curve]) -> None:
    """The curves of one axis, beside a line that is linear."""
    for curve, color in zip(curves, _LINES, strict=False):
        points = [point for point in curve.points if point.size > 0]
        sizes = [point.size for point in points]
        medians = [point.sample.median for point in points]
        label = f"{curve.name}, exponent {curve.exponent:.2f}"
        axes.plot(sizes, medians, marker="o", markersize=4, color=color, label=label, zorder=3)
        for point in points:
            seconds = point.sample.seconds
            axes.plot([point.size] * 2, [min(seconds), max(seconds)], color=color, linewidth=1)
        if curve is curves[0]:
            linear = [medians[-1] * size / sizes[-1] for size in sizes]
            axes.plot(sizes, linear, color=_GREY, linewidth=1, linestyle=":", label="linear")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(axis, loc="left")
    axes.set_ylabel("seconds")
    axes.grid(color="#eeeeee", zorder=0)
    axes.legend(fontsize=7, frameon=False, loc="upper left")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.45)  # room for the legend


def _short(figure: Figure) -> str:
    """What was measured, and the first words of what against."""
    if figure.unit == "ms":
        return figure.name
    baseline = figure.baseline.rpartition(":")[0].partition(",")[0]
    return f"{figure.name}\nagainst {baseline}" if len(baseline) < 60 else figure.name


def _title(report: Report) -> str:
    machine = report.machine
    return (
        f"Lakeport {machine['lakeport']}, size {report.size}, {report.started:%Y-%m-%d}: "
        f"{machine['cores']} cores, {machine['memory_gib']:.0f} GiB, Python {machine['python']}, "
        f"pyarrow {machine['pyarrow']}, pyspark {machine['pyspark']}, duckdb {machine['duckdb']}"
    )
