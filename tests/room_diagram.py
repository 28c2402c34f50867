"""Draw the rooms of the package and their imports: `python -m tests.room_diagram` (make diagram).

The layers are those that import-linter checks. An arrow is an import that is there, and is left out
where a longer way of arrows leads to the same room.
"""

from __future__ import annotations

import re
from html import escape
from itertools import product
from pathlib import Path

import grimp

__all__ = ["PICTURE", "draw"]

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "rooms.svg"

SUBJECTS = {
    "cli": "the command lakeport",
    "console": "the browser's view of a server",
    "lakehouse": "a lake as a catalog",
    "observability": "metrics, logs, traces, audit",
    "airport": "server and client of Airport",
    "memory": "a catalog in memory",
    "spark": "scans and writes on Spark",
    "ducklake": "the lake format",
    "catalog": "what can be attached",
    "auth": "callers and what they may see",
    "filters": "predicates",
    "types": "types and values",
    "arrow": "Arrow without a subject",
}

WIDTH, BOX, HEIGHT, GAP = 760, 220, 40, 26
STYLE = (
    "rect{fill:#e0f2f1;stroke:#00796b;rx:6px}text{font-family:sans-serif;text-anchor:middle;"
    "fill:#102020}.name{font-size:14px;font-weight:bold}.subject{font-size:10.5px}"
    "path{stroke:#607d7b;fill:none;marker-end:url(#tip)}"
)

TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0 0L8 4L0 8z" style="fill:#607d7b;stroke:none;marker-end:none"/>'
    "</marker></defs>"
)


def draw() -> str:
    """Return the picture as SVG."""
    layers = _layers()
    places = {
        room: (WIDTH * (2 * column + 1) / (2 * len(rooms)), 10 + row * (HEIGHT + GAP))
        for row, rooms in enumerate(layers)
        for column, room in enumerate(rooms)
    }
    arrows = [_arrow(places[above], places[below]) for above, below in _imports(layers)]
    boxes = [_box(room, *places[room]) for rooms in layers for room in rooms]
    height = 10 + len(layers) * (HEIGHT + GAP)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            "<title>The rooms of Lakeport and their imports</title>",
            f"<style>{STYLE}</style>",
            TIP,
            *arrows,
            *boxes,
            "</svg>\n",
        )
    )


def _layers() -> list[list[str]]:
    settings = (ROOT / "pyproject.toml").read_text()
    text = settings.split("layers = [")[1].split("]")[0]
    rows = (re.findall(r"lakeport\.([a-z]\w*)", line) for line in text.splitlines())
    return [rooms for row in rows if (rooms := [room for room in row if room in SUBJECTS])]


def _imports(layers: list[list[str]]) -> list[tuple[str, str]]:
    """Return the imports between rooms without those that a longer way implies."""
    graph = grimp.build_graph("lakeport")
    rooms = [room for layer in layers for room in layer]
    direct = {
        (importer, imported)
        for importer, imported in product(rooms, rooms)
        if importer != imported
        and graph.direct_import_exists(
            importer=f"lakeport.{importer}", imported=f"lakeport.{imported}", as_packages=True
        )
    }
    reached = set(direct)
    # Rooms are ordered from top to bottom, so that one pass from below finds every way.
    for room in reversed(rooms):
        below = {b for a, b in direct if a == room}
        reached |= {(room, end) for between in below for a, end in reached if a == between}
    implied = {(a, c) for a, c in direct for b in rooms if (a, b) in direct and (b, c) in reached}
    return sorted(direct - implied)


def _box(room: str, middle: float, top: float) -> str:
    return (
        f'<rect x="{middle - BOX / 2:.0f}" y="{top}" width="{BOX}" height="{HEIGHT}"/>'
        f'<text class="name" x="{middle:.0f}" y="{top + 17}">{room}</text>'
        f'<text class="subject" x="{middle:.0f}" y="{top + 32}">{escape(SUBJECTS[room])}</text>'
    )


def _arrow(above: tuple[float, float], below: tuple[float, float]) -> str:
    x1, y1, x2, y2 = above[0], above[1] + HEIGHT, *below
    bend = (y2 - y1) / 2
    return f'<path d="M{x1:.0f} {y1}C{x1:.0f} {y1 + bend} {x2:.0f} {y2 - bend} {x2:.0f} {y2}"/>'


if __name__ == "__main__":
    PICTURE.write_text(draw())
