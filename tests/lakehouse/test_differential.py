"""Every lake of the suite, served: its rows, its past and its statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pytest

from lakeport import ColumnStats
from lakeport.catalog import StatisticsTable
from tests.fixtures_lakes import RealLake, quote
from tests.lake_scenarios import SCENARIOS
from tests.lakehouse.conftest import Serve
from tests.lakehouse.row_comparison import Question, random_questions

QUESTIONS_PER_LAKE = 3


@dataclass(frozen=True)
class SuiteLake:
    """A lake of the suite, with the tables of its newest snapshot wherever they exist."""

    name: str
    lake: RealLake
    tables: list[tuple[int, str, str]]
    """Snapshot, schema and name."""

    @property
    def newest(self) -> int:
        return max((version for version, *_ in self.tables), default=0)


@pytest.fixture(scope="module", params=SCENARIOS)
def suite_lake(
    request: pytest.FixtureRequest,
    reference: duckdb.DuckDBPyConnection,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SuiteLake]:
    folder = tmp_path_factory.mktemp("lake")
    scenario = SCENARIOS[request.param]
    # SQLite opens in a fraction of the time that DuckDB takes, and every request opens it.
    kind, suffix = ("sqlite:", "sqlite") if scenario.text else ("", "ducklake")
    uri = f"ducklake:{kind}{folder / 'meta'}.{suffix}"
    lake = RealLake(reference, uri, f"{folder / 'data'}/", scenario.options)
    try:
        lake.execute(*scenario.statements)
        versions = lake.snapshots()
        known = lake.tables(versions[-1])
        tables = [
            (version, *name)
            for version in versions
            for name in lake.tables(version)
            if name in known
        ]
        yield SuiteLake(request.param, lake, tables)
    finally:
        lake.detach()


def test_a_server_streams_what_the_real_implementation_reads(
    suite_lake: SuiteLake, serve: Serve
) -> None:
    """Every table at every snapshot, and random conditions on random columns."""
    lake, newest = suite_lake.lake, suite_lake.newest
    questions = [
        Question(schema, table, version=None if version == newest else version)
        for version, schema, table in suite_lake.tables
    ]
    questions += random_questions(lake, QUESTIONS_PER_LAKE, suite_lake.name)
    expected = [question.ask_real(lake) for question in questions]
    served = serve(lake)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda question: question.ask_ours(served), questions))

    for question, ours, theirs in zip(questions, found, expected, strict=True):
        assert ours == theirs, question


def test_statistics_exclude_no_value_of_any_snapshot(suite_lake: SuiteLake, serve: Serve) -> None:
    lake = suite_lake.lake
    catalog = serve(lake).catalog
    bounds: dict[tuple[str, str], dict[str, ColumnStats]] = {}
    for schema_name, table_name in {name[1:] for name in suite_lake.tables}:
        schema = catalog.schema(catalog.main_schema if schema_name == "main" else schema_name)
        assert schema is not None
        table = schema.table(table_name)
        assert isinstance(table, StatisticsTable)
        bounds[schema_name, table_name] = {
            field.name: table.column_statistics(field.name, "")
            for field in table.arrow_schema()
            if field.name != "rowid"
        }

    for version, schema_name, table_name in suite_lake.tables:
        source = f"lake.{quote(schema_name)}.{quote(table_name)}"
        now = {row[0]: row[1] for row in lake.query(f"DESCRIBE FROM {source}")}
        source = f"{source} AT (VERSION => {version})"
        then = lake.query(f"DESCRIBE SELECT * FROM {source}")
        # DuckDB asks for a column by name and type; others get no statistics.
        kept = [name for name, type, *_ in then if now.get(name) == type]
        stats = {name: bounds[schema_name, table_name][name] for name in kept}
        assert _excluded(lake, source, stats) == [], (version, table_name, stats)


def _excluded(lake: RealLake, source: str, stats: Mapping[str, ColumnStats]) -> list[str]:
    """Columns with a value that the statistics say is not there."""
    if not stats:
        return []
    bounds: dict[str, pa.Array] = {"any": pa.array([True])}
    questions: dict[str, list[str]] = {name: ["FALSE"] for name in stats}
    for index, (name, found) in enumerate(stats.items()):
        column = quote(name)
        if found.has_null is False:
            questions[name].append(f"{column} IS NULL")
        if found.has_not_null is False:
            questions[name].append(f"{column} IS NOT NULL")
        for letter, bound, sign in (("l", found.min, "<"), ("h", found.max, ">")):
            if bound is not None:
                bounds[f"{letter}{index}"] = pa.repeat(bound, 1)
                questions[name].append(f"{column} {sign} bounds.{letter}{index}")
    asked = ", ".join(f"bool_or({' OR '.join(parts)})" for parts in questions.values())
    lake.connection.register("bounds", pa.table(bounds))
    try:
        (answers,) = lake.query(f"SELECT {asked} FROM {source}, bounds")
    finally:
        lake.connection.unregister("bounds")
    return [name for name, excluded in zip(stats, answers, strict=True) if excluded]
