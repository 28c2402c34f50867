"""Conditions of changes have DuckDB's meaning: NaN, zeros, infinities, nanoseconds, long lists."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from lakeport import Lake
from lakeport.arrow import register_rows
from lakeport.ducklake import LakeTable

VALUES = {
    "DOUBLE": ("'nan'", "'inf'", "0", "'-0.0'", "0.1"),
    "FLOAT": ("'nan'", "0.1", "0", "'-inf'"),
    "DECIMAL(4,1)": ("123.4", "-1.5", "0", "999.9"),
    "DATE": ("'infinity'", "'290000-01-01'", "'2020-01-01'", "'-infinity'"),
    "TIME": ("'24:00:00'", "'23:59:59.999999'", "'00:00:00'"),
    "TIMESTAMP": ("'infinity'", "'9999-12-31 23:59:59.999999'", "'2020-01-01'", "'-infinity'"),
    "TIMESTAMPTZ": ("'infinity'", "'2020-01-01 00:00:00+00'", "'-infinity'"),
    "TIMESTAMP_NS": ("'infinity'", "'2020-01-01 00:00:00.123456789'", "'-infinity'"),
    "UBIGINT": ("18446744073709551615", "0", "9223372036854775808"),
    "UUID": ("'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"),
    "VARCHAR": ("'a'", "'A'", "'ä'", "''"),
    "STRUCT(a DOUBLE)": ("{'a': 'nan'}", "{'a': 0}", "{'a': NULL}"),
}
CONDITIONS = (
    "x IN ({0}, {1})",
    "x NOT IN ({0}, {1})",
    "x > {1}",
    "x <= {0}",
    "x <> {0}",
    "x = {0} OR x IS NULL",
    "x IS NOT DISTINCT FROM {0}",
)
MORE = {
    "DOUBLE": ("x = 0", "x < 0", "x = 0.1::FLOAT", "x = 0.1::DECIMAL(3, 1)", "NOT x > 1", "x <> x"),
    "FLOAT": ("x = 0.1", "x = 0.1::DOUBLE", "x >= 'nan'"),
    "DECIMAL(4,1)": ("x = 123.4::FLOAT", "x > 123.4::FLOAT", "x < 999.95", "x = 123.4::DOUBLE"),
    "DATE": ("x > TIMESTAMP '2020-01-01'", "x < TIMESTAMP 'infinity'", "isinf(x)"),
    "TIMESTAMP": ("x > DATE '2020-01-01'", "x >= DATE 'infinity'", "isinf(x)"),
    "TIMESTAMP_NS": ("x = TIMESTAMP '2020-01-01 00:00:00.123456'", "x > DATE '2020-01-01'"),
    "VARCHAR": ("x COLLATE NOCASE = 'a'", "x = 'A' COLLATE NOCASE", "x COLLATE NOACCENT = 'a'"),
    "STRUCT(a DOUBLE)": ("x.a > 1", "x.a = '-0.0'::DOUBLE", "x.a IS NULL"),
}


@pytest.mark.parametrize("type", VALUES)
def test_changes_find_the_rows_that_duckdb_finds(tmp_path: Path, type: str) -> None:
    literals = [f"CAST({value} AS {type})" for value in VALUES[type]]
    conditions = [condition.format(*literals) for condition in CONDITIONS]
    conditions += MORE.get(type, ())
    with _memory(literals) as memory, _lake(tmp_path) as lake:
        rows = memory.sql("FROM t").to_arrow_table()
        table = lake.create_table("t", rows.schema)
        table.append(rows)
        start = lake.table("t").snapshot.id

        expected, found = {}, {}
        for condition in conditions:
            left = memory.sql(f"SELECT i FROM t WHERE ({condition}) IS NOT TRUE").fetchall()
            expected[condition] = [sorted(i for (i,) in left)] * 2
            table.delete(condition)
            found[condition] = [_numbers(lake.table("t"))]
            lake.restore("t", version=start)
            source = pa.table({"one": [1]})
            qualified = re.sub(r"\bx\b", "target.x", condition)
            on = f"source.one = 1 AND ({qualified})"
            table.merge(source, on=on).when_matched(delete=True).execute()
            found[condition].append(_numbers(lake.table("t")))
            lake.restore("t", version=start)

    assert found == expected


@pytest.mark.parametrize("type", VALUES)
def test_a_merge_matches_the_rows_that_duckdb_joins(tmp_path: Path, type: str) -> None:
    literals = [f"CAST({value} AS {type})" for value in VALUES[type]]
    with _memory(literals) as memory, _lake(tmp_path) as lake:
        rows = memory.sql("FROM t").to_arrow_table()
        source = memory.sql("SELECT x, 10 + i AS i FROM t WHERE i IN (0, 1)").to_arrow_table()
        joined = memory.sql(
            "SELECT CASE WHEN t.x IN (SELECT x FROM t WHERE i IN (0, 1)) THEN -1 ELSE i END FROM t"
        ).fetchall()
        table = lake.create_table("t", rows.schema)
        table.append(rows)

        merge = table.merge(source, on="target.x = source.x")
        merge.when_matched(update={"i": "-1"}).when_not_matched(insert="*").execute()

        assert _numbers(lake.table("t")) == sorted(i for (i,) in joined)


def test_pyarrow_evaluates_no_condition_of_registered_rows() -> None:
    rows = pa.table({'a"b': [float("nan"), 1.0, None], "n": [1, 2, 3]})
    query = """SELECT n FROM "rows" WHERE "a""b" > 1 OR "a""b" IN ('nan', 7)"""
    with duckdb.connect() as connection:
        register_rows(connection, "rows", rows)
        assert connection.sql(query).fetchall() == [(1,)]
        assert connection.sql(query).fetchall() == [(1,)]
        register_rows(connection, "rows", rows.to_reader())
        assert connection.sql(query).fetchall() == [(1,)]


def _memory(literals: list[str]) -> duckdb.DuckDBPyConnection:
    memory = duckdb.connect()
    memory.execute("SET TimeZone = 'UTC'; SET arrow_lossless_conversion = true")
    rows = ", ".join(f"({i}, {literal})" for i, literal in enumerate([*literals, "NULL"]))
    memory.execute(f"CREATE TABLE t AS FROM (VALUES {rows}) v(i, x)")
    return memory


def _lake(folder: Path) -> Lake:
    return Lake.create(f"ducklake:sqlite:{folder}/meta.db", data_path=f"{folder}/data/")


def _numbers(table: LakeTable) -> list[int]:
    return sorted(table.scan(["i"]).to_arrow()["i"].to_pylist())
