"""Which names the objects of a lake had, and from which snapshot to which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakeport.ducklake.metadata.lifetimes import Lifetime, why_missing
from lakeport.errors import NotFoundError

LakeMaker = Callable[..., Any]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgresql"])
def test_names_are_known_with_the_snapshots_that_had_them(kind: str, make_lake: LakeMaker) -> None:
    lake = make_lake(kind)
    lake.execute(
        "CREATE SCHEMA s",
        "CREATE TABLE s.t(id INTEGER)",
        "CREATE VIEW s.v AS SELECT 1 AS a",
        "ALTER TABLE s.t RENAME TO u",
        "DROP VIEW s.v",
        "DROP TABLE s.u",
        "CREATE TABLE s.u(id INTEGER)",
    )

    with lake.open() as ours:
        found = {
            (life.kind, life.schema, life.name, life.begin, life.end) for life in ours.lifetimes()
        }
        with pytest.raises(NotFoundError) as told:
            ours.table("u", "s", version=6)

    assert found == {
        ("schema", "main", "", 0, None),
        ("schema", "s", "", 1, None),
        ("table", "s", "t", 2, 4),
        ("view", "s", "v", 3, 5),
        ("table", "s", "u", 4, 6),
        ("table", "s", "u", 7, None),
    }
    assert str(told.value) == (
        "there is no table s.u at snapshot 6: snapshot 6 dropped or renamed it and snapshot 7 "
        "created it again"
    )


@pytest.mark.parametrize(
    ("snapshot", "reason"),
    [
        (1, "snapshot 2 created it"),
        (5, "snapshot 5 dropped or renamed it and snapshot 7 created it again"),
        (9, "snapshot 9 dropped or renamed it"),
    ],
)
def test_a_name_is_missing_for_a_reason(snapshot: int, reason: str) -> None:
    lives = [
        Lifetime(kind="table", id=1, schema="main", name="T", begin=2, end=5),
        Lifetime(kind="table", id=2, schema="main", name="t", begin=7, end=9),
        Lifetime(kind="table", id=3, schema="other", name="t", begin=1, end=None),
    ]

    assert why_missing(lives, "MAIN", "t", snapshot) == reason
    assert why_missing(lives, "main", "x", snapshot) is None
