"""The recordings replayed: every reply is one that the client accepts, and says the same."""

from __future__ import annotations

import pytest

from tests.transcripts import recording
from tests.transcripts.replay import Descriptors, Replay
from tests.transcripts.replay_client import ReplayClient
from tests.transcripts.servers import Backend, serve
from tests.transcripts.sessions import (
    DIFFERENT,
    NOT_ON_BUILDER,
    READ_AND_WRITE_THEMES,
    READ_THEMES,
    WRITE_THEMES,
)


@pytest.mark.parametrize("descriptors", Descriptors, ids=lambda d: d.value)
@pytest.mark.parametrize("name", READ_THEMES)
def test_a_built_catalog_answers_the_read_side(name: str, descriptors: Descriptors) -> None:
    skipped = NOT_ON_BUILDER.get(name, {})
    with (
        serve(name, Backend.BUILDER) as server,
        Replay(ReplayClient(server.location), descriptors) as replay,
    ):
        for statement in recording.load(name)[0].statements:
            if statement.number not in skipped:
                different = statement.number in DIFFERENT.get(name, {})
                replay.run(statement, compare=not different)


@pytest.mark.parametrize("descriptors", Descriptors, ids=lambda d: d.value)
@pytest.mark.parametrize("name", WRITE_THEMES)
def test_a_memory_catalog_answers_the_write_side(name: str, descriptors: Descriptors) -> None:
    _replay_on_memory(name, descriptors)


@pytest.mark.parametrize("name", READ_AND_WRITE_THEMES)
def test_a_memory_catalog_answers_the_read_side(name: str) -> None:
    _replay_on_memory(name, Descriptors.PUBLISHED)


def test_most_statements_are_run_again_over_the_rows_received() -> None:
    """The comparison that can fail: without it a replay would only look at the shape of replies."""
    (theme,) = recording.load("filters_functions")
    with serve("filters_functions") as server, Replay(ReplayClient(server.location)) as replay:
        for statement in theme.statements:
            replay.run(statement)

    assert replay.duckdb.checked >= len(theme.statements) - 4


def test_every_exception_names_a_statement() -> None:
    for name, statements in [*DIFFERENT.items(), *NOT_ON_BUILDER.items()]:
        numbers = {statement.number for statement in recording.load(name)[0].statements}
        assert set(statements) <= numbers
        assert all(statements.values())


def _replay_on_memory(name: str, descriptors: Descriptors) -> None:
    with (
        serve(name, Backend.MEMORY) as server,
        Replay(ReplayClient(server.location), descriptors, first_version=1) as replay,
    ):
        for statement in recording.load(name)[0].statements:
            different = statement.number in DIFFERENT.get(name, {})
            replay.run(statement, compare=not different)
