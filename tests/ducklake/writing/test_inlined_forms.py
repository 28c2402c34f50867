"""Inlined rows in the forms of four databases: read back by the reference, and by Lakeport."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pymysql
import pytest

from lakeport import Lake
from lakeport.arrow import convert
from lakeport.ducklake.metadata.location import parse_location
from lakeport.ducklake.writing.inlining import (
    EncodedRows,
    accepts_rows,
    create_inlined_table,
    encode_rows,
    inlined_statistics,
    obstacle,
)
from lakeport.types import Column, arrow_schema
from tests.fixtures_lakes import LakeMaker, RealLake

VALUES = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["-128", "127"],
    "SMALLINT": ["-32768", "32767"],
    "INTEGER": ["-2147483648", "7"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807"],
    "UTINYINT": ["0", "255"],
    "USMALLINT": ["65535"],
    "UINTEGER": ["4294967295"],
    "UBIGINT": ["0", "18446744073709551615"],
    "HUGEINT": [
        "'-170141183460469231731687303715884105728'",
        "'170141183460469231731687303715884105727'",
    ],
    "UHUGEINT": ["'340282366920938463463374607431768211455'"],
    "FLOAT": ["'nan'", "'-inf'", "'-0.0'", "1.1", "3.4028235e38"],
    "DOUBLE": ["'nan'", "'inf'", "'-0.0'", "0.1", "1e300", "5e-324"],
    "DECIMAL(9,2)": ["1.5", "-0.01"],
    "DECIMAL(38,3)": ["'-12345678901234567890123456789012345.678'"],
    "DATE": ["'2024-01-02'", "'0044-03-15 (BC)'", "'infinity'"],
    "TIME": ["'01:02:03.5'", "'24:00:00'"],
    "TIME_NS": ["'01:02:03.000000004'"],
    "TIMETZ": ["'01:02:03+02'", "'01:02:03.5-15:59:59'"],
    "TIMESTAMP": ["'2024-01-02 03:04:05.678'", "'infinity'", "'-infinity'"],
    "TIMESTAMP_S": ["'1969-12-31 23:59:59'"],
    "TIMESTAMP_MS": ["'2024-01-02 03:04:05.12'"],
    "TIMESTAMP_NS": ["'2024-01-02 03:04:05.123456789'", "'1677-09-22 00:00:00.5'"],
    "TIMESTAMPTZ": ["'2024-01-02 03:04:05+02'", "'290309-12-22 (BC) 00:00:00+00'", "'infinity'"],
    "INTERVAL": [
        "INTERVAL '1 month -2 days 3 seconds'",
        "INTERVAL '-1 year 5 microseconds'",
        "INTERVAL '-3 hours 2 months'",
        "INTERVAL '100000 hours'",
    ],
    "VARCHAR": ["''", "'it''s \\ x' || chr(0) || 'é'", "'NULL'"],
    "JSON": ["'{\"a\": 1}'", "'null'"],
    "BLOB": ["''", "'\\x00\\xAA''\\x5C'::BLOB"],
    "UUID": ["'00000000-0000-0000-0000-000000000001'", "'f79c3e09-677c-4bbd-a479-3f349cb785e7'"],
    "VARCHAR[]": ["['a,b', 'it''s', 'NULL', NULL, '', 'q\"z', 'back\\slash', ' sp ']", "[]"],
    "STRUCT(x VARCHAR, d DATE)[]": ["[{'x': 'p''q', 'd': DATE '2024-01-01'}, NULL]"],
    "BLOB[]": ["['\\x00\\x27'::BLOB, 'ab'::BLOB]"],
    "MAP(VARCHAR, INTEGER)": ["MAP {'k=1': 2, 'z': NULL}", "MAP {}"],
    "STRUCT(a INTEGER, b VARCHAR, d DATE, l INTEGER[])": [
        "{'a': 1, 'b': 'x, {y}', 'd': DATE '2024-01-01', 'l': [1, NULL]}",
        "{'a': NULL, 'b': 'NULL', 'd': NULL, 'l': []}",
    ],
    "STRUCT(s STRUCT(t TIMESTAMPTZ, u UUID, i INTERVAL, f DOUBLE))": [
        "{'s': {'t': '2024-01-02 03:04:05+02', 'u': NULL, 'i': INTERVAL '1 month', 'f': 'nan'}}"
    ],
}
DATABASES = ["duckdb", "sqlite", "postgresql"]
# DuckLake 1.5.5 cannot create an inlined table with such a column on PostgreSQL.
IMPOSSIBLE = {("TIME_NS", "postgresql")}


COUNT = max(len(values) for values in VALUES.values()) + 1


def types_of(kind: str) -> list[str]:
    return [type for type in VALUES if (type, kind) not in IMPOSSIBLE]


def select(types: list[str]) -> str:
    """SQL of all values: a column for each type, NULL in the last row and where values end."""
    rows = []
    for index in range(COUNT):
        cells = [
            f"({VALUES[type][index] if index < len(VALUES[type]) else 'NULL'})::{type}"
            for type in types
        ]
        rows.append(f"({', '.join(cells)})")
    names = ", ".join(f"c{number}" for number in range(len(types)))
    return f"SELECT * FROM (VALUES {', '.join(rows)}) t({names})"


def create(types: list[str]) -> str:
    columns = ", ".join(f"c{number} {type}" for number, type in enumerate(types))
    return f"CREATE TABLE t ({columns})"


def rows_of(lake: RealLake, types: list[str], columns: tuple[Column, ...]) -> pa.Table:
    """The values in the Arrow types of a table."""
    found = lake.connection.sql(select(types)).to_arrow_table().combine_chunks()
    schema = arrow_schema(columns)
    arrays = [
        convert(found.column(field.name).combine_chunks(), field.type, field.name)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def insert(connection: Any, mark: str, name: str, begin: int, encoded: EncodedRows) -> None:
    """Insert encoded rows into an inlined table; `mark` is a parameter in the driver's SQL."""
    if encoded.arrow is not None:
        connection.register("ours", encoded.arrow)
        connection.execute(
            f"INSERT INTO {name} SELECT row_number() OVER () - 1, {begin}, NULL, "
            f"{', '.join(encoded.expressions)} FROM ours"
        )
        return
    marks = ", ".join([mark] * len(encoded.parameters[0]))
    connection.cursor().executemany(
        f"INSERT INTO {name} VALUES ({mark}, {begin}, NULL, {marks})",
        [(i, *values) for i, values in enumerate(encoded.parameters)],
    )


