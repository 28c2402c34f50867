"""The extras of the package: those that messages and documents name exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
_EXTRAS: dict[str, list[str]] = _PROJECT["optional-dependencies"]
_TEXTS = [
    *(_ROOT / "src").rglob("*.py"),
    *(_ROOT / "docs").rglob("*.md"),
    *(_ROOT / "examples").rglob("*"),
    _ROOT / "README.md",
]
_INSTALLED = re.compile(r"pip install\s+([^\s`)]+)")
_OURS = re.compile(r"""["'](?:lakeport|\.)\[([\w,{}]+)\]["']""")


@pytest.mark.parametrize(
    "file", [f for f in _TEXTS if f.is_file() and "pip install" in f.read_text()], ids=str
)
def test_an_install_command_names_extras_that_exist(file: Path) -> None:
    for target in _INSTALLED.findall(file.read_text()):
        named = _OURS.match(target)
        assert named, f"{target} is not an extra of this package"
        for extra in named.group(1).split(","):
            assert extra in _EXTRAS or extra.startswith("{")
