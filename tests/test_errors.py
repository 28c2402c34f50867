"""Parts of error messages."""

from __future__ import annotations

import pytest

from lakeport.errors import first_line


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("one line", "one line"),
        ("the reason\nLINE 1: SELECT\n        ^", "the reason"),
        ("\n  the reason \r\nmore", "the reason"),
        ("", "ValueError"),
        (" \n ", "ValueError"),
    ],
)
def test_the_first_line_of_an_error_is_never_empty(message: str, line: str) -> None:
    assert first_line(ValueError(message)) == line
