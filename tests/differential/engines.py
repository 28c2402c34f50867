"""Every engine that reads a lake, and how its rows are compared with the real implementation's.

On Spark every scan is a job, so tables are read at two snapshots, the newest and one in the middle.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from lakeport.arrow import batches, duckdb_connection, nested
from lakeport.ducklake import Column, LocalEngine, Scan, arrow_type
from lakeport.types import duckdb_casts
from tests.differential.questions import Question, random_questions
from tests.differential.scenarios import CASES, SCENARIOS, Case, Scenario
from tests.fixtures_lakes import RealLake

QUESTIONS_PER_LAKE = 3
# Spark's widest integer has 38 digits.
TOO_HUGE = ("170141183460469231731687303715884105727", "170141183460469231731687303715884105728")
HUGE = "9" * 38

# The catalog database does not matter to Spark; two lakes on another show that it does not.
ON_SPARK = [
    case
    for case in CASES
    if case.kind == "duckdb"
    or case
    in (Case("updates inlined", "sqlite"), Case("nested inlined, then flushed", "postgresql"))
]
# SQLite opens in a fraction of the time that DuckDB takes, and every request opens it.
SERVED = [
    Case(name, "sqlite" if scenario.text else "duckdb") for name, scenario in SCENARIOS.items()
]


@dataclass(frozen=True)
class ComparedEngine:
    """A way to read a lake, the lakes that it reads, and the comparison of their rows."""

    name: str
    cases: list[Case]
    compare: Callable[[RealLake, pytest.FixtureRequest], None]
    prepare: Callable[[Scenario], Scenario] = lambda scenario: scenario
    on_spark: bool = True


def compare_local(lake: RealLake, request: pytest.FixtureRequest) -> None:
    """Compare every table at every snapshot, read in this process."""
    lake.check(engine=LocalEngine())


def compare_spark(lake: RealLake, request: pytest.FixtureRequest) -> None:
    """Compare every table at two snapshots, read by Spark tasks."""
    from lakeport.spark import SparkEngine

    engine = SparkEngine(request.getfixturevalue("spark"))
    lake.check(engine=engine, snapshots=two_snapshots(lake))


def compare_dataframes(lake: RealLake, request: pytest.FixtureRequest) -> None:
    """Compare DataFrames at two snapshots; their values are turned back into the lake's."""
    spark = request.getfixturevalue("spark")
    lake.check(lambda scan: _through_dataframe(spark, scan), snapshots=two_snapshots(lake))


def compare_served_by_spark(lake: RealLake, request: pytest.FixtureRequest) -> None:
    """Compare what a server streams that reads every file on Spark."""
    _compare_served(lake, request, small_scan_bytes=0)


def compare_served_in_process(lake: RealLake, request: pytest.FixtureRequest) -> None:
    """Compare what a server streams that reads every file in its own process."""
    _compare_served(lake, request, small_scan_bytes=1 << 40)


def two_snapshots(lake: RealLake) -> list[int]:
    snapshots = lake.snapshots()
    return sorted({snapshots[len(snapshots) // 2], snapshots[-1]})


def without_huge_numbers(scenario: Scenario) -> Scenario:
    return replace(scenario, statements=tuple(map(_less_huge, scenario.statements)))


ENGINES = [
    ComparedEngine("local", CASES, compare_local, on_spark=False),
    ComparedEngine("Spark", ON_SPARK, compare_spark),
    ComparedEngine("DataFrames", ON_SPARK, compare_dataframes, prepare=without_huge_numbers),
    ComparedEngine("served by Spark", SERVED, compare_served_by_spark),
    ComparedEngine("served in process", SERVED, compare_served_in_process),
]


def lasting_tables(lake: RealLake) -> list[tuple[int, str, str]]:
    """Return snapshot, schema and name of the newest tables, at every snapshot that has them."""
    versions = lake.snapshots()
    known = lake.tables(versions[-1])
    return [
        (version, *name) for version in versions for name in lake.tables(version) if name in known
    ]


def _compare_served(
    lake: RealLake, request: pytest.FixtureRequest, *, small_scan_bytes: int
) -> None:
    """Compare every table at every snapshot, and random conditions on random columns."""
    tables = lasting_tables(lake)
    newest = max((version for version, *_ in tables), default=0)
    questions = [
        Question(schema, table, version=None if version == newest else version)
        for version, schema, table in tables
    ]
    questions += random_questions(lake, QUESTIONS_PER_LAKE, request.node.callspec.params["name"])
    expected = [question.ask_real(lake) for question in questions]
    served = request.getfixturevalue("serve")(lake, small_scan_bytes=small_scan_bytes)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda question: question.ask_ours(served), questions))

    for question, ours, theirs in zip(questions, found, expected, strict=True):
        assert ours == theirs, question


def _less_huge(statement: str) -> str:
    for number in TOO_HUGE:
        statement = statement.replace(number, HUGE)
    return statement


def _through_dataframe(spark: Any, scan: Scan) -> pa.Table:
    from lakeport.spark.frames.values import spark_schema

    frame, plan = scan.to_spark(spark), scan.plan
    assert frame.schema == spark_schema(plan.columns)
    # DuckDB misreads a struct within a struct whose pieces do not match those of other columns.
    rows = frame.toArrow().combine_chunks()
    arrays = [
        _lake_values(batches.combine(array), column) if isinstance(column, Column) else array
        for array, column in zip(rows.columns, plan.columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=plan.schema)


def _lake_values(array: pa.Array, column: Column) -> pa.Array:
    """Return the lake's own values, from Spark's."""
    target = arrow_type(column)
    if column.type == "struct":
        children = [_lake_values(array.field(i), child) for i, child in enumerate(column.children)]
        return nested.rebuild_struct(array, target, children)
    if column.type == "list":
        return nested.rebuild_list(array, target, _lake_values(array.values, column.children[0]))
    if column.type == "map":
        key, value = column.children
        keys, items = _lake_values(array.keys, key), _lake_values(array.items, value)
        return nested.rebuild_map(array, target, keys, items)
    if column.type in ("time_ns", "timestamp_ns", "timestamptz_ns"):
        return array.view(target)
    if column.type == "interval":
        return _intervals(array)
    if column.type in ("json", "variant", "geometry"):
        return nested.relabel(array, target)
    return duckdb_casts.duckdb_cast(array, column)


def _intervals(array: pa.Array) -> pa.Array:
    parts = duckdb_connection.thread_connection().from_arrow(pa.table({"v": array}))
    made = parts.project("to_months(v.months) + to_days(v.days) + to_microseconds(v.micros) AS v")
    return batches.combine(made.to_arrow_table().column(0))
