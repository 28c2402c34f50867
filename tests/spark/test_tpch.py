"""TPC-H on Spark over a lake with deleted rows and renamed columns: all 22 answers of DuckDB."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot

from tests.fixtures_lakes import RealLake

SCALE = 0.1

# Columns that had other names when their rows were written.
RENAMED = {
    "lineitem": ("l_quantity", "l_shipdate", "l_extendedprice"),
    "orders": ("o_orderdate", "o_custkey"),
    "customer": ("c_name", "c_acctbal"),
    "part": ("p_type",),
}
DELETED = {
    "lineitem": "l_orderkey % 97 = 3 OR l_linenumber = 7",
    "orders": "o_orderkey % 89 = 1",
    "customer": "c_custkey % 101 = 5",
    "partsupp": "ps_availqty % 50 = 7",
}


@pytest.fixture(scope="module")
def lake(
    reference: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealLake]:
    folder = tmp_path_factory.mktemp("tpch")
    package = importlib.import_module("duckdb_extension_tpch")
    extensions = Path(next(iter(package.__path__))) / "extensions" / f"v{duckdb.__version__}"
    reference.execute(f"LOAD '{extensions / 'tpch'}.duckdb_extension'")
    reference.execute("USE memory")
    reference.execute("CREATE SCHEMA tpch; USE memory.tpch")
    reference.execute(f"CALL dbgen(sf = {SCALE})")
    reference.execute("USE memory")
    made = RealLake(
        reference,
        f"ducklake:{folder}/tpch.ducklake",
        f"{folder}/data/",
        "DATA_INLINING_ROW_LIMIT 0",
    )
    tables = reference.execute(
        "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'tpch'"
    ).fetchall()
    for (table,) in tables:
        columns = RENAMED.get(table, ())
        renames = ", ".join(f"{name} AS {name}_before" for name in columns)
        star = f"* RENAME ({renames})" if columns else "*"
        made.execute(f"CREATE TABLE {table} AS SELECT {star} FROM memory.tpch.{table}")
        made.execute(*(f"ALTER TABLE {table} RENAME {c}_before TO {c}" for c in columns))
    made.execute(*(f"DELETE FROM {table} WHERE {where}" for table, where in DELETED.items()))
    yield made
    made.detach()
    reference.execute("DROP SCHEMA memory.tpch CASCADE")


@pytest.fixture(scope="module")
def queries(lake: RealLake) -> dict[int, str]:
    return dict(lake.query("SELECT query_nr, query FROM tpch_queries()"))


@pytest.fixture(scope="module")
def expected(lake: RealLake, queries: dict[int, str]) -> dict[int, list[tuple[Any, ...]]]:
    """The answers of the real DuckDB, before the lake is read by ours."""
    return {number: lake.query(sql) for number, sql in queries.items()}


@pytest.fixture(scope="module")
def registered(
    lake: RealLake, expected: dict[int, list[tuple[Any, ...]]], spark: Any
) -> Iterator[Any]:
    with lake.open() as ours:
        registration = ours.register(spark)
    yield registration
    registration.unregister()


@pytest.mark.parametrize("number", range(1, 23))
def test_spark_gives_the_answer_that_duckdb_gives(
    spark: Any,
    queries: dict[int, str],
    expected: dict[int, list[tuple[Any, ...]]],
    registered: Any,
    number: int,
) -> None:
    sql = sqlglot.transpile(queries[number], read="duckdb", write="spark")[0]

    ours = [tuple(row) for row in spark.sql(sql).collect()]

    assert not registered.refused
    assert len(ours) == len(expected[number])
    for row, other in zip(ours, expected[number], strict=True):
        assert [comparable(value) for value in row] == [comparable(value) for value in other]


def comparable(value: Any) -> Any:
    """Numbers to six digits: sums of floats depend on their order, averages on their type."""
    if isinstance(value, Decimal | float | int) and not isinstance(value, bool):
        number = float(value)
        return pytest.approx(number, rel=1e-6, abs=1e-4) if math.isfinite(number) else str(number)
    return value.isoformat() if isinstance(value, date) else value
