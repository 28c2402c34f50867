"""Statistics of lakes: useful where they can be, silent where a value could be missed."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import event

from lakeport import ColumnStats
from lakeport.catalog import ScanOptions, SizedTable
from lakeport.lakehouse.statistics import _cast_bounds, _parsed_bounds
from lakeport.types import Column
from tests.lakehouse.conftest import Serve

MakeLake = Callable[..., Any]


@pytest.fixture
def statistics(make_lake: MakeLake, serve: Serve) -> Callable[..., dict[str, ColumnStats]]:
    """What a client learns of the columns of `t` after some statements."""

    def ask(*statements: str, options: str = "") -> dict[str, ColumnStats]:
        lake = make_lake(options=options)
        lake.execute(*statements)
        table = serve(lake).client.table("public.t")
        return {name: table.statistics(name) for name in table.schema.names}

    return ask


def test_bounds_come_from_files_and_inlined_rows(statistics: Any) -> None:
    found = statistics(
        "CREATE TABLE t AS SELECT i AS id, 'v' || i AS v, i / 2 AS d FROM range(100) r(i)",
        "INSERT INTO t VALUES (-5, 'a', 0), (500, 'z', NULL)",
    )

    assert (found["id"].min, found["id"].max, found["id"].has_null) == (-5, 500, False)
    assert (found["v"].min, found["v"].max, found["v"].has_null) == ("a", "z", False)
    assert (found["d"].min, found["d"].max, found["d"].has_null) == (0.0, 49.5, True)


def test_deleted_rows_still_count_because_the_past_can_be_read(statistics: Any) -> None:
    found = statistics(
        "CREATE TABLE t AS SELECT i AS id FROM range(100) r(i)",
        "DELETE FROM t WHERE id > 10",
        "INSERT INTO t VALUES (1), (NULL)",
        "DELETE FROM t WHERE id IS NULL",
    )

    assert (found["id"].min, found["id"].max, found["id"].has_null) == (0, 99, True)


def test_nothing_is_said_of_bounds_that_nan_could_break(statistics: Any) -> None:
    found = statistics(
        "CREATE TABLE t AS SELECT i::DOUBLE AS d FROM range(100) r(i)",
        "INSERT INTO t VALUES ('nan')",
        "INSERT INTO t VALUES (5)",
        options="DATA_INLINING_ROW_LIMIT 0",
    )

    assert found["d"].max is None


def test_an_added_column_may_hold_its_default_everywhere(statistics: Any) -> None:
    found = statistics(
        "CREATE TABLE t AS SELECT i AS id FROM range(100) r(i)",
        "ALTER TABLE t ADD COLUMN a INTEGER",
        "ALTER TABLE t ADD COLUMN b INTEGER DEFAULT 1000",
        "INSERT INTO t SELECT 5, 5, 5 FROM range(50)",
        "CALL ducklake_flush_inlined_data('lake')",
    )

    for name in ("a", "b"):
        assert found[name] == ColumnStats(has_not_null=True, has_null=True)


def test_nothing_is_said_of_a_name_that_meant_another_column_or_table(statistics: Any) -> None:
    unknown = ColumnStats(has_not_null=True, has_null=True)

    swapped = statistics(
        "CREATE TABLE t AS SELECT i AS a, i + 1000 AS b, i AS c FROM range(50) r(i)",
        "ALTER TABLE t RENAME a TO x",
        "ALTER TABLE t RENAME b TO a",
        "ALTER TABLE t RENAME x TO b",
    )
    replaced = statistics(
        "CREATE TABLE t AS SELECT i AS a FROM range(1000, 2000) r(i)",
        "DROP TABLE t",
        "CREATE TABLE t AS SELECT i AS a FROM range(50) r(i)",
    )

    assert swapped["a"] == swapped["b"] == unknown
    assert swapped["c"].max == 49
    assert replaced["a"] == unknown


def test_long_texts_have_no_upper_bound(statistics: Any) -> None:
    found = statistics(
        "CREATE TABLE t AS SELECT repeat('z', 300) || i AS v FROM range(20) r(i)",
    )

    assert found["v"].max is None or found["v"].max > "z" * 300


def test_a_table_tells_how_many_rows_are_left(make_lake: MakeLake, serve: Serve) -> None:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 10")
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id FROM range(1000) r(i)",
        "DELETE FROM t WHERE id % 2 = 0",
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO t VALUES (1), (2), (3)",
    )

    schema = serve(lake).catalog.schema("public")

    assert schema is not None
    table = schema.table("t")
    assert isinstance(table, SizedTable)
    assert table.size(ScanOptions()).rows == 502


def test_the_statistics_of_a_table_are_computed_once_for_each_snapshot(
    make_lake: MakeLake, serve: Serve
) -> None:
    columns = ", ".join(f"i + {n} AS c{n}" for n in range(20))
    lake = make_lake()
    lake.execute(
        f"CREATE TABLE t AS SELECT {columns} FROM range(100) r(i)",
        "INSERT INTO t SELECT * FROM t",
    )
    served = serve(lake)
    table = served.client.table("public.t")
    sent: list[str] = []
    engine = served.catalog.lake.catalog.database.engine

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        sent.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    # The client asks for every column, and then once more.
    found = [table.statistics(f"c{n}") for n in [*range(20), *range(20)]]

    assert [stats.min for stats in found] == [*range(20), *range(20)]
    assert [stats.max for stats in found] == [n + 99 for n in [*range(20), *range(20)]]
    assert sum("file_column_stats" in statement for statement in sent) == 1


def test_the_statistics_of_many_columns_fit_into_the_joins_of_a_database(
    make_lake: MakeLake, serve: Serve
) -> None:
    columns = ", ".join(f"i + {n} AS c{n}" for n in range(150))
    lake = make_lake("sqlite")
    lake.execute(f"CREATE TABLE t AS SELECT {columns} FROM range(100) r(i)")
    table = serve(lake).client.table("public.t")

    assert [table.statistics(f"c{n}").max for n in (0, 70, 149)] == [99, 169, 248]


TEXTS: dict[str, list[str | None]] = {
    "int64": ["-5", "7", "9223372036854775807", None, " 8", "1e3", "12.0", "x", ""],
    "int8": ["127", "-128", "128"],
    "uint8": ["0", "255", "256", "-1"],
    "varchar": ["a", "Z", "é", "", None, "x" * 249, "x" * 250, "é" * 125],
    "date": ["2024-01-01", "0001-01-01", "infinity", "2024-1-1", "10000-01-01", None],
    "boolean": ["true", "false", "0", "1", "t", None],
    "decimal(9,2)": ["1.25", "-3", "1.255", "99999999.99", None, "1e2"],
}


@pytest.mark.parametrize("type", TEXTS)
def test_bounds_that_arrow_parses_are_those_that_duckdb_casts(type: str) -> None:
    column = Column(id=1, name="c", type=type)
    draw = random.Random(type)
    parsed = 0
    for _ in range(200):
        files = range(draw.randrange(4))
        rows = pa.table(
            {
                "low": pa.array([draw.choice(TEXTS[type]) for _ in files], pa.string()),
                "high": pa.array([draw.choice(TEXTS[type]) for _ in files], pa.string()),
                "values": pa.array([draw.choice([0, 1, None]) for _ in files], pa.int64()),
                "nan": pa.nulls(len(files), pa.int64()),
            }
        )
        ours, expected = _parsed_bounds(rows, column), _cast_bounds(rows, column)
        if ours is None:
            continue
        parsed += len(ours)
        assert len(ours) == len(expected), rows
        for mine, other in zip(chain(*ours), chain(*expected), strict=True):
            assert mine is other is None or mine.equals(other), rows

    assert parsed > 0
