"""Every table of many lakes, on every engine and served: rows, past and statistics.

The real implementation makes the lakes and reads them too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import pyarrow as pa
import pytest

from lakeport import ColumnStats
from lakeport.catalog import StatisticsTable
from lakeport.ducklake.maintenance.doctor import Severity
from tests.differential.conftest import LakeOf
from tests.differential.engines import ENGINES, SERVED, ComparedEngine, lasting_tables
from tests.differential.scenarios import SCENARIOS
from tests.fixtures_lakes import RealLake, quote
from tests.lakehouse.conftest import Serve

ROWS_OF_ENGINES = [
    pytest.param(
        engine,
        case.name,
        case.kind,
        id=f"{engine.name}, {case}",
        marks=[pytest.mark.spark] if engine.on_spark else [],
    )
    for engine in ENGINES
    for case in engine.cases
]


@pytest.mark.parametrize(("engine", "name", "kind"), ROWS_OF_ENGINES)
def test_an_engine_reads_what_the_real_implementation_reads(
    engine: ComparedEngine,
    name: str,
    kind: str,
    lake_of: LakeOf,
    request: pytest.FixtureRequest,
) -> None:
    engine.compare(lake_of(engine.prepare(SCENARIOS[name]), kind), request)


@pytest.mark.parametrize(
    ("name", "kind"), [pytest.param(case.name, case.kind, id=str(case)) for case in SERVED]
)
def test_statistics_exclude_no_value_of_any_snapshot(
    name: str, kind: str, lake_of: LakeOf, serve: Serve
) -> None:
    lake = lake_of(SCENARIOS[name], kind)
    tables = lasting_tables(lake)
    catalog = serve(lake).catalog
    bounds: dict[tuple[str, str], dict[str, ColumnStats]] = {}
    for schema_name, table_name in {name[1:] for name in tables}:
        schema = catalog.schema(catalog.main_schema if schema_name == "main" else schema_name)
        assert schema is not None
        table = schema.table(table_name)
        assert isinstance(table, StatisticsTable)
        bounds[schema_name, table_name] = {
            field.name: table.column_statistics(field.name, "")
            for field in table.arrow_schema()
            if field.name != "rowid"
        }

    for version, schema_name, table_name in tables:
        source = f"lake.{quote(schema_name)}.{quote(table_name)}"
        now = {row[0]: row[1] for row in lake.query(f"DESCRIBE FROM {source}")}
        source = f"{source} AT (VERSION => {version})"
        then = lake.query(f"DESCRIBE SELECT * FROM {source}")
        # DuckDB asks for a column by name and type; others get no statistics.
        kept = [name for name, type, *_ in then if now.get(name) == type]
        stats = {name: bounds[schema_name, table_name][name] for name in kept}
        assert _excluded(lake, source, stats) == [], (version, table_name, stats)


# The reference keeps bounds that are too narrow when a column gets another type, and loses rows.
DEFECTS = {
    "columns that become JSON": {"bounds_of_tables"},
    "decimals and floats promoted": {"wrong_statistics"},
}
# All of them in a long run.
EXAMINED = [*SCENARIOS][:: 1 if "LAKEPORT_SOAK_SECONDS" in os.environ else 8]


@pytest.mark.parametrize("name", [*EXAMINED, *sorted(DEFECTS.keys() - set(EXAMINED))])
def test_the_doctor_finds_only_what_loses_rows(name: str, lake_of: LakeOf) -> None:
    with lake_of(SCENARIOS[name], "duckdb").open() as lake:
        diagnosis = lake.check(deep=True)

    serious = {each.check for each in diagnosis.findings if each.severity is not Severity.NOTE}
    assert serious == DEFECTS.get(name, set()), diagnosis.findings


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
