"""Every notebook in `examples/` runs from its first cell to its last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.examples.scripts import Run, run_on_spark

__all__ = ["run_on_spark"]

EXAMPLES = Path(__file__).parents[2] / "examples"

EXPECTED = {
    "spark_lake": ["10 updated, 10 inserted", "20", "5000 trips before the merge; 20 changed"],
}


def test_every_notebook_is_expected() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.ipynb")) == sorted(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_cells_of_a_notebook_run_in_their_order(
    name: str, tmp_path: Path, run_on_spark: Run
) -> None:
    notebook = json.loads((EXAMPLES / f"{name}.ipynb").read_text())
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    program = tmp_path / "cells.py"
    program.write_text(f"for cell in {cells!r}:\n    exec(compile(cell, 'cell', 'exec'))\n")

    printed = run_on_spark(program, tmp_path)

    lines = printed.splitlines()
    assert [line for line in EXPECTED[name] if line not in lines] == [], printed


@pytest.mark.parametrize("name", EXPECTED)
def test_a_notebook_is_stored_without_results(name: str) -> None:
    notebook = json.loads((EXAMPLES / f"{name}.ipynb").read_text())

    assert [c for c in notebook["cells"] if c.get("outputs") or c.get("execution_count")] == []
