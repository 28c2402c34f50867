"""Indexes of the catalog database. DuckLake creates none, and makes use of those that exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import sqlalchemy as sa

from lakeport.ducklake.maintenance.doctor.examination import Examination, Flaw, report
from lakeport.ducklake.maintenance.doctor.findings import CreateIndex, Finding, Severity
from lakeport.ducklake.metadata.database import Database

__all__ = ["INDEXES", "existing_indexes", "missing_indexes"]

# The columns by which readers and writers look up rows.
INDEXES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("ducklake_column", ("table_id",)),
    ("ducklake_table", ("table_id",)),
    ("ducklake_data_file", ("table_id",)),
    ("ducklake_data_file", ("data_file_id",)),
    ("ducklake_delete_file", ("table_id",)),
    ("ducklake_delete_file", ("data_file_id",)),
    ("ducklake_file_column_stats", ("table_id", "column_id")),
    ("ducklake_file_column_stats", ("data_file_id",)),
    ("ducklake_file_partition_value", ("table_id",)),
    ("ducklake_table_stats", ("table_id",)),
    ("ducklake_table_column_stats", ("table_id",)),
    ("ducklake_schema_versions", ("table_id",)),
)
_MANY_ROWS: Final = 10_000


def missing_indexes(exam: Examination) -> Iterator[Finding]:
    """Find large tables of the catalog database that have no index for common queries.

    A DuckDB file needs none: it reads columns, and an index would slow down its writes.
    """
    if exam.kind == "duckdb":
        return
    flaws = []
    for table, columns in INDEXES:
        count = exam.copy.value(f"SELECT count(*) FROM {table}")
        # A primary key on `data_file_id` serves as well.
        if count >= _MANY_ROWS and not any(
            name == table and found[: len(columns)] == columns for name, found in exam.indexes
        ):
            example = f"{table} ({', '.join(columns)}), {count:,} rows"
            flaws.append(Flaw(None, example, [CreateIndex(table, columns)]))
    yield from report(
        exam,
        flaws,
        check="missing_indexes",
        severity=Severity.NOTE,
        what="large tables of the catalog database have no index",
        effect="plans and commits read whole tables of the catalog",
        remedy="create the indexes; DuckLake tolerates them",
    )


def existing_indexes(
    database: Database, connection: sa.Connection
) -> frozenset[tuple[str, tuple[str, ...]]]:
    """Return the tables and the columns of the indexes that exist."""
    if database.kind == "duckdb":
        return frozenset()
    inspector = sa.inspect(connection)
    found = set()
    for table in {table for table, _ in INDEXES}:
        if not inspector.has_table(table, schema=database.schema):
            continue
        primary = inspector.get_pk_constraint(table, schema=database.schema)
        found.add((table, tuple(primary["constrained_columns"])))
        for index in inspector.get_indexes(table, schema=database.schema):
            found.add((table, tuple(name or "" for name in index["column_names"])))
    return frozenset(found)
