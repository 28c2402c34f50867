"""The catalog's tables in a DuckDB in memory: one SQL dialect for the checks, and no second read.

All tables are read in one transaction of the catalog database, so the checks see one state. They
are the `ducklake_*` tables with the columns of `metadata.rows`, and these:

* `inlined_delete`: the inlined deletes of all tables;
* `inlined_row`: row ids and snapshots of all inlined rows;
* `inlined_table`: which tables for inlined rows exist in the database;
* `named`: the newest name of each table, as `schema.table`;
* `live_file`: the data files of the newest snapshot; `leaf`: the columns of it with their types,
  and whether they are inside of lists or maps;
* `needed_file` and `needed_delete`: the files of all snapshots, each with the newest one that has
  it as `seen_at`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import duckdb
import pyarrow as pa
import sqlalchemy as sa

from lakeport.ducklake.metadata.catalog_tables import existing_tables
from lakeport.ducklake.metadata.queries import CatalogReader
from lakeport.ducklake.metadata.rows import (
    CATALOG_ROWS,
    InlinedDataTableRow,
    column_types,
    table_name,
)
from lakeport.errors import LakeportError
from lakeport.types import NESTED, Column, sql_type

__all__ = ["CatalogCopy"]

_ARROW_TYPES: Final = {int: pa.int64(), bool: pa.bool_(), str: pa.string()}
_INLINED_DELETES: Final = re.compile(r"ducklake_inlined_delete_(\d+)")
_SETTINGS: Final = (
    "SET TimeZone = 'UTC'; SET enable_external_access = false; SET lock_configuration = true"
)
_VIEWS: Final = """
    CREATE VIEW named AS
      SELECT table_id, arg_max(coalesce(schema_name, '?') || '.' || table_name, begin_snapshot)
        AS name
      FROM ducklake_table LEFT JOIN (
        SELECT schema_id, arg_max(schema_name, begin_snapshot) AS schema_name
        FROM ducklake_schema GROUP BY schema_id) USING (schema_id)
      GROUP BY table_id;
    CREATE VIEW live_table AS
      SELECT DISTINCT table_id FROM ducklake_table WHERE end_snapshot IS NULL;
    CREATE VIEW live_file AS
      FROM ducklake_data_file SEMI JOIN live_table USING (table_id) WHERE end_snapshot IS NULL;
    CREATE VIEW live_delete AS
      FROM ducklake_delete_file WHERE end_snapshot IS NULL;
    CREATE TABLE needed_file AS
      SELECT f.*, s.snapshot_id AS seen_at FROM ducklake_data_file f
      ASOF JOIN ducklake_snapshot s
        ON coalesce(f.end_snapshot, 9223372036854775807) > s.snapshot_id
      WHERE s.snapshot_id >= f.begin_snapshot AND EXISTS (
        FROM ducklake_table t WHERE t.table_id = f.table_id AND t.begin_snapshot <= s.snapshot_id
          AND coalesce(t.end_snapshot, 9223372036854775807) > s.snapshot_id);
    CREATE TABLE needed_delete AS
      SELECT d.*, s.snapshot_id AS seen_at, f.record_count FROM ducklake_delete_file d
      ASOF JOIN ducklake_snapshot s
        ON coalesce(d.end_snapshot, 9223372036854775807) > s.snapshot_id
      JOIN needed_file f USING (data_file_id)
      WHERE s.snapshot_id >= d.begin_snapshot AND s.snapshot_id >= f.begin_snapshot
        AND coalesce(f.end_snapshot, 9223372036854775807) > s.snapshot_id;
