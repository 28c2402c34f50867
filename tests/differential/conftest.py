"""Lakes of the scenarios, made once for all engines that read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeAlias

import duckdb
import pytest

from tests.differential.scenarios import Scenario
from tests.fixtures_lakes import RealLake
from tests.lakehouse.conftest import serve

__all__ = ["serve"]

LakeOf: TypeAlias = Callable[[Scenario, str], RealLake]


@pytest.fixture(scope="module")
def made_lakes() -> dict[tuple[Scenario, str], RealLake]:
    """The lakes that were made so far; no engine changes them."""
    return {}


@pytest.fixture
def lake_of(
    made_lakes: dict[tuple[Scenario, str], RealLake],
    reference: duckdb.DuckDBPyConnection,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[LakeOf]:
    """Return the lake of a scenario on a kind of database; it is detached after the test."""

    def make(scenario: Scenario, kind: str) -> RealLake:
        folder = tmp_path_factory.mktemp("lake")
        if kind == "duckdb":
            uri = f"ducklake:{folder / 'meta'}.ducklake"
        elif kind == "sqlite":
            uri = f"ducklake:sqlite:{folder / 'meta'}.sqlite"
        else:
            uri = request.getfixturevalue("mariadb" if kind == "mysql" else kind)()
        lake = RealLake(reference, uri, f"{folder / 'data'}/", scenario.options)
        lake.execute(*scenario.statements)
        return lake

    def find(scenario: Scenario, kind: str) -> RealLake:
        if (scenario, kind) not in made_lakes:
            made_lakes[scenario, kind] = make(scenario, kind)
        return made_lakes[scenario, kind]

    yield find
    # A test that was interrupted may have left a transaction open, and a lake attached unnoticed.
    with suppress(duckdb.Error):
        reference.execute("ROLLBACK")
    reference.execute("USE memory; DETACH DATABASE IF EXISTS lake")
    for lake in made_lakes.values():
        lake.attached = False
