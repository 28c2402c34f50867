"""Every test that starts a process or a server is marked, so that `make test-fast` omits it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.markers import FILES

TESTS = Path(__file__).parent
STARTS_PROCESSES = re.compile(
    r"^import subprocess$|import .*\b(?:measured_server|run|running|serving)$", re.MULTILINE
)
FILES_THAT_START_PROCESSES = [
    path.relative_to(TESTS)
    for path in sorted(TESTS.rglob("test_*.py"))
    if STARTS_PROCESSES.search(path.read_text())
]


@pytest.fixture
def s3() -> None:
    """Stand in for the server, which these tests do not need."""


@pytest.fixture
def files_in_s3(s3: None) -> None:
    """Use the server indirectly."""


def test_a_test_has_the_markers_of_its_fixtures(
    files_in_s3: None, request: pytest.FixtureRequest
) -> None:
    assert _markers(request) == {"s3"}


@pytest.mark.parametrize(
    ("kind", "markers"), [("sqlite", set()), ("postgresql", {"database_server"})]
)
def test_a_test_with_a_kind_of_database_server_is_marked(
    kind: str, markers: set[str], request: pytest.FixtureRequest
) -> None:
    assert _markers(request) == markers


@pytest.mark.parametrize("path", FILES)
def test_every_file_with_markers_exists(path: str) -> None:
    assert (TESTS / path).exists()


@pytest.mark.parametrize("path", FILES_THAT_START_PROCESSES, ids=str)
def test_a_file_that_starts_processes_has_the_marker(path: Path) -> None:
    markers = {name for place in (path, *path.parents) for name in FILES.get(str(place), ())}
    text = (TESTS / path).read_text()

    assert "process" in markers or "mark.process" in text or "load_airport" in text


def _markers(request: pytest.FixtureRequest) -> set[str]:
    return {mark.name for mark in request.node.iter_markers()} - {"parametrize"}
