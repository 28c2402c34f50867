"""Conditions in the SQL of views that DuckDB pushes into scans otherwise than they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pytest

from lakeport import ScanOptions
from lakeport.errors import InvalidInputError
from lakeport.filters import Filter
from lakeport.lakehouse import LakeCatalog

MakeLake = Callable[..., Any]

VALUES = {
    "DATE": ("2020-01-01", "290000-01-01", "0044-01-01 (BC)", "infinity", "-infinity"),
    "TIME": ("00:00:00", "24:00:00", "23:59:59.999999", "10:00:00.1"),
    "TIMESTAMP": (
        "2020-01-01 00:00:00.123456", "infinity", "9999-12-31 23:59:59.999999", "-infinity",
        "290000-01-01 00:00:00",
    ),
    "TIMESTAMPTZ": ("2020-01-01 00:00:00.123456+00", "infinity", "0044-01-01 (BC) 00:00:00+00"),
    "TIMESTAMP_NS": (
        "2020-01-01 00:00:00.123456789", "infinity", "1969-12-31 23:59:59.999999999", "-infinity",
    ),
    "TIMESTAMP_MS": ("2020-01-01 00:00:00.123", "12000-01-01 00:00:00.001"),
    "TIMESTAMP_S": ("2020-01-01 00:00:00", "1969-12-31 23:59:59", "12000-01-01 00:00:00"),
    "DOUBLE": ("nan", "inf", "-0.0", "0", "0.1"),
    "FLOAT": ("nan", "0.1", "-0.0", "inf"),
    "UBIGINT": ("18446744073709551615", "0", "9223372036854775808"),
    "HUGEINT": ("18446744073709551616", "0", "-1"),
    "UUID": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "DECIMAL(38,10)": ("1234567890123456789012345678.0123456789", "-1.5", "0.0000000001"),
    "BLOB": ("\\xff\\xff", "a", ""),
    "VARCHAR": ("", "a", "A", "ä"),
    "BOOLEAN": ("true", "false"),
    "TIMETZ": ("10:00:00+01", "09:00:00+00"),
    "STRUCT(a TIMESTAMP_NS)": ("{'a': '2020-01-01 00:00:00.123456789'}", "{'a': NULL}"),
}  # fmt: skip
CONDITIONS = (
    "x IN ({all})",
    "x IN ({all}, NULL)",
    "x NOT IN ({first}, {last})",
    "x IN (SELECT x FROM t WHERE i > 0)",
    "x IN (SELECT x FROM t WHERE i = 1)",
    "x = {first} OR x = {last}",
    "x = {first} OR x IS NULL",
    "x <= {first}",
    "x > {last}",
    "x <> {first} AND i IN (0, 1, 3)",
    "NOT (x IN ({all}))",
)


@pytest.mark.parametrize("limit", [0, 100], ids=["in files", "inlined"])
@pytest.mark.parametrize("type", VALUES)
def test_a_condition_of_a_view_has_the_rows_that_it_has_in_duckdb(
    make_lake: MakeLake, type: str, limit: int
) -> None:
    literals = ["CAST('" + text.replace("'", "''") + f"' AS {type})" for text in VALUES[type]]
    rows = ", ".join(f"({i}, {literal})" for i, literal in enumerate([*literals, "NULL"]))
    named = {"all": ", ".join(literals), "first": literals[0], "last": literals[-1]}
    views = [f"SELECT i FROM t WHERE {text.format(**named)}" for text in CONDITIONS]
    views.append("SELECT a.i FROM t a JOIN t b ON a.x = b.x WHERE b.i IN (0, 1)")
    lake = make_lake(options=f"DATA_INLINING_ROW_LIMIT {limit}")
    lake.execute(
        "BEGIN",
        f"CREATE TABLE t AS SELECT i, x FROM (VALUES {rows}) v(i, x)",
        *(f"CREATE VIEW v{number} AS {sql}" for number, sql in enumerate(views)),
        "COMMIT",
    )
    rows_of_the_lake = lake.connection.sql("FROM t").to_arrow_table()
    lake.detach()
    # The real implementation cannot join a HUGEINT of files.
    with duckdb.connect() as memory:
        memory.register("rows_of_the_lake", rows_of_the_lake)
        memory.execute("CREATE TABLE t AS FROM rows_of_the_lake")
        expected = {sql: sorted(memory.sql(sql).fetchall()) for sql in views}

    found = {}
    with LakeCatalog(lake.uri, engine="local") as catalog:
        schema = catalog.schema("public")
        assert schema is not None
        for number, sql in enumerate(views):
            view = schema.table(f"v{number}")
            assert view is not None
            scanned = view.scan(ScanOptions(columns=None, filter=Filter.always())).read_all()
            found[sql] = sorted(tuple(row.values()) for row in scanned.to_pylist())

    assert found == expected


def test_an_error_of_a_view_whose_conditions_are_not_pushed_is_that_of_its_sql(
    make_lake: MakeLake,
) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t AS SELECT DATE '12000-01-01' AS d, 'a' AS x",
        "CREATE VIEW v AS SELECT x::INTEGER AS n FROM t "
        "WHERE d IN (DATE '12000-01-01', DATE '2000-01-01', DATE '1999-01-01')",
    )
    lake.detach()

    with LakeCatalog(lake.uri, engine="local") as catalog:
        schema = catalog.schema("public")
        view = schema.table("v") if schema else None
        assert view is not None
        with pytest.raises(InvalidInputError, match="Could not convert string 'a'"):
            view.scan(ScanOptions(columns=None, filter=Filter.always())).read_all()
