"""`Lake.sql`: tables by schema, name and version in Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lakeport import Lake
from lakeport.errors import (
    InvalidArgumentError,
    InvalidInputError,
    NotFoundError,
    SnapshotNotFoundError,
    UnsupportedError,
)

MakeLake = Callable[..., Any]


@pytest.fixture
def lake(make_lake: MakeLake, spark: Any) -> Iterator[Lake]:
    made = make_lake()
    made.execute(
        "CREATE SCHEMA sales",
        "CREATE TABLE sales.orders(id INTEGER, customer INTEGER)",
        "INSERT INTO sales.orders VALUES (1, 10), (2, 20)",
        "CREATE TABLE customers AS SELECT 10 AS customer, 'anna' AS name",
        "INSERT INTO sales.orders VALUES (3, 10)",
        "DELETE FROM sales.orders WHERE id = 1",
        "CREATE VIEW sales.big AS SELECT id * 100 AS big FROM sales.orders",
        'CREATE TABLE "odd name"("a.b" INTEGER)',
        'INSERT INTO "odd name" VALUES (7)',
    )
    with made.open(spark=spark) as opened:
        yield opened


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT id FROM sales.orders", [(2,), (3,)]),
        ("SELECT id FROM SALES.Orders", [(2,), (3,)]),
        ("SELECT id FROM sales.orders VERSION AS OF 3", [(1,), (2,)]),
        ("SELECT id FROM sales.orders FOR VERSION AS OF 5 AS o", [(1,), (2,), (3,)]),
        (
            ("SELECT now.id, old.id FROM sales.orders now "
            "FULL JOIN sales.orders VERSION AS OF 3 old ON now.id = old.id WHERE now.id IS NULL"),
            [(None, 1)],
        ),
        ("SELECT orders.id FROM sales.orders JOIN customers USING (customer)", [(3,)]),
        (("SELECT sales.orders.id FROM sales.orders, customers "
         "WHERE sales.orders.customer = main.customers.customer"), [(3,)]),
        ("WITH orders AS (SELECT 1 AS x) SELECT x FROM orders", [(1,)]),
        ("SELECT big FROM sales.big", [(200,), (300,)]),
        ("SELECT big FROM sales.big WHERE EXISTS (SELECT 1 FROM customers)", [(200,), (300,)]),
        ("SELECT `a.b` FROM `odd name`", [(7,)]),
        ("SELECT 'FROM sales.orders' AS text -- FROM nowhere", [("FROM sales.orders",)]),
    ],
)  # fmt: skip
def test_tables_are_named_as_in_the_lake(
    lake: Lake, query: str, expected: list[tuple[Any, ...]]
) -> None:
    assert rows(lake.sql(query)) == expected


def test_a_time_stands_for_its_snapshot(lake: Lake) -> None:
    moment = lake.snapshot(version=3).time.isoformat(sep=" ")

    found = lake.sql(f"SELECT id FROM sales.orders TIMESTAMP AS OF '{moment}'")

    assert rows(found) == [(1,), (2,)]


def test_tables_without_a_version_are_read_at_that_of_the_call(lake: Lake) -> None:
    assert rows(lake.sql("SELECT id FROM sales.orders", version=3)) == [(1,), (2,)]


def test_views_of_the_session_can_be_joined(lake: Lake, spark: Any) -> None:
    spark.range(3, 5).createOrReplaceTempView("wanted_ids")

    found = lake.sql("SELECT o.id FROM sales.orders o JOIN wanted_ids w ON o.id = w.id")

    assert rows(found) == [(3,)]
    spark.catalog.dropTempView("wanted_ids")


def test_nothing_is_left_in_the_session(lake: Lake, spark: Any) -> None:
    before = {table.name for table in spark.catalog.listTables()}

    frame = lake.sql("SELECT count(*) FROM sales.big")

    assert {table.name for table in spark.catalog.listTables()} == before
    assert rows(frame) == [(2,)]


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELECT * FROM sales.order", NotFoundError, "did you mean 'sales.orders'"),
        ("SELECT * FROM sales_orders", NotFoundError, "did you mean 'sales.orders'"),
        ("SELECT * FROM costumers", NotFoundError, "did you mean 'customers'"),
        ("SELECT * FROM sales.big VERSION AS OF 3", NotFoundError, "at snapshot 3"),
        ("SELECT * FROM sales.orders VERSION AS OF 99", SnapshotNotFoundError, "99"),
        ("SELECT * FROM sales.orders VERSION AS OF 'x'", InvalidInputError, "'x'"),
        ("SHOW FUNCTIONS", UnsupportedError, "'FUNCTIONS' of SHOW"),
        ("SELECT * FROM", InvalidInputError, "cannot be parsed"),
        ("SELECT 1; SELECT 2", InvalidInputError, "not one query"),
        ("SELECT nothing FROM sales.orders", InvalidInputError, "nothing"),
    ],
)
def test_what_cannot_be_run_is_an_error_in_one_sentence(
    lake: Lake, query: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        lake.sql(query)


def test_a_statement_has_no_version(lake: Lake) -> None:
    with pytest.raises(InvalidArgumentError, match="only queries have a version"):
        lake.sql("DELETE FROM sales.orders", version=3)


def test_the_data_source_takes_the_names_of_other_sources(lake: Lake, spark: Any) -> None:
    uri = str(lake.catalog.database.location)
    reader = spark.read.format("ducklake").option("lake", uri).option("table", "sales.orders")

    assert rows(reader.option("versionAsOf", 3).load().select("id")) == [(1,), (2,)]
    reader = spark.read.format("ducklake").option("lake", uri).option("table", "sales.orders")
    at = lake.snapshot(version=3).time.isoformat()
    assert rows(reader.option("timestampAsOf", at).load().select("id")) == [(1,), (2,)]
