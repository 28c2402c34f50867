"""Rows of a lake in a form that can be compared, and random questions about them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from lakeport.filters import bind, to_json
from lakeport.filters.sql import parse_sql_filter
from tests.airport.flight_client import ROWID_COLUMN, RawFlightClient
from tests.fixtures_lakes import RealLake, quote
from tests.lakehouse.conftest import Served

# Values of these cannot be written as one text, or do not compare.
_ONLY_NULLS = (
    "INTERVAL", "JSON", "GEOMETRY", "BLOB", "[]", "MAP", "STRUCT", "TIME WITH TIME ZONE", "HUGEINT",
)  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """Names and types of columns, and the rows as text, in one order."""

    columns: list[tuple[str, str]]
    rows: list[tuple[Any, ...]]


@dataclass(frozen=True)
class Question:
    """A scan of a table: of an earlier snapshot, or with columns and a condition."""

    schema: str
    table: str
    columns: tuple[str, ...] | None = None
    where: str = ""
    version: int | None = None

    def ask_real(self, lake: RealLake) -> Rows:
        """What the real implementation answers."""
        lake.attach()
        at = "" if self.version is None else f" AT (VERSION => {self.version})"
        source = f"lake.{quote(self.schema)}.{quote(self.table)}{at}"
        return read(lake.connection, source, self.columns, self.where)

    def ask_ours(self, served: Served) -> Rows:
        """What a client of our server reads; of a condition, what DuckDB keeps of it."""
        schema = served.catalog.main_schema if self.schema == "main" else self.schema
        if self.where:
            return self._filtered(served, schema)
        scan = served.client.table(self.table, schema=schema).scan(version=self.version)
        return rows_of(scan.select(*scan.schema.names, "rowid").to_arrow())

    def _filtered(self, served: Served, schema: str) -> Rows:
        """The condition goes to the server as a hint, and is applied again to what comes."""
        wire = RawFlightClient(served.server, served.flight, {})
        table = served.catalog.lake.table(self.table, self.schema)
        condition = bind(parse_sql_filter(self.where, table.columns), table.schema)
        names = table.schema.names
        needed = dict.fromkeys([*sorted(condition.columns), *(self.columns or names)])
        described = wire.items(schema)[self.table]
        found = wire.endpoints(
            described.descriptor,
            column_ids=[*(names.index(name) for name in needed), ROWID_COLUMN],
            filters=to_json(condition),
        )
        nothing = pa.Table.from_batches([], described.schema)
        rows = pa.concat_tables([nothing, *(wire.read(part.ticket) for part in found)])
        return rows_of(rows, self.columns, self.where)


def read(
    connection: duckdb.DuckDBPyConnection,
    source: str,
    columns: tuple[str, ...] | None = None,
    where: str = "",
) -> Rows:
    """The rows of a DuckDB relation that has row ids."""
    described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    types = {name: type.replace("VARIANT", "JSON") for name, type, *_ in described}
    types.pop("rowid", None)
    chosen = [(name, types[name]) for name in columns or types]
    texts = [
        f"CASE WHEN {quote(name)} IS NOT NULL THEN {quote(name)}::JSON::VARCHAR END"
        if type == "JSON"
        else f"{quote(name)}::VARCHAR"
        for name, type in chosen
    ]
    condition = f" WHERE {where}" if where else ""
    found = connection.execute(
        f"SELECT {', '.join(['rowid', *texts])} FROM {source}{condition}"
    ).fetchall()
    return Rows(chosen, sorted(found, key=repr))


def rows_of(rows: pa.Table, columns: tuple[str, ...] | None = None, where: str = "") -> Rows:
    """The same of what a client has received."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("received", rows)
        # Conditions on Arrow data itself are pushed into Arrow, which lacks some of them.
        connection.execute("CREATE TABLE kept AS FROM received")
        return read(connection, "kept", columns, where)


def random_questions(lake: RealLake, count: int, seed: str) -> list[Question]:
    """Columns and conditions on the newest tables of a lake, with values that occur there."""
    choice = random.Random(seed)
    tables = lake.tables(lake.snapshots()[-1])
    if not tables:
        return []
    return [_random_question(lake, *choice.choice(tables), choice) for _ in range(count)]


def _random_question(lake: RealLake, schema: str, table: str, choice: random.Random) -> Question:
    source = f"lake.{quote(schema)}.{quote(table)}"
    described = lake.query(f"DESCRIBE SELECT * FROM {source}")
    # A variant that is NULL becomes the JSON text null, with which no condition on it agrees.
    columns = [(row[0], row[1]) for row in described if row[1] != "VARIANT"]
    parts = [
        _condition(lake, source, *choice.choice(columns), choice)
        for _ in range(choice.choice([1, 1, 2, 3]))
    ]
    where = parts[0]
    for part in parts[1:]:
        where = f"({where}) {choice.choice(['AND', 'OR'])} ({part})"
    names = [name for name, _ in columns]
    chosen = tuple(choice.sample(names, choice.randint(1, len(names))))
    return Question(schema, table, columns=chosen, where=where)


def _condition(lake: RealLake, source: str, name: str, type: str, choice: random.Random) -> str:
    column = quote(name)
    null = choice.choice([f"{column} IS NULL", f"{column} IS NOT NULL"])
    if any(word in type for word in _ONLY_NULLS):
        return null
    found = lake.query(
        f"SELECT DISTINCT {column}::VARCHAR FROM {source} WHERE {column} IS NOT NULL"
        f" ORDER BY 1 LIMIT 50"
    )
    if not found:
        return null
    low, high = (_text(choice.choice(found)[0]) for _ in range(2))
    shapes = [
        null,
        f"{column} = {low}",
        f"{column} <> {low}",
        f"{column} > {low}",
        f"NOT ({column} <= {low})",
        f"{column} IN ({low}, {high})",
        f"{column} BETWEEN {low} AND {high}",
        f"{column} IS DISTINCT FROM {low}",
    ]
    if type == "VARCHAR":
        shapes += [f"{column} LIKE {_text(low[1:3].replace(chr(39), '') + '%')}"]
    return choice.choice(shapes)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
