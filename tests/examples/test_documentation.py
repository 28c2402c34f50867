"""The Python in the documentation runs: each page from its first block to its last."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from tests.examples.scripts import Run, run_fresh, run_on_spark

__all__ = ["run_on_spark"]

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^([ ]*)```python\n(.*?)^\1```", re.DOTALL | re.MULTILINE)

# A lake whose name is a path in the working directory.
RELATIVE_LAKE = re.compile(r'"(ducklake:(?:sqlite:)?)(?=[\w-]+\.\w+")')

# Documents end with `serve`, which would wait for ever.
PREAMBLE = """
import lakeport

def serve(catalog, **options):
    with lakeport.Server(catalog, **{**options, "location": None}):
        pass

lakeport.serve = serve
"""


def blocks(page: Path) -> list[str]:
    return [textwrap.dedent(code) for _, code in BLOCK.findall(page.read_text())]


def uses_spark(page: Path) -> bool:
    return any("session()" in code for code in blocks(page))


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


PAGES = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if blocks(page)
]


def script(page: Path, folder: Path) -> Path:
    path = folder / "page.py"
    path.write_text(PREAMBLE + "\n".join(blocks(page)))
    return path


@pytest.mark.parametrize("page", [page for page in PAGES if not uses_spark(page)], ids=name)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    run_fresh(script(page, tmp_path), tmp_path)


@pytest.mark.parametrize("page", [page for page in PAGES if uses_spark(page)], ids=name)
def test_the_python_of_a_page_runs_on_spark(page: Path, tmp_path: Path, run_on_spark: Run) -> None:
    code = script(page, tmp_path)
    # Spark runs the Python of a data source in the folder where Java has started.
    code.write_text(RELATIVE_LAKE.sub(rf'"\1{tmp_path}/', code.read_text()))

    run_on_spark(code, tmp_path)
