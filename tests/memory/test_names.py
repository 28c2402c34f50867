"""Which names are the same: exactly those that DuckDB takes for the same, by ASCII letters only."""

from __future__ import annotations

from contextlib import suppress

import duckdb
import pyarrow as pa
import pytest

from lakeport.catalog import CatalogBuilder, CreateSchemaOptions, CreateTableOptions
from lakeport.errors import AlreadyExistsError, DefinitionError
from lakeport.memory import MemoryCatalog
from lakeport.memory.sql.expressions import evaluate, parse_expression
from lakeport.types import duckdb_identifier, fold_name

PAIRS = [
    ("orders", "ORDERS"),
    ("Straße", "STRASSE"),
    ("straße", "STRAßE"),
    ("straße", "STRAẞE"),
    ("i", "İ"),
    ("i̇", "İ"),
    ("I", "\N{LATIN SMALL LETTER DOTLESS I}"),
    ("é", "É"),
    ("k", "\N{KELVIN SIGN}"),
    ("s", "\N{LATIN SMALL LETTER LONG S}"),
    ("ς", "Σ"),
]


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_two_tables_collide_where_they_collide_in_duckdb(name: str, other: str) -> None:
    duckdb_tables = duckdb.connect()
    duckdb_tables.execute(f"CREATE TABLE {duckdb_identifier(name)} (a INTEGER)")
    with suppress(duckdb.CatalogException):
        duckdb_tables.execute(f"CREATE TABLE {duckdb_identifier(other)} (a INTEGER)")
    (count,) = duckdb_tables.execute("SELECT count(*) FROM duckdb_tables()").fetchone() or (0,)
    catalog = MemoryCatalog()
    schema = catalog.create_schema("s", CreateSchemaOptions())
    columns = pa.schema([("a", pa.int32())])

    for each in (name, other):
        with suppress(AlreadyExistsError):
            schema.create_table(each, columns, CreateTableOptions())

    assert len(schema.tables()) == count
    assert (fold_name(name) == fold_name(other)) is (count == 1)


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_two_columns_collide_where_they_collide_in_duckdb(name: str, other: str) -> None:
    columns = ", ".join(f"{duckdb_identifier(each)} INTEGER" for each in (name, other))
    try:
        duckdb.connect().execute(f"CREATE TABLE t ({columns})")
        collide = False
    except duckdb.CatalogException:
        collide = True
    table = pa.table([[1], [2]], names=[name, other])
    builder = CatalogBuilder().schema("s").table("t", table)

    if collide:
        with pytest.raises(DefinitionError, match="two columns"):
            builder.build()
        return
    builder.build()
    for position, each in enumerate((name, other)):
        expression = parse_expression(f"{duckdb_identifier(each)} + 0", table.schema)
        assert expression.columns == (each,)
        assert evaluate(expression, table).to_pylist() == [position + 1]
