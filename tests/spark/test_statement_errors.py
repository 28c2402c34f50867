"""Statements that cannot be run: each error names the part, and nothing has changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from lakeport import Lake
from lakeport.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    InvalidInputError,
    LakeportError,
    NotFoundError,
    UnsupportedError,
)
from lakeport.spark.sql import with_arguments
from lakeport.spark.sql.statements import run_listing, run_statement
from tests.fixtures_lakes import LakeMaker


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("statements")
    with Lake.create(f"ducklake:sqlite:{folder}/m.sqlite", data_path=f"{folder}/data/") as made:
        made.create_table("t", {"id": "INTEGER", "v": "INTEGER", "s": "STRUCT(a INTEGER)"})
        columns = {"id": "INTEGER", "k": "INTEGER", "d": "DATE"}
        made.create_table("p", columns, partition_by=["k", "month(d)"])
        yield made


def no_spark() -> NoReturn:
    raise AssertionError("the statement must be refused before a query runs")


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("ANALYZE TABLE t", UnsupportedError, "ANALYZE cannot be run on a lake: there are queries"),
        ("OPTIMIZE t", UnsupportedError, "OPTIMIZE cannot be run on a lake: maintain the lake"),
        ("EXPLAIN SELECT 1", UnsupportedError, "EXPLAIN cannot be run on a lake: call explain"),
        ("DELETE FROM t; DELETE FROM t", InvalidInputError, "more than one statement"),
        (";", InvalidInputError, "no statement"),
        ("DELETE FROM t WHERE id = 'x", InvalidInputError, "cannot be parsed"),
        ("INSERT OR REPLACE INTO t VALUES (1, 2, NULL)", UnsupportedError, "OR of INSERT"),
        ("INSERT INTO t PARTITION (v = 1) SELECT 1", InvalidInputError, "'v', which is no partition key of main.t"),
        ("INSERT INTO p PARTITION (d = '2026-01-01') SELECT 1", InvalidInputError, "has the partition key month"),
        ("INSERT INTO p (id, k) PARTITION (k = 1) VALUES (1, 2)", UnsupportedError, "PARTITION of INSERT is not supported here: write it before"),
        ("INSERT INTO p PARTITION (k = 1) (id, k) VALUES (1, 2)", InvalidInputError, "twice"),
        ("DELETE FROM t WHERE id = ANY (SELECT v FROM t)", UnsupportedError, "ANY of a subquery is not supported here: write IN"),
        ("UPDATE t SET v = 1 WHERE id > ALL (SELECT v FROM t)", UnsupportedError, "ALL of a subquery"),
        ("INSERT INTO t DEFAULT VALUES", UnsupportedError, "DEFAULT VALUES of INSERT"),
        ("INSERT INTO t VALUES (1, 2, NULL) RETURNING id", UnsupportedError, "RETURNING of INSERT"),
        ("INSERT INTO t VALUES (1, 2, NULL) ON CONFLICT DO NOTHING", UnsupportedError, "ON CONFLICT"),
        ("INSERT INTO t (id) BY NAME SELECT 1", UnsupportedError, "BY NAME with a list"),
        ("INSERT INTO t VALUES (1, 2)", InvalidInputError, "3 columns, and a row of VALUES has 2"),
        ("INSERT INTO t (id, nothing) VALUES (1, 2)", LakeportError, "nothing"),
        ("INSERT INTO t (id, ID) VALUES (1, 2)", InvalidInputError, "twice"),
        ("INSERT INTO t VALUES ('x', 2, NULL)", InvalidArgumentError, "Could not convert"),
        ("INSERT t VALUES (1)", InvalidInputError, "expected INTO"),
        ("INSERT INTO a.b.c VALUES (1)", UnsupportedError, "the name a.b.c of INSERT"),
        ("INSERT INTO gone VALUES (1)", NotFoundError, "gone"),
        ("UPDATE t SET v = 1 FROM u, w WHERE t.id = u.id", UnsupportedError, ", of UPDATE is not supported here: write a query in parentheses"),
        ("UPDATE t SET v = 1 FROM u JOIN w USING (id) WHERE t.id = u.id", UnsupportedError, "JOIN of UPDATE"),
        ("UPDATE t SET v = 1 FROM t WHERE true", InvalidInputError, "both of the statement's tables"),
        ("UPDATE t SET (id, v) = (1)", InvalidInputError, "2 columns and 1 values"),
        ("UPDATE t SET (id, v) = (SELECT 1, 2)", UnsupportedError, "a query for several columns"),
        ("UPDATE t SET s.a = 1", UnsupportedError, "field s.a of a struct"),
        ("UPDATE t SET v = 1, V = 2", InvalidInputError, "set twice"),
        ("UPDATE t SET nothing = 1", InvalidArgumentError, "nothing"),
        ("UPDATE t SET v = 1 RETURNING v", UnsupportedError, "RETURNING of UPDATE"),
        ("DELETE FROM t USING u LEFT JOIN w ON true WHERE t.id = u.id", UnsupportedError, "LEFT of DELETE"),
        ("DELETE FROM t USING (SELECT 1) WHERE true", InvalidInputError, "expected an alias"),
        ("DELETE FROM t WHERE id IN (SELECT 1", InvalidInputError, "no closing parenthesis"),
        ("DELETE FROM t WHERE sum(id) OVER () > 1", InvalidArgumentError, "window"),
        ("TRUNCATE TABLE t PARTITION (v = 1)", UnsupportedError, "PARTITION of TRUNCATE"),
        ("MERGE INTO t USING u ON true", InvalidInputError, "expected WHEN MATCHED"),
        ("MERGE INTO t USING (SELECT 1) ON true WHEN MATCHED THEN DELETE", InvalidInputError, "alias"),
        ("MERGE INTO t USING t ON true WHEN MATCHED THEN DELETE", InvalidInputError, "both of the statement's tables"),
        ("MERGE INTO t USING u ON true WHEN MATCHED THEN DO NOTHING", UnsupportedError, "DO NOTHING of MERGE"),
        ("MERGE INTO t USING u ON true WHEN MATCHED THEN UPDATE", InvalidInputError, "expected SET"),
        ("MERGE INTO t USING u ON true WHEN NOT MATCHED THEN INSERT (id) VALUES (1, 2)", InvalidInputError, "1 columns and 2 values"),
        ("MERGE INTO t USING u ON true WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", UnsupportedError, "UPDATE SET \\* of rows without"),
        ("MERGE WITH x INTO t USING u ON true WHEN MATCHED THEN DELETE", InvalidInputError, "expected INTO"),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", UnsupportedError, "TEMPORARY of CREATE"),
        ("CREATE MACRO f(x) AS x", UnsupportedError, "'MACRO f"),
        ("CREATE TABLE x (a INTEGER PRIMARY KEY)", UnsupportedError, "PRIMARY of CREATE TABLE"),
        ("CREATE TABLE x (a INTEGER, UNIQUE (a))", UnsupportedError, "UNIQUE of CREATE TABLE"),
        ("CREATE TABLE x (a INTEGER CHECK (a > 1))", UnsupportedError, "CHECK of CREATE TABLE"),
        ("CREATE TABLE x (a INTEGER GENERATED ALWAYS AS (1))", UnsupportedError, "GENERATED of CREATE"),
        ("CREATE TABLE x (a INTEGER) USING parquet", UnsupportedError, "USING of another format"),
        ("CREATE TABLE x (a INTEGER) TBLPROPERTIES ('k' = 'v')", UnsupportedError, "TBLPROPERTIES"),
        ("CREATE TABLE x (a NOTATYPE)", InvalidArgumentError, "NOTATYPE"),
        ("CREATE TABLE x", InvalidInputError, "expected columns"),
        ("CREATE TABLE x LIKE gone", NotFoundError, "gone"),
        ("CREATE TABLE x LIKE t AS SELECT 1", UnsupportedError, "LIKE with AS of CREATE TABLE"),
        ("CREATE EXTERNAL TABLE x (a INTEGER)", UnsupportedError, "EXTERNAL of CREATE"),
        ("CREATE SCHEMA x COMMENT 'c'", UnsupportedError, "COMMENT 'c'\" at the end of CREATE SCHEMA"),
        ("CREATE TABLE t (id INTEGER)", AlreadyExistsError, "exists already"),
        ("ALTER TABLE t ADD COLUMN x INTEGER FIRST", UnsupportedError, "FIRST of ALTER TABLE"),
        ("ALTER TABLE t ADD COLUMN x INTEGER DEFAULT 1 + 1", UnsupportedError, "must be a constant"),
        ("ALTER TABLE t ADD CONSTRAINT c CHECK (id > 1)", UnsupportedError, "CONSTRAINT of ALTER"),
        ("ALTER TABLE t SET TBLPROPERTIES ('k' = 'v')", InvalidArgumentError, "'k' is not an option"),
        ("ALTER TABLE t UNSET TBLPROPERTIES ('k')", UnsupportedError, "UNSET of ALTER TABLE"),
        ("ALTER TABLE t ADD PARTITION (v = 1)", UnsupportedError, "ADD PARTITION of ALTER TABLE"),
        ("ALTER TABLE t CHANGE COLUMN v v BIGINT NOT NULL", UnsupportedError, "CHANGE COLUMN with this definition"),
        ("ALTER VIEW gone AS SELECT 1", NotFoundError, "there is no view main.gone"),
        ("ALTER TABLE t ALTER id TYPE VARCHAR USING 'x'", UnsupportedError, "USING of ALTER"),
        ("ALTER TABLE t RENAME TO other.t", UnsupportedError, "stays in its schema"),
        ("ALTER TABLE gone ADD COLUMN x INTEGER", NotFoundError, "gone"),
        ("ALTER SEQUENCE s RESTART", UnsupportedError, "'SEQUENCE s"),
        ("DROP MACRO f", UnsupportedError, "'MACRO f"),
        ("DROP TABLE t PURGE", UnsupportedError, "PURGE of DROP TABLE"),
        ("COMMENT ON SCHEMA main IS 'x'", UnsupportedError, "SCHEMA main"),
    ],
)  # fmt: skip
def test_the_error_names_the_part(
    lake: Lake, statement: str, error: type[Exception], message: str
) -> None:
    before = lake.snapshot().id

    with pytest.raises(error, match=message):
        run_statement(lake, statement, no_spark)

    assert lake.snapshot().id == before


@pytest.mark.parametrize(
    ("listing", "error", "message"),
    [
        ("SHOW FUNCTIONS", UnsupportedError, "'FUNCTIONS' of SHOW is not supported here: write TABLES"),
        ("SHOW TABLES IN main WHERE x", UnsupportedError, "'WHERE x' at the end of SHOW"),
        ("SHOW COLUMNS t", InvalidInputError, "expected FROM"),
        ("DESCRIBE HISTORY t", UnsupportedError, "HISTORY of DESCRIBE is not supported here: read lake"),
        ("DESC gone", NotFoundError, "gone"),
    ],
)  # fmt: skip
def test_what_cannot_be_listed_is_named(
    lake: Lake, listing: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run_listing(lake, listing, no_spark)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"other": 1}, "the parameter :id has no value"),
        ([], "the parameter number 1 has no value"),
        ([1, 2], "args has 2 values for 1 parameters"),
        ([{}], "the value of parameter number 1 is a dict"),
    ],
)
def test_parameters_without_a_value_are_errors(arguments: Any, message: str) -> None:
    text = "SELECT :id" if isinstance(arguments, dict) else "SELECT ?"

    with pytest.raises(InvalidArgumentError, match=message):
        with_arguments(text, arguments)


def test_if_exists_changes_nothing(lake: Lake) -> None:
    for statement in (
        "ALTER TABLE IF EXISTS gone ADD COLUMN x INTEGER",
        "DROP VIEW IF EXISTS gone",
    ):
        assert run_statement(lake, statement, no_spark).snapshot is None


def test_a_lake_that_is_pinned_is_not_changed(make_lake: LakeMaker) -> None:
    real = make_lake("sqlite")
    real.execute("CREATE TABLE t (id INTEGER)")
    with real.open(snapshot=1) as pinned, pytest.raises(InvalidArgumentError, match="snapshot 1"):
        run_statement(pinned, "INSERT INTO t VALUES (1)", no_spark)
