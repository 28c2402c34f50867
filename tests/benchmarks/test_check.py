"""`make bench-check` names what became slower by more than the noise, and nothing else."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from benchmarks.check import NotComparableError, changes, main, median_interval

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def result(
    *, ours: float = 1.0, other: float = 2.0, spread: float = 0.02, rounds: int = 15, **machine: Any
) -> dict[str, Any]:
    """A result file: one ratio, one time and one curve, with some noise around the given times."""
    noise = random.Random(7)

    def times(seconds: float) -> list[float]:
        return [seconds * (1 + noise.uniform(-spread, spread)) for _ in range(rounds)]

    return {
        "size": "small",
        "machine": {
            "cores": 2,
            "memory_gib": 8,
            "system": "Linux",
            "architecture": "x86_64",
            "busy_before": 0.01,
            **machine,
        },
        "figures": [
            {
                "benchmark": "read",
                "name": "task.read()",
                "unit": "ratio",
                "value": other / ours,
                "low": other / ours * (1 - 2 * spread),
                "high": other / ours * (1 + 2 * spread),
                "baseline": f"pyarrow: {other:.2f} s",
                "seconds": {"measured": times(ours), "baseline": times(other)},
            },
            {
                "benchmark": "plan",
                "name": "a plan",
                "unit": "ms",
                "value": ours * 1000,
                "low": ours * 1000 * (1 - spread),
                "high": ours * 1000 * (1 + spread),
                "baseline": "none",
                "seconds": {"measured": times(ours)},
            },
        ],
        "curves": [
            {
                "benchmark": "grow-files",
                "name": "to_batches()",
                "axis": "files",
                "points": [{"size": 10.0, "seconds": times(ours)}],
            }
        ],
        "skipped": [],
    }


def verdicts(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return [change.verdict for change in changes(old, new)]


def test_the_same_result_has_not_changed() -> None:
    assert verdicts(result(), result()) == ["same"] * 3


def test_a_cost_that_grew_by_a_third_is_slower_and_the_other_way_round_faster() -> None:
    assert verdicts(result(), result(ours=1.33)) == ["slower"] * 3
    assert verdicts(result(ours=1.33), result()) == ["faster"] * 3


def test_a_change_inside_the_spread_is_noise() -> None:
    assert verdicts(result(spread=0.4), result(ours=1.1, spread=0.4)) == ["same"] * 3


def test_a_small_change_is_not_named_even_without_noise() -> None:
    assert verdicts(result(spread=0), result(ours=1.03, spread=0)) == ["same"] * 3


def test_a_machine_that_is_slower_for_both_sides_changes_no_ratio() -> None:
    compared = changes(result(), result(ours=2.0, other=4.0, cores=1))
    assert [change.name for change in compared] == ["read: task.read() (against pyarrow)"]
    assert compared[0].verdict == "same"


def test_sizes_that_differ_do_not_compare() -> None:
    with pytest.raises(NotComparableError, match="sizes differ"):
        changes(result(), result() | {"size": "full"})


def test_the_interval_of_a_median_holds_most_medians() -> None:
    noise = random.Random(3)
    held = 0
    for _ in range(200):
        found = median_interval([noise.gauss(10, 1) for _ in range(21)])
        held += found.low <= 10 <= found.high
    assert held >= 180
    assert median_interval([3.0, 1.0, 2.0]).low == 1.0


@pytest.mark.parametrize(("ours", "status"), [(1.0, 0), (2.0, 1)])
def test_the_exit_status_is_for_scripts(
    ours: float, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(result()))
    new.write_text(json.dumps(result(ours=ours)))

    assert main([str(old), str(new)]) == status
    printed = capsys.readouterr().out
    assert ("slower" in printed.split("3 figures")[0]) == (status == 1)


def test_a_file_that_cannot_be_read_is_status_two(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text("{}")

    assert main([str(path), str(path)]) == 2
    assert main([str(tmp_path / "missing.json"), str(path)]) == 2


def test_a_kept_result_compares_with_itself() -> None:
    for path in RESULTS.glob("*.json"):
        assert main([str(path), str(path)]) == 0
