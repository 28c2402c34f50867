"""The real client: DuckDB with the airport extension, when there is one.

Set `LAKEPORT_AIRPORT_EXTENSION` to the file of an extension built for the installed DuckDB, or let
DuckDB download it. Without either these tests are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lakeport.airport import Server
from lakeport.catalog import Catalog, CatalogBuilder, FunctionReference
from lakeport.memory import MemoryCatalog
from tests.transcripts.catalog_functions import add_functions

EXTENSION = "LAKEPORT_AIRPORT_EXTENSION"
PROBE_SECONDS = 30

# In a process of its own: a broken download must neither hang nor crash the tests.
PROBE = """
import sys, duckdb
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
if sys.argv[1]:
    connection.execute(f"LOAD '{sys.argv[1]}'")
else:
    connection.execute("INSTALL airport FROM community")
    connection.execute("LOAD airport")
"""


@pytest.fixture(scope="session")
def load_airport() -> str:
    """The statement that loads the extension; skips where there is none."""
    path = os.environ.get(EXTENSION, "")
    if path and not Path(path).is_file():
        pytest.fail(f"{EXTENSION} names {path}, which is not a file")
    try:
        probe = subprocess.run(
            [sys.executable, "-c", PROBE, path],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"the airport extension could not be had within {PROBE_SECONDS} s")
    if probe.returncode:
        if path:
            pytest.fail(f"{path} cannot be loaded: {probe.stderr.strip()}")
        pytest.skip(f"INSTALL airport FROM community does not work here, nor is {EXTENSION} set")
    return f"LOAD '{path}'" if path else "LOAD airport"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server with functions, references, and tables that can be changed."""
    builder = CatalogBuilder("built")
    add_functions(builder.schema("utils"))
    people = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "name": ["ada", "bob", None]})
    schema = builder.schema("s", comment="people")
    schema.table("people", people, comment="who", statistics=True)
    file = tmp_path / "more.csv"
    file.write_text("id,name\n4,dan\n")
    schema.reference_table(
        "more",
        FunctionReference("read_csv", (str(file),), {"header": True}),
        schema=pa.schema([("id", pa.int64()), ("name", pa.string())]),
    )
    catalogs: dict[str, Catalog] = {
        "built": builder.build(),
        "changing": MemoryCatalog.from_tables({"s": {"people": people}}),
    }
    with Server(catalogs) as running:
        yield running


