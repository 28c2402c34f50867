"""Values of every type are shown and saved as DuckDB writes them."""

from __future__ import annotations

import csv
import re
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pytest

from lakeport.arrow import thread_connection
from lakeport.console.cells import Cells, chart_values, is_number, shown_value
from lakeport.ducklake import Lake
from tests.console.conftest import StartConsole, Tab

VALUES = {
    "zoned": "TIMESTAMPTZ '2024-01-02 03:04:05.123456+02'",
    "far": "TIMESTAMP '290000-01-01 00:00:00'",
    "before_christ": "TIMESTAMP '0044-03-15 (BC) 12:00:00'",
    "far_day": "DATE '290000-01-01'",
    "infinite": "TIMESTAMP 'infinity'",
    "infinite_day": "DATE '-infinity'",
    "infinite_zoned": "TIMESTAMPTZ 'infinity'",
    "nanoseconds": "TIMESTAMP_NS '2024-01-02 03:04:05.123456789'",
    "length": "INTERVAL '1 year 2 days 3.5 seconds'",
    "bytes": r"'\xAA\x00hello'::BLOB",
    "exact": "1.50::DECIMAL(10, 3)",
    "huge": "170141183460469231731687303715884105727::HUGEINT",
    "unsigned_huge": "340282366920938463463374607431768211455::UHUGEINT",
    "id": "'eeccb8c5-9943-b2bb-bb5e-222f4e14b687'::UUID",
    "bits": "'10101'::BIT",
    "offset_time": "'12:30:00+05:30'::TIMETZ",
    "time": "'12:30:00.5'::TIME",
    "person": "{'name': 'ada', 'note': NULL::VARCHAR, 'its place': 'it''s'}",
    "list": "[1, NULL, 3]",
    "texts": "['a, b', 'c''d']",
    "dictionary": "MAP {'k': 1, 'j': NULL}",
    "nested": r"[{'d': DATE '290000-01-01', 'm': MAP {1: '\xFF'::BLOB}}]",
    "no_number": "'nan'::DOUBLE",
    "infinite_number": "'-inf'::FLOAT",
    "large_number": "1e20::DOUBLE",
    "truth": "true",
    "chosen": "'x'::ENUM('x', 'y')",
    "either": "union_value(num := 2)",
    "array": "[1, 2, 3]::INTEGER[3]",
    "json": """'{"a": 1}'::JSON""",
}
# A lake has no columns of these types.
HUGE = {"huge": "HUGEINT", "unsigned_huge": "UHUGEINT"}
NOT_STORED = {"bits", "chosen", "either", "array", "offset_time"}
# Files of a lake have numbers of 128 bits as floats.
FLOATS = {name: f"{2**100}::{type}" for name, type in HUGE.items()}
STORED = {name: sql for name, sql in (VALUES | FLOATS).items() if name not in NOT_STORED}


