"""Small queries that make later ones quick: they run, and leave nothing behind."""

from __future__ import annotations

from typing import Any

import pytest

from lakeport.spark import session, warm_up
from lakeport.spark.warm_up import run_small_queries


def test_the_small_queries_run(spark: Any) -> None:
    before = _jobs(spark)

    run_small_queries(spark.newSession())

    assert _jobs(spark) > before


def test_warming_up_leaves_nothing_in_the_session(spark: Any) -> None:
    before = [table.name for table in spark.catalog.listTables()]

    warm_up(spark)

    assert [table.name for table in spark.catalog.listTables()] == before
    assert session() is spark


def test_a_session_that_cannot_run_queries_is_no_error(
    spark: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stopped(_: Any) -> Any:
        raise RuntimeError("the session was stopped")

    monkeypatch.setattr(type(spark), "newSession", stopped)
    with caplog.at_level("DEBUG", "lakeport.spark"):
        warm_up(spark)

    assert "the session was stopped" in caplog.text


def _jobs(spark: Any) -> int:
    """Return how many jobs the session has started."""
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    return int(scheduler.nextJobId())
