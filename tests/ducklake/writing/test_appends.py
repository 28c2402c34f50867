"""Appends by us and by the reference on two lakes: the same rows leave the same catalogs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from lakeport import Lake
from tests.ducklake.writing.catalog_comparison import Difference, assert_same_catalogs
from tests.fixtures_lakes import LakeMaker

TYPES = (
    "b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INTEGER, i8 BIGINT, u1 UTINYINT, u2 USMALLINT, u4 UINTEGER, u8 UBIGINT,"
    " f4 FLOAT, f8 DOUBLE, de DECIMAL(9,2), d DATE, t TIME, ts TIMESTAMP, tz TIMESTAMPTZ, tn TIMESTAMP_NS, s VARCHAR,"
    " u UUID, st STRUCT(x INTEGER, y VARCHAR), l INTEGER[]"
)
VALUES = (
    "n % 2 = 0, n, n, n, n * 1000000000, n, n, n, n, n + 0.25, n - 0.5, n + 0.25, DATE '2024-01-01' + n::INTEGER,"
    " TIME '01:02:03', TIMESTAMP '2024-01-01 00:00:00' + INTERVAL (n) SECOND, TIMESTAMPTZ '2024-01-01 00:00:00+00',"
    " TIMESTAMP_NS '2024-01-01 00:00:00.123456789', 'n' || n, 'f79c3e09-677c-4bbd-a479-3f349cb785e7'::UUID,"
    " {'x': n, 'y': 'é'}, [n, NULL]"
)


@dataclass(frozen=True)
class Step:
    sql: str
    ours: Callable[[Lake, Callable[[str], pa.Table]], Any]


def both(tx: Any, rows: Callable[[str], pa.Table]) -> None:
    # Of two new tables in one transaction, the reference takes any one first.
    tx.create_table("b", {"i": "INTEGER"})
    tx.table("a").append(rows("SELECT 1::INTEGER AS i"))
    tx.table("b").append(rows("SELECT i::INTEGER AS i FROM range(30) r(i)"))


def in_transaction(work: Callable[[Any, Callable[[str], pa.Table]], Any]) -> Any:
    def run(lake: Lake, rows: Callable[[str], pa.Table]) -> None:
        with lake.transaction(message="m", author="a", extra_info="free text") as transaction:
            work(transaction, rows)

    return run


def columns() -> dict[str, str]:
    names = [
        part.strip().split(" ", 1)
        for part in TYPES.replace("(9,2)", "(9;2)")
        .replace("x INTEGER, y", "x INTEGER; y")
        .split(",")
    ]
    return {name: type.replace(";", ",") for name, type in names}


STEPS = [
    Step(f"CREATE TABLE t({TYPES})", lambda lake, rows: lake.create_table("t", columns())),
    Step(
        f"INSERT INTO t SELECT {VALUES} FROM range(20) r(n)",
        lambda lake, rows: lake.table("t").append(rows(f"SELECT {VALUES} FROM range(20) r(n)")),
    ),
    Step(
        f"INSERT INTO t SELECT {VALUES} FROM range(30, 33) r(n)",
        lambda lake, rows: lake.table("t").append(rows(f"SELECT {VALUES} FROM range(30, 33) r(n)")),
    ),
    Step(
        "INSERT INTO t(i4) SELECT NULL FROM range(15)",
        lambda lake, rows: lake.table("t").append(rows("SELECT NULL::INTEGER AS i4 FROM range(15)")),
    ),
    Step("INSERT INTO t SELECT * FROM t WHERE false", lambda lake, rows: lake.table("t").append(rows("SELECT 1::INTEGER AS i4 WHERE false"))),
    Step(
        "CREATE TABLE p(k VARCHAR, d DATE); ALTER TABLE p SET PARTITIONED BY (k, year(d))",
        lambda lake, rows: [
            lake.create_table("p", {"k": "VARCHAR", "d": "DATE"}),
            lake.table("p").set_partitioning(["k", "year(d)"]),
        ],
    ),
    Step(
        "INSERT INTO p SELECT 'a b/c', DATE '2024-01-01' FROM range(20)",
        lambda lake, rows: lake.table("p").append(rows("SELECT 'a b/c' AS k, DATE '2024-01-01' AS d FROM range(20)")),
    ),
    Step(
        "CREATE TABLE many AS SELECT i::INTEGER AS i, 'x' AS s FROM range(30) r(i)",
        lambda lake, rows: lake.create_table_as("many", rows("SELECT i::INTEGER AS i, 'x' AS s FROM range(30) r(i)")),
    ),
    Step(
        "CREATE TABLE few AS SELECT 1::INTEGER AS i",
        lambda lake, rows: lake.create_table_as("few", rows("SELECT 1::INTEGER AS i")),
    ),
    Step(
        "CREATE TABLE a(i INTEGER)",
        lambda lake, rows: lake.create_table("a", {"i": "INTEGER"}),
    ),
    Step(
        "BEGIN; CALL ducklake_set_commit_message('lake', 'a', 'm', extra_info => 'free text');"
        " CREATE TABLE b(i INTEGER);"
        " INSERT INTO a VALUES (1); INSERT INTO b SELECT i FROM range(30) r(i); COMMIT",
        in_transaction(both),
    ),
    Step(
        "BEGIN; INSERT INTO b SELECT i FROM range(30) r(i); INSERT INTO a VALUES (2); INSERT INTO t(i4) VALUES (7); COMMIT",
        in_transaction(
            lambda tx, rows: [
                tx.table("b").append(rows("SELECT i::INTEGER AS i FROM range(30) r(i)")),
                tx.table("a").append(rows("SELECT 2::INTEGER AS i")),
                tx.table("t").append(rows("SELECT 7::INTEGER AS i4")),
            ]
        ),
    ),
]  # fmt: skip

NO_MESSAGE = Difference(
    "snapshot_changes",
    "only one of the transactions of this test has a message",
    lambda row: (
        row.update(author=None, commit_message=None, commit_extra_info=None)
        if row["snapshot_id"] != 11
        else None
    ),
)
STRUCT_TEXT = Difference(
    "inlined_data_1_1",
    "the reference writes a struct as SQL literals, which it cannot always read as the same value",
    lambda row: row.update(st="…") if isinstance(row["st"], str) else None,
)


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgresql"])
def test_the_same_rows_leave_the_same_catalog(make_lake: LakeMaker, kind: str) -> None:
    ours, theirs = make_lake(kind), make_lake(kind)
    theirs.execute(*(step.sql for step in STEPS))
    theirs.detach()
    connection = ours.connection

    with Lake.create(ours.uri, data_path=ours.data_path) as lake:
        for step in STEPS:
            step.ours(lake, lambda sql: connection.sql(named(sql)).to_arrow_table())

    assert_same_catalogs(ours.uri, theirs.uri, but=[NO_MESSAGE, STRUCT_TEXT])
    assert ours.check() > 10


def named(sql: str) -> str:
    """Return a query whose columns have the names and types of the table."""
    if VALUES not in sql:
        return sql
    rest = sql.partition("FROM")[2]
    casts = ", ".join(f"{name}::{type} AS {name}" for name, type in columns().items())
    return f"SELECT {casts} FROM (SELECT {VALUES} FROM {rest}) v({', '.join(columns())})"