def text_of(sql: str) -> str:
    """Return how DuckDB shows a value; without a setting for time zones, as in the console."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return str(connection.execute(f"SELECT ({sql})::VARCHAR").fetchall()[0][0])


def rows_of(sql: str) -> pa.Table:
    return thread_connection().sql(f"SELECT {sql} AS v UNION ALL SELECT NULL").to_arrow_table()


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_the_text_that_duckdb_writes(name: str) -> None:
    cells = Cells.of(rows_of(VALUES[name]))
    assert cells.texts == [[text_of(VALUES[name]), None]]
    assert cells.ranks == [[2, 1]]


def test_values_that_duckdb_cannot_read_are_shown_too() -> None:
    wide = pa.array([Decimal(10) ** 60, None], pa.decimal256(76, 0))
    assert Cells.of(pa.table({"wide": wide})).texts == [[str(10**60), None]]


def test_bounds_are_shown_as_values() -> None:
    assert shown_value(b"\x00a", pa.binary()) == "\\x00a"
    assert shown_value(True, pa.bool_()) == "true"
    assert shown_value(pa.scalar(2**31 - 1, pa.date32()), pa.date32()) == "infinity"
    assert shown_value(None, pa.int64()) == ""


def test_a_chart_has_gaps_where_there_is_no_number() -> None:
    rows = thread_connection().sql("FROM (VALUES (1.5::DOUBLE), (NULL), ('nan'), ('inf')) t(v)")
    assert chart_values(rows.to_arrow_table(), 0) == [1.5, None, None, None]
    assert is_number(rows_of("1::HUGEINT").schema.field("v").type)


@pytest.fixture(scope="module")
def console_url(folder: Path, start_console: StartConsole) -> str:
    location = f"ducklake:{folder}/values.ducklake"
    columns = {name: text_of(f"typeof({sql})") for name, sql in STORED.items()}
    with Lake.create(location, data_path=str(folder / "data")) as lake:
        lake.set_option("data_inlining_row_limit", 0)
        table = lake.create_table("one", {"number": "INTEGER", **columns})
        selected = ", ".join(f"{sql} AS {name}" for name, sql in STORED.items())
        rows = thread_connection().sql(f"SELECT 1::INTEGER AS number, {selected}").to_arrow_table()
        table.append(rows)
        table.append([{"number": 2}])
    return start_console("console", location.removeprefix("ducklake:"), "--listen", "127.0.0.1:0")


def shown_row(page: Any) -> list[str]:
    """Return the cells of the row with a person, which no list of columns has."""
    row = page.get_by_role("row").filter(has_text=text_of(VALUES["person"]))
    row.wait_for()
    return [text.strip() for text in row.get_by_role("cell").all_inner_texts()]


def test_the_rows_and_columns_of_a_table_show_every_type(tab: Tab) -> None:
    page = tab.open("/lake/values/table?schema=public&name=one")
    for name in ("far", "infinite_day", "infinite_zoned"):
        page.get_by_role("cell", name=text_of(STORED[name]), exact=True).first.wait_for()
    page.get_by_role("tab", name="Rows").click()
    page.get_by_text("the first 2 rows").wait_for()

    assert shown_row(page) == ["1", *map(text_of, STORED.values())]
    assert page.locator("td .null").all_inner_texts() == ["NULL"] * len(STORED)


def test_changed_rows_show_every_type(tab: Tab) -> None:
    page = tab.open("/lake/values/history")
    page.get_by_label("From").fill("1")
    page.get_by_label("From").press("Enter")
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("2 changes of rows").wait_for()

    assert shown_row(page)[-len(STORED) :] == list(map(text_of, STORED.values()))


def test_a_query_shows_every_type_and_saves_it_as_csv(tab: Tab, tmp_path: Path) -> None:
    selected = ", ".join(f'{sql} AS "{name}"' for name, sql in VALUES.items())
    page = tab.open(f"/lake/values/query?sql={quote(f'SELECT 7 AS seven, {selected}')}")
    page.get_by_role("button", name="Run").click()
    page.get_by_text(re.compile("^1 row in")).wait_for()
    assert shown_row(page) == ["7", *map(text_of, VALUES.values())]

    with page.expect_download() as download:
        page.get_by_role("button", name="Save as csv").click()
    download.value.save_as(tmp_path / "result.csv")
    texts = {name: text_of(sql) for name, sql in VALUES.items() if name != "large_number"}
    (row,) = csv.DictReader((tmp_path / "result.csv").read_text().splitlines())
    assert {name: row[name] for name in texts} == texts
    for kind in ("Parquet", "Arrow"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Save as {kind}").click()
        download.value.save_as(tmp_path / f"result.{kind}")
    saved = duckdb.connect().sql(f"SELECT * FROM '{tmp_path}/result.Parquet'")
    values = dict(zip(saved.columns, saved.fetchall()[0], strict=True))
    assert values["offset_time"] == texts["offset_time"]
    assert values["person"] == {"name": "ada", "note": None, "its place": "it's"}
    with pa.ipc.open_file(tmp_path / "result.Arrow") as file:
        assert Cells.of(file.read_all()).texts[2] == [texts["far"]]


def test_a_chart_of_numbers_beyond_a_line_is_shown(tab: Tab) -> None:
    sql = "SELECT DATE '290000-01-01' AS day, unnest([1, 'nan'::DOUBLE, 'inf'::DOUBLE]) AS n"
    page = tab.open(f"/lake/values/query?sql={quote(sql)}")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("3 rows in").wait_for()
    page.get_by_role("button", name="Chart").click()
    page.locator("[aria-label^='n by day: 290000-01-01 1, 290000-01-01 no number']").wait_for()
