"""Draw what `lakeport demo` prints: `python -m tests.demo_recording` (make recording)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

__all__ = ["PICTURE", "draw", "record"]

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "demo.svg"
COLUMNS = 112

# Rich 14 lets its pictures load a font from another host.
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_CHANGING = (
    (re.compile(r"^.*Making a lake.*\n", re.MULTILINE), ""),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:8815"),
    (re.compile(r"duckdb:\S+demo\.ducklake"), "duckdb:demo.ducklake"),
)


def record() -> str:
    """Return what the demo prints on a terminal that shows colours."""
    colours = {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    printed = subprocess.run(
        [sys.executable, "-m", "lakeport", "demo", "--once"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **colours},
    ).stdout
    for pattern, text in _CHANGING:
        printed = pattern.sub(text, printed)
    return printed


def draw(printed: str) -> str:
    """Return the picture of a terminal as SVG."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    console.print(Text("$ make demo", style="bold"))
    console.print(Text.from_ansi(printed.strip()), soft_wrap=True)
    svg = console.export_svg(title="lakeport demo", theme=DIMMED_MONOKAI, unique_id="demo")
    return _FONT.sub("", svg)


if __name__ == "__main__":
    PICTURE.write_text(draw(record()))