def server(lake: RealLake, kind: str) -> Any:
    """A connection to the catalog database, which the reference no longer holds."""
    lake.detach()
    if kind == "duckdb":
        return duckdb.connect(lake.uri.removeprefix("ducklake:"))
    if kind == "sqlite":
        return sqlite3.connect(lake.uri.removeprefix("ducklake:sqlite:"))
    return psycopg.connect(lake.uri.removeprefix("ducklake:postgres:"))


def stored(connection: Any, kind: str, name: str, count: int) -> list[tuple[Any, ...]]:
    """The values of an inlined table, with their types, as the database shows them."""
    form = {
        "duckdb": "typeof({0}), {0}::VARCHAR",
        "sqlite": "typeof({0}), {0}",
        "postgresql": "pg_typeof({0})::text, {0}::text",
    }[kind]
    cells = ", ".join(form.format(f"c{number}") for number in range(count))
    cursor = connection.cursor()
    cursor.execute(f"SELECT {cells} FROM {name} ORDER BY row_id")
    return list(cursor.fetchall())


@pytest.mark.parametrize("kind", DATABASES)
def test_inlined_values_of_every_type_are_read_back_by_the_reference_and_by_lakeport(
    kind: Any, make_lake: LakeMaker
) -> None:
    lake, types = make_lake(kind), types_of(kind)
    lake.execute(create(types))
    lake.execute(f"INSERT INTO t (c0) SELECT NULL FROM range({COUNT})")
    with lake.open() as ours:
        columns = ours.table("t").columns
    rows = rows_of(lake, types, columns)
    assert obstacle(kind, columns) is None
    assert accepts_rows(kind, rows, columns)
    with closing(server(lake, kind)) as connection:
        connection.execute("DELETE FROM ducklake_inlined_data_1_1")
        mark = "?" if kind == "sqlite" else "%s"
        encoded = encode_rows(kind, rows, columns)
        insert(connection, mark, "ducklake_inlined_data_1_1", 2, encoded)
        connection.commit()
    expected = lake.query(f"SELECT COLUMNS(*)::VARCHAR FROM ({select(types)})")
    assert lake.query("SELECT COLUMNS(*)::VARCHAR FROM t ORDER BY rowid") == expected
    assert lake.check(snapshots=[2]) == 1


