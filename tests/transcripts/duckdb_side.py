"""DuckDB in the place of the client: runs a recorded statement over the rows that we received."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from tests.transcripts.recording import Statement
from tests.transcripts.reply_checks import Entry, Listing

__all__ = ["OFFLINE", "DuckDBSide", "attached_as", "encoded_rows"]

OFFLINE = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
"""No test asks the network for an extension."""

Name = tuple[str, ...]
"""A table: alias of its database, schema, name."""

_ATTACH = re.compile(r"ATTACH '([^']*)' AS (\w+)")

# Random, or about the plan and not the rows.
_NOT_COMPARABLE = re.compile(
    r"USING SAMPLE|^EXPLAIN|stats\(|airport_take_flight|\.utils\.|^SUMMARIZE"
)


class DuckDBSide:
    """A local DuckDB with a table for every table of the attached catalogs."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(config=OFFLINE)
        self._defined: dict[Name, pa.Schema] = {}
        self._filled: dict[Name, bool] = {}
        self.checked = 0
        """How many statements were run and compared."""

    def close(self) -> None:
        """Drop everything."""
        self._connection.close()

    def attach(self, alias: str) -> None:
        """Attach an empty database."""
        self._connection.execute(f"ATTACH ':memory:' AS {alias}")

    def detach(self, alias: str) -> None:
        """Detach a database."""
        self._connection.execute(f"DETACH {alias}")

    def create_schema(self, alias: str, name: str) -> None:
        """Make a schema, unless it is there."""
        self._connection.execute(f'CREATE SCHEMA IF NOT EXISTS {alias}."{name}"')

    def define(self, alias: str, listing: Listing) -> None:
        """Learn the tables of a listing; those that a statement names exist, without rows."""
        for schema in listing.schemas:
            self.create_schema(alias, schema.name)
            for entry in schema.entries:
                if entry.kind == "table":
                    self.define_table(alias, entry)

    def define_table(self, alias: str, entry: Entry) -> None:
        """Learn a table."""
        self._defined[alias, entry.schema_name, entry.name] = entry.schema

    def fill(self, table: Name, rows: pa.Table, *, with_rowid: bool = False) -> None:
        """Make a table of rows that the next statement reads.

        The row identifier is a column only where the statement asks for it.
        """
        rowid = [f.name for f in rows.schema if (f.metadata or {}).get(b"is_rowid")]
        columns = [f'"{name}"' for name in rows.schema.names if name not in rowid]
        if with_rowid:
            columns += [f'"{name}" AS rowid' for name in rowid]
        self._connection.register("received", rows)
        self._connection.execute(
            f"CREATE OR REPLACE TABLE {_quoted(table)} AS SELECT {', '.join(columns)} FROM received"
        )
        self._connection.unregister("received")
        self._filled[table] = True

    def prepare(self, statement: Statement) -> None:
        """Run a statement that only changes the session."""
        self._make_tables(statement.sql)
        self._connection.execute(statement.sql)

    def check(self, statement: Statement) -> None:
        """The statement gives the recorded rows."""
        if _NOT_COMPARABLE.search(statement.sql):
            return
        self._make_tables(statement.sql)
        self.checked += 1
        sql, outcome = without_time_travel(statement.sql), statement.outcome
        if sql.startswith("COPY "):
            rows = self._connection.execute(sql).fetchall()
        else:
            relation = self._connection.sql(sql)
            types = [str(type) for type in relation.types]
            assert types == [kind for _, kind in outcome.columns], statement.sql
            rows = relation.fetchall()
        assert len(rows) == outcome.row_count, statement.sql
        if len(rows) == len(outcome.rows):
            assert encoded_rows(rows) == encoded_rows(outcome.rows), statement.sql

    def _make_tables(self, sql: str) -> None:
        """Make the tables that a statement names; those that it does not scan have no rows."""
        for table, columns in self._defined.items():
            if ".".join(table) in sql and not self._filled.get(table):
                self.fill(table, pa.Table.from_batches([], columns))
        self._filled = dict.fromkeys(self._filled, False)


def attached_as(sql: str) -> tuple[str, str] | None:
    """The catalog and alias of an ATTACH statement."""
    found = _ATTACH.match(sql)
    if found is None:
        return None
    catalog, alias = found.groups()
    if catalog.startswith("grpc://"):
        catalog = catalog.removeprefix("grpc://").partition("/")[2].partition("?")[0]
    return catalog, alias


def encoded_rows(rows: Iterable[Sequence[Any]]) -> Counter[str]:
    """Rows as they were written down: JSON, with the text of whatever JSON does not have."""
    return Counter(json.dumps([_plain(value) for value in row], sort_keys=True) for row in rows)


def without_time_travel(sql: str) -> str:
    """The statement without its AT clauses: the rows received are those of that time."""
    while found := re.search(r" AT \(", sql):
        depth, end = 1, found.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        sql = sql[: found.start()] + sql[end:]
    return sql


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return {"bytes_hex": bytes(value).hex()}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _quoted(table: Name) -> str:
    return ".".join(f'"{part}"' for part in table)