"""
_ROWS_AT_ONCE: Final = 50_000


class CatalogCopy:
    """The catalog of a lake, for queries in DuckDB's SQL."""

    def __init__(self, catalog: CatalogReader, connection: sa.Connection) -> None:
        self._duck = duckdb.connect()
        self._duck.execute(_SETTINGS)
        for row in CATALOG_ROWS:
            source = catalog.tables[row]
            names = list(column_types(row))
            found = connection.execute(sa.select(*(source.c[name] for name in names)))
            # In parts: as Python's objects, the rows of a large catalog take many times the memory.
            self._store(table_name(row), column_types(row), ())
            for part in found.partitions(_ROWS_AT_ONCE):
                self._append(table_name(row), column_types(row), part)
        self._copy_inlined(catalog, connection)
        self._duck.execute(_VIEWS)
        self._describe_leaves()
        latest = self.value("SELECT max(snapshot_id) FROM ducklake_snapshot")
        self.latest: Final = 0 if latest is None else int(latest)

    def close(self) -> None:
        """Release the memory."""
        self._duck.close()

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return list(self._duck.execute(sql, list(parameters)).fetchall())

    def column(self, sql: str) -> list[Any]:
        """Return the first column of a query."""
        return [row[0] for row in self.rows(sql)]

    def stream(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query in parts; other queries may run meanwhile."""
        with self._duck.cursor() as cursor:
            found = cursor.execute(sql)
            while part := found.fetchmany(_ROWS_AT_ONCE):
                yield from part

    def value(self, sql: str) -> Any:
        """Return the first value of a query; None if it has no row."""
        row = self._duck.execute(sql).fetchone()
        return None if row is None else row[0]

    def _store(self, name: str, types: Mapping[str, Any], values: Sequence[Sequence[Any]]) -> None:
        self._run(f'CREATE TABLE "{name}" AS FROM stored', types, values)

    def _append(self, name: str, types: Mapping[str, Any], values: Sequence[Sequence[Any]]) -> None:
        self._run(f'INSERT INTO "{name}" FROM stored', types, values)

    def _run(self, sql: str, types: Mapping[str, Any], values: Sequence[Sequence[Any]]) -> None:
        columns = list(zip(*values, strict=True)) if values else [()] * len(types)
        arrays = [
            _array(column, type) for column, type in zip(columns, types.values(), strict=True)
        ]
        self._duck.register("stored", pa.table(dict(zip(types, arrays, strict=True))))
        self._duck.execute(sql)
        self._duck.unregister("stored")

    def _copy_inlined(self, catalog: CatalogReader, connection: sa.Connection) -> None:
        database = catalog.database
        existing = set(connection.scalars(sa.select(existing_tables(database).c.table_name)))
        deletes: list[tuple[Any, ...]] = []
        for name in existing:
            matched = _INLINED_DELETES.fullmatch(name)
            if matched is not None:
                source = sa.table(name, *map(sa.column, _DELETES), schema=database.schema)
                found = connection.execute(sa.select(source)).all()
                deletes += [(int(matched[1]), *row) for row in found]
        self._store("inlined_delete", dict.fromkeys(("table_id", *_DELETES), int), deletes)
        rows: list[tuple[Any, ...]] = []
        found_tables: list[tuple[Any, ...]] = []
        directory = catalog.tables[InlinedDataTableRow]
        for table_id, name, _ in connection.execute(sa.select(directory)).all():
            found_tables.append((table_id, name, name in existing))
            if name in existing:
                rows += [(table_id, name, *row) for row in _row_ids(database, connection, name)]
        self._store(
            "inlined_table", {"table_id": int, "table_name": str, "is_there": bool}, found_tables
        )
        self._store(
            "inlined_row",
            {
                "table_id": int,
                "table_name": str,
                "row_id": int,
                "begin_snapshot": int,
                "end_snapshot": int,
            },
            rows,
        )

    def _describe_leaves(self) -> None:
        """Make the table of scalar columns, nested ones too, with their types in DuckDB."""
        leaves: list[tuple[Any, ...]] = []
        repeated: set[tuple[int, int]] = set()
        # A nested column has a larger id than what contains it.
        for table_id, column_id, parent, name, type in self.rows(
            "SELECT table_id, column_id, parent_column, column_name, column_type "
            "FROM ducklake_column SEMI JOIN live_table USING (table_id) "
            "WHERE end_snapshot IS NULL ORDER BY table_id, column_id"
        ):
            is_repeated = (table_id, parent) in repeated
            if is_repeated or type.lower() in _REPEATING:
                repeated.add((table_id, column_id))
            if type.lower() in NESTED:
                continue
            own_type = _duckdb_type(name, type)
            leaves.append((table_id, column_id, name, type.lower(), own_type, is_repeated))
        numbers = dict.fromkeys(("table_id", "column_id"), int)
        texts = dict.fromkeys(("column_name", "type", "duckdb_type"), str)
        self._store("leaf", {**numbers, **texts, "is_repeated": bool}, leaves)


_REPEATING: Final = ("list", "map")
_DELETES: Final = ("file_id", "row_id", "begin_snapshot")


def _row_ids(database: Any, connection: sa.Connection, name: str) -> list[tuple[Any, ...]]:
    """Return row id, begin and end of inlined rows; in format 1.1 the columns have a prefix."""
    names = ("row_id", "begin_snapshot", "end_snapshot")
    everything = sa.select(sa.text("*")).select_from(sa.table(name, schema=database.schema))
    present = list(connection.execute(everything.where(sa.false())).keys())
    prefix = "_ducklake_" if "_ducklake_row_id" in present else ""
    columns: list[Any] = [sa.column(prefix + each) for each in names]
    source = sa.table(name, *columns, schema=database.schema)
    return [tuple(row) for row in connection.execute(sa.select(source)).all()]


def _duckdb_type(name: str, type: str) -> str | None:
    try:
        return sql_type(Column(id=0, name=name, type=type.lower()))
    except LakeportError:
        return None


def _array(values: Sequence[Any], type: type) -> pa.Array:
    try:
        return pa.array(values, _ARROW_TYPES[type])
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        # Times, bytes and documents of a database that has types for them.
        return pa.array([_converted(value, type) for value in values], _ARROW_TYPES[type])


def _converted(value: Any, type: type) -> Any:
    if value is None or type is not str or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return json.dumps(value) if isinstance(value, dict | list) else str(value)
