"""No partition value excludes a file with a matching row: types, transforms and predicates."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import duckdb
import pytest

from lakeport.ducklake import Column, LakeTable
from lakeport.errors import InvalidArgumentError, UnsupportedError
from lakeport.filters import Filter
from lakeport.filters.sql import parse_sql_filter

LakeMaker = Callable[..., Any]

# Values of each type, as SQL; the first ones are used as constants of predicates too.
VALUES: Final[dict[str, tuple[str, ...]]] = {
    "BOOLEAN": ("true", "false"),
    "TINYINT": ("-7", "0", "100"),
    "SMALLINT": ("-7", "0", "3000"),
    "INTEGER": ("-7", "0", "2000000000"),
    "BIGINT": ("9007199254740993", "9007199254740992", "-5"),
    "UTINYINT": ("7", "200"),
    "USMALLINT": ("7", "60000"),
    "UINTEGER": ("7", "4000000000"),
    "UBIGINT": ("7", "18446744073709551615"),
    "HUGEINT": ("7", "-170141183460469"),
    "FLOAT": ("0.1", "'nan'", "'-0.0'", "'inf'"),
    "DOUBLE": ("0.1", "'nan'", "'-0.0'", "'-inf'"),
    "DECIMAL(9,2)": ("1.50", "-1.50", "0"),
    "DECIMAL(30,4)": ("1.5000", "-12345678901234567890.1234"),
    "DATE": ("'2024-02-29'", "'1969-12-31'", "'infinity'", "'0044-03-15 (BC)'"),
    "TIME": ("'22:05:05.5'", "'00:00:00'"),
    "TIMETZ": ("'22:05:05+02'", "'20:05:05+00'", "'01:00:00-05'"),
    "TIMESTAMP": ("'2024-02-29 23:59:59.5'", "'1969-12-31 23:00:00'", "'infinity'"),
    "TIMESTAMP_S": ("'2024-02-29 23:59:59'", "'1969-12-31 23:00:00'"),
    "TIMESTAMP_MS": ("'2024-02-29 23:59:59.5'", "'1969-12-31 23:00:00'"),
    "TIMESTAMP_NS": ("'2024-02-29 23:59:59.000000001'", "'1969-12-31 23:00:00'"),
    "TIMESTAMPTZ": ("'2024-02-29 23:59:59+05'", "'1969-12-31 23:00:00-03'"),
    "VARCHAR": ("'a b'", "''", "'A B'", "'ü/%='"),
    "BLOB": ("'\\x00\\xAA'", "'abc'"),
    "UUID": (
        "'f79c3e09-677c-4bbd-a479-3f349cb785e7'",
        "'079c3e09-677c-4bbd-a479-3f349cb785e7'",
    ),
    "INTERVAL": ("'1 month'", "'30 days'"),
    "JSON": ("'[1]'", "'2'"),
}
# Constants of other types that compare with the type.
OTHERS: Final[dict[str, tuple[str, ...]]] = {
    "BIGINT": ("-5::DOUBLE", "-5.0::DECIMAL(9,2)"),
    "INTEGER": ("0.5", "-7::BIGINT"),
    "FLOAT": ("0.1::DOUBLE",),
    "DECIMAL(9,2)": ("1.505", "1.5::DOUBLE"),
    "DATE": ("TIMESTAMP '2024-02-29 12:00:00'",),
    "TIMESTAMP": ("DATE '2024-02-29'", "'1969-12-31 23:00:00'::TIMESTAMP_S"),
    "TIMESTAMP_S": ("'2024-02-29 23:59:59.5'::TIMESTAMP",),
}
TRANSFORMS: Final = ("c", "year(c)", "month(c)", "day(c)", "hour(c)", "bucket(3, c)")
OPERATORS: Final = ("=", "<>", "<", "<=", ">", ">=", "IS NOT DISTINCT FROM")


@pytest.mark.parametrize("type", VALUES)
def test_no_file_with_a_matching_row_is_pruned_by_its_partition_values(
    type: str, make_lake: LakeMaker
) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CALL ducklake_set_option('lake', 'hive_file_pattern', false)")
    tables = {f"t{i}": t for i, t in enumerate(TRANSFORMS) if _fill(lake, f"t{i}", type, t)}
    assert tables, "DuckLake partitions by every type somehow"
    predicates: list[str] = []
    expected: dict[str, dict[str, set[int]]] = {}
    for name in tables:
        # Evaluated by DuckDB over all rows: the real one leaves files out too.
        lake.execute(f"CREATE OR REPLACE TABLE memory.copied AS SELECT rowid AS r, c FROM {name}")
        # The tables have the same column, so DuckDB refuses the same comparisons of each.
        predicates = predicates or _accepted(lake, _predicates(type))
        results = ", ".join(f"coalesce(({predicate}), false)" for predicate in predicates)
        rows = lake.query(f"SELECT r, {results} FROM memory.copied")
        expected[name] = {
            predicate: {row[0] for row in rows if row[1 + number]}
            for number, predicate in enumerate(predicates)
        }
    with lake.open() as ours:
        opened = {name: ours.table(name) for name in tables}
        filters = _parsed(predicates, next(iter(opened.values())).columns)
        for name, table in opened.items():
            compared = sum(
                _is_same(table, filter, expected[name][predicate], (predicate, tables))
                for predicate, filter in filters.items()
            )
            assert compared >= 4


def _fill(lake: Any, name: str, type: str, transform: str) -> bool:
    """A table with a file for each partition; whether DuckLake partitions the type so."""
    rows = ", ".join(f"({value}::{type})" for value in (*VALUES[type], "NULL"))
    try:
        lake.execute(
            "BEGIN",
            f"CREATE TABLE {name}(c {type})",
            f"ALTER TABLE {name} SET PARTITIONED BY ({transform})",
            f"INSERT INTO {name} VALUES {rows}",
            "COMMIT",
        )
    except duckdb.Error:
        lake.execute("ROLLBACK")
        return False
    return True


def _accepted(lake: Any, predicates: list[str]) -> list[str]:
    """The predicates without comparisons that DuckDB refuses."""

    def is_accepted(predicate: str) -> bool:
        try:
            lake.query(f"SELECT r FROM memory.copied WHERE {predicate}")
        except duckdb.Error:
            return False
        return True

    return [predicate for predicate in predicates if is_accepted(predicate)]


def _predicates(type: str) -> list[str]:
    constants = [f"{value}::{type}" for value in VALUES[type]] + list(OTHERS.get(type, ()))
    predicates = [f"c {op} {constant}" for constant in constants for op in OPERATORS]
    predicates += [f"NOT (c = {constant})" for constant in constants]
    first, second = constants[0], constants[1]
    predicates += [
        f"c IN ({first}, {second})",
        f"c NOT IN ({first}, {second})",
        f"c IN ({first})",
        f"c BETWEEN {first} AND {second}",
        f"c BETWEEN {second} AND {first}",
        f"c = {first} OR c = {second}",
        "c IS NULL",
        "c IS NOT NULL",
    ]
    if type == "VARCHAR":
        predicates += ["starts_with(c, 'a')", "c LIKE 'a%'"]
    return predicates


def _parsed(predicates: list[str], columns: tuple[Column, ...]) -> dict[str, Filter]:
    filters = {}
    for predicate in predicates:
        # A filter that Lakeport refuses loses no row.
        with suppress(InvalidArgumentError, UnsupportedError):
            filters[predicate] = parse_sql_filter(predicate, columns)
    return filters


def _is_same(table: LakeTable, filter: Filter, rows: set[int], case: object) -> bool:
    try:
        found = table.scan(["rowid"], filter).to_arrow()["rowid"].to_pylist()
    except (InvalidArgumentError, UnsupportedError):
        return False
    assert sorted(found) == sorted(rows), (table.name, case)
    return True


def test_a_zoned_time_is_found_whatever_its_offset_was(make_lake: LakeMaker) -> None:
    lake = make_lake("duckdb", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t(c TIMETZ)",
        "ALTER TABLE t SET PARTITIONED BY (c)",
        "INSERT INTO t VALUES ('22:05:05+02'), ('23:00:00+00')",
    )
    expected = lake.query("SELECT count(*) FROM t WHERE c = '20:05:05+00'")
    with lake.open() as ours:
        found = ours.table("t").scan(filter="c = '20:05:05+00'::TIMETZ").to_arrow()
    assert expected == [(found.num_rows,)] == [(1,)]
