"""The threat model names a test for each of its claims, and the tests exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "threat-model.md").read_text()
BOUNDARIES = PAGE.split("## Boundaries, one by one")[1].split("\n## ")[0]
ROWS = re.findall(r"^\| (.+?) \| (.+?) \|$", PAGE.split("## Which tests hold it")[1], re.MULTILINE)
TESTS_OF = {boundary: tests for boundary, tests in ROWS if boundary != "Boundary"}


def test_every_boundary_has_tests() -> None:
    named = re.findall(r"^\*\*(.+?)(?:\.\*\*|\*\*)", BOUNDARIES, re.MULTILINE)

    assert len(named) > 10
    assert sorted(TESTS_OF) == sorted(named)


@pytest.mark.parametrize("boundary", TESTS_OF)
def test_the_tests_of_a_boundary_exist(boundary: str) -> None:
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", TESTS_OF[boundary])

    assert named
    for file, function in named:
        text = (TESTS / file).read_text()
        assert re.search(rf"^def {function or 'test_'}", text, re.MULTILINE), f"{file}::{function}"


def test_tests_that_the_text_names_exist() -> None:
    for file in re.findall(r"`tests/([\w/]+\.py)`", PAGE):
        assert (TESTS / file).exists(), file