@pytest.mark.parametrize("kind", DATABASES)
def test_values_and_their_table_have_the_form_of_the_reference(
    kind: Any, make_lake: LakeMaker
) -> None:
    # The reference writes a struct as SQL, which it cannot read back itself.
    types = [t for t in types_of(kind) if not t.startswith("STRUCT") or t.endswith("[]")]
    lake = make_lake(kind)
    lake.execute(create(types), f"INSERT INTO t {select(types)}")
    with lake.open() as ours:
        columns = ours.table("t").columns
    rows = rows_of(lake, types, columns)
    with closing(server(lake, kind)) as connection:
        if kind == "duckdb":
            connection.execute("SET TimeZone = 'UTC'")
        expected = stored(connection, kind, "ducklake_inlined_data_1_1", len(types))
        connection.execute(create_inlined_table(kind, "probe", columns))
        mark = "?" if kind == "sqlite" else "%s"
        insert(connection, mark, "probe", 2, encode_rows(kind, rows, columns))
        found = stored(connection, kind, "probe", len(types))
    for number, type in enumerate(types):
        pair = slice(2 * number, 2 * number + 2)
        assert [row[pair] for row in found] == [row[pair] for row in expected], type


@pytest.mark.database_server
def test_the_reference_cannot_inline_nanoseconds_of_a_day_on_postgresql(
    make_lake: LakeMaker,
) -> None:
    lake = make_lake("postgresql")
    with pytest.raises(duckdb.Error):
        lake.execute("CREATE TABLE t (v TIME_NS)")
    assert obstacle("postgresql", [Column(id=1, name="v", type="time_ns")]) is not None


def test_inlined_values_of_every_type_are_read_back_from_mariadb(
    make_lake: LakeMaker, mariadb: Callable[[], str]
) -> None:
    lake, types = make_lake(), list(VALUES)
    lake.execute(create(types))
    lake.execute(f"INSERT INTO t (c0) SELECT NULL FROM range({COUNT})")
    uri = mariadb()
    lake.connection.execute(f"ATTACH '{uri.removeprefix('ducklake:mysql:')}' AS copy (TYPE mysql)")
    for (name,) in lake.query(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = 'meta'"
    ):
        if name != "ducklake_inlined_data_1_1":
            lake.execute(f"CREATE TABLE copy.{name} AS FROM meta.{name}")
    lake.connection.execute("DETACH copy")
    with lake.open() as original:
        columns = original.table("t").columns
    rows = rows_of(lake, types, columns)
    assert obstacle("mysql", columns) is None
    assert accepts_rows("mysql", rows, columns)
    settings = parse_location(uri).parameters
    address: dict[str, Any] = {k: settings[k] for k in ("host", "user", "password", "database")}
    address["port"] = int(settings["port"])
    with closing(pymysql.connect(**address, charset="utf8mb4")) as connection:
        connection.cursor().execute(
            create_inlined_table("mysql", "ducklake_inlined_data_1_1", columns)
        )
        insert(
            connection, "%s", "ducklake_inlined_data_1_1", 2, encode_rows("mysql", rows, columns)
        )
        connection.commit()
    with Lake.open(uri) as ours:
        found = ours.table("t").scan([*rows.schema.names, "rowid"]).to_arrow().sort_by("rowid")
    assert texts(found.drop_columns("rowid")) == texts(rows)


