"""Filters that the real client sent (``recorded_filters.jsonl``), against the SQL behind them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakeport.filters import (
    ColumnRef,
    DuckDBEncoder,
    Filter,
    FunctionCall,
    Unsupported,
    parse_filter,
    to_duckdb_sql,
    to_json,
    walk,
)

RECORDED: list[dict[str, str]] = [
    json.loads(line)
    for line in Path(__file__).with_name("recorded_filters.jsonl").read_text("utf-8").splitlines()
]
SELECT = re.compile(r"SELECT \w+ FROM d\.s\.(t|nested|allt) WHERE (.*)", re.DOTALL)
WHERE = [
    pytest.param(match[1], match[2], record["json_filters"], id=match[2])
    for record in RECORDED
    if (match := SELECT.fullmatch(record["sql"]))
    and not re.search(r"GROUP BY|ORDER BY|d\.utils|GEOMETRY", record["sql"])
]
# DuckDB 1.5, which sent the filters, matches whole texts with `~` and takes arrows for lambdas.
# DuckDB 2.0 searches with `~`, and refuses such arrows.
SPELLED_FOR_EVERY_VERSION = {
    "name ~ 'a.*'": "regexp_full_match(name, 'a.*')",
    "name !~ 'a.*'": "NOT regexp_full_match(name, 'a.*')",
    "x -> ": "lambda x: ",
}
UNKNOWN_PARTS = {"OPERATOR_TRY", "list_filter", "list_transform"}


def test_every_recorded_filter_is_understood() -> None:
    reasons = []
    for record in RECORDED:
        filter = parse_filter(record["json_filters"])
        nodes = [node for conjunct in filter.conjuncts for node in walk(conjunct)]
        reasons += [node.reason for node in nodes if isinstance(node, Unsupported)]

    assert len(RECORDED) > 200
    assert all(any(part in reason for part in UNKNOWN_PARTS) for reason in reasons), reasons


def test_every_recorded_filter_is_written_as_it_was_read() -> None:
    for record in RECORDED:
        filter = parse_filter(record["json_filters"])
        if any(isinstance(n, Unsupported) for c in filter.conjuncts for n in walk(c)):
            continue

        written = to_json(filter)

        assert parse_filter(written) == filter
        recorded = json.loads(record["json_filters"] or '{"filters": []}')
        assert normal(json.loads(written)["filters"]) == normal(recorded["filters"])


def normal(document: Any) -> Any:
    """Without what the tree does not keep: positions, labels, details of overload resolution."""
    if isinstance(document, list):
        return [normal(item) for item in document]
    if not isinstance(document, dict):
        return repr(document)
    dropped = {"query_location", "binding", "arguments", "original_arguments", "function_data"}
    if document.get("expression_class") != "BOUND_COLUMN_REF":
        dropped |= {"alias"}
    if document.get("name") == "struct_pack":
        dropped |= {"has_serialize"}
    return {key: normal(value) for key, value in document.items() if key not in dropped}


@pytest.mark.parametrize(("table", "where", "json_filters"), WHERE)
def test_duckdb_keeps_the_rows_of_the_recorded_where_clause(
    lake: duckdb.DuckDBPyConnection, table: str, where: str, json_filters: str
) -> None:
    filter = parse_filter(json_filters)
    wanted = rows(lake, table, where)

    encoded = rows(lake, table, to_duckdb_sql(filter) or "TRUE")

    assert wanted <= encoded
    if all(DuckDBEncoder().encode_expression(conjunct) for conjunct in filter.conjuncts):
        assert wanted == encoded


def test_few_recorded_predicates_are_left_to_the_client() -> None:
    encoder = DuckDBEncoder()
    dropped = {
        node.name
        for record in RECORDED
        for conjunct in parse_filter(record["json_filters"]).conjuncts
        if encoder.encode_expression(conjunct) is None
        for node in walk(conjunct)
        if isinstance(node, FunctionCall)
    }

    assert dropped == {"random", "hash", "age", "normalized_interval", "test_uppercase"}


def rows(lake: duckdb.DuckDBPyConnection, table: str, where: str) -> set[int]:
    for recorded, spelled in SPELLED_FOR_EVERY_VERSION.items():
        where = where.replace(recorded, spelled)
    return {row[0] for row in lake.execute(f"SELECT rowid FROM {table} WHERE {where}").fetchall()}


@pytest.fixture(scope="module")
def lake() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("""
            CREATE TABLE t AS SELECT * FROM (VALUES
                (1, 'alpha', 1.5), (2, 'beta', 2.0), (3, 'gamma', 'nan'::DOUBLE), (4, NULL, 'inf'),
                (5, 'a%b', -1.7e308), (6, 'a_bz', 5.0), (NULL, '', NULL), (-1000, 'ALPHA', 0.0),
                (1000, 'axa', 101.0), (0, '12', -0.0)) v(id, name, amount);
            CREATE TABLE nested AS SELECT * FROM (VALUES
                (1, {'x': 1, 'y': 'q'}, [1, 2], MAP {'k': 1}, true,
                 TIMESTAMP '2024-01-02 03:04:05'),
                (2, {'x': 2, 'y': 'qq'}, [3], MAP {'k': NULL}, false, TIMESTAMP '2023-12-31'),
                (3, {'x': NULL, 'y': NULL}, [], MAP {'j': 1}, NULL, 'infinity'::TIMESTAMP),
                (4, NULL, NULL, NULL, true, NULL)) v(id, st, li, mp, b, ts);
        """)
        create_table_of_all_types(connection)
        yield connection


def create_table_of_all_types(connection: duckdb.DuckDBPyConnection) -> None:
    columns = {
        node.name: node.type
        for record in RECORDED
        if record["table"] == "s.allt"
        for conjunct in parse_filter(record["json_filters"]).conjuncts
        for node in walk(conjunct)
        if isinstance(node, ColumnRef)
    }
    body = ", ".join(f"{name} {type.sql()}" for name, type in columns.items())
    connection.execute(
        f"CREATE TABLE allt ({body}); INSERT INTO allt (c_i32) VALUES (NULL), (1), (2)"
    )
    for _, where, json_filters in (case.values for case in WHERE):
        constant = re.fullmatch(r"(c_\w+) [=<] (.*)", str(where))
        if constant and constant[1] in columns and Filter() != parse_filter(str(json_filters)):
            connection.execute(f"INSERT INTO allt ({constant[1]}) SELECT {constant[2]}")
