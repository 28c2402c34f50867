"""The row classes of `metadata/rows.py`, compared with the tables that DuckLake writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from lakeport.ducklake.metadata.rows import (
    CATALOG_ROWS,
    SchemaRow,
    ViewColumnTagRow,
    column_types,
    from_values,
    table_name,
    to_values,
)

LakeMaker = Callable[..., Any]
_DATABASE_TYPES = {int: "BIGINT", bool: "BIGINT", str: "VARCHAR"}


def test_row_classes_have_the_columns_of_the_tables_that_ducklake_writes(
    make_lake: LakeMaker,
) -> None:
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE t(id INTEGER)")
    lake.detach()
    connection = sqlite3.connect(lake.uri.removeprefix("ducklake:sqlite:"))
    # DuckLake 1.0 has no tags of view columns.
    for row in set(CATALOG_ROWS) - {ViewColumnTagRow}:
        written = connection.execute(f"PRAGMA table_info('{table_name(row)}')").fetchall()
        columns = {name: _DATABASE_TYPES[type] for name, type in column_types(row).items()}
        assert list(columns.items()) == [(name, type) for _, name, type, *_ in written], row
    connection.close()


def test_a_row_returns_the_values_it_was_made_from() -> None:
    row = from_values(SchemaRow, [1, "u", 0, None, "main", "main/", 1])

    assert row.schema_name == "main"
    assert row.path_is_relative is True
    assert to_values(row) == (1, "u", 0, None, "main", "main/", True)
