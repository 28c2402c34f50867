"""Which tables, and which rows, may be inlined in a catalog database.

The rules are those of DuckLake 1.0, and a few more: rows whose form in the database the reference
implementation or this reader would read as another value are written to files instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from lakeport.arrow import thread_connection
from lakeport.ducklake.metadata.location import DatabaseKind
from lakeport.ducklake.reading.data_files import INTERNAL_ROW_ID
from lakeport.ducklake.reading.delete_files import INTERNAL_SNAPSHOT
from lakeport.ducklake.writing.inlining.tables import system_columns
from lakeport.ducklake.writing.inlining.values import text_form
from lakeport.types import NESTED, Column, fold_name, has_zoned_nanoseconds, sql_type

__all__ = ["accepts_rows", "obstacle"]

_INTERNAL: Final = frozenset({INTERNAL_ROW_ID, INTERNAL_SNAPSHOT})
# With the three columns of the system, below what the database can hold in one table.
_MOST_COLUMNS: Final[Mapping[DatabaseKind, int]] = {
    "sqlite": 1990,
    "postgresql": 1590,
    "mysql": 190,
}


def obstacle(
    kind: DatabaseKind, columns: Sequence[Column], *, has_prefix: bool = False
) -> str | None:
    """Return why rows of a table with these columns cannot be inlined; None if they can be."""
    if len(columns) > _MOST_COLUMNS.get(kind, len(columns)):
        return f"a table of the catalog database cannot have {len(columns)} columns"
    reserved = _INTERNAL.union(system_columns(has_prefix=has_prefix))
    for column in columns:
        if fold_name(column.name) in reserved:
            return f"the name {column.name!r} is reserved in inlined tables"
        if not _fits(kind, column.name):
            return f"the name {column.name!r} is too long for the catalog database"
        for node in column.walk():
            if reason := _type_obstacle(kind, node, nested=node is not column):
                return f"column {column.name!r} {reason}"
    return None


def accepts_rows(kind: DatabaseKind, rows: pa.Table, columns: Sequence[Column]) -> bool:
    """Return whether the database's forms of the rows are read back as the same values.

    Only text of nested values can differ. The reference reads it by a cast. This reader parses a
    struct as SQL, as the reference writes it, where a backslash has another meaning.
    """
    if kind == "duckdb" or not rows.num_rows:
        return True
    tests = []
    for index, column in enumerate(columns):
        if column.type in NESTED:
            name, text = f"c{index}", f"CAST(c{index} AS VARCHAR)"
            stored = text_form(name, column)
            tests.append(f"CAST({stored} AS {sql_type(column)}) IS NOT DISTINCT FROM {name}")
            tests.append(f"NOT coalesce(contains({text}, chr(0)), false)")
            if column.type == "struct":
                tests.append(f"NOT coalesce(contains({text}, '\\'), false)")
    if not tests:
        return True
    import duckdb

    source = thread_connection().from_arrow(
        rows.rename_columns([f"c{index}" for index in range(len(columns))])
    )
    try:
        (accepted,) = source.aggregate(f"bool_and({' AND '.join(tests)})").fetchall()[0]
    except duckdb.Error:  # the text of a value does not cast back
        return False
    return bool(accepted)


def _fits(kind: DatabaseKind, name: str) -> bool:
    if kind == "postgresql":
        return len(name.encode()) <= 63
    return kind != "mysql" or (len(name) <= 64 and not name.endswith(" "))


def _type_obstacle(kind: DatabaseKind, node: Column, *, nested: bool) -> str | None:
    """Return the reason why values of a type cannot be inlined in a database."""
    if node.type == "geometry":
        return "is or contains a geometry, which is never inlined"
    if kind == "duckdb":
        missing = node.type == "timestamptz_ns" and not has_zoned_nanoseconds()
        return "needs DuckDB 2.0 or newer" if missing else None
    if node.type == "variant":
        return "is or contains a variant, which only a DuckDB file can hold"
    if node.type == "json" and nested:
        # duckdb/ducklake 1.5.5 cannot read such rows back: issue 1175.
        return "contains JSON, which DuckLake cannot read back from text"
    if node.type == "time_ns" and kind == "postgresql" and not nested:
        return "is a time in nanoseconds, which PostgreSQL does not have"
    return None
