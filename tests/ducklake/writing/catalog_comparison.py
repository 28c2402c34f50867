"""Compare the catalogs of two lakes row for row, after the same operations by two writers.

UUIDs are numbered in the order in which they appear, data paths and times are replaced, and sizes
of files are left out. `INTENDED` lists the differences that are meant; everything else is an error.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import duckdb
import psycopg
import pymysql

from lakeport.ducklake.metadata import parse_location

__all__ = ["INTENDED", "Difference", "assert_same_catalogs", "catalog_rows", "read_catalog"]

Rows = list[dict[str, Any]]
Catalog = dict[str, Rows]

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIMES = ("snapshot_time", "schedule_start")
_SIZES = ("file_size_bytes", "footer_size", "column_size_bytes")
_FLAGS = ("path_is_relative", "nulls_allowed", "contains_null", "contains_nan", "is_partition")


@dataclass(frozen=True)
class Difference:
    """A difference that is meant: where it is, why, and how both sides are made equal."""

    table: str
    reason: str
    replace: Callable[[dict[str, Any]], None]


def _mask(*columns: str, when: Callable[[dict[str, Any]], bool] = lambda row: True) -> Any:
    def replace(row: dict[str, Any]) -> None:
        if when(row):
            row.update(dict.fromkeys(columns, "…"))

    return replace


def _without_token(row: dict[str, Any]) -> None:
    text = row["commit_extra_info"]
    if text is not None and "lakeport" in text:
        rest = {k: v for k, v in json.loads(text).items() if k != "lakeport"}
        row["commit_extra_info"] = rest.get("extra_info", json.dumps(rest) if rest else None)


def _never_visible(row: dict[str, Any]) -> None:
    if row["begin_snapshot"] == row["end_snapshot"]:
        row.clear()


def _without_alterations_of_new_tables(row: dict[str, Any]) -> None:
    changes = row["changes_made"] or ""
    if "created_table:" in changes and "dropped_table" not in changes:
        row["changes_made"] = re.sub(r",altered_table:\d+", "", changes)


INTENDED = (
    Difference("metadata", "each writer records its own name", _mask("value", when=lambda r: r["key"] == "created_by")),
    Difference("snapshot_changes", "our commits carry a token that settles lost connections", _without_token),
    Difference(
        "column",
        "the reference forbids NULL in nested fields that ALTER adds or renames, and no reader honours it",
        _mask("nulls_allowed", when=lambda r: r["parent_column"] is not None),
    ),
    Difference(
        "column",
        "the reference changes the type of a missing default when it renames a column",
        _mask("default_value_type", when=lambda r: r["default_value"] == "NULL"),
    ),
    Difference("column", "the reference writes rows that no snapshot sees, of columns that it adds and drops", _never_visible),
    Difference(
        "snapshot_changes",
        "the reference alters a table that the same transaction creates",
        _without_alterations_of_new_tables,
    ),
)  # fmt: skip


def assert_same_catalogs(
    ours: str,
    theirs: str,
    *,
    but: Sequence[Difference] = (),
    tables: Sequence[str] | None = None,
    data_paths: tuple[str, str] | None = None,
) -> None:
    """Raise AssertionError that lists each row that only one of two catalogs has."""
    left, right = (
        catalog_rows(uri, but=but, data_path=path)
        for uri, path in zip((ours, theirs), data_paths or (None, None), strict=True)
    )
    found = []
    for table in sorted({*left, *right}):
        if tables is not None and table not in tables:
            continue
        a, b = left.get(table, []), right.get(table, [])
        found += [f"{table}: only ours   {row}" for row in a if a.count(row) > b.count(row)]
        found += [f"{table}: only theirs {row}" for row in b if b.count(row) > a.count(row)]
    assert not found, "\n".join(found)


def catalog_rows(
    uri: str, *, but: Sequence[Difference] = (), data_path: str | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of every table of a catalog in the form in which they are compared."""
    catalog = read_catalog(uri)
    root = data_path or next(
        row["value"] for row in catalog["metadata"] if row["key"] == "data_path"
    )
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return numbers.setdefault(match.group(), f"uuid-{len(numbers)}")

    for table, rows in catalog.items():
        for row in rows:
            for column, value in row.items():
                if column in _TIMES and value is not None:
                    row[column] = "time"
                elif column in _SIZES and value is not None:
                    row[column] = "size"
                elif column in _FLAGS and value is not None:
                    row[column] = bool(value)
                elif isinstance(value, str):
                    row[column] = value.replace(root, "<data>/")
            for difference in (*INTENDED, *but):
                if difference.table == table and row:
                    difference.replace(row)
        rows[:] = [row for row in rows if row]
    # Ids come first in every row, so the same objects get the same numbers in both catalogs.
    for table in sorted(catalog):
        catalog[table].sort(key=lambda row: [_UUID.sub("", repr(v)) for v in row.values()])
        for row in catalog[table]:
            for column, value in row.items():
                if isinstance(value, str):
                    row[column] = _UUID.sub(number, value)
    return catalog


def read_catalog(uri: str) -> Catalog:
    """Return the rows of every `ducklake_*` table, by names without that prefix.

    The types of the columns of tables for inlined rows are rows of `columns of <table>`.
    """
    location = parse_location(uri)
    with closing(_connect(location.kind, location.path, location.parameters)) as connection:
        cursor = connection.cursor()
        if location.kind == "sqlite":
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        else:
            schema = "database()" if location.kind == "mysql" else "current_schema()"
            cursor.execute(
                "SELECT table_name FROM information_schema.tables "
                f"WHERE table_schema = {schema} AND table_name LIKE 'ducklake%'"
            )
        names = sorted(row[0] for row in cursor.fetchall())
        catalog: Catalog = {}
        for name in names:
            cursor.execute(f"SELECT * FROM {name}")
            columns = [column[0] for column in cursor.description]
            short = name.removeprefix("ducklake_")
            catalog[short] = [
                dict(zip(columns, map(_plain, row), strict=True)) for row in cursor.fetchall()
            ]
            if name.startswith("ducklake_inlined_data_") and not name.endswith("tables"):
                types = [str(column[1]) for column in cursor.description]
                if location.kind == "sqlite":
                    cursor.execute(f"PRAGMA table_info({name})")
                    types = [row[2] for row in cursor.fetchall()]
                catalog[f"columns of {short}"] = [
                    {"position": i, "name": n, "type": t}
                    for i, (n, t) in enumerate(zip(columns, types, strict=True))
                ]
        return catalog


def _connect(kind: str, path: str, parameters: Mapping[str, str]) -> Any:
    if kind == "duckdb":
        return duckdb.connect(path, read_only=True)
    if kind == "sqlite":
        return sqlite3.connect(path)
    if kind == "postgresql":
        return psycopg.connect(**parameters)  # type: ignore[arg-type]
    server: dict[str, Any] = {**parameters, "port": int(parameters["port"])}
    return pymysql.connect(**server)


def _plain(value: Any) -> Any:
    """Return a value that is equal in all databases."""
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return str(value)
