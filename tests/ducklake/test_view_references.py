"""What a view reads, and what it must not use: DuckDB's own parser decides."""

from __future__ import annotations

import pytest

from lakeport.ducklake import View
from lakeport.ducklake.views import referenced_tables, table_key
from lakeport.errors import UnsupportedError

KNOWN = {table_key("main", "t"), table_key("s", "t"), table_key("main", "u")}


def view(sql: str, schema: str = "main") -> View:
    return View(id=1, schema=schema, name="v", uuid="", dialect="duckdb", sql=sql)


@pytest.mark.parametrize(
    ("sql", "schema", "expected"),
    [
        ("SELECT * FROM t", "main", {("main", "t")}),
        ("SELECT * FROM T", "s", {("s", "t")}),
        ("SELECT * FROM u", "s", {("main", "u")}),
        ("SELECT * FROM main.t", "s", {("main", "t")}),
        ("SELECT * FROM {DUCKLAKE_CATALOG}.s.t", "main", {("s", "t")}),
        ("SELECT * FROM {DUCKLAKE_CATALOG}.t", "s", {("main", "t")}),
        ("WITH t AS (SELECT 1) SELECT * FROM t", "main", set()),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", "main", {("main", "t")}),
        ("WITH t AS (SELECT * FROM u) SELECT * FROM t, s.t x", "main", {("main", "u"), ("s", "t")}),
        ("WITH t AS (SELECT 1), q AS (SELECT * FROM t) SELECT * FROM q", "main", set()),
        ("WITH RECURSIVE t AS (SELECT 1 UNION ALL SELECT 2 FROM t) FROM t", "main", set()),
        ("(WITH t AS (SELECT 1) FROM t) UNION ALL FROM t", "main", {("main", "t")}),
        ("SELECT (SELECT max(id) FROM u) FROM t", "main", {("main", "t"), ("main", "u")}),
        ("SELECT 1 WHERE EXISTS (FROM t) OR 2 IN (SELECT id FROM u)", "main",
         {("main", "t"), ("main", "u")}),
        ("PIVOT t ON a IN (1, 2) USING sum(b)", "main", {("main", "t")}),
        ("SELECT * FROM t ASOF JOIN u ON t.a >= u.a", "main", {("main", "t"), ("main", "u")}),
        ("SELECT * FROM range(3), unnest([1])", "main", set()),
    ],
)  # fmt: skip
def test_the_tables_of_a_view_are_found(
    sql: str, schema: str, expected: set[tuple[str, str]]
) -> None:
    assert referenced_tables(view(sql, schema), KNOWN) == expected


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT * FROM nowhere", "reads nowhere, which is not there"),
        ("SELECT * FROM other.main.t", "reads other.main.t, which is not there"),
        ("SELECT * FROM '/etc/passwd'", "reads /etc/passwd, which is not there"),
        ("SELECT * FROM information_schema.tables", "which is not there"),
        ("SELECT * FROM duckdb_settings()", "duckdb_settings cannot be used"),
        ("SELECT * FROM read_text('/etc/passwd')", "read_text cannot be used"),
        ("SELECT * FROM query('SELECT 1')", "query cannot be used"),
        ("SELECT * FROM query_table('t')", "query_table cannot be used"),
        ("SELECT * FROM arrow_scan(1, 2, 3)", "arrow_scan cannot be used"),
        ("SELECT (SELECT a FROM glob('*')) FROM t", "glob cannot be used"),
        ("WITH q AS (FROM read_csv('x')) SELECT 1", "read_csv cannot be used"),
        ("SELECT * FROM t AT (VERSION => 1)", "AT in a view"),
        ("FROM (DESCRIBE t)", "no table"),
        ("SELECT FROM WHERE", "cannot be parsed"),
        ("DROP TABLE t", "cannot be parsed"),
        ("SELECT 1; SELECT 2", "not one SELECT"),
        ("SELECT " + "abs(" * 3000 + "1" + ")" * 3000, "cannot be parsed|nested too deeply"),
        ("SELECT '" + "x" * 200_000 + "'", "longer than"),
    ],
)
def test_what_a_view_must_not_use_is_refused(sql: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        referenced_tables(view(sql), KNOWN)


def test_another_dialect_is_refused() -> None:
    spark = View(id=1, schema="main", name="v", uuid="", dialect="spark", sql="SELECT 1")

    with pytest.raises(UnsupportedError, match="written in 'spark'"):
        referenced_tables(spark, KNOWN)
