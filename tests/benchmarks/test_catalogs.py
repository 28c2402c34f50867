"""The generated catalogs of the growth curves are lakes that plan as the curves say."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from benchmarks import catalogs


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (catalogs._plans, {"plan that keeps one file": 1, "plan that keeps ten files": 10}),
        (
            catalogs._histories,
            {"open a table and plan a scan": 1, "open a table as of a time": 4},
        ),
        (catalogs._listings, {"Lake.tables()": 41, "Lake.table() of one table": 4}),
        (catalogs._wide_tables, {"open the table": 40, "plan a scan of one column": 1}),
    ],
)
def test_a_generated_catalog_of_forty_is_what_its_curve_measures(
    at: Callable[[int], AbstractContextManager[catalogs.Runs]], expected: dict[str, int]
) -> None:
    with at(40) as runs:
        assert {name: run() for name, run in runs.items()} == expected
