"""Every type that DuckDB sends: CREATE, INSERT, UPDATE and CTAS, beside the reference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyarrow import flight

from tests.fixtures_lakes import connect
from tests.lakehouse.writing.conftest import Write, Written
from tests.lakehouse.writing.duckdb_client import DuckDBClient

TYPES = {
    "BOOLEAN": ("true", "false"),
    "TINYINT": ("-128", "127"),
    "SMALLINT": ("-32768", "32767"),
    "INTEGER": ("-2147483648", "7"),
    "BIGINT": ("-9223372036854775808", "9"),
    "UTINYINT": ("255", "0"),
    "USMALLINT": ("65535", "0"),
    "UINTEGER": ("4294967295", "0"),
    "UBIGINT": ("18446744073709551615", "0"),
    "HUGEINT": ("-4503599627370496", "5"),
    "UHUGEINT": ("4503599627370496", "5"),
    "FLOAT": ("1.5", "'-inf'"),
    "DOUBLE": ("'inf'", "0.1"),
    "DECIMAL(4,1)": ("999.9", "-0.1"),
    "DECIMAL(9,2)": ("1.25", "-1"),
    "DECIMAL(18,3)": ("123456789012345.678", "0"),
    "DECIMAL(38,10)": ("1234567890123456789012345678.0123456789", "-1"),
    "VARCHAR": ("'it''s ü'", "''"),
    "BLOB": (r"'\x00\xFF'::BLOB", "''::BLOB"),
    "DATE": ("'0044-03-15 (BC)'", "'2024-02-29'"),
    "TIME": ("'23:59:59.999999'", "'00:00:00'"),
    "TIMETZ": ("'12:00:00.5+02:30'", "'23:59:59-15:59'"),
    "TIMESTAMP_S": ("'2024-01-01 12:00:01'", "'1969-12-31'"),
    "TIMESTAMP_MS": ("'2024-01-01 12:00:01.123'", "'1969-12-31'"),
    "TIMESTAMP": ("'2024-01-01 12:00:01.123456'", "'infinity'"),
    "TIMESTAMP_NS": ("'2024-01-01 12:00:01.123456789'", "'1969-12-31'"),
    "TIMESTAMPTZ": ("'2024-01-01 12:00:01.5+02'", "'-infinity'"),
    "INTERVAL": ("INTERVAL '1 year 3 days 4.5 seconds'", "INTERVAL '5 days'"),
    "UUID": ("'12345678-1234-5678-1234-567812345678'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"),
    "JSON": ("""'{"a": [1, null]}'""", "'1'"),
    "GEOMETRY": ("'POINT (1 2)'", "'LINESTRING (0 0, 1 1)'"),
    "INTEGER[]": ("[1, NULL]", "[]"),
    "STRUCT(a INTEGER, b VARCHAR)": ("{'a': 1, 'b': NULL}", "{'a': NULL, 'b': 'x'}"),
    "MAP(VARCHAR, INTEGER)": ("MAP {'a': 1}", "MAP {}"),
    "STRUCT(l STRUCT(x DOUBLE)[], m MAP(INTEGER, VARCHAR[]))": (
        "{'l': [{'x': 1.5}], 'm': MAP {1: ['a', NULL]}}",
        "{'l': [], 'm': NULL}",
    ),
    "STRUCT(u UUID, h HUGEINT, b BOOLEAN)": (
        "{'u': '12345678-1234-5678-1234-567812345678', 'h': 5, 'b': true}",
        "NULL",
    ),
    "UUID[]": ("['12345678-1234-5678-1234-567812345678']", "[]"),
    "JSON[]": ("['{}'::JSON]", "[]"),
    "GEOMETRY[]": ("['POINT (1 2)'::GEOMETRY]", "[]"),
    "STRUCT(g GEOMETRY)": ("{'g': 'POINT (1 2)'::GEOMETRY}", "NULL"),
    "TIMESTAMP_NS[]": ("['2024-01-01 12:00:01.123456789']", "[]"),
    "TIMESTAMPTZ[]": ("['2024-01-01 12:00:01.5+02']", "[]"),
    "DECIMAL(20,5)[]": ("[1.5]", "[]"),
    "MAP(INTEGER, STRUCT(a DATE[]))": ("MAP {1: {'a': ['2024-01-01']}}", "NULL"),
}
"""SQL types, with two values of each."""
NOT_SENT_WHOLE = ("TIMETZ",)
"""Types that DuckDB sends in a usable form only with lossless conversion."""
NOT_IN_FILES = {
    "HUGEINT": ("1", "170141183460469231731687303715884105727"),
    "UHUGEINT": ("1", "340282366920938463463374607431768211455"),
    "TIME_NS": ("'01:02:03'", "'01:02:03.000000004'"),
}
"""SQL types with two values, of which the catalog database holds both, and a file the first."""
OTHERS = {
    "ENUM('a', 'b')": ("'a'", "'b'", "VARCHAR"),
    "INTEGER[3]": ("[1, 2, 3]", "[4, NULL, 6]", "INTEGER[]"),
    "ENUM('a', 'b')[]": ("['a', 'b']", "[]", "VARCHAR[]"),
    "STRUCT(e ENUM('x', 'y'))": ("{'e': 'x'}", "NULL", "STRUCT(e VARCHAR)"),
    "INTEGER[2][]": ("[[1, 2], [3, 4]]", "[]", "INTEGER[][]"),
}
"""SQL types that the reference refuses, with two values and the type that a lake stores instead."""
REFUSED = ("BIT", "BIGNUM", "UNION(n INTEGER, s VARCHAR)", "STRUCT(inner_bit BIT)")
NOT_SENT = ("VARIANT", "NULL", "TYPE")
"""Types of DuckDB that its client cannot send, or that no column has."""


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(connect()) as connection:
        yield connection


def test_every_type_of_duckdb_is_tested(duck: duckdb.DuckDBPyConnection) -> None:
    tested = {
        duck.execute(f"SELECT typeof(NULL::{type})").fetchall()[0][0]
        for type in (*TYPES, *NOT_IN_FILES, *OTHERS, *REFUSED)
    }
    # Those with parameters are named by the words before them.
    names = {re.split(r"[(\[]", type)[0] for type in tested}
    names |= {"LIST", "ARRAY"} if {"INTEGER[]", "INTEGER[3]"} <= tested else set()

    known = {name for (name,) in duck.execute("SELECT logical_type FROM duckdb_types()").fetchall()}

    assert known - names == set(NOT_SENT)


@pytest.mark.parametrize("lossless", [True, False])
@pytest.mark.parametrize("row_limit", [0, 100])
def test_values_of_every_type_are_stored_as_by_the_reference(
    write: Write, duck: duckdb.DuckDBPyConnection, *, row_limit: int, lossless: bool
) -> None:
    here = write(f"CALL lake.set_option('data_inlining_row_limit', '{row_limit}')")
    duck.execute(f"SET arrow_lossless_conversion = {lossless}")
    types = {
        f"c{number}": (type, *values)
        for number, (type, values) in enumerate(TYPES.items())
        if lossless or type not in NOT_SENT_WHOLE
    }
    columns = ", ".join(f"{name} {type}" for name, (type, *_) in types.items())
    first = ", ".join(value for _, value, _ in types.values())
    second = ", ".join(value for _, _, value in types.values())
    empty = ", ".join("NULL" for _ in types)

    with DuckDBClient(here.server.location, here.catalog.name, duck) as client:
        client.create_table("public", "t", columns)
        known = {name: type for name, type, *_ in duck.execute("DESCRIBE twin").fetchall()}
        client.insert("public", "t", f"VALUES ({first}), ({empty}), ({second})")
        changed = client.update("public", "t", _changes(duck, known, second))
        assert changed.count == 1
        # The rows of CREATE TABLE AS are in the types that the server returned.
        values = ", ".join(f"CAST({v} AS {known[n]}) AS {n}" for n, (_, v, _) in types.items())
        client.create_table_as("public", "copied", f"SELECT {values}")

    defined = ", ".join(f"{name} {type}" for name, type in known.items())
    here.reference(
        f"CREATE TABLE t ({defined})",
        f"INSERT INTO t VALUES ({first}), ({empty}), ({second})",
        f"UPDATE t SET ({', '.join(known)}) = ({second}) WHERE rowid = 0",
        f"CREATE TABLE copied AS SELECT {values}",
    )
    _compare_as_text(here, "t", known)
    _compare_as_text(here, "copied", known)
    if lossless:
        declared = duck.execute(f"CREATE OR REPLACE TEMP TABLE declared ({columns})").execute(
            "DESCRIBE declared"
        )
        assert known == {name: type for name, type, *_ in declared.fetchall()}


def test_types_that_a_lake_lacks_are_stored_as_others(
    write: Write, duck: duckdb.DuckDBPyConnection
) -> None:
    here = write()
    duck.execute("SET arrow_lossless_conversion = true")
    types = {f"c{number}": (type, *rest) for number, (type, rest) in enumerate(OTHERS.items())}
    columns = ", ".join(f"{name} {type}" for name, (type, *_) in types.items())
    first = ", ".join(value for _, value, _, _ in types.values())
    second = ", ".join(value for _, _, value, _ in types.values())

    with DuckDBClient(here.server.location, here.catalog.name, duck) as client:
        client.create_table("public", "t", columns)
        known = {name: type for name, type, *_ in duck.execute("DESCRIBE twin").fetchall()}
        client.insert("public", "t", f"VALUES ({first}), ({second})")

    assert known == {name: stored for name, (*_, stored) in types.items()}
    defined = ", ".join(f"{name} {type}" for name, type in known.items())
    here.reference(f"CREATE TABLE t ({defined})", f"INSERT INTO t VALUES ({first}), ({second})")
    _compare_as_text(here, "t", known)


@pytest.mark.parametrize("type", REFUSED)
def test_types_that_a_lake_cannot_store_are_refused_by_the_name_of_the_column(
    write: Write, duck: duckdb.DuckDBPyConnection, type: str
) -> None:
    here = write()
    duck.execute("SET arrow_lossless_conversion = true")
    before = here.catalog.lake.snapshot().id

    with DuckDBClient(here.server.location, here.catalog.name, duck) as client:
        with pytest.raises(pa.ArrowNotImplementedError, match=r"column '(v|inner_bit)' has type"):
            client.create_table("public", "t", f"id INTEGER, v {type}")
        with pytest.raises(pa.ArrowNotImplementedError, match=r"column '(v|inner_bit)' has type"):
            client.create_table_as("public", "t", f"SELECT NULL::{type} AS v")

    assert here.catalog.lake.snapshot().id == before


@pytest.mark.parametrize("type", NOT_IN_FILES)
def test_values_that_files_cannot_hold_are_stored_in_the_catalog_database(
    write: Write, duck: duckdb.DuckDBPyConnection, type: str
) -> None:
    here = write()
    duck.execute("SET arrow_lossless_conversion = true")
    values = ", ".join(f"({value})" for value in NOT_IN_FILES[type])

    with DuckDBClient(here.server.location, here.catalog.name, duck) as client:
        client.create_table("public", "t", f"v {type}")
        client.insert("public", "t", f"VALUES {values}")

    here.reference(f"CREATE TABLE t (v {type})", f"INSERT INTO t VALUES {values}")
    _compare_as_text(here, "t", {"v": type})


@pytest.mark.parametrize("type", NOT_IN_FILES)
def test_values_that_files_cannot_hold_are_refused_by_the_name_of_the_column(
    write: Write, duck: duckdb.DuckDBPyConnection, type: str
) -> None:
    here = write("CALL lake.set_option('data_inlining_row_limit', '0')")
    duck.execute("SET arrow_lossless_conversion = true")
    values = ", ".join(f"({value})" for value in NOT_IN_FILES[type])

    with DuckDBClient(here.server.location, here.catalog.name, duck) as client:
        client.create_table("public", "t", f"v {type}")
        before = here.catalog.lake.snapshot().id
        with pytest.raises((pa.ArrowException, flight.FlightError), match="column 'v'"):
            client.insert("public", "t", f"VALUES {values}")

    assert here.catalog.lake.snapshot().id == before
    assert list(Path(here.ours.data_path).rglob("*.parquet")) == []


def _changes(duck: duckdb.DuckDBPyConnection, known: dict[str, str], values: str) -> pa.Table:
    """The SET columns of an UPDATE of the first row, in the types of the twin, and its rowid."""
    duck.execute("CREATE OR REPLACE TEMP TABLE changes AS FROM twin LIMIT 0")
    duck.execute(f"INSERT INTO changes VALUES ({values})")
    return duck.sql(f"SELECT {', '.join(known)}, 0::BIGINT AS rowid FROM changes").to_arrow_table()


def _compare_as_text(here: Written, table: str, known: dict[str, str]) -> None:
    """Compare all values as text: some types have no Python value, or an inexact one."""
    found = []
    for lake in (here.ours, here.theirs):
        shown = ", ".join(f"{name}::VARCHAR" for name in known)
        rows = lake.query(f"SELECT rowid, {shown} FROM {table} ORDER BY rowid")
        types = {name: type for name, type, *_ in lake.query(f"DESCRIBE {table}")}
        found.append((types, rows))
        lake.detach()
    (types, rows), theirs = found
    assert types == known == theirs[0]
    for ours, other in zip(rows, theirs[1], strict=True):
        for name, one, two in zip(("rowid", *known), ours, other, strict=True):
            assert one == two, (table, name, known.get(name))
