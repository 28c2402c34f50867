"""Every table at every snapshot of many lakes, row by row against the real implementation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.lake_scenarios import CASES, SCENARIOS


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_every_table_at_every_snapshot_is_read_as_the_real_implementation_reads_it(
    name: str, kind: str, make_lake: Callable[..., Any]
) -> None:
    scenario = SCENARIOS[name]
    lake = make_lake(kind, scenario.options)
    lake.execute(*scenario.statements)
    lake.check()
