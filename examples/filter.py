"""A table over another database, with columns and filters pushed down into its SQL.

The filter becomes a WHERE clause. What that cannot express is left out: DuckDB drops the surplus
rows itself, so a wider filter is slower, never wrong.

Run it with `--serve` and type, in DuckDB:

    ATTACH 'archive' AS archive (TYPE airport, LOCATION 'grpc://127.0.0.1:8815');
    SELECT name FROM archive.people.people WHERE born BETWEEN 1900 AND 1910 AND name LIKE 'G%';
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Sequence

import pyarrow as pa

import lakeport
from lakeport.filters import DuckDBEncoder, Filter, FunctionCall, walk

PEOPLE = [("Ada", 1815), ("Grace", 1906), ("Alan", 1912), ("Edsger", 1930), ("Barbara", 1939)]


class SqlitePeople:
    """A table in SQLite. Everything that reaches it is printed."""

    name = "people"
    comment = "Read with SQL"

    def __init__(self) -> None:
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute("CREATE TABLE people (full_name TEXT, born INTEGER)")
        self._database.executemany("INSERT INTO people VALUES (?, ?)", PEOPLE)
        self._lock = threading.Lock()

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns, or the named ones."""
        schema = pa.schema([("name", pa.string()), ("born", pa.int64())])
        return lakeport.project_schema(schema, columns)

    def scan(self, options: lakeport.ScanOptions) -> pa.RecordBatchReader:
        """Ask SQLite for the wanted columns and, as far as possible, the wanted rows."""
        schema = self.arrow_schema(options.columns)
        names = {"name": "full_name AS name", "born": "born"}
        sql = f"SELECT {', '.join(names[name] for name in schema.names)} FROM people"
        where = sqlite_condition(options.filter)
        if where:
            sql += f" WHERE {where}"
        print(f"  SQLite runs: {sql}")
        with self._lock:
            rows = self._database.execute(sql).fetchall()
        columns = zip(*rows, strict=True) if rows else [()] * len(schema)
        return pa.table([list(column) for column in columns], schema=schema).to_reader()


def sqlite_condition(filter: lakeport.Filter) -> str:
    """Return the conjuncts that mean the same in SQLite: those without functions."""
    plain = [
        conjunct
        for conjunct in filter.conjuncts
        if not any(isinstance(node, FunctionCall) for node in walk(conjunct))
    ]
    return DuckDBEncoder(column_mapping={"name": "full_name"}).encode(Filter(tuple(plain)))


def main() -> None:
    catalog = lakeport.CatalogBuilder("archive").schema("people").table(SqlitePeople()).build()
    if "--serve" in sys.argv:
        lakeport.serve(catalog)
        return
    with lakeport.Server(catalog) as server, lakeport.connect(server.location) as client:
        people = client.table("people.people")
        born, name = lakeport.col("born"), lakeport.col("name")
        for where in (born.between(1900, 1910), (born > 1900) & name.starts_with("G")):
            print(people.scan(columns=["name"], filter=where).to_arrow().to_pylist())


if __name__ == "__main__":
    main()