@pytest.fixture
def client(load_airport: str, server: Server) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with both catalogs attached: `b` cannot be changed, `m` can."""
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(load_airport)
        for alias, catalog in {"b": "built", "m": "changing"}.items():
            connection.execute(
                f"ATTACH '{catalog}' AS {alias} (TYPE airport, LOCATION '{server.location}')"
            )
        yield connection


def test_attaching_shows_schemas_and_tables(client: duckdb.DuckDBPyConnection) -> None:
    tables = _rows(
        client,
        "SELECT database_name, schema_name, table_name FROM duckdb_tables() "
        "WHERE database_name IN ('b', 'm') ORDER BY ALL",
    )

    assert tables == [("b", "s", "more"), ("b", "s", "people"), ("m", "s", "people")]


@pytest.mark.parametrize("database", ["b", "m"])
def test_a_scan_filters_and_projects(client: duckdb.DuckDBPyConnection, database: str) -> None:
    table = f"{database}.s.people"

    assert _rows(client, f"SELECT name FROM {table} WHERE id = 2") == [("bob",)]
    assert _rows(client, f"SELECT count(*) FROM {table}") == [(3,)]
    assert _rows(client, f"SELECT id FROM {table} WHERE name LIKE 'a%'") == [(1,)]
    assert _rows(client, f"SELECT id FROM {table} WHERE name IS NULL") == [(3,)]
    assert _rows(client, f"SELECT id FROM {table} WHERE id IN (1, 3) ORDER BY 1") == [(1,), (3,)]


def test_a_reference_is_read_by_the_client(client: duckdb.DuckDBPyConnection) -> None:
    assert _rows(client, "SELECT * FROM b.s.more") == [(4, "dan")]


def test_scalar_functions_are_called(client: duckdb.DuckDBPyConnection) -> None:
    assert _rows(client, "SELECT b.utils.test_uppercase('abc')") == [("ABC",)]
    assert _rows(client, "SELECT b.utils.over(1), b.utils.over('a'), b.utils.over(1, 2)") == [
        ("int:1", "str:a", "two")
    ]
    assert _rows(client, "SELECT sum(b.utils.test_add(i, 1)) FROM range(5000) r(i)") == [
        (12502500,)
    ]


def test_table_functions_are_called(client: duckdb.DuckDBPyConnection) -> None:
    assert _rows(client, "SELECT * FROM b.utils.test_repeat('x', 2)") == [("x",), ("x",)]
    assert _rows(client, "SELECT label FROM b.utils.named(1, label := 'L')") == [("L",)]
    assert _rows(client, "SELECT * FROM b.utils.dictout()") == [("x",), ("y",), ("x",)]


def test_in_out_functions_are_called(client: duckdb.DuckDBPyConnection) -> None:
    total = "SELECT * FROM b.utils.io_sum((SELECT i FROM range(5000) r(i)))"
    full_chunk = "SELECT count(*) FROM b.utils.io_fin(2048, (SELECT 1 AS a))"

    assert _rows(client, total) == [(12497500,)]
    assert _rows(client, full_chunk) == [(2048,)]


def test_rows_are_inserted_updated_and_deleted(client: duckdb.DuckDBPyConnection) -> None:
    people = "m.s.people"

    assert _rows(client, f"INSERT INTO {people} VALUES (4, 'eve') RETURNING id, name") == [
        (4, "eve")
    ]
    assert _rows(client, f"UPDATE {people} SET name = 'eva' WHERE id = 4 RETURNING name, id") == [
        ("eva", 4)
    ]
    assert _rows(client, f"DELETE FROM {people} WHERE id < 3") == [(2,)]
    assert _rows(client, f"SELECT id, name FROM {people} ORDER BY id") == [(3, None), (4, "eva")]


def test_earlier_versions_can_be_read(client: duckdb.DuckDBPyConnection) -> None:
    before = _rows(client, "SELECT count(*) FROM m.s.people AT (VERSION => 1)")
    client.execute("INSERT INTO m.s.people SELECT range + 10, 'new' FROM range(5000)")

    assert before == [(3,)]
    assert _rows(client, "SELECT count(*) FROM m.s.people AT (VERSION => 1)") == [(3,)]
    assert _rows(client, "SELECT count(*) FROM m.s.people") == [(5003,)]


def test_tables_are_created_altered_and_dropped(client: duckdb.DuckDBPyConnection) -> None:
    client.execute("CREATE SCHEMA m.w")
    client.execute("CREATE TABLE m.w.t AS SELECT range AS i, 'x' AS s FROM range(3)")
    client.execute("ALTER TABLE m.w.t ADD COLUMN d DATE")
    client.execute("ALTER TABLE m.w.t RENAME COLUMN s TO text")
    client.execute("ALTER TABLE m.w.t ALTER i TYPE INTEGER")

    assert _rows(client, "SELECT * FROM m.w.t WHERE i > 1") == [(2, "x", None)]

    client.execute("ALTER TABLE m.w.t RENAME TO u")
    client.execute("DROP TABLE m.w.u")
    client.execute("DROP SCHEMA m.w")
    with pytest.raises(duckdb.CatalogException):
        client.execute("SELECT * FROM m.w.u")


def test_an_error_is_one_sentence_of_the_right_type(client: duckdb.DuckDBPyConnection) -> None:
    client.execute("CREATE SCHEMA m.c")
    client.execute("CREATE TABLE m.c.t (a INTEGER PRIMARY KEY)")
    client.execute("INSERT INTO m.c.t VALUES (1)")

    with pytest.raises(duckdb.Error) as caught:
        client.execute("INSERT INTO m.c.t VALUES (1)")

    assert "Traceback" not in str(caught.value)
    assert isinstance(caught.value, duckdb.ConstraintException)


def _rows(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
    return rows
