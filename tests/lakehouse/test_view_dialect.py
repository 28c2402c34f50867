"""Views in DuckDB's SQL, run by the DuckDB of this process: the rows and types of the real one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from lakeport import ScanOptions
from lakeport.lakehouse import LakeCatalog
from tests.fixtures_lakes import RealLake, quote
from tests.view_cases import FAMILIES, QUERIES, REFUSED, SAME, TABLES

SQL = {
    **{f"{family}_{n}": sql for family, views in FAMILIES.items() for n, sql in enumerate(views)},
    **{f"refused_{n}": sql for n, (sql, _) in enumerate(REFUSED) if "SAMPLE" not in sql},
    **{
        f"same_{theme}": "SELECT id, "
        + ", ".join(f"{text} AS c{n}" for n, text in enumerate(texts))
        + " FROM t"
        for theme, texts in SAME.items()
    },
    **QUERIES,
}


@pytest.fixture(scope="module")
def lake(
    reference: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealLake]:
    folder = tmp_path_factory.mktemp("dialect")
    lake = RealLake(reference, f"ducklake:{folder}/m.ducklake", f"{folder}/data/")
    reference.execute("SET TimeZone = 'UTC'")
    lake.execute(*TABLES, "BEGIN")
    lake.execute(*(f"CREATE VIEW {name} AS {sql}" for name, sql in SQL.items()), "COMMIT")
    yield lake
    lake.detach()


@pytest.fixture(scope="module")
def expected(lake: RealLake) -> dict[str, tuple[Any, Any]]:
    return {name: rows(lake.connection, f"lake.{_path(name)}") for name in SQL}


@pytest.fixture(scope="module")
def catalog(lake: RealLake, expected: object) -> Iterator[LakeCatalog]:
    lake.detach()
    with LakeCatalog(lake.uri, engine="local") as catalog:
        yield catalog


@pytest.mark.parametrize("name", SQL)
def test_a_view_has_the_rows_and_types_that_duckdb_gives_it(
    lake: RealLake, expected: dict[str, tuple[Any, Any]], catalog: LakeCatalog, name: str
) -> None:
    schema, _, view = _path(name).rpartition(".")
    published = catalog.schema("public" if schema == "main" else schema)
    assert published is not None
    table = published.table(view)
    assert table is not None

    ours = table.scan(ScanOptions()).read_all()

    assert ours.schema.equals(table.arrow_schema())
    lake.connection.register("ours", ours)
    try:
        assert rows(lake.connection, "ours") == expected[name], SQL[name]
    finally:
        lake.connection.unregister("ours")


def rows(connection: duckdb.DuckDBPyConnection, source: str) -> tuple[Any, Any]:
    """Return the columns with their types, and the rows as text in one order."""
    described = connection.execute(f"DESCRIBE FROM {source}").fetchall()
    # Arrow has no enumerations: they are texts with a dictionary.
    columns = [(name, re.sub(r"ENUM\(.*\)", "VARCHAR", type)) for name, type, *_ in described]
    texts = ", ".join(f"{quote(name)}::VARCHAR" for name, _ in columns)
    found = connection.execute(f"SELECT {texts} FROM {source}").fetchall()
    return columns, sorted(found, key=repr)


def _path(name: str) -> str:
    schema, _, view = name.partition("(")[0].rpartition(".")
    return f"{schema or 'main'}.{view}"
