"""The Python in the documentation runs: each page from its first block to its last."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.wait import TIMEOUT_SECONDS

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^([ ]*)```python\n(.*?)^\1```", re.DOTALL | re.MULTILINE)

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


PAGES = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if blocks(page)
]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text(PREAMBLE + "\n".join(blocks(page)))

    ran = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
        cwd=tmp_path,
    )

    assert ran.returncode == 0, ran.stderr
