"""Where a lake may be, how that is spelled, and what is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeport.ducklake import Lake
from lakeport.ducklake.metadata.location import parse_location
from lakeport.errors import (
    InvalidArgumentError,
    LakeportError,
    LakeVersionError,
    NotFoundError,
    UnavailableError,
)

LakeMaker = Callable[..., Any]


@pytest.mark.parametrize(
    ("uri", "kind", "where"),
    [
        ("ducklake:meta.ducklake", "duckdb", "meta.ducklake"),
        ("meta.ducklake", "duckdb", "meta.ducklake"),
        ("ducklake:duckdb:a b.db", "duckdb", "a b.db"),
        ("ducklake:sqlite:meta.sqlite", "sqlite", "meta.sqlite"),
        ("sqlite:///meta.sqlite", "sqlite", "meta.sqlite"),
        ("sqlite:////abs/meta.sqlite", "sqlite", "/abs/meta.sqlite"),
        ("C:/lakes/meta.ducklake", "duckdb", "C:/lakes/meta.ducklake"),
        ("ducklake:postgres:postgresql://h/db", "postgresql", ""),
    ],
)
def test_every_spelling_of_a_location(uri: str, kind: str, where: str) -> None:
    location = parse_location(uri)
    assert (location.kind, location.path) == (kind, where)


@pytest.mark.parametrize(
    "text", ["postgres:host", "mysql:nope=1", "mysql:port=x", "sqlite://host/x", "sqlite:"]
)
def test_unclear_locations_are_refused(text: str) -> None:
    with pytest.raises(LakeportError):
        parse_location(f"ducklake:{text}")


def test_secrets_are_in_no_text() -> None:
    for uri in (
        "ducklake:postgres:dbname=l host=127.0.0.1 port=1 user=u password='s3 cret' connect_timeout=1",
        "postgresql://u:s3%20cret@127.0.0.1:1/l",
        "ducklake:mysql:db=l host=127.0.0.1 port=1 user=u passwd='s3 cret'",
        "mysql://u:s3%20cret@127.0.0.1:1/l",
    ):
        location = parse_location(uri)
        assert location.parameters["password"] == "s3 cret"
        assert "s3 cret" not in str(location) + repr(location)
        with pytest.raises(UnavailableError) as caught:
            Lake.open(uri)
        assert "s3 cret" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_what_is_not_a_lake_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no catalog database"):
        Lake.open(f"ducklake:{tmp_path}/nothing.ducklake")
    with sqlite3.connect(tmp_path / "empty.sqlite") as database:
        database.execute("CREATE TABLE t(a)")
    database.close()
    for uri in (f"sqlite:{tmp_path}/empty.sqlite", f"ducklake:{tmp_path}/empty.sqlite"):
        with pytest.raises(NotFoundError, match=r"sqlite:.* holds no DuckLake tables"):
            Lake.open(uri)
    with pytest.raises(InvalidArgumentError):
        Lake.open("oracle://db/lake")
    with pytest.raises(InvalidArgumentError):
        Lake.open("ducklake:")


@pytest.mark.parametrize("version", ["0.5", "2.0", "1.x", ""])
def test_unknown_versions_are_refused_by_name(version: str, make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE t(id INTEGER)")
    lake.detach()
    with sqlite3.connect(lake.uri.removeprefix("ducklake:sqlite:")) as database:
        database.execute("UPDATE ducklake_metadata SET value = ? WHERE key = 'version'", (version,))
    database.close()
    with pytest.raises(LakeVersionError, match=repr(version)):
        Lake.open(lake.uri)
