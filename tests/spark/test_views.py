"""Views of a lake on Spark: DuckDB's SQL gives DuckDB's answer, or is refused with the reason."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, time
from typing import Any
from uuid import UUID

import duckdb
import pytest

from lakeport.ducklake import View
from lakeport.ducklake.views import table_key
from lakeport.errors import UnsupportedError
from lakeport.spark.sql.registration import Registration
from lakeport.spark.sql.views.translation import translate
from tests.fixtures_lakes import RealLake
from tests.view_cases import FAMILIES, QUERIES, REFUSED, SAME, TABLES


@pytest.fixture(scope="module")
def lake(
    reference: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealLake]:
    folder = tmp_path_factory.mktemp("views")
    made = RealLake(reference, f"ducklake:{folder}/views.ducklake", f"{folder}/data/")
    made.execute(*TABLES, "BEGIN")
    for theme, expressions in SAME.items():
        columns = ", ".join(f"{text} AS c{n}" for n, text in enumerate(expressions))
        made.execute(f"CREATE VIEW {theme} AS SELECT id, {columns} FROM t")
    made.execute(*(f"CREATE VIEW {name} AS {sql}" for name, sql in QUERIES.items()))
    made.execute(*(f"CREATE VIEW refused{n} AS {sql}" for n, (sql, _) in enumerate(REFUSED)))
    for family, views in FAMILIES.items():
        made.execute(*(f"CREATE VIEW {family}_{n} AS {sql}" for n, sql in enumerate(views)))
    made.execute("COMMIT")
    yield made
    made.detach()


@pytest.fixture(scope="module")
def registered(lake: RealLake, spark: Any) -> Iterator[Registration]:
    with lake.open() as ours:
        registration = ours.register(spark, "views")
    yield registration
    registration.unregister()


@pytest.mark.parametrize("theme", SAME)
def test_expressions_have_the_values_that_duckdb_gives_them(
    lake: RealLake, registered: Registration, spark: Any, theme: str
) -> None:
    assert registered.skipped.get(("main", theme)) is None

    frame = spark.sql(f"SELECT * FROM {registered.names['main', theme]} ORDER BY id")
    ours = frame.toArrow().to_pydict()

    theirs = lake.query(f"SELECT * FROM {theme} ORDER BY id")
    for number, text in enumerate(SAME[theme]):
        got = [plain(value) for value in ours[f"c{number}"]]
        assert got == [plain(row[number + 1]) for row in theirs], text


@pytest.mark.parametrize("name", QUERIES)
def test_queries_have_the_rows_and_columns_that_duckdb_gives_them(
    lake: RealLake, registered: Registration, spark: Any, name: str
) -> None:
    schema, _, view = name.partition("(")[0].rpartition(".")
    key = (schema or "main", view)
    assert registered.skipped.get(key) is None

    ours = spark.sql(f"SELECT * FROM {registered.names[key]}").toArrow()

    theirs = lake.query(f"SELECT * FROM lake.{key[0]}.{key[1]}")
    described = lake.query(f"DESCRIBE lake.{key[0]}.{key[1]}")
    assert ours.column_names == [row[0] for row in described]
    rows = [tuple(plain(value) for value in row.values()) for row in ours.to_pylist()]
    expected = [tuple(plain(value) for value in row) for row in theirs]
    assert sorted(rows, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize("number", range(len(REFUSED)), ids=[sql for sql, _ in REFUSED])
def test_what_would_give_another_answer_runs_in_duckdb_for_that_reason(
    registered: Registration, number: int
) -> None:
    reason = registered.in_duckdb["main", f"refused{number}"]

    assert REFUSED[number][1] in reason
    assert "\n" not in reason


def test_every_view_of_the_suite_has_an_engine_and_spark_runs_a_part_of_them(
    registered: Registration,
) -> None:
    named = {("main", f"{family}_{n}") for family in FAMILIES for n in range(len(FAMILIES[family]))}
    named |= {("main", f"refused{n}") for n in range(len(REFUSED))}
    named |= {key for key in registered.names if key[1] in QUERIES or key[1] in SAME}
    on_spark = named & registered.names.keys() - registered.in_duckdb.keys()
    without_a_type = named & registered.skipped.keys()

    assert len(named) >= 150
    reasons = {registered.skipped[key] for key in without_a_type}
    assert [reason for reason in reasons if "type" not in reason and "Spark" not in reason] == []
    assert named == on_spark | without_a_type | (named & registered.in_duckdb.keys())
    assert len(on_spark) >= 40, len(on_spark)


@pytest.mark.exhaustive
@pytest.mark.parametrize("family", FAMILIES)
def test_views_of_every_family_have_the_rows_that_duckdb_gives_them(
    lake: RealLake, registered: Registration, spark: Any, family: str
) -> None:
    for number, sql in enumerate(FAMILIES[family]):
        name = f"{family}_{number}"
        reason = registered.skipped.get(("main", name))
        if reason is not None:
            assert "Spark" in reason or "type" in reason, (sql, reason)
            continue
        # In Spark, intervals are structs and nanoseconds are whole numbers.
        types = [row[1] for row in lake.query(f"DESCRIBE lake.main.{name}")]
        if {"INTERVAL", "TIMESTAMP_NS"} & set(types):
            continue

        ours = spark.sql(f"SELECT * FROM {registered.names['main', name]}").toArrow()

        theirs = lake.query(f"SELECT * FROM lake.main.{name}")
        rows = [tuple(plain(value) for value in row.values()) for row in ours.to_pylist()]
        expected = [tuple(plain(value) for value in row) for row in theirs]
        assert sorted(rows, key=repr) == sorted(expected, key=repr), sql


def view(sql: str, schema: str = "main") -> View:
    return View(id=1, schema=schema, name="v", uuid="", dialect="duckdb", sql=sql)


NAMES = {
    table_key("main", "t"): "lake_t",
    table_key("s", "t"): "lake_s_t",
    table_key("main", "u"): "u",
}


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT * FROM nowhere", "reads nowhere, which is not there"),
        ("SELECT * FROM other.main.t", "reads other.main.t, which is not there"),
        ("SELECT FROM WHERE", "cannot be parsed"),
        ("DROP TABLE t", "not one SELECT"),
        ("SELECT 1; SELECT 2", "not one SELECT"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, "nested too deeply"),
        ("SELECT '" + "x" * 200_000 + "'", "longer than"),
    ],
    ids=["unknown", "other catalog", "no SQL", "no SELECT", "two", "deep", "long"],
)
def test_sql_that_cannot_be_read_is_refused(sql: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        translate(view(sql), NAMES)


def test_another_dialect_is_refused() -> None:
    other = View(id=1, schema="main", name="v", uuid="", dialect="trino", sql="SELECT 1")

    with pytest.raises(UnsupportedError, match="written in 'trino'"):
        translate(other, NAMES)


def test_qualified_columns_follow_their_table() -> None:
    sql = translate(view("SELECT main.t.id, s.t.id AS other FROM main.t"), NAMES)

    assert sql == "SELECT `t`.`id`, `s`.`t`.`id` AS `other` FROM `lake_t` AS `t`"


def test_a_query_of_a_with_does_not_hide_a_registered_table() -> None:
    sql = translate(view("WITH u AS (SELECT 1 AS id) SELECT u.id, x.id FROM u, main.u AS x"), NAMES)

    assert sql == (
        "WITH `u__0` AS (SELECT 1 AS `id`) SELECT `u`.`id`, `x`.`id` FROM `u__0` AS `u`, `u` AS `x`"
    )


def plain(value: Any) -> Any:
    """Values of two drivers in one form."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else float(f"{value:.12g}")
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat()
    if isinstance(value, dict):
        return sorted((key, plain(inner)) for key, inner in value.items())
    if isinstance(value, list):
        # Arrow's form of a map has its entries in any order.
        items = [plain(item) for item in value]
        return sorted(items) if items and isinstance(items[0], tuple) else items
    return str(value) if isinstance(value, UUID | time) else value
