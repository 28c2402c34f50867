"""The links between the documents lead to files and headings that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "examples").glob("*.md")),
]
BLOCK = re.compile(r"^[ ]*```.*?^[ ]*```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def prose(page: Path) -> str:
    return BLOCK.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """Return the names that GitHub and mkdocs give to the headings of a page."""
    headings = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", h) for h in HEADING.findall(prose(page))]
    names = [re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings]
    return {*names, *(re.sub("-+", "-", name) for name in names)}


def problem(page: Path, link: str) -> str | None:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return f"there is no file {link}"
    if anchor and target.suffix == ".md" and anchor not in anchors(target):
        return f"{path} has no heading {anchor}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_the_links_of_a_document_lead_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(prose(page)) if not link.startswith("https://")]

    assert [found for link in links if (found := problem(page, link))] == []


def test_every_guide_and_tutorial_is_linked_from_the_front_pages() -> None:
    fronts = [ROOT / "README.md", DOCS / "index.md"]
    links = [page.parent / link for page in fronts for link in LINK.findall(prose(page))]
    linked = {link.resolve() for link in links}
    pages = {page for folder in ("guides", "tutorials") for page in (DOCS / folder).glob("*.md")}

    assert pages - linked == set()


def test_every_page_is_in_the_navigation_of_the_documentation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    names = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]

    assert [name for name in names if name not in navigation] == []
