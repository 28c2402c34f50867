"""Views that use macros of the lake, compared with the real implementation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakeport import Lake
from lakeport.ducklake.views import reads_of
from lakeport.errors import UnsupportedError
from tests.lakehouse.conftest import Serve

MakeLake = Callable[..., Any]

VIEWS = {
    "main.defaults": "SELECT id, add(id) AS a, add(id, y := 7) AS b FROM t",
    "main.overloads": "SELECT s.times(id) AS twice, s.times(id, 3) AS thrice FROM t",
    "main.texts": "SELECT greet(v) AS g, greet(v, mark := '?') AS h FROM t",
    "main.tables": "SELECT * FROM first_rows(3)",
    "main.subquery": "SELECT id FROM t WHERE id >= most() - 1",
    "main.nested": "SELECT more(id) AS m FROM t",
    "s.own_schema": "SELECT times(id) AS twice FROM main.t",
    "main.shadowing": "SELECT upper(v) AS u FROM t",
    "main.over_view": "SELECT sum(a)::BIGINT AS total FROM defaults",
}


@pytest.fixture
def lake(make_lake: MakeLake) -> Any:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id, 'v' || i AS v FROM range(10) r(i)",
        "CREATE SCHEMA s",
        "CREATE MACRO add(x, y := 5) AS x + y",
        "CREATE MACRO more(x) AS add(x) * 2",
        "CREATE MACRO greet(x, mark := '!') AS x || mark",
        "CREATE MACRO s.times(a) AS a * 2, (a, b) AS a * b",
        "CREATE MACRO first_rows(n) AS TABLE SELECT * FROM t WHERE id < n",
        "CREATE MACRO most() AS (SELECT max(id) FROM t)",
        "CREATE MACRO upper(x) AS 'not ' || x",
        *(f"CREATE VIEW {name} AS {sql}" for name, sql in VIEWS.items()),
    )
    return lake


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_with_macros_has_the_rows_of_the_real_implementation(
    lake: Any, serve: Serve, name: str
) -> None:
    expected = lake.query(f"SELECT * FROM {name} ORDER BY ALL")

    rows = serve(lake).client.table(name.replace("main.", "public.")).scan().to_arrow()

    assert sorted(tuple(row.values()) for row in rows.to_pylist()) == expected


def test_a_view_reads_the_tables_of_its_macros(lake: Any) -> None:
    with lake.open() as opened:
        contents = opened.contents()
        views = {view.name: view for view in contents.views}
        assert ("main", "t") in reads_of(views["tables"], contents)
        assert ("main", "t") in reads_of(views["subquery"], contents)


def test_a_macro_that_reads_files_cannot_be_used(make_lake: MakeLake) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t AS SELECT 1 AS id",
        "CREATE MACRO leak(x) AS (SELECT count(*) FROM read_text(x))",
        "CREATE VIEW leaking AS SELECT leak('/etc/*') AS n FROM t",
    )
    with lake.open() as opened:
        contents = opened.contents()
        with pytest.raises(UnsupportedError, match="read_text cannot be used"):
            reads_of(contents.views[0], contents)


def test_spark_lets_duckdb_run_views_with_macros(lake: Any, spark: Any) -> None:
    expected = lake.query("SELECT * FROM defaults ORDER BY ALL")
    lake.detach()
    with Lake.open(lake.uri, spark=spark) as opened:
        rows = opened.sql("SELECT * FROM defaults").collect()
        registration = opened.register(spark, "macros")
        registration.unregister()

    assert sorted(tuple(row) for row in rows) == expected
    assert registration.in_duckdb["main", "defaults"] == "the view uses the macro add"
    assert ("main", "shadowing") in registration.in_duckdb
