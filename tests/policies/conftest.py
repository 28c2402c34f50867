"""The lake of `road_cases`, served with each kind of restriction beside what is left of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import duckdb
import pytest

from tests.policies.fixtures_policies import serving
from tests.policies.road_cases import CASES, CHANGES, FULL, VIEWS, Case, Two


@pytest.fixture(scope="module")
def make(
    reference: duckdb.DuckDBPyConnection, lake_class: Any, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Any]:
    def make(*statements: str) -> Any:
        folder = tmp_path_factory.mktemp("lake")
        lake = lake_class(reference, f"ducklake:{folder}/meta.ducklake", f"{folder}/data/", "")
        lake.execute(*statements)
        return lake

    return make


@pytest.fixture(scope="module")
def full(make: Callable[..., Any]) -> Any:
    lake = make(FULL, *CHANGES, *VIEWS)
    lake.attach()
    lake.connection.execute(
        "CREATE OR REPLACE TABLE memory.main.full_orders AS SELECT * FROM lake.main.orders"
    )
    lake.detach()
    return lake


@pytest.fixture(scope="module", params=CASES.values(), ids=list(CASES))
def two(request: pytest.FixtureRequest, full: Any, make: Callable[..., Any]) -> Iterator[Two]:
    case: Case = request.param
    visible = case.visible.replace("full_orders", "memory.main.full_orders")
    plain = make(f"CREATE TABLE orders AS {visible}", *VIEWS)
    with ExitStack() as stack:
        ours = stack.enter_context(serving(full, *case.policies))
        yield Two(ours, stack.enter_context(serving(plain)), case)