def texts(rows: pa.Table) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("found", rows)
        return list(connection.execute("SELECT COLUMNS(*)::VARCHAR FROM found").fetchall())


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mysql"])
@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("STRUCT(a VARCHAR)", "{'a': 'x''y'}"),
        ("STRUCT(a BLOB)", "{'a': '\\x00'::BLOB}"),
        ("STRUCT(a VARCHAR)", "{'a': chr(0)}"),
        ("VARCHAR[]", "[chr(0)]"),
    ],
)
def test_nested_text_that_would_be_read_as_another_value_is_not_inlined(
    type: str, value: str, kind: str
) -> None:
    inner = "blob" if "BLOB" in type else "varchar"
    outer = "struct" if type.startswith("STRUCT") else "list"
    child = Column(id=2, name="a" if outer == "struct" else "element", type=inner)
    column = Column(id=1, name="v", type=outer, children=(child,))
    rows = duckdb.sql(f"SELECT ({value})::{type} AS v").to_arrow_table()
    assert not accepts_rows(kind, rows, [column])  # type: ignore[arg-type]
    assert accepts_rows("duckdb", rows, [column])


def test_tables_with_reserved_names_or_types_without_a_form_are_not_inlined() -> None:
    def why(kind: Any, name: str, type: str, inner: str | None = None) -> str | None:
        children = (Column(id=2, name="element", type=inner),) if inner else ()
        return obstacle(kind, [Column(id=1, name=name, type=type, children=children)])

    assert why("duckdb", "Row_Id", "int32") is not None
    assert why("duckdb", "_ducklake_internal_row_id", "int32") is not None
    assert why("duckdb", "g", "geometry") is not None
    assert why("duckdb", "l", "list", "geometry") is not None
    assert why("duckdb", "v", "variant") is None
    assert why("sqlite", "v", "variant") is not None
    assert why("sqlite", "j", "json") is None
    assert why("sqlite", "j", "list", "json") is not None
    assert why("duckdb", "j", "list", "json") is None
    assert why("postgresql", "é" * 32, "int32") is not None
    assert why("sqlite", "é" * 32, "int32") is None
    assert why("mysql", "n" * 65, "int32") is not None


@pytest.mark.parametrize("kind", DATABASES)
def test_statistics_of_inlined_rows_have_the_texts_of_the_reference(
    kind: str, make_lake: LakeMaker
) -> None:
    lake, types = make_lake(kind), types_of(kind)
    lake.execute(create(types), f"INSERT INTO t {select(types)}")
    recorded = {
        column: rest
        for column, *rest in lake.query(
            "SELECT column_id, contains_null::BOOLEAN, contains_nan::BOOLEAN, min_value, max_value"
            " FROM meta.ducklake_table_column_stats"
        )
    }
    with lake.open() as ours:
        columns = ours.table("t").columns
    statistics = inlined_statistics(rows_of(lake, types, columns), columns)
    assert {column.column_id for column in statistics} == set(recorded)
    type_of = {node.id: column.type for column in columns for node in column.walk()}
    for column in statistics:
        type = type_of[column.column_id]
        has_null, nan, least, greatest = recorded[column.column_id]
        assert bool(column.null_count) == has_null, type
        assert column.contains_nan is nan is None, type
        if type == "boolean":  # meant: 0 and 1 cast to every type that the column can get
            assert (column.min_value, column.max_value) == ("0", "1")
        elif type == "varchar":  # meant: the reference drops a bound that has a NUL
            assert greatest is None
            assert (column.min_value, column.max_value) == ("", "it's \\ x\x01")
        else:
            assert (column.min_value, column.max_value) == (least, greatest), type
