"""Filters of scans, given as SQL: exactly the rows that DuckDB itself keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakeport.errors import InvalidArgumentError, UnsupportedError
from lakeport.filters import col

STATEMENTS = (
    """CREATE TABLE t AS SELECT i AS id, 'v' || i AS v,
       CASE WHEN i % 7 = 0 THEN 'nan'::DOUBLE ELSE i * 0.5 END AS d,
       TIMESTAMP '2024-01-01' + INTERVAL (i) DAY AS ts, {'a': i} AS s, i::HUGEINT AS h,
       md5(i::VARCHAR)::UUID AS u, [i, NULL] AS l, MAP {'k' || i % 3: i} AS m,
       '10:00:00+02'::TIMETZ AS z, (i / 10)::FLOAT AS g FROM range(1000) r(i)""",
    """INSERT INTO t SELECT i, 'w' || i, i, '2030-01-01', {'a': i}, i - (1::HUGEINT << 100), NULL, NULL, NULL,
       '10:00:00+00', i FROM range(5) r(i)""",
)
FILTERS = (
    "d > 100",
    "d < 3",
    "d = 'nan'",
    "NOT (d > 5)",
    "id % 2 = 0",
    "lower(v) = 'v3'",
    "year(ts) = 2025",
    "ts > '2025-03-01'",
    "'2025-03-01' <= ts",
    "date_trunc('month', ts) = TIMESTAMP '2024-02-01'",
    "ts BETWEEN '2024-02-01' AND '2024-03-01'",
    "v LIKE 'v1%'",
    "regexp_matches(v, '9$')",
    "v || 'x' = 'v1x'",
    "s.a > 10 AND d >= 450",
    "h > 5",
    "h = -(1::HUGEINT << 100)",
    "h IN (3, 170141183460469231731687303715884105727)",
    "z = '10:00:00+00'",
    "z < '10:00:00+00'::TIMETZ",
    "g > 0.1::DOUBLE AND id < 5",
    "g = 1e-1",
    "g = 0.5::DOUBLE",
    "g IN (0.1::DOUBLE, 2.0)",
    "l[1] = 3",
    "l[2] IS NOT NULL",
    "l[-1] IS NULL AND id < 2",
    "m['k1'] < 10",
    "s['a'] = 7",
    "coalesce(l[1], id) = 4",
    "id IN (1, 2, 3)",
    "id IN ('1', '2')",
    "id BETWEEN 3 AND 7 OR v = 'v9'",
    "abs(id - 10) < 3",
    "CASE WHEN id > 5 THEN true ELSE false END",
    "rowid = 5",
    "u = 'c4ca4238-a0b9-2382-0dcc-509a6f75849b'",
    "u IS NULL",
    "id IS NOT DISTINCT FROM 4",
    # truth values of numbers
    "id",
    "NOT id",
    "id % 2",
    "id AND (id = 3 OR 1)",
    "CASE WHEN id THEN id > 2 ELSE true END",
)


@pytest.fixture
def lake(make_lake: Callable[..., Any]) -> Any:
    lake = make_lake("duckdb")
    lake.execute(*STATEMENTS)
    return lake


@pytest.mark.exhaustive
def test_a_scan_gives_exactly_the_rows_of_its_filter(lake: Any) -> None:
    expected = {
        text: [row[0] for row in lake.query(f"SELECT rowid FROM t WHERE {text} ORDER BY 1")]
        for text in FILTERS
    }
    with lake.open() as ours:
        for text, wanted in expected.items():
            found = ours.table("t").scan(["rowid"], text).to_arrow()["rowid"].to_pylist()
            assert sorted(found) == wanted, text


def test_a_filter_that_cannot_be_evaluated_is_refused_unless_more_rows_may_come(lake: Any) -> None:
    text = "id = (SELECT 1)"
    with lake.open() as ours:
        with pytest.raises(UnsupportedError, match="cannot be evaluated"):
            ours.table("t").scan(["id"], text)
        assert ours.table("t").scan(["id"], text, exact=False).to_arrow().num_rows == 1005


def test_a_function_of_another_value_for_every_row_is_not_computed_once(lake: Any) -> None:
    with lake.open() as ours:
        for text in ("random() < 0.5", "id > 1 AND 2 * random() < 1"):
            with pytest.raises(UnsupportedError, match="random"):
                ours.table("t").scan(["id"], text)


def test_a_filter_that_is_no_condition_is_refused(lake: Any) -> None:
    with lake.open() as ours, pytest.raises(InvalidArgumentError, match="cannot be evaluated"):
        ours.table("t").scan(["id"], col("id")).to_arrow()


def test_text_that_is_no_value_of_its_column_is_refused(lake: Any) -> None:
    with lake.open() as ours, pytest.raises(InvalidArgumentError, match="'soon' is not a value"):
        ours.table("t").scan(["id"], "ts > 'soon'")


@pytest.mark.parametrize(
    "type", ["UUID[]", "STRUCT(u UUID)", "MAP(VARCHAR, JSON)", "HUGEINT[]", "TIMETZ[]"]
)
def test_a_filter_may_leave_no_row_with_a_nested_type_that_arrow_extends(
    type: str, make_lake: Callable[..., Any]
) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(f"CREATE TABLE t(id INTEGER, c {type})", "INSERT INTO t(id) VALUES (1), (3)")
    with lake.open() as ours:
        table = ours.table("t")
        for text, rows in (("id = 2", 0), ("c IS NOT NULL", 0), ("c IS NULL", 2), ("id = 3", 1)):
            for columns in (["id"], ["id", "c"]):
                assert table.scan(columns, text).to_arrow().num_rows == rows
