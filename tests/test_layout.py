"""The shape of the package: doors, siblings, sizes, words."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "lakeport"
MODULES = sorted(SOURCES.rglob("*.py"))
# The command line is entered by users only: no room imports it.
PACKAGES = sorted({module.parent for module in MODULES} - {SOURCES, SOURCES / "cli"})

MAX_SIBLINGS = 12
MAX_LINES = 450

# Machines return, raise, send and release. See "Style" in CONTRIBUTING.md.
WORDS = "nobody|somebody|whoever|tells?|told|says?|hears?|heard|lends?|lent|minds?"
MAX_WORDS = 40

# Names that were replaced by the noun a stranger would search for.
RETIRED = (
    "Courier|Directory|EndedCall|Inlet|LakeAccess|Moment|PartToken|PausedError|PublishedTable|"
    "Segments|Spool|SpoolFiles|ascii_lower|understanding"
)


def test_a_room_is_entered_by_its_door() -> None:
    bypasses = [
        f"{module.relative_to(SOURCES)} imports {name}"
        for module in MODULES
        for name in imported_modules(module)
        if _room(name) and _room(name) != _room_of(module) and not _is_package(name)
    ]

    assert bypasses == []


def test_a_folder_has_at_most_a_dozen_files() -> None:
    siblings = Counter(module.parent for module in MODULES if not module.stem.startswith("__"))

    assert {str(folder): count for folder, count in siblings.items() if count > MAX_SIBLINGS} == {}


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCES)))
def test_a_file_is_read_in_one_sitting_and_begins_with_what_it_is_for(module: Path) -> None:
    text = module.read_text()

    assert len(text.splitlines()) <= MAX_LINES
    assert ast.get_docstring(ast.parse(text)) or module.name in {"__main__.py", "_version.py"}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(SOURCES)))
def test_a_door_is_lazy(package: Path) -> None:
    """Spark workers pass many doors and need few of the modules behind them."""
    imports = [
        node
        for node in ast.parse((package / "__init__.py").read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]

    assert [ast.unparse(node) for node in imports] in ([], ["from lakeport._lazy import attach"])


def test_retired_names_do_not_come_back() -> None:
    pattern = re.compile(rf"\b_?(?:{RETIRED})\b")

    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in MODULES
        for match in pattern.finditer(path.read_text())
    ]

    assert found == []


def test_machines_do_not_speak() -> None:
    pattern = re.compile(rf"\b(?:{WORDS})\b", re.IGNORECASE)
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]

    counts = Counter(
        {
            str(path.relative_to(ROOT)): len(pattern.findall(path.read_text()))
            for path in (*MODULES, *documents)
        }
    )

    assert counts.total() < MAX_WORDS, counts.most_common(20)


def test_every_path_that_the_tools_are_given_exists() -> None:
    settings = (ROOT / "pyproject.toml").read_text()
    named = set(re.findall(r'"((?:src|tests|examples|benchmarks)/[\w/.]+)', settings))
    contracts = tomllib.loads(settings)["tool"]["importlinter"]["contracts"]
    modules = set(re.findall(r"lakeport(?:\.\w+)+", str(contracts)))

    assert [path for path in named if not (ROOT / path).exists()] == []
    assert [name for name in modules if not _is_package(name) and not _is_module(name)] == []


def test_coverage_measures_every_room() -> None:
    lists = re.findall(r"^COVERED\w* := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    rooms = {module.relative_to(SOURCES).parts[0] for module in MODULES if module.parent != SOURCES}

    assert sorted(" ".join(lists).split()) == sorted(rooms)


def imported_modules(module: Path) -> Iterator[str]:
    """Yield the modules of Lakeport that a file imports from, anywhere in it."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("lakeport."))
        elif isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("lakeport."):
            yield str(node.module)
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name for name in names if _is_module(name) and not _exports(name))


def _exports(name: str) -> bool:
    """Return whether a door has a function or class with the name of one of its modules."""
    package, _, attribute = name.rpartition(".")
    stub = _path(package) / "__init__.pyi"
    return stub.exists() and f'"{attribute}"' in stub.read_text()


def _path(name: str) -> Path:
    return SOURCES.joinpath(*name.split(".")[1:])


def _is_package(name: str) -> bool:
    return (_path(name) / "__init__.py").exists()


def _is_module(name: str) -> bool:
    return _path(name).with_suffix(".py").exists()


def _room(name: str) -> str | None:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and (SOURCES / parts[1]).is_dir() else None


def _room_of(module: Path) -> str | None:
    parts = module.relative_to(SOURCES).parts
    return parts[0] if len(parts) > 1 else None
