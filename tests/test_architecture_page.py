"""The architecture page describes the tree that is there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.room_diagram import PICTURE, draw

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "lakeport"
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_the_tree_lists_every_room_and_folder() -> None:
    tree = PAGE.split("```")[1]
    folders: list[str] = []
    listed = set()
    for indent, name in re.findall(r"^( +)(\w+)/ ", tree, re.MULTILINE):
        folders[len(indent) // 2 - 1 :] = [name]
        listed.add("/".join(folders))

    packages = {
        str(door.parent.relative_to(SOURCES))
        for door in SOURCES.rglob("__init__.py")
        if door.parent != SOURCES
    }

    assert listed == packages


def test_the_arrows_are_the_layers_that_import_linter_checks() -> None:
    settings = (ROOT / "pyproject.toml").read_text()
    layers = settings.split("layers = [")[1].split("]")[0]
    rooms = [re.findall(r"lakeport\.([a-z]\w*)", line) for line in layers.splitlines()]

    for document in (PAGE, (ROOT / "CONTRIBUTING.md").read_text()):
        arrows = next(line for line in document.splitlines() if line.startswith("cli -> "))
        drawn = [sorted(re.findall(r"\w+", layer)) for layer in arrows.split(" -> ")]
        assert drawn == [sorted(names) for names in rooms if names]


def test_the_picture_shows_the_imports_that_are_there() -> None:
    assert PICTURE.read_text() == draw(), "draw it anew: make diagram"


def test_every_file_to_edit_exists() -> None:
    table = PAGE.split("## Where to add something")[1].split("\n| ", 1)[1]
    folder = ""
    missing = []
    for name in re.findall(r"`([\w/]+(?:\.py|/))`", table):
        # A name without a folder is in the folder of the name before it.
        path = name if "/" in name else f"{folder}/{name}"
        folder = path.rpartition("/")[0]
        base = ROOT if path.startswith(("benchmarks", "tests")) else SOURCES
        if not (base / path).exists():
            missing.append(path)

    assert folder
    assert missing == []


def test_documents_name_only_files_that_exist() -> None:
    folders = ("src", "tests", "benchmarks", "examples")
    files = {path.name for folder in folders for path in (ROOT / folder).rglob("*.py")}
    documents = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    # Names in shell commands and examples of users are not ours.
    named = re.compile(r"`((?:[\w]+/)*[\w]+\.py)`")

    missing = [
        f"{document.relative_to(ROOT)}: {name}"
        for document in documents
        for name in named.findall(document.read_text())
        if name.rpartition("/")[2] not in files
        or (name.startswith(folders) and not (ROOT / name).exists())
    ]

    assert missing == []


def test_links_of_documents_outside_of_the_site_lead_to_files() -> None:
    # Links between the pages of docs/ are checked by mkdocs.
    documents = [
        *ROOT.glob("*.md"),
        *(ROOT / "examples").glob("*.md"),
        *ROOT.glob(".github/**/*.md"),
    ]
    link = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")

    missing = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in documents
        for target in link.findall(document.read_text())
        if not (document.parent / target).exists()
    ]

    assert missing == []
